/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance: ST-14 to ST-17. Turns belong to the whole storage, so each case gives its own back; what
 * is older than a cut-off is made by cutting off at a time after it was stored.
 */
#include "storage_kit.h"

#include <stdio.h>

static struct qn_maintain_op turn(struct ct *c, const char *holder, int64_t fence, bool end, int32_t lease_ms)
{
	struct qn_maintain_op *op = ct_alloc(c, sizeof(*op));

	op->holder = ct_span(holder);
	op->fence = fence;
	op->end = end;
	op->lease_ms = lease_ms;
	op->limit = 1000;
	ct_maintain_op(c, op);
	return *op;
}

static int64_t begin(struct ct *c)
{
	struct qn_maintain_op op = turn(c, "me", 0, false, 60000);

	assert_true(op.held);
	assert_true(op.fence > 0);
	return op.fence;
}

static void end(struct ct *c, int64_t fence)
{
	assert_true(turn(c, "me", fence, true, 60000).held);
}

/* A rule for a queue that cuts off behind everything stored by now. */
static struct qn_sweep_rule rule_of(struct ct *c, const char *queue)
{
	return (struct qn_sweep_rule){.queue_id = list_one(c, queue).rows[0].id, .cutoff_us = INT64_C(1) << 52};
}

static struct qn_sweep_rule step(struct ct *c, int64_t fence, enum qn_sweep_kind kind, struct qn_sweep_rule rule,
                                 uint32_t batch)
{
	struct qn_sweep_op *op = ct_alloc(c, sizeof(*op));

	op->fence = fence;
	op->lease_ms = 60000;
	op->kind = kind;
	op->batch = batch;
	op->rules = ct_alloc(c, sizeof(rule));
	op->rules[0] = rule;
	op->rule_count = 1;
	ct_sweep_op(c, op);
	assert_true(op->held);
	assert_true(op->rules[0].deleted <= batch);
	return op->rules[0];
}

/* Rows a whole walk of queue q deletes. */
static uint32_t sweep(struct ct *c, enum qn_sweep_kind kind, int64_t cutoff_us, uint32_t batch)
{
	struct qn_sweep_rule rule = rule_of(c, "q");
	int64_t fence = begin(c);
	uint32_t deleted = 0;

	if (cutoff_us > 0) {
		rule.cutoff_us = cutoff_us;
	}
	while (!rule.ended) {
		rule = step(c, fence, kind, rule, batch);
		deleted += rule.deleted;
	}
	end(c, fence);
	return deleted;
}

static struct qn_push_lane push_later(struct ct *c, const char *ids)
{
	struct qn_push_lane l = push(c, ids);

	ct_wait_until_us(l.created_at_us + 1);
	return l;
}

/* ---- ST-14 ----------------------------------------------------------------------------------- */

static void st14_one_holder_at_a_time(void **state)
{
	struct ct *c = *state;
	int64_t fence = begin(c);
	struct qn_maintain_op other = turn(c, "other", 0, false, 60000);

	assert_false(other.held);
	assert_int_equal(other.fence, 0);
	assert_int_equal(other.queue_count, 0);
	assert_in_range(other.wait_ms, 1, 60000);
	assert_true(turn(c, "me", fence, false, 60000).held);
	end(c, fence);
	assert_false(turn(c, "me", fence, false, 60000).held);
	other = turn(c, "other", 0, false, 60000);
	assert_true(other.held);
	assert_true(other.fence > fence);
	assert_false(turn(c, "me", fence, true, 60000).held);
	assert_true(turn(c, "other", other.fence, true, 60000).held);
}

static void st14_a_silent_holder_is_replaced_and_deletes_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_maintain_op old = turn(c, "old", 0, false, 1), new;
	struct qn_sweep_op late = {.fence = old.fence, .lease_ms = 60000, .batch = 10, .rule_count = 1};
	struct qn_sweep_rule rule;

	push(c, "a");
	rule = rule_of(c, "q");
	late.rules = &rule;
	ct_wait_until_us(old.now_us + 2000);
	new = turn(c, "new", 0, false, 60000);
	assert_true(new.held);
	ct_sweep_op(c, &late);
	assert_false(late.held);
	assert_int_equal(list_one(c, "q").rows[0].messages, 1);
	assert_true(turn(c, "new", new.fence, true, 60000).held);
}

