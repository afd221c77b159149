/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance: whose turn it is, and sweeping in bounded steps (ST-14 to ST-17).
 *
 * A step collects the due lanes of every rule behind the place of its walk, oldest first, and then
 * shares the batch among those that have something to give. Nothing keeps lanes in order of age, so
 * a step looks at all lanes of its queues.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* A due lane of a rule. */
struct pick {
	struct qn_mem_lane *lane;
	struct qn_sweep_rule *rule;
	int64_t at_us;
};

/* ---- the turn -------------------------------------------------------------------------------- */

/* By the shorter of the last holder's period and the asker's. */
static int64_t turn_due(const struct qn_mem_turn *t, int32_t period_ms)
{
	int64_t due_us = t->start_us + period_ms * INT64_C(1000);

	return due_us < t->due_us ? due_us : t->due_us;
}

static bool take_turn(struct qn_mem_turn *t, const struct qn_maintain_op *op, int64_t now_us)
{
	bool is_mine = t->holder_bytes == op->holder.n && memcmp(t->holder, op->holder.p, op->holder.n) == 0;

	if (turn_due(t, op->period_ms) > now_us || (t->lease_until_us > now_us && !is_mine)) {
		return false;
	}
	t->fence++;
	t->start_us = now_us;
	t->holder_bytes = op->holder.n < sizeof(t->holder) ? op->holder.n : sizeof(t->holder);
	memcpy(t->holder, op->holder.p, t->holder_bytes);
	return true;
}

static bool keep_turn(struct qn_mem_turn *t, int64_t fence, int32_t lease_ms, int64_t now_us)
{
	if (t->fence != fence || t->lease_until_us == 0) {
		return false;
	}
	t->lease_until_us = now_us + lease_ms * INT64_C(1000);
	return true;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When the lane was last pushed to. */
static int64_t written_at(const struct qn_mem_lane *l)
{
	return l->newest_at_us > l->created_at_us ? l->newest_at_us : l->created_at_us;
}

/* By which the kind finds the lane due; INT64_MAX: it holds nothing of that kind. */
static int64_t due_at(const struct qn_mem_lane *l, enum qn_sweep_kind kind)
{
	switch (kind) {
	case QN_SWEEP_HASHES:
		return l->hashed < l->segment_count ? l->segments[l->hashed]->created_at_us : INT64_MAX;
	case QN_SWEEP_LANES:
		return l->segment_count == 0 ? written_at(l) : INT64_MAX;
	default:
		return l->live < l->segment_count ? l->segments[l->live]->created_at_us : INT64_MAX;
	}
}

static bool fill_due(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_queue *q, struct qn_due_queue *out)
{
	*out = (struct qn_due_queue){q->id, q->options, INT64_MAX, INT64_MAX, INT64_MAX};
	for (struct qn_mem_node *n = qn_mem_table_next(&q->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&q->lanes, n)) {
		const struct qn_mem_lane *l = QN_MEM_OF(n, struct qn_mem_lane, by_name);

		out->live_us = earlier(out->live_us, due_at(l, QN_SWEEP_RETENTION));
		out->hashes_us = earlier(out->hashes_us, due_at(l, QN_SWEEP_HASHES));
		out->idle_us = earlier(out->idle_us, due_at(l, QN_SWEEP_LANES));
	}
	out->options.name_space = qn_mem_dup(m, a, q->options.name_space);
	out->options.task = qn_mem_dup(m, a, q->options.task);
	return q->lanes.count > 0;
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&((const struct qn_due_queue *)a)->id, &((const struct qn_due_queue *)b)->id,
	              sizeof(struct qn_uuid));
}

static void list_due(struct qn_mem *m, struct qn_maintain_op *op)
{
	op->queues = m->host->arena_alloc(op->op.arena, (m->queues.count + 1) * sizeof(*op->queues));
	for (struct qn_mem_node *n = qn_mem_table_next(&m->queues, NULL); n != NULL;
	     n = qn_mem_table_next(&m->queues, n)) {
		const struct qn_mem_queue *q = QN_MEM_OF(n, struct qn_mem_queue, node);

		if (memcmp(&q->id, &op->after, sizeof(q->id)) > 0 &&
		    fill_due(m, op->op.arena, q, &op->queues[op->queue_count])) {
			op->queue_count++;
		}
	}
	qsort(op->queues, op->queue_count, sizeof(*op->queues), by_id);
	if (op->queue_count > op->limit) {
		op->queue_count = op->limit;
	}
}

