/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transaction: pushes and acks together or not at all (ST-13).
 *
 * Everything is judged before anything changes; what could still fail, memory, is taken before the
 * first change. Queues and lanes have to exist to be judged: those made for a call that is refused
 * are destroyed again.
 */
#include "memory.h"

#include <string.h>

struct target {
	struct qn_mem_lane *lane;
	struct qn_mem_segment *segment;
	bool fresh_queue, fresh_lane;
};

struct txn {
	struct qn_mem *m;
	struct qn_txn_op *op;
	struct target *targets;            /* one per push lane */
	struct qn_mem_decision *decisions; /* one per ack lane */
	int64_t now_us;
};

static bool refuse(struct txn *t, enum qn_txn_verdict verdict, uint32_t at)
{
	t->op->verdict = verdict;
	t->op->refused = at;
	return false;
}

/* ---- pushes ---------------------------------------------------------------------------------- */

static void find_target(struct txn *t, struct qn_push_lane *p, struct target *to)
{
	struct qn_mem_queue *q = qn_mem_queue_find(t->m, &t->op->tenant, p->queue);

	to->fresh_queue = q == NULL;
	if (q == NULL) {
		q = qn_mem_queue_create(t->m, &t->op->tenant, p->queue);
	}
	to->lane = qn_mem_lane_find(t->m, q, p->partition);
	to->fresh_lane = to->lane == NULL;
	if (to->lane == NULL) {
		to->lane = qn_mem_lane_create(t->m, q, p->partition);
	}
}

static bool repeats_are_right(enum qn_txn_repeats repeats, int32_t window_s)
{
	return repeats != (window_s > 0 ? QN_TXN_REPEATS_KEPT : QN_TXN_REPEATS_REMOVED);
}

static bool judge_pushes(struct txn *t)
{
	const struct qn_txn_op *op = t->op;

	for (uint32_t i = 0; i < op->push_count; i++) {
		find_target(t, &op->pushes[i], &t->targets[i]);
		qn_mem_push_judge(t->m, op->op.arena, t->targets[i].lane, &op->pushes[i]);
	}
	for (uint32_t i = 0; i < op->push_count; i++) {
		const struct qn_push_lane *p = &op->pushes[i];

		if (p->status == QN_PUSH_DUPLICATE) {
			return refuse(t, QN_TXN_DUPLICATE, i);
		}
		if (p->status == QN_PUSH_UNSEALED) {
			return refuse(t, QN_TXN_UNSEALED, i);
		}
		if (!repeats_are_right(op->repeats[i], p->dedup_window_s)) {
			return refuse(t, QN_TXN_WINDOW, i);
		}
	}
	return true;
}

static int make_segments(struct txn *t, struct qn_error *e)
{
	for (uint32_t i = 0; i < t->op->push_count; i++) {
		t->targets[i].segment = qn_mem_segment_create(t->m, t->targets[i].lane, &t->op->pushes[i], e);
		if (t->targets[i].segment == NULL) {
			return e->code;
		}
	}
	return QN_OK;
}

/* Fresh queues go with their lanes. */
static void undo(struct txn *t)
{
	for (uint32_t i = 0; i < t->op->push_count; i++) {
		const struct target *to = &t->targets[i];

		if (to->segment != NULL) {
			qn_mem_segment_destroy(t->m, to->segment);
		}
		if (to->fresh_lane) {
			qn_mem_lane_destroy(t->m, to->lane);
		}
	}
	for (uint32_t i = 0; i < t->op->push_count; i++) {
		if (t->targets[i].fresh_queue) {
			qn_mem_queue_destroy(t->m, qn_mem_queue_find(t->m, &t->op->tenant, t->op->pushes[i].queue));
		}
	}
}

/* ---- fences and leases ----------------------------------------------------------------------- */

static bool is_held(const struct txn *t, struct qn_span lease)
{
	for (struct qn_mem_node *n = qn_mem_table_next(&t->m->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&t->m->lanes, n)) {
		const struct qn_mem_lane *l = QN_MEM_OF(n, struct qn_mem_lane, by_id);

		if (memcmp(&l->queue->tenant, &t->op->tenant, sizeof(t->op->tenant)) != 0) {
			continue;
		}
		for (struct qn_mem_node *k = qn_mem_table_next(&l->cursors, NULL); k != NULL;
		     k = qn_mem_table_next(&l->cursors, k)) {
			const struct qn_mem_cursor *c = QN_MEM_OF(k, struct qn_mem_cursor, node);

			if (qn_mem_lease_is(&c->lease, lease) && qn_mem_is_leased(c, t->now_us)) {
				return true;
			}
		}
	}
	return false;
}

static bool judge_fences(struct txn *t)
{
	for (uint32_t i = 0; i < t->op->fence_count; i++) {
		if (!is_held(t, t->op->fences[i])) {
			return refuse(t, QN_TXN_FENCE, i);
		}
	}
	return true;
}

/* ---- acks ------------------------------------------------------------------------------------ */

static struct qn_span lease_of(const struct txn *t, const struct qn_settle_lane *s, const struct qn_mem_cursor *c)
{
	if (s->lease_id.n > 0 || !t->op->borrow) {
		return s->lease_id;
	}
	return c->lease.n == 0 ? t->op->hint : (struct qn_span){c->lease.text, c->lease.n};
}

struct above {
	int64_t offset;
	bool found;
};

static void find_above(int64_t offset, void *arg)
{
	struct above *a = arg;

	a->found = a->found || offset > a->offset;
}

