/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle: what a group of acknowledgements does to one cursor (ST-8, ST-9).
 *
 * Each item is placed first: above the cursor and inside the recorded batch (it may act), at or below
 * the cursor, or nowhere. Then one signal decides the whole group: the lowest failed, retry or dlq;
 * at one offset dlq goes before failed before retry. Completed items below it move the cursor, and
 * what lies below them is completed with them. A dead letter only moves the cursor to the message
 * before the poison and keeps the lease: dead_letter, which must follow, does the rest.
 *
 * Judging changes nothing of the cursor; applying does what was judged.
 */
#include "memory.h"

struct search {
	const struct qn_mem_lane *lane;
	int64_t committed, upto, since_us;
	struct qn_mem_place found;
};

static void place_offset(int64_t offset, void *arg)
{
	struct search *s = arg;

	if (offset > s->committed) {
		if (offset <= s->upto && (s->found.eff < 0 || offset < s->found.eff)) {
			s->found.eff = offset;
		}
	} else if (qn_mem_stored_at(s->lane, offset) >= s->since_us) {
		s->found.below = true;
	}
}

/* Ids at or below the cursor are remembered as long as the longest of these. */
static int64_t resolvable_since(const struct qn_mem_decision *d)
{
	const struct qn_queue_options *o = &d->lane->queue->options;
	int64_t seconds = 900;

	if (o->dedup_window_s > seconds) {
		seconds = o->dedup_window_s;
	}
	if (o->completed_retention_s > seconds) {
		seconds = o->completed_retention_s;
	}
	return d->now_us - seconds * QN_MEM_SECOND_US;
}

static void place_items(struct qn_mem_decision *d)
{
	const struct qn_mem_cursor *c = d->cursor;

	d->places = d->m->host->arena_alloc(d->arena, (size_t)d->s->item_count * sizeof(*d->places));
	for (uint32_t i = 0; i < d->s->item_count; i++) {
		struct search s = {d->lane,
		                   c->committed,
		                   c->batch_end >= 0 ? c->batch_end : d->lane->last_offset,
		                   resolvable_since(d),
		                   {-1, false}};

		qn_mem_each_offset(d->lane, d->s->items[i].hash, place_offset, &s);
		d->places[i] = s.found;
	}
}

static void answer(struct qn_ack_item *item, enum qn_ack_outcome outcome, enum qn_ack_reason reason)
{
	item->outcome = outcome;
	item->reason = reason;
}

static void reject_all(struct qn_settle_lane *s, enum qn_ack_reason reason)
{
	for (uint32_t i = 0; i < s->item_count; i++) {
		answer(&s->items[i], QN_OUT_REJECTED, reason);
	}
}

static int rank(enum qn_ack_status status)
{
	switch (status) {
	case QN_ACK_DLQ:
		return 0;
	case QN_ACK_FAILED:
		return 1;
	case QN_ACK_RETRY:
		return 2;
	case QN_ACK_COMPLETED:
	default:
		return 3;
	}
}

static bool is_signal(const struct qn_mem_decision *d, uint32_t i)
{
	return d->s->items[i].status != QN_ACK_COMPLETED && d->places[i].eff >= 0;
}

static void find_signal(struct qn_mem_decision *d)
{
	d->signal = -1;
	for (uint32_t i = 0; i < d->s->item_count; i++) {
		int64_t at = d->places[i].eff;

		if (is_signal(d, i) && (d->signal < 0 || at < d->places[d->signal].eff ||
		                        (at == d->places[d->signal].eff &&
		                         rank(d->s->items[i].status) < rank(d->s->items[d->signal].status)))) {
			d->signal = (int)i;
		}
	}
}

static void find_prefix(struct qn_mem_decision *d)
{
	int64_t below = d->signal >= 0 ? d->places[d->signal].eff : INT64_MAX;

	d->prefix = d->cursor->committed;
	for (uint32_t i = 0; i < d->s->item_count; i++) {
		int64_t at = d->places[i].eff;

		if (d->s->items[i].status == QN_ACK_COMPLETED && at < below && at > d->prefix) {
			d->prefix = at;
		}
	}
}

/* `of_signal`: what becomes of the deciding message. Without a batch a signal only holds the cursor back. */
static void answer_items(struct qn_mem_decision *d, enum qn_ack_outcome of_signal)
{
	int64_t signal_at = d->signal >= 0 ? d->places[d->signal].eff : INT64_MAX;
	bool comes_again = of_signal == QN_OUT_RETRIED || of_signal == QN_OUT_FAILED;

	for (uint32_t i = 0; i < d->s->item_count; i++) {
		struct qn_ack_item *item = &d->s->items[i];
		bool completed = item->status == QN_ACK_COMPLETED;
		int64_t at = d->places[i].eff;

		if (at < 0 && !d->places[i].below) {
			answer(item, QN_OUT_REJECTED, QN_ACK_UNRESOLVABLE);
		} else if (at < 0) {
			answer(item, completed ? QN_OUT_NOOP : QN_OUT_REJECTED,
			       completed ? QN_ACK_OK : QN_ACK_COMMITTED);
		} else if (at < signal_at) {
			answer(item, QN_OUT_COMPLETED, QN_ACK_OK);
		} else if (!completed && d->cursor->batch_end < 0) {
			answer(item, QN_OUT_REJECTED, QN_ACK_NO_BATCH);
		} else if (at > signal_at || (completed && comes_again)) {
			answer(item, QN_OUT_REDELIVERED, QN_ACK_OK);
		} else {
			answer(item, completed ? QN_OUT_COMPLETED : of_signal, QN_ACK_OK);
		}
	}
}