void qn_mem_maintain(struct qn_mem *m, struct qn_maintain_op *op)
{
	struct qn_mem_turn *t = &m->turn;
	int64_t next_us;

	op->now_us = m->host->now_us();
	op->queue_count = 0;
	op->queues = NULL;
	if (op->fence == 0) {
		op->held = take_turn(t, op, op->now_us);
		if (op->held) {
			t->lease_until_us = op->now_us + op->lease_ms * INT64_C(1000);
		}
	} else {
		op->held = keep_turn(t, op->fence, op->lease_ms, op->now_us);
	}
	op->fence = op->held ? t->fence : 0;
	if (op->held && op->end) {
		t->lease_until_us = 0;
		t->due_us = t->start_us + op->period_ms * INT64_C(1000);
	}
	next_us = turn_due(t, op->period_ms);
	next_us = next_us > t->lease_until_us ? next_us : t->lease_until_us;
	op->wait_ms = next_us > op->now_us ? (next_us - op->now_us + 999) / 1000 : 0;
	if (op->held && !op->end) {
		list_due(m, op);
	}
}

/* ---- a step ---------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;

	if (x->at_us != y->at_us) {
		return x->at_us < y->at_us ? -1 : 1;
	}
	return memcmp(&x->lane->id, &y->lane->id, sizeof(struct qn_uuid));
}

static struct qn_mem_queue *queue_by_id(struct qn_mem *m, const struct qn_uuid *id)
{
	struct qn_mem_node *n = qn_mem_table_next(&m->queues, NULL);

	while (n != NULL && memcmp(&QN_MEM_OF(n, struct qn_mem_queue, node)->id, id, sizeof(*id)) != 0) {
		n = qn_mem_table_next(&m->queues, n);
	}
	return n == NULL ? NULL : QN_MEM_OF(n, struct qn_mem_queue, node);
}

/* Up to `share` picks of a rule; `out` has room for every lane of its queue. */
static uint32_t pick_lanes(struct qn_mem *m, enum qn_sweep_kind kind, struct qn_sweep_rule *rule, uint32_t share,
                           struct pick *out)
{
	struct qn_mem_queue *q = queue_by_id(m, &rule->queue_id);
	uint32_t n = 0;

	if (q == NULL) {
		return 0;
	}
	for (struct qn_mem_node *node = qn_mem_table_next(&q->lanes, NULL); node != NULL;
	     node = qn_mem_table_next(&q->lanes, node)) {
		struct qn_mem_lane *l = QN_MEM_OF(node, struct qn_mem_lane, by_name);
		int64_t at_us = due_at(l, kind);

		if (at_us < rule->cutoff_us &&
		    (at_us > rule->at_us ||
		     (at_us == rule->at_us && memcmp(&l->id, &rule->after, sizeof(l->id)) > 0))) {
			out[n++] = (struct pick){l, rule, at_us};
		}
	}
	qsort(out, n, sizeof(*out), by_age);
	return n < share ? n : share;
}

/* The lowest cursor; -1 where nobody reads. */
static int64_t slowest(const struct qn_mem_lane *l)
{
	int64_t out = INT64_MAX;

	for (struct qn_mem_node *n = qn_mem_table_next(&l->cursors, NULL); n != NULL;
	     n = qn_mem_table_next(&l->cursors, n)) {
		out = earlier(out, QN_MEM_OF(n, const struct qn_mem_cursor, node)->committed);
	}
	return out == INT64_MAX ? -1 : out;
}

/* Whether the lane's first segment of that kind may go. */
static bool gives(const struct pick *p, enum qn_sweep_kind kind)
{
	const struct qn_mem_lane *l = p->lane;
	const struct qn_mem_segment *s;
	int64_t last;

	if (due_at(l, kind) >= p->rule->cutoff_us) {
		return false;
	}
	s = l->segments[kind == QN_SWEEP_HASHES ? l->hashed : l->live];
	last = s->base_offset + s->count - 1;
	if (kind == QN_SWEEP_COMPLETED) {
		return last <= slowest(l);
	}
	return kind != QN_SWEEP_HASHES || last <= qn_mem_passed(l, slowest(l));
}