/* A message above the leased batch exists, though it cannot be acknowledged yet. */
static bool all_exist(const struct qn_mem_decision *d)
{
	for (uint32_t i = 0; i < d->s->item_count; i++) {
		struct above a = {d->cursor->batch_end >= 0 ? d->cursor->batch_end : d->lane->last_offset, false};

		if (d->s->items[i].reason != QN_ACK_UNRESOLVABLE) {
			continue;
		}
		qn_mem_each_offset(d->lane, d->s->items[i].hash, find_above, &a);
		if (!a.found) {
			return false;
		}
	}
	return true;
}

static bool lacks_batch(const struct qn_settle_lane *s)
{
	for (uint32_t i = 0; i < s->item_count; i++) {
		if (s->items[i].reason == QN_ACK_NO_BATCH) {
			return true;
		}
	}
	return false;
}

/* The lane may be acknowledged at all. */
static bool judge_lane(struct txn *t, uint32_t i)
{
	struct qn_settle_lane *s = &t->op->acks[i];
	struct qn_mem_lane *l = qn_mem_lane_by_id(t->m, &t->op->tenant, &s->partition_id);
	const struct qn_mem_cursor *c;
	struct qn_span lease;

	if (l == NULL) {
		return refuse(t, QN_TXN_NOT_OWNED, i);
	}
	c = qn_mem_cursor_find(t->m, l, s->group);
	if (c == NULL) {
		return refuse(t, QN_TXN_NO_CONSUMER, i);
	}
	lease = lease_of(t, s, c);
	if (lease.n > 0 && !(qn_mem_lease_is(&c->lease, lease) && qn_mem_is_leased(c, t->now_us))) {
		return refuse(t, QN_TXN_BAD_LEASE, i);
	}
	return true;
}

static const struct qn_txn_letter *letter_of(const struct qn_txn_op *op, uint32_t lane)
{
	for (uint32_t i = 0; i < op->letter_count; i++) {
		if (op->letters[i].lane == lane && op->letters[i].offset == op->acks[lane].poison_offset) {
			return &op->letters[i];
		}
	}
	return NULL;
}

static bool judge_acks(struct txn *t)
{
	struct qn_txn_op *op = t->op;
	bool poisoned = false;

	for (uint32_t i = 0; i < op->ack_count; i++) {
		if (!judge_lane(t, i)) {
			return false;
		}
	}
	for (uint32_t i = 0; i < op->ack_count; i++) {
		t->decisions[i] = (struct qn_mem_decision){.m = t->m, .arena = op->op.arena, .s = &op->acks[i]};
		qn_mem_settle_judge(&t->decisions[i]);
		if (lacks_batch(&op->acks[i])) {
			return refuse(t, QN_TXN_NO_BATCH, i);
		}
		poisoned = poisoned || (op->acks[i].needs_dead_letter && letter_of(op, i) == NULL);
	}
	for (uint32_t i = 0; i < op->ack_count; i++) {
		if (!all_exist(&t->decisions[i])) {
			return refuse(t, QN_TXN_UNKNOWN, i);
		}
	}
	return !poisoned || refuse(t, QN_TXN_POISONED, 0);
}

static void file(struct txn *t, uint32_t lane)
{
	struct qn_settle_lane *s = &t->op->acks[lane];
	const struct qn_txn_letter *from = letter_of(t->op, lane);
	struct qn_dead_letter d = {.tenant = t->op->tenant,
	                           .partition_id = s->partition_id,
	                           .group = s->group,
	                           .offset = from->offset,
	                           .count = 1,
	                           .message_id = from->message_id,
	                           .transaction_id = from->transaction_id,
	                           .payload = from->payload,
	                           .error = from->error,
	                           .retry_count = s->retry_count};
	struct qn_dead_letter_op op = {.op = {.arena = t->op->op.arena}, .items = &d, .count = 1};

	qn_mem_dead_letter(t->m, &op);
	s->needs_dead_letter = false;
	s->lease_released = true;
	s->committed = s->poison_offset;
	s->has_more = d.has_more;
}

static void carry_out(struct txn *t)
{
	struct qn_txn_op *op = t->op;

	for (uint32_t i = 0; i < op->push_count; i++) {
		qn_mem_push_store(t->m, t->targets[i].lane, &op->pushes[i], t->targets[i].segment);
	}
	for (uint32_t i = 0; i < op->ack_count; i++) {
		qn_mem_settle_apply(&t->decisions[i]);
		if (op->acks[i].needs_dead_letter) {
			file(t, i);
		}
	}
	op->verdict = QN_TXN_COMMITTED;
	op->refused = 0;
}

int qn_mem_transaction(struct qn_mem *m, struct qn_txn_op *op, struct qn_error *e)
{
	struct txn t = {.m = m, .op = op, .now_us = m->host->now_us()};
	size_t bytes = op->push_count * sizeof(*t.targets);
	int rc;

	t.targets = m->host->arena_alloc(op->op.arena, bytes);
	memset(t.targets, 0, bytes);
	t.decisions = m->host->arena_alloc(op->op.arena, op->ack_count * sizeof(*t.decisions));
	for (uint32_t i = 0; i < op->push_count; i++) {
		op->pushes[i].tenant = op->tenant;
	}
	for (uint32_t i = 0; i < op->ack_count; i++) {
		op->acks[i].tenant = op->tenant;
	}
	if (!judge_pushes(&t) || !judge_fences(&t) || !judge_acks(&t)) {
		undo(&t);
		return QN_OK;
	}
	rc = make_segments(&t, e);
	if (rc != QN_OK) {
		undo(&t);
		return rc;
	}
	carry_out(&t);
	return QN_OK;
}