static void st14_who_starts_again_need_not_wait_for_itself(void **state)
{
	struct ct *c = *state;
	int64_t first = begin(c), second = begin(c);

	assert_true(second > first);
	end(c, second);
}

static void a_turn_shows_the_queues_that_hold_something(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane l;
	struct qn_maintain_op op;
	struct qn_uuid q;
	bool seen = false;

	o.retention_s = 7;
	o.retention_enabled = true;
	configure(c, "empty", o);
	configure(c, "q", o);
	l = push(c, "a");
	push(c, "b");
	q = list_one(c, "q").rows[0].id;
	op = turn(c, "me", 0, false, 60000);
	for (uint32_t i = 0; i < op.queue_count; i++) {
		const struct qn_due_queue *due = &op.queues[i];

		assert_true(i == 0 || memcmp(&due[-1].id, &due->id, sizeof(due->id)) < 0);
		assert_false(same_id(due->id, list_one(c, "empty").rows[0].id));
		if (same_id(due->id, q)) {
			seen = true;
			assert_int_equal(due->options.retention_s, 7);
			assert_true(due->options.retention_enabled);
			assert_int_equal(due->live_us, l.created_at_us);
			assert_int_equal(due->hashes_us, l.created_at_us);
			assert_int_equal(due->idle_us, INT64_MAX);
		}
	}
	assert_true(seen);
	end(c, op.fence);
}

static void queues_come_in_pages(void **state)
{
	struct ct *c = *state;
	struct qn_maintain_op *op = ct_alloc(c, sizeof(*op));
	struct qn_uuid q;
	int64_t fence = begin(c);
	bool seen = false;

	push(c, "a");
	q = list_one(c, "q").rows[0].id;
	do {
		struct qn_uuid after = op->queue_count == 0 ? (struct qn_uuid){{0}} : op->queues[0].id;

		op = ct_alloc(c, sizeof(*op));
		*op = (struct qn_maintain_op){
			.holder = ct_span("me"), .fence = fence, .lease_ms = 60000, .after = after, .limit = 1};
		ct_maintain_op(c, op);
		assert_true(op->queue_count <= 1);
		assert_true(op->queue_count == 0 || memcmp(&op->queues[0].id, &after, sizeof(after)) > 0);
		seen = seen || (op->queue_count == 1 && same_id(op->queues[0].id, q));
	} while (op->queue_count > 0);
	assert_true(seen);
	end(c, fence);
}

/* ---- ST-15 ----------------------------------------------------------------------------------- */

static void st15_whole_segments_from_the_front(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane last;

	push_later(c, "a b");
	push_later(c, "d");
	last = push(c, "e f");
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, last.created_at_us, 10), 2);
	assert_int_equal(list_one(c, "q").rows[0].messages, 2);
	assert_int_equal(list_one(c, "q").rows[0].segments, 1);
	take(c, L1, 3, 4);
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, last.created_at_us, 10), 0);
}

static void st15_everything_may_go_and_offsets_go_on(void **state)
{
	struct ct *c = *state;

	push(c, "a b");
	assert_int_equal(sweep(c, QN_SWEEP_MAX_WAIT, 0, 10), 1);
	assert_int_equal(list_one(c, "q").rows[0].messages, 0);
	assert_int_equal(list_one(c, "q").rows[0].pending, 0);
	assert_int_equal(list_one(c, "q").lanes[0].newest_at_us, 0);
	assert_int_equal(claim(c, pop_of(c, L1)).lane_count, 0);
	assert_int_equal(push(c, "d").base_offset, 2);
	take(c, L1, 2, 2);
}

