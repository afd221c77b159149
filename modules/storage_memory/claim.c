/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim: which lanes each pop gets, and how much of each (ST-6, ST-7).
 *
 * Pops are served in the order given; the lanes of one are its candidates in their order, or those a
 * scan finds, shuffled so that no lane starves. A (lane, group) that one pop of the call took is busy
 * for the others, also with auto_ack. An answer's size is estimated per message as the average frame
 * of its segment plus what the answer adds around it.
 */
#include "memory.h"

#include <string.h>

#define ANSWER_OVERHEAD 401 /* bytes an answer adds to a message */
#define SCAN_MAX        512 /* lanes one scan finds at most (decisions 6a) */

struct lanes {
	struct qn_mem_lane **lane; /* NULL entry: a candidate that is no lane of the queue */
	uint32_t count;
};

/* A pop being served. */
struct serving {
	struct qn_mem *m;
	struct qn_arena *arena;
	struct qn_claim_pop *pop;
	uint64_t serial; /* of the call */
	int64_t now_us, left, left_bytes;
	uint32_t lane_cap;
	bool is_full, is_held;
};

static struct qn_mem_lane **lane_array(struct serving *s, size_t n)
{
	return s->m->host->arena_alloc(s->arena, (n > 0 ? n : 1) * sizeof(struct qn_mem_lane *));
}

static void shuffle(struct qn_mem *m, struct lanes *l)
{
	uint64_t r;

	m->host->random(&r, sizeof(r));
	for (uint32_t i = l->count; i > 1; i--) {
		uint32_t k;
		struct qn_mem_lane *swap;

		r = r * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		k = (uint32_t)((r >> 33) % i);
		swap = l->lane[i - 1];
		l->lane[i - 1] = l->lane[k];
		l->lane[k] = swap;
	}
}

static void add_lanes_of(struct lanes *l, const struct qn_mem_queue *q)
{
	for (struct qn_mem_node *n = qn_mem_table_next(&q->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&q->lanes, n)) {
		l->lane[l->count++] = QN_MEM_OF(n, struct qn_mem_lane, by_name);
	}
}

static struct lanes scan_labels(struct serving *s)
{
	struct lanes out = {lane_array(s, s->m->lanes.count), 0};

	for (struct qn_mem_node *n = qn_mem_table_next(&s->m->queues, NULL); n != NULL;
	     n = qn_mem_table_next(&s->m->queues, n)) {
		const struct qn_mem_queue *q = QN_MEM_OF(n, struct qn_mem_queue, node);

		if (memcmp(&q->tenant, &s->pop->tenant, sizeof(q->tenant)) == 0 &&
		    qn_mem_queue_matches(q, s->pop->name_space, s->pop->task)) {
			add_lanes_of(&out, q);
		}
	}
	return out;
}

static struct lanes given_lanes(struct serving *s)
{
	const struct qn_claim_pop *p = s->pop;
	struct lanes out = {lane_array(s, p->candidate_count), p->candidate_count};

	for (uint32_t i = 0; i < p->candidate_count; i++) {
		struct qn_mem_lane *l = qn_mem_lane_by_id(s->m, &p->tenant, &p->candidates[i]);

		out.lane[i] = l != NULL && qn_mem_span_eq(l->queue->name, p->queue) ? l : NULL;
	}
	return out;
}

static struct lanes lanes_for(struct serving *s)
{
	struct qn_claim_pop *p = s->pop;
	struct lanes out = {NULL, 0};
	struct qn_mem_queue *q;

	if (p->from == QN_CLAIM_QUEUE && p->candidate_count > 0) {
		return given_lanes(s);
	}
	if (p->from == QN_CLAIM_LABELS) {
		out = scan_labels(s);
	} else {
		q = qn_mem_queue_find(s->m, &p->tenant, p->queue);
		if (q == NULL) {
			return out;
		}
		out.lane = lane_array(s, q->lanes.count);
		if (p->from == QN_CLAIM_QUEUE) {
			add_lanes_of(&out, q);
		} else {
			out.lane[0] = qn_mem_lane_find(s->m, q, p->partition);
			out.count = out.lane[0] != NULL ? 1 : 0;
		}
	}
	shuffle(s->m, &out);
	return out;
}

/* When the lane's next message may be seen: delayedProcessing and windowBuffer; 0: now. */
static int64_t visible_at(const struct serving *s, const struct qn_mem_lane *l, const struct qn_mem_cursor *c)
{
	const struct qn_queue_options *o = &l->queue->options;
	int64_t at = 0, first = l->segments[qn_mem_segment_at(l, c->committed + 1)]->created_at_us;

	if (o->window_buffer_s > 0 && !(s->pop->window_kept && s->pop->candidate_count > 0)) {
		at = l->newest_at_us + o->window_buffer_s * QN_MEM_SECOND_US;
	}
	if (o->delayed_processing_s > 0 && first + o->delayed_processing_s * QN_MEM_SECOND_US > at) {
		at = first + o->delayed_processing_s * QN_MEM_SECOND_US;
	}
	return at > s->now_us ? at : 0;
}