static bool is_dead(const struct pick *p, int64_t now_us)
{
	const struct qn_mem_lane *l = p->lane;
	int64_t cutoff_us = p->rule->cutoff_us;

	if (l->letters != NULL || l->created_at_us >= cutoff_us) {
		return false;
	}
	for (struct qn_mem_node *n = qn_mem_table_next(&l->cursors, NULL); n != NULL;
	     n = qn_mem_table_next(&l->cursors, n)) {
		const struct qn_mem_cursor *c = QN_MEM_OF(n, const struct qn_mem_cursor, node);

		if (qn_mem_is_leased(c, now_us) || c->created_at_us >= cutoff_us ||
		    (c->lease.n > 0 && c->leased_at_us >= cutoff_us)) {
			return false;
		}
	}
	return true;
}

/* Deletes up to `share` rows of a lane; true when it has more. */
static bool sweep_lane(struct qn_mem *m, enum qn_sweep_kind kind, const struct pick *p, uint32_t share)
{
	struct qn_mem_lane *l = p->lane;

	for (uint32_t i = 0; i < share && gives(p, kind); i++) {
		p->rule->deleted++;
		if (kind == QN_SWEEP_HASHES) {
			p->rule->messages += l->segments[l->hashed]->count;
			qn_mem_drop_hashes(m, l);
		} else {
			p->rule->messages += l->segments[l->live]->count;
			qn_mem_drop_messages(m, l);
		}
	}
	return due_at(l, kind) < p->rule->cutoff_us;
}

/* `more` gets a flag for each rule of which a lane has more to give. */
static void sweep_picks(struct qn_mem *m, const struct qn_sweep_op *op, struct pick *picks, uint32_t count, bool *more)
{
	int64_t now_us = m->host->now_us();
	uint32_t giving = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (op->kind == QN_SWEEP_LANES ? is_dead(&picks[i], now_us) : gives(&picks[i], op->kind)) {
			picks[giving++] = picks[i];
		}
	}
	for (uint32_t i = 0; i < giving; i++) {
		struct qn_sweep_rule *rule = picks[i].rule;

		if (op->kind == QN_SWEEP_LANES) {
			qn_mem_lane_destroy(m, picks[i].lane);
			rule->deleted++;
		} else if (sweep_lane(m, op->kind, &picks[i], op->batch / giving)) {
			more[rule - op->rules] = true;
		}
	}
}

void qn_mem_sweep(struct qn_mem *m, struct qn_sweep_op *op)
{
	struct qn_arena *a = op->op.arena;
	struct pick *picks = m->host->arena_alloc(a, (m->lanes.count * op->rule_count + 1) * sizeof(*picks));
	struct qn_sweep_rule *was = m->host->arena_alloc(a, (op->rule_count + 1) * sizeof(*was));
	bool *more = m->host->arena_alloc(a, op->rule_count + 1);
	uint32_t share = op->rule_count > 0 && op->batch > op->rule_count ? op->batch / op->rule_count : 1, count = 0;

	op->held = keep_turn(&m->turn, op->fence, op->lease_ms, m->host->now_us());
	for (uint32_t i = 0; op->held && i < op->rule_count; i++) {
		struct qn_sweep_rule *rule = &op->rules[i];

		was[i] = *rule;
		more[i] = false;
		rule->deleted = 0;
		rule->messages = 0;
		/* Nothing is kept for the history. */
		rule->lanes = op->kind == QN_SWEEP_BOOKS ? 0 : pick_lanes(m, op->kind, rule, share, &picks[count]);
		rule->ended = rule->lanes < share;
		if (rule->lanes > 0) {
			count += rule->lanes;
			rule->at_us = picks[count - 1].at_us;
			rule->after = picks[count - 1].lane->id;
		}
	}
	if (!op->held) {
		return;
	}
	sweep_picks(m, op, picks, count, more);
	for (uint32_t i = 0; i < op->rule_count; i++) {
		/* The walk stays where it is as long as a lane in front of it has more. */
		if (more[i]) {
			op->rules[i].ended = false;
			op->rules[i].at_us = was[i].at_us;
			op->rules[i].after = was[i].after;
		}
	}
}