static void st15_a_step_is_bounded_and_a_walk_complete(void **state)
{
	struct ct *c = *state;
	struct qn_sweep_rule rule;
	const char *const partitions[] = {"p1", "p2", "p3"};
	int64_t fence;
	uint32_t deleted = 0, steps = 0;

	for (int i = 0; i < 12; i++) {
		const char id[] = {(char)('a' + i), '\0'};

		push_to(c, "q", partitions[i % 2 == 0 ? 0 : i % 3], id);
	}
	rule = rule_of(c, "q");
	fence = begin(c);
	for (; !rule.ended; steps++) {
		rule = step(c, fence, QN_SWEEP_RETENTION, rule, 4);
		deleted += rule.deleted;
	}
	end(c, fence);
	assert_int_equal(deleted, 12);
	assert_true(steps >= 3);
	assert_int_equal(list_one(c, "q").rows[0].segments, 0);
}

static void st15_one_queue_does_not_wait_for_another(void **state)
{
	struct ct *c = *state;
	struct qn_sweep_rule rules[2];
	struct qn_sweep_op op = {
		.lease_ms = 60000, .kind = QN_SWEEP_RETENTION, .batch = 2, .rules = rules, .rule_count = 2};

	for (int i = 0; i < 8; i++) {
		const char id[] = {(char)('a' + i), '\0'};

		push_to(c, "big", "p", id);
	}
	push_to(c, "small", "p", "a");
	rules[0] = rule_of(c, "big");
	rules[1] = rule_of(c, "small");
	op.fence = begin(c);
	ct_sweep_op(c, &op);
	assert_int_equal(rules[0].deleted, 1);
	assert_int_equal(rules[0].messages, 1);
	assert_false(rules[0].ended);
	assert_int_equal(rules[1].deleted, 1);
	end(c, op.fence);
}

static void st15_completed_stops_at_the_slowest_cursor(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop slow = pop_of(c, "");

	push(c, "a b");
	push(c, "d e");
	push(c, "f");
	assert_int_equal(sweep(c, QN_SWEEP_COMPLETED, 0, 10), 0);
	take(c, "", 0, 4);
	slow.group = ct_span("h");
	slow.budget = 3;
	assert_int_equal(claim(c, slow).lane_count, 1);
	assert_int_equal(sweep(c, QN_SWEEP_COMPLETED, 0, 10), 1);
	slow = claim(c, slow);
	assert_int_equal(slow.lanes[0].first_offset, 3);
	assert_int_equal(slow.lanes[0].slices[0].base_offset, 2);
	assert_int_equal(sweep(c, QN_SWEEP_COMPLETED, 0, 10), 2);
}

static void st15_a_lane_that_gives_nothing_stops_no_other(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, "");
	struct qn_sweep_rule rule;
	int64_t fence;

	ct_wait_until_us(push_to(c, "q", "slow", "a").created_at_us + 1);
	push_to(c, "q", "fast", "a");
	p.from = QN_CLAIM_LANE;
	p.partition = ct_span("fast");
	assert_int_equal(claim(c, p).lane_count, 1);
	rule = rule_of(c, "q");
	fence = begin(c);
	rule = step(c, fence, QN_SWEEP_COMPLETED, rule, 1);
	assert_int_equal(rule.lanes, 1);
	assert_int_equal(rule.deleted, 0);
	assert_false(rule.ended);
	rule = step(c, fence, QN_SWEEP_COMPLETED, rule, 1);
	assert_int_equal(rule.deleted, 1);
	rule = step(c, fence, QN_SWEEP_COMPLETED, rule, 1);
	assert_true(rule.ended);
	assert_int_equal(rule.lanes, 0);
	end(c, fence);
}

/* ---- leases and gaps --------------------------------------------------------------------------- */

static void leased_messages_go_and_their_acks_are_honest(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_settle_lane s;

	take(c, L1, 0, 1);
	assert_int_equal(sweep(c, QN_SWEEP_MAX_WAIT, 0, 10), 1);
	s = settle(c, ack_of(c, lane, L1, "a:d"));
	assert_true(s.needs_dead_letter);
	assert_false(s.poison.found);
	s = ack(c, lane, L1, "a:c b:c", "CC");
	assert_true(s.lease_released);
	assert_false(s.has_more);
	assert_int_equal(s.committed, 1);
}

