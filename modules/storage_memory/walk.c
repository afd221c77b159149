/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk: a page of a queue's lanes, by id or by the time of their last write, and which of them hold
 * messages for a group. Lanes are kept by hash, so every page sorts what lies behind its place.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
	const struct qn_mem_lane *const *x = a, *const *y = b;

	return memcmp(&(*x)->id, &(*y)->id, sizeof((*x)->id));
}

static int by_write(const void *a, const void *b)
{
	const struct qn_mem_lane *const *x = a, *const *y = b;

	return (*x)->newest_at_us != (*y)->newest_at_us ? ((*x)->newest_at_us < (*y)->newest_at_us ? -1 : 1)
	                                                : by_id(a, b);
}

static bool is_behind(const struct qn_mem_lane *l, const struct qn_walk_op *op, int64_t since_us)
{
	int id = memcmp(&l->id, &op->after.id, sizeof(l->id));

	if (op->written_within_s == 0) {
		return id > 0;
	}
	return l->newest_at_us > since_us || (l->newest_at_us == since_us && id > 0);
}

static bool has_work(struct qn_mem *m, const struct qn_mem_lane *l, struct qn_span group)
{
	const struct qn_mem_cursor *c = qn_mem_cursor_find(m, l, group);

	return l->last_offset > (c == NULL ? -1 : c->committed);
}

void qn_mem_walk(struct qn_mem *m, struct qn_walk_op *op)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &op->tenant, op->queue);
	int64_t since_us = op->after.written_us > 0 ? op->after.written_us
	                                            : m->host->now_us() - op->written_within_s * QN_MEM_SECOND_US;
	struct qn_mem_lane **lanes;
	size_t n = 0, page;

	op->lane_count = 0;
	op->lanes = NULL;
	op->last = true;
	if (q == NULL || q->lanes.count == 0) {
		return;
	}
	lanes = m->host->arena_alloc(op->op.arena, q->lanes.count * sizeof(struct qn_mem_lane *));
	for (struct qn_mem_node *node = qn_mem_table_next(&q->lanes, NULL); node != NULL;
	     node = qn_mem_table_next(&q->lanes, node)) {
		lanes[n] = QN_MEM_OF(node, struct qn_mem_lane, by_name);
		n += is_behind(lanes[n], op, since_us) ? 1 : 0;
	}
	qsort(lanes, n, sizeof(lanes[0]), op->written_within_s == 0 ? by_id : by_write);
	page = n < op->limit ? n : op->limit;
	op->last = n < op->limit;
	op->lanes = m->host->arena_alloc(op->op.arena, (page + 1) * sizeof(*op->lanes));
	for (size_t i = 0; i < page; i++) {
		op->after = (struct qn_walk_place){lanes[i]->id, lanes[i]->newest_at_us};
		if (has_work(m, lanes[i], op->group)) {
			op->lanes[op->lane_count] = lanes[i]->id;
			op->lane_count++;
		}
	}
}