/* The rest of a batch that is acknowledged in part keeps its count of deliveries. */
static void move_to(struct qn_mem_decision *d, int64_t offset)
{
	struct qn_mem_cursor *c = d->cursor;

	if (c->batch_end < 0 && offset > c->committed) {
		c->retry_count = 0;
	}
	c->committed = offset;
	if (c->attempt_offset >= 0 && c->attempt_offset <= offset) {
		c->attempt_offset = offset + 1;
	}
}

static void end_lease(struct qn_mem_decision *d)
{
	qn_mem_lease_end(d->cursor);
	d->s->lease_released = true;
}

static void ask_dead_letter(struct qn_mem_decision *d)
{
	struct qn_settle_lane *s = d->s;

	s->needs_dead_letter = true;
	s->poison_item = (uint32_t)d->signal;
	s->poison_offset = d->places[d->signal].eff;
	s->retry_count = d->cursor->retry_count;
	s->poison.offset = s->poison_offset;
	qn_mem_fetch_one(d->m, d->arena, d->lane, &s->poison);
}

/* What the deciding item leads to; COMPLETED when nothing decides. */
static enum qn_ack_outcome outcome_of_signal(const struct qn_mem_decision *d)
{
	const struct qn_queue_options *o = &d->lane->queue->options;
	enum qn_ack_status status;

	if (d->signal < 0 || d->cursor->batch_end < 0) {
		return QN_OUT_COMPLETED;
	}
	status = d->s->items[d->signal].status;
	if (status == QN_ACK_RETRY) {
		return QN_OUT_RETRIED;
	}
	if (status == QN_ACK_FAILED && d->cursor->retry_count < o->retry_limit) {
		return QN_OUT_FAILED;
	}
	return status == QN_ACK_DLQ || o->dead_letter_queue || o->dlq_after_max_retries ? QN_OUT_DEAD_LETTERED
	                                                                                : QN_OUT_DROPPED;
}

static void carry_out(struct qn_mem_decision *d)
{
	struct qn_mem_cursor *c = d->cursor;
	enum qn_ack_outcome of_signal = d->of_signal;
	bool batch_done = of_signal == QN_OUT_COMPLETED && c->batch_end >= 0 && d->prefix >= c->batch_end;

	move_to(d, of_signal == QN_OUT_DROPPED ? d->places[d->signal].eff : d->prefix);
	if (of_signal != QN_OUT_DEAD_LETTERED && (of_signal != QN_OUT_COMPLETED || batch_done)) {
		end_lease(d);
	}
	if (of_signal == QN_OUT_FAILED) {
		c->retry_count++;
	} else if (of_signal == QN_OUT_DROPPED || batch_done) {
		qn_mem_counters_reset(c);
	}
}

/* A lease that is over may still hear that its completed items were stored (decisions 17). */
static void answer_stale(struct qn_mem_decision *d)
{
	bool was_ours = qn_mem_lease_is(&d->cursor->last_lease, d->s->lease_id) ||
	                qn_mem_lease_is(&d->cursor->lease, d->s->lease_id);

	for (uint32_t i = 0; i < d->s->item_count; i++) {
		bool done = was_ours && d->s->items[i].status == QN_ACK_COMPLETED && d->places[i].below;

		answer(&d->s->items[i], done ? QN_OUT_NOOP : QN_OUT_REJECTED, done ? QN_ACK_OK : QN_ACK_BAD_LEASE);
	}
}

void qn_mem_settle_judge(struct qn_mem_decision *d)
{
	struct qn_settle_lane *s = d->s;

	d->now_us = d->m->host->now_us();
	d->acts = false;
	s->lease_released = s->has_more = s->needs_dead_letter = false;
	s->committed = -1;
	s->queue = s->partition = (struct qn_span){NULL, 0};
	s->poison = (struct qn_fetch){.partition_id = s->partition_id};
	d->cursor = NULL;
	d->lane = qn_mem_lane_by_id(d->m, &s->tenant, &s->partition_id);
	if (d->lane != NULL) {
		s->queue = qn_mem_dup(d->m, d->arena, d->lane->queue->name);
		s->partition = qn_mem_dup(d->m, d->arena, d->lane->name);
		d->cursor = qn_mem_cursor_find(d->m, d->lane, s->group);
	}
	if (d->cursor == NULL) {
		reject_all(s, QN_ACK_NO_CONSUMER);
		return;
	}
	place_items(d);
	if (s->lease_id.n > 0 &&
	    !(qn_mem_lease_is(&d->cursor->lease, s->lease_id) && qn_mem_is_leased(d->cursor, d->now_us))) {
		answer_stale(d);
		return;
	}
	d->acts = true;
	find_signal(d);
	find_prefix(d);
	d->of_signal = outcome_of_signal(d);
	answer_items(d, d->of_signal);
	if (d->of_signal == QN_OUT_DEAD_LETTERED) {
		ask_dead_letter(d);
	}
}

void qn_mem_settle_apply(struct qn_mem_decision *d)
{
	if (d->acts) {
		carry_out(d);
	}
	if (d->cursor != NULL) {
		d->s->committed = d->cursor->committed;
		d->s->has_more = qn_mem_has_more(d->lane, d->cursor, d->now_us);
	}
}

void qn_mem_settle(struct qn_mem *m, struct qn_settle_op *op)
{
	for (uint32_t i = 0; i < op->lane_count; i++) {
		struct qn_mem_decision d = {.m = m, .arena = op->op.arena, .s = &op->lanes[i]};

		qn_mem_settle_judge(&d);
		qn_mem_settle_apply(&d);
	}
}