static void a_batch_whose_head_went_is_delivered_from_what_is_left(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane last;
	struct qn_uuid lane = push_later(c, "a").lane_id;

	last = push(c, "b");
	take(c, L1, 0, 1);
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, last.created_at_us, 10), 1);
	ack(c, lane, L1, "a:r", "R");
	assert_int_equal(take(c, L2, 1, 1).attempt, 2);
	ack(c, lane, L2, "b:c", "C");
}

static void new_groups_start_behind_the_gap(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane last;

	push_later(c, "a");
	last = push_later(c, "b");
	push(c, "d");
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, last.created_at_us, 10), 1);
	assert_true(registers(c, "q", "g", QN_START_ALL, 0));
	take(c, L1, 1, 2);
}

/* ---- ST-16 ----------------------------------------------------------------------------------- */

static void st16_hashes_outlive_deleted_messages(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane l;

	push(c, "a b");
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, 0, 10), 1);
	l = push_lane(c, lane_of(c, "q", "p", "b"));
	assert_int_equal(l.status, QN_PUSH_DUPLICATE);
	assert_int_equal(l.dups[0].offset, 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	assert_int_equal(push(c, "b").base_offset, 2);
}

static void st16_hashes_of_what_may_still_be_acked_stay(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;

	push(c, "b");
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 0);
	take(c, L1, 0, 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 0);
	ack(c, lane, L1, "a:c", "C");
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	ack(c, lane, L1, "b:c", "C");
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	ack(c, lane, "", "b:c", "u");
	push(c, "b");
	take(c, L1, 2, 2);
	ack(c, lane, L1, "b:c", "C");
}

static void st16_many_hashes_go_and_the_rest_is_found(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = {{0}};

	for (int i = 0; i < 60; i++) {
		char ids[12];

		snprintf(ids, sizeof(ids), "x%d y%d", i, i);
		lane = push(c, ids).lane_id;
	}
	for (int i = 0; i < 30; i++) {
		struct qn_claim_pop p = pop_of(c, "");

		p.budget = 2;
		assert_int_equal(claim(c, p).lane_count, 1);
	}
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 7), 30);
	for (int i = 30; i < 60; i++) {
		char items[8];

		take(c, L1, 2 * i, 119);
		snprintf(items, sizeof(items), "x%d:c", i);
		ack(c, lane, L1, items, "C");
		snprintf(items, sizeof(items), "y%d:c", i);
		ack(c, lane, L1, items, "C");
		if (i < 59) {
			snprintf(items, sizeof(items), "x%d:r", i + 1);
			ack(c, lane, L1, items, "R");
		}
	}
}

/* ---- ST-17 ----------------------------------------------------------------------------------- */

static struct qn_uuid emptied(struct ct *c)
{
	struct qn_uuid lane = push(c, "a").lane_id;

	take(c, "", 0, 0);
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	return lane;
}

static void st17_an_empty_lane_goes_and_comes_back_anew(void **state)
{
	struct ct *c = *state;
	struct qn_uuid old = emptied(c);
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_push_lane l;

	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 1);
	assert_int_equal(list_one(c, "q").rows[0].partitions, 0);
	p.candidates = &old;
	p.candidate_count = 1;
	assert_int_equal(claim(c, p).verdicts[0].kind, QN_LANE_GONE);
	ack(c, old, "", "a:c", "n");
	l = lane_of(c, "q", "p", "a");
	l.partition_id = old;
	l.verified = 100;
	l = push_lane(c, l);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_int_equal(l.base_offset, 0);
	assert_false(same_id(l.lane_id, old));
	take(c, L1, 0, 0);
}

static void st17_what_was_verified_of_a_lane_says_nothing_of_its_successor(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane l;
	struct qn_uuid old = emptied(c);

	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 1);
	push(c, "a");
	l = lane_of(c, "q", "p", "a");
	l.partition_id = old;
	l.verified = 100;
	assert_int_equal(push_lane(c, l).status, QN_PUSH_DUPLICATE);
}