static uint32_t fitting(const struct serving *s, const struct qn_mem_segment *g, uint32_t usable, bool is_first)
{
	int64_t cost = g->raw_bytes / g->count + ANSWER_OVERHEAD, fits = usable;

	if (fits > s->left) {
		fits = s->left;
	}
	if (fits > s->left_bytes / cost) {
		fits = s->left_bytes / cost;
	}
	return fits > 0 ? (uint32_t)fits : (is_first ? 1 : 0);
}

/* Cuts slices from the cursor on until the budgets or the visible messages end. */
static void cut(struct serving *s, const struct qn_mem_lane *l, struct qn_claimed *out)
{
	const struct qn_queue_options *o = &l->queue->options;
	int64_t visible =
		o->delayed_processing_s > 0 ? s->now_us - o->delayed_processing_s * QN_MEM_SECOND_US : INT64_MAX;
	size_t at = qn_mem_segment_at(l, out->first_offset), most = l->segment_count - at;

	out->slices = s->m->host->arena_alloc(s->arena,
	                                      (most < (size_t)s->left ? most : (size_t)s->left) * sizeof(*out->slices));
	for (; at < l->segment_count && s->left > 0 && !s->is_full; at++) {
		const struct qn_mem_segment *g = l->segments[at];
		uint32_t first = out->slice_count == 0 ? (uint32_t)(out->first_offset - g->base_offset) : 0;
		uint32_t take = fitting(s, g, g->count - first, s->pop->lane_count == 0 && out->slice_count == 0);

		if (g->created_at_us > visible) {
			break;
		}
		s->is_full = take < g->count - first;
		if (take == 0) {
			break;
		}
		out->slices[out->slice_count++] =
			(struct qn_slice){.base_offset = g->base_offset,
		                          .count = g->count,
		                          .first = first,
		                          .take = take,
		                          .created_at_us = g->created_at_us,
		                          .blob = qn_mem_dup(s->m, s->arena, (struct qn_span){g->blob, g->blob_bytes})};
		s->left -= take;
		s->left_bytes -= take * (int64_t)(g->raw_bytes / g->count + ANSWER_OVERHEAD);
		out->batch_end = g->base_offset + first + take - 1;
	}
}

static void lease(const struct serving *s, const struct qn_mem_lane *l, struct qn_mem_cursor *c, struct qn_claimed *out)
{
	const struct qn_claim_pop *p = s->pop;
	int32_t seconds = p->lease_s > 0 ? p->lease_s : l->queue->options.lease_time_s;

	/* Of a batch whose head retention took, the rest is delivered again. */
	out->attempt =
		c->attempt_offset > c->committed && c->attempt_offset <= out->first_offset ? c->attempt_count + 1 : 1;
	qn_mem_lease_drop(c);
	if (p->lease_id.n == 0) {
		c->committed = out->batch_end;
		c->retry_count = 0;
		return;
	}
	out->lease_expires_at_us = s->now_us + seconds * QN_MEM_SECOND_US;
	qn_mem_lease_set(c, p->lease_id);
	c->lease_expires_at_us = out->lease_expires_at_us;
	c->leased_at_us = s->now_us;
	c->batch_end = out->batch_end;
	c->attempt_offset = out->first_offset;
	c->attempt_count = out->attempt;
}

/* Takes what the budgets allow; false when that is nothing. */
static bool take_lane(struct serving *s, struct qn_mem_lane *l, struct qn_mem_cursor *c)
{
	struct qn_claimed *out = &s->pop->lanes[s->pop->lane_count];

	*out = (struct qn_claimed){.partition_id = l->id,
	                           .first_offset = qn_mem_passed(l, c->committed) + 1,
	                           .last_offset = l->last_offset};
	cut(s, l, out);
	if (out->slice_count == 0) {
		return false;
	}
	out->queue = qn_mem_dup(s->m, s->arena, l->queue->name);
	out->partition = qn_mem_dup(s->m, s->arena, l->name);
	lease(s, l, c, out);
	c->claim_serial = s->serial;
	s->pop->lane_count++;
	return true;
}

