/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push: one segment per lane; fetch, which reads segments back; hashes, which reads the window back.
 *
 * Each lane is judged and stored alone, in the order given (ST-2); what refuses one has written
 * nothing of it. A lane is always found by its names: the id a caller remembers is only ever a hint.
 */
#include "memory.h"

#include <string.h>

struct oldest {
	const struct qn_mem_lane *lane;
	int64_t above, since_us; /* only offsets > above, created at or after since_us */
	int64_t found;           /* -1: none */
};

static void take_oldest(int64_t offset, void *arg)
{
	struct oldest *o = arg;

	if (offset > o->above && (o->found < 0 || offset < o->found) &&
	    qn_mem_stored_at(o->lane, offset) >= o->since_us) {
		o->found = offset;
	}
}

/* Fills p->dups; true when there are any. */
static bool find_duplicates(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_push_lane *p,
                            int64_t now_us)
{
	const uint8_t *hashes = p->hashes.p;
	int64_t since_us = now_us - p->dedup_window_s * QN_MEM_SECOND_US;
	/* Who was wrong about the lane or about how far back the window reaches has all of it searched. */
	bool is_believed = memcmp(&p->partition_id, &l->id, sizeof(l->id)) == 0 && p->verified_since_us <= since_us;
	int64_t above = is_believed ? p->verified : -1;

	p->dups = NULL;
	p->dup_count = 0;
	if (p->dedup_window_s == 0 || above >= l->last_offset) {
		return false;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct oldest o = {l, above, since_us, -1};

		qn_mem_each_offset(l, hashes + (size_t)i * QN_HASH_BYTES, take_oldest, &o);
		if (o.found < 0) {
			continue;
		}
		if (p->dups == NULL) {
			p->dups = m->host->arena_alloc(a, (p->count - i) * sizeof(*p->dups));
		}
		p->dups[p->dup_count++] = (struct qn_push_dup){i, o.found};
	}
	return p->dup_count > 0;
}

void qn_mem_push_judge(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_push_lane *p)
{
	const struct qn_queue_options *o = &l->queue->options;

	p->error = (struct qn_error){0};
	p->lane_id = l->id;
	p->dedup_window_s = o->dedup_window_s;
	p->encryption_enabled = o->encryption_enabled;
	p->delayed_processing_s = o->delayed_processing_s;
	p->window_buffer_s = o->window_buffer_s;
	if (o->encryption_enabled && !p->sealed) {
		p->status = QN_PUSH_UNSEALED;
	} else {
		p->status = find_duplicates(m, a, l, p, m->host->now_us()) ? QN_PUSH_DUPLICATE : QN_PUSH_QUEUED;
	}
}

void qn_mem_push_store(struct qn_mem *m, struct qn_mem_lane *l, struct qn_push_lane *p, struct qn_mem_segment *s)
{
	int64_t now_us = m->host->now_us();

	p->created_at_us = now_us > l->newest_at_us ? now_us : l->newest_at_us;
	p->base_offset = l->last_offset + 1;
	qn_mem_segment_append(l, s, p->created_at_us);
}

static void push_lane(struct qn_mem *m, struct qn_arena *a, struct qn_push_lane *p)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &p->tenant, p->queue);
	struct qn_mem_lane *l;
	struct qn_mem_segment *s;

	if (q == NULL) {
		q = qn_mem_queue_create(m, &p->tenant, p->queue);
	}
	l = qn_mem_lane_find(m, q, p->partition);
	if (l == NULL) {
		l = qn_mem_lane_create(m, q, p->partition);
	}
	qn_mem_push_judge(m, a, l, p);
	if (p->status != QN_PUSH_QUEUED) {
		return;
	}
	s = qn_mem_segment_create(m, l, p, &p->error);
	if (s == NULL) {
		p->status = QN_PUSH_FAILED;
		return;
	}
	qn_mem_push_store(m, l, p, s);
}

void qn_mem_push(struct qn_mem *m, struct qn_push_op *op)
{
	for (uint32_t i = 0; i < op->lane_count; i++) {
		push_lane(m, op->op.arena, &op->lanes[i]);
	}
}

void qn_mem_fetch(struct qn_mem *m, struct qn_fetch_op *op)
{
	for (uint32_t i = 0; i < op->count; i++) {
		const struct qn_mem_lane *l = qn_mem_lane_by_id(m, &op->tenant, &op->items[i].partition_id);

		op->items[i].found = false;
		if (l != NULL) {
			qn_mem_fetch_one(m, op->op.arena, l, &op->items[i]);
		}
	}
}

void qn_mem_hashes(struct qn_mem *m, struct qn_hashes_op *op)
{
	const struct qn_mem_lane *l = qn_mem_lane_by_id(m, NULL, &op->partition_id);
	int64_t from, bytes = 0;
	size_t at, end;

	op->found = l != NULL;
	op->row_count = 0;
	op->more = false;
	if (l == NULL) {
		return;
	}
	op->last_offset = l->last_offset;
	op->dedup_window_s = l->queue->options.dedup_window_s;
	op->since_us = m->host->now_us() - op->dedup_window_s * QN_MEM_SECOND_US;
	if (op->dedup_window_s == 0) {
		return;
	}
	from = qn_mem_hashed_before(l, op->since_us);
	at = qn_mem_hashed_at(l, (from > op->after_offset ? from : op->after_offset) + 1);
	for (end = at; end < l->segment_count && (end == at || bytes < op->byte_limit); end++) {
		bytes += (int64_t)l->segments[end]->count * QN_HASH_BYTES;
	}
	op->more = end < l->segment_count;
	op->rows = m->host->arena_alloc(op->op.arena, (end - at + 1) * sizeof(*op->rows));
	for (; at < end; at++) {
		const struct qn_mem_segment *s = l->segments[at];

		op->rows[op->row_count++] = (struct qn_hash_row){
			.base_offset = s->base_offset,
			.created_at_us = s->created_at_us,
			.count = s->count,
			.hashes = qn_mem_dup(m, op->op.arena,
		                             (struct qn_span){s->hashes, (size_t)s->count * QN_HASH_BYTES}),
		};
	}
}
