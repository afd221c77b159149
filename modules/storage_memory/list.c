/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list: queues and lanes with their counts.
 *
 * Counts are arithmetic on offsets; only the segments of a lane are walked, for its bytes. A lane
 * that no group reads is pending as a whole.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

struct counts {
	int64_t total, pending, processing;
	int64_t slowest; /* up to where everybody has read */
};

static struct counts count_lane(const struct qn_mem_lane *l, int64_t now_us)
{
	struct counts out = {.total = l->last_offset - qn_mem_log_start(l) + 1, .slowest = -1};
	bool is_first = true;

	for (struct qn_mem_node *n = qn_mem_table_next(&l->cursors, NULL); n != NULL;
	     n = qn_mem_table_next(&l->cursors, n)) {
		const struct qn_mem_cursor *c = QN_MEM_OF(n, const struct qn_mem_cursor, node);

		if (is_first || c->committed < out.slowest) {
			out.slowest = c->committed;
		}
		is_first = false;
		if (qn_mem_is_leased(c, now_us) && c->batch_end > c->committed) {
			out.processing += c->batch_end - c->committed;
		}
	}
	out.slowest = qn_mem_passed(l, out.slowest);
	out.pending = l->last_offset - out.slowest;
	if (out.processing > out.pending) {
		out.processing = out.pending;
	}
	return out;
}

static bool contains(struct qn_span text, struct qn_span part)
{
	return part.n == 0 || (text.n >= part.n && memmem(text.p, text.n, part.p, part.n) != NULL);
}

static bool is_listed(const struct qn_mem_queue *q, const struct qn_list_op *op)
{
	if (memcmp(&q->tenant, &op->tenant, sizeof(op->tenant)) != 0) {
		return false;
	}
	if (op->one) {
		return qn_mem_span_eq(q->name, op->queue);
	}
	return qn_mem_queue_matches(q, op->name_space, op->task) && contains(q->name, op->search);
}

static int newest_first(const void *a, const void *b)
{
	uint64_t x = (*(const struct qn_mem_queue *const *)a)->serial,
		 y = (*(const struct qn_mem_queue *const *)b)->serial;

	return x < y ? 1 : x > y ? -1 : 0;
}

static int by_name(const void *a, const void *b)
{
	struct qn_span x = ((const struct qn_lane_row *)a)->name, y = ((const struct qn_lane_row *)b)->name;
	size_t n = x.n < y.n ? x.n : y.n;
	int diff = n == 0 ? 0 : memcmp(x.p, y.p, n);

	return diff != 0 ? diff : (x.n > y.n) - (x.n < y.n);
}

static void fill_queue(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_queue *q, bool with_sizes,
                       struct qn_queue_row *row)
{
	int64_t now_us = m->host->now_us();

	*row = (struct qn_queue_row){.id = q->id, .options = q->options, .created_at_us = q->created_at_us};
	row->name = qn_mem_dup(m, a, q->name);
	row->options.name_space = qn_mem_dup(m, a, q->options.name_space);
	row->options.task = qn_mem_dup(m, a, q->options.task);
	for (struct qn_mem_node *n = qn_mem_table_next(&q->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&q->lanes, n)) {
		const struct qn_mem_lane *l = QN_MEM_OF(n, const struct qn_mem_lane, by_name);
		struct counts c = count_lane(l, now_us);

		row->partitions++;
		row->messages += c.total;
		row->pending += c.pending;
		row->processing += c.processing;
		if (!with_sizes) {
			continue;
		}
		row->segments += (int64_t)(l->segment_count - l->live);
		for (size_t i = l->live; i < l->segment_count; i++) {
			row->retained_bytes += (int64_t)l->segments[i]->blob_bytes;
		}
	}
}

static void fill_lane(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_lane_row *row)
{
	struct counts c = count_lane(l, m->host->now_us());
	int64_t done = c.total - c.pending - l->letter_count;

	*row = (struct qn_lane_row){.id = l->id,
	                            .name = qn_mem_dup(m, a, l->name),
	                            .created_at_us = l->created_at_us,
	                            .total = c.total,
	                            .pending = c.pending,
	                            .processing = c.processing,
	                            .completed = done > 0 ? done : 0,
	                            .dead_letter = l->letter_count,
	                            .newest_at_us = c.total > 0 ? l->newest_at_us : 0};
	if (c.pending > 0) {
		row->oldest_pending_at_us = l->segments[qn_mem_segment_at(l, c.slowest + 1)]->created_at_us;
	}
}

static void list_lanes(struct qn_mem *m, struct qn_list_op *op, const struct qn_mem_queue *q)
{
	op->lanes = m->host->arena_alloc(op->op.arena, (q->lanes.count + 1) * sizeof(*op->lanes));
	for (struct qn_mem_node *n = qn_mem_table_next(&q->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&q->lanes, n)) {
		fill_lane(m, op->op.arena, QN_MEM_OF(n, const struct qn_mem_lane, by_name),
		          &op->lanes[op->lane_count++]);
	}
	qsort(op->lanes, op->lane_count, sizeof(*op->lanes), by_name);
}

void qn_mem_list(struct qn_mem *m, struct qn_list_op *op)
{
	struct qn_arena *a = op->op.arena;
	struct qn_mem_queue **found = m->host->arena_alloc(a, (m->queues.count + 1) * sizeof(struct qn_mem_queue *));
	size_t count = 0, first = op->offset > 0 && !op->one ? (size_t)op->offset : 0;

	for (struct qn_mem_node *n = qn_mem_table_next(&m->queues, NULL); n != NULL;
	     n = qn_mem_table_next(&m->queues, n)) {
		struct qn_mem_queue *q = QN_MEM_OF(n, struct qn_mem_queue, node);

		if (is_listed(q, op)) {
			found[count++] = q;
		}
	}
	qsort(found, count, sizeof(struct qn_mem_queue *), newest_first);
	op->rows = m->host->arena_alloc(a, (count + 1) * sizeof(*op->rows));
	op->row_count = op->lane_count = 0;
	op->lanes = NULL;
	for (size_t i = first; i < count && (op->one || op->limit < 0 || op->row_count < op->limit); i++) {
		fill_queue(m, a, found[i], !op->without_sizes, &op->rows[op->row_count++]);
	}
	if (op->one && count > 0) {
		list_lanes(m, op, found[0]);
	}
}