/* Messages of the lane that the pop could take now; 0 also while it is leased, delayed or taken by another pop. */
static int64_t ready_messages(struct serving *s, struct qn_mem_lane *l)
{
	struct qn_mem_cursor *c = qn_mem_contact(s->m, l, s->pop->group, &s->pop->start);

	return l->last_offset <= c->committed || c->claim_serial == s->serial || qn_mem_is_leased(c, s->now_us) ||
	                       visible_at(s, l, c) > 0
	               ? 0
	               : l->last_offset - c->committed;
}

/* Whether the pop is to wait for a fuller batch (minPopWaitTime). */
static bool hold(struct serving *s, const struct lanes *from)
{
	struct qn_claim_pop *p = s->pop;
	int64_t ready = 0;
	int32_t hold_ms = INT32_MAX;
	uint32_t lanes = 0;

	for (uint32_t i = 0; i < from->count && lanes < s->lane_cap && ready < p->budget; i++) {
		int64_t n = from->lane[i] == NULL ? 0 : ready_messages(s, from->lane[i]);

		if (n > 0) {
			const struct qn_queue_options *o = &from->lane[i]->queue->options;

			ready += n;
			hold_ms = o->min_pop_wait_ms < hold_ms ? o->min_pop_wait_ms : hold_ms;
			lanes++;
		}
	}
	if (ready == 0 || ready >= p->budget || hold_ms == 0) {
		return false;
	}
	p->ready = ready;
	p->hold_ms = hold_ms;
	return true;
}

static struct qn_verdict judge(struct serving *s, struct qn_mem_lane *l)
{
	struct qn_verdict v = {.partition_id = l->id, .kind = QN_LANE_EMPTY};
	struct qn_mem_cursor *c = qn_mem_contact(s->m, l, s->pop->group, &s->pop->start);

	if (l->last_offset <= qn_mem_passed(l, c->committed)) {
		return v;
	}
	v.kind = QN_LANE_BUSY;
	if (c->claim_serial == s->serial) {
		return v;
	}
	if (qn_mem_is_leased(c, s->now_us)) {
		v.kind = QN_LANE_LEASED;
		v.until_us = c->lease_expires_at_us;
		return v;
	}
	v.until_us = visible_at(s, l, c);
	if (v.until_us > 0) {
		v.kind = QN_LANE_LATER;
		return v;
	}
	if (!s->is_held && s->left > 0 && !s->is_full && s->pop->lane_count < s->lane_cap && take_lane(s, l, c)) {
		v.kind = QN_TOOK;
		v.last_offset = l->last_offset;
		v.batch_end = s->pop->lanes[s->pop->lane_count - 1].batch_end;
		v.until_us = s->pop->lanes[s->pop->lane_count - 1].lease_expires_at_us;
	}
	return v;
}

static void serve(struct serving *s)
{
	struct qn_claim_pop *p = s->pop;
	struct lanes from = lanes_for(s);
	bool wants_verdicts = p->from == QN_CLAIM_QUEUE && p->candidate_count > 0;

	s->left = p->budget;
	s->left_bytes = p->budget_bytes;
	s->lane_cap = p->max_lanes > 0 && (uint32_t)p->max_lanes < from.count ? (uint32_t)p->max_lanes : from.count;
	if (p->candidate_count == 0 && s->lane_cap > SCAN_MAX) {
		s->lane_cap = SCAN_MAX;
	}
	p->lanes = s->m->host->arena_alloc(s->arena, (s->lane_cap > 0 ? s->lane_cap : 1) * sizeof(*p->lanes));
	p->lane_count = p->verdict_count = 0;
	p->verdicts = NULL;
	p->contended = false; /* nothing here ever waits for a lock */
	p->next_due_us = 0;
	p->hold_ms = 0;
	p->ready = 0;
	s->is_held = p->may_hold && hold(s, &from);
	if (wants_verdicts) {
		p->verdicts = s->m->host->arena_alloc(s->arena, from.count * sizeof(*p->verdicts));
	}
	for (uint32_t i = 0; i < from.count; i++) {
		struct qn_verdict v = {.kind = QN_LANE_GONE};

		if (from.lane[i] != NULL) {
			v = judge(s, from.lane[i]);
		} else {
			v.partition_id = p->candidates[i];
		}
		if (v.until_us > 0 && (p->next_due_us == 0 || v.until_us < p->next_due_us)) {
			p->next_due_us = v.until_us;
		}
		if (wants_verdicts) {
			p->verdicts[p->verdict_count++] = v;
		}
	}
}

void qn_mem_claim(struct qn_mem *m, struct qn_claim_op *op)
{
	uint64_t serial = ++m->serial;

	op->now_us = m->host->now_us();
	for (uint32_t i = 0; i < op->pop_count; i++) {
		struct serving s = {
			.m = m, .arena = op->op.arena, .pop = &op->pops[i], .serial = serial, .now_us = op->now_us};

		serve(&s);
	}
}