static void st17_messages_and_hashes_keep_a_lane(void **state)
{
	struct ct *c = *state;

	push(c, "a");
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 0);
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 0);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 1);
}

static void st17_a_recent_use_keeps_a_lane(void **state)
{
	struct ct *c = *state;
	int64_t written_us = push(c, "a").created_at_us;

	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, written_us - 3000000, 10), 0);
	/* A cursor that was made after the cut-off. */
	ct_wait_until_us(written_us + 1000000);
	assert_true(registers(c, "q", "g", QN_START_ALL, 0));
	assert_int_equal(sweep(c, QN_SWEEP_LANES, written_us + 1000000, 10), 0);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 1);
}

static void st17_a_live_lease_keeps_a_lane(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;

	take(c, L1, 0, 0);
	assert_int_equal(sweep(c, QN_SWEEP_MAX_WAIT, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 0);
	assert_int_equal(list_one(c, "q").lanes[0].total, 0);
	assert_true(same_id(list_one(c, "q").lanes[0].id, lane));
}

static void st17_dead_letters_keep_a_lane(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct qn_settle_lane s;

	take(c, L1, 0, 0);
	s = settle(c, ack_of(c, lane, L1, "a:d"));
	(void)bury(c, &s);
	assert_int_equal(sweep(c, QN_SWEEP_RETENTION, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_HASHES, 0, 10), 1);
	assert_int_equal(sweep(c, QN_SWEEP_LANES, 0, 10), 0);
	assert_int_equal(list_one(c, "q").rows[0].partitions, 1);
}

static void an_unknown_queue_is_no_error(void **state)
{
	struct ct *c = *state;
	int64_t fence = begin(c);
	struct qn_sweep_rule rule = {.cutoff_us = INT64_C(1) << 52};

	qn_uuid7(&rule.queue_id);
	for (enum qn_sweep_kind kind = QN_SWEEP_RETENTION; kind <= QN_SWEEP_LANES; kind++) {
		struct qn_sweep_rule got = step(c, fence, kind, rule, 10);

		assert_true(got.ended);
		assert_int_equal(got.lanes, 0);
	}
	rule.cutoff_us = 1;
	assert_true(step(c, fence, QN_SWEEP_BOOKS, rule, 10).ended);
	end(c, fence);
}

const struct CMUnitTest sweep_cases[] = {
	CASE(st14_one_holder_at_a_time),
	CASE(st14_a_silent_holder_is_replaced_and_deletes_nothing),
	CASE(st14_who_starts_again_need_not_wait_for_itself),
	CASE(a_turn_shows_the_queues_that_hold_something),
	CASE(queues_come_in_pages),
	CASE(st15_whole_segments_from_the_front),
	CASE(st15_everything_may_go_and_offsets_go_on),
	CASE(st15_a_step_is_bounded_and_a_walk_complete),
	CASE(st15_one_queue_does_not_wait_for_another),
	CASE(st15_completed_stops_at_the_slowest_cursor),
	CASE(st15_a_lane_that_gives_nothing_stops_no_other),
	CASE(leased_messages_go_and_their_acks_are_honest),
	CASE(a_batch_whose_head_went_is_delivered_from_what_is_left),
	CASE(new_groups_start_behind_the_gap),
	CASE(st16_hashes_outlive_deleted_messages),
	CASE(st16_hashes_of_what_may_still_be_acked_stay),
	CASE(st16_many_hashes_go_and_the_rest_is_found),
	CASE(st17_an_empty_lane_goes_and_comes_back_anew),
	CASE(st17_what_was_verified_of_a_lane_says_nothing_of_its_successor),
	CASE(st17_messages_and_hashes_keep_a_lane),
	CASE(st17_a_recent_use_keeps_a_lane),
	CASE(st17_a_live_lease_keeps_a_lane),
	CASE(st17_dead_letters_keep_a_lane),
	CASE(an_unknown_queue_is_no_error),
};
const size_t sweep_case_count = CT_COUNT(sweep_cases);
