/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push: one segment per lane, and fetch, which reads segments back.
 *
 * Each lane is judged and stored alone, in the order given (ST-2); what refuses one has written
 * nothing of it. A lane is always found by its names: the id a caller remembers is only ever a hint.
 */
#include "memory.h"

struct oldest {
	const struct qn_mem_lane *lane;
	int64_t above, since_us; /* only offsets > above, created at or after since_us */
	int64_t found;           /* -1: none */
};

static void take_oldest(int64_t offset, void *arg)
{
	struct oldest *o = arg;

	if (offset > o->above && (o->found < 0 || offset < o->found) &&
	    o->lane->segments[qn_mem_segment_at(o->lane, offset)]->created_at_us >= o->since_us) {
		o->found = offset;
	}
}

/* Fills p->dups; true when there are any. */
static bool find_duplicates(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_push_lane *p,
                            int64_t now_us)
{
	const uint8_t *hashes = p->hashes.p;

	p->dups = NULL;
	p->dup_count = 0;
	if (p->dedup_window_s == 0 || p->verified >= l->last_offset) {
		return false;
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct oldest o = {l, p->verified, now_us - p->dedup_window_s * QN_MEM_SECOND_US, -1};

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

static void push_lane(struct qn_mem *m, struct qn_arena *a, struct qn_push_lane *p)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &p->tenant, p->queue);
	struct qn_mem_lane *l;
	int64_t now_us = m->host->now_us();

	p->error = (struct qn_error){0};
	if (q == NULL) {
		q = qn_mem_queue_create(m, &p->tenant, p->queue);
	}
	l = qn_mem_lane_find(m, q, p->partition);
	if (l == NULL) {
		l = qn_mem_lane_create(m, q, p->partition);
	}
	p->lane_id = l->id;
	p->dedup_window_s = q->options.dedup_window_s;
	p->encryption_enabled = q->options.encryption_enabled;
	p->delayed_processing_s = q->options.delayed_processing_s;
	p->window_buffer_s = q->options.window_buffer_s;
	if (q->options.encryption_enabled && !p->sealed) {
		p->status = QN_PUSH_UNSEALED;
		return;
	}
	if (find_duplicates(m, a, l, p, now_us)) {
		p->status = QN_PUSH_DUPLICATE;
		return;
	}
	p->base_offset = l->last_offset + 1;
	p->created_at_us = now_us > l->newest_at_us ? now_us : l->newest_at_us;
	p->status = QN_PUSH_QUEUED;
	if (qn_mem_segment_append(m, l, p, p->created_at_us, &p->error) != QN_OK) {
		p->status = QN_PUSH_FAILED;
	}
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
