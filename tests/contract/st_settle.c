/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements beyond the decision table: stale leases, repetitions, the retry budget (ST-8, ST-9). */
#include "storage_kit.h"

#include <stdio.h>

static void an_unknown_lane_or_group_has_no_consumer(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id, nowhere;
	struct qn_settle_lane s;

	qn_uuid7(&nowhere);
	s = ack(c, nowhere, "", "a:c a:f", "nn");
	assert_int_equal(s.queue.n, 0);
	assert_int_equal(s.committed, -1);
	assert_false(s.has_more || s.lease_released || s.needs_dead_letter);
	ack(c, lane, "", "a:c", "n");
	take(c, L1, 0, 0);
	s = ack_of(c, lane, L1, "a:c");
	s.group = ct_span("h");
	s = settle(c, s);
	assert_string_equal(outcomes(c, &s), "n");
	s = ack_of(c, lane, L1, "a:c");
	qn_uuid7(&s.tenant);
	s = settle(c, s);
	assert_string_equal(outcomes(c, &s), "n");
	ack(c, lane, L1, "a:c", "C");
}

static void an_expired_lease_is_refused_and_none_is_accepted(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_settle_lane s;

	p.lease_s = 1;
	p = claim(c, p);
	push(c, "d");
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	s = ack(c, lane, L1, "a:c", "l");
	assert_int_equal(s.committed, -1);
	/* The batch is still on record: nothing beyond it can be acked. */
	ack(c, lane, "", "d:c", "u");
	s = ack(c, lane, "", "b:c", "C");
	assert_int_equal(s.committed, 1);
	take(c, L2, 2, 2);
}

static void a_zombie_cannot_ack_anothers_batch(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);

	p.lease_s = 1;
	p = claim(c, p);
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	take(c, L2, 0, 1);
	ack(c, lane, L1, "a:c b:f", "ll");
	ack(c, lane, L2, "b:c", "C");
}

static void repeating_an_ack_that_succeeded_is_a_noop(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;
	struct qn_settle_lane s;

	take(c, L1, 0, 2);
	assert_true(ack(c, lane, L1, "d:c", "C").lease_released);
	s = ack(c, lane, L1, "d:c a:c", "NN");
	assert_false(s.lease_released);
	assert_int_equal(s.committed, 2);
	/* Only what succeeded: a signal is late, and an id nobody knows was not stored. */
	ack(c, lane, L1, "d:f ghost:c", "ll");
	ack(c, lane, "", "d:c", "N");
	ack(c, lane, "", "d:f d:r d:d", "mmm");
	ack(c, lane, L2, "d:c", "l");
	/* Also while the next batch is out. */
	push(c, "e");
	take(c, L2, 3, 3);
	ack(c, lane, L1, "d:c", "N");
	ack(c, lane, L2, "e:c", "C");
}

static void without_a_batch_only_completed_items_act(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct qn_settle_lane s;

	take(c, "", 0, 0);
	push(c, "b d e");
	s = ack(c, lane, "", "d:f", "b");
	assert_int_equal(s.committed, 0);
	assert_true(s.has_more);
	ack(c, lane, "", "b:r", "b");
	ack(c, lane, "", "e:d ghost:f", "bu");
	s = ack(c, lane, "", "b:c", "C");
	assert_int_equal(s.committed, 1);
	assert_false(s.lease_released);
	s = ack(c, lane, "", "d:c e:f", "Cb");
	assert_int_equal(s.committed, 2);
	take(c, L1, 3, 3);
}

static void the_budget_is_spent_by_failed_only(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_settle_lane s;

	for (int i = 0; i < 6; i++) {
		assert_int_equal(take(c, L1, 0, 1).attempt, i + 1);
		ack(c, lane, L1, "a:r", "R");
	}
	for (int i = 0; i < 3; i++) {
		take(c, L1, 0, 1);
		ack(c, lane, L1, "a:f", "F");
	}
	assert_int_equal(take(c, L1, 0, 1).attempt, 10);
	s = ack(c, lane, L1, "a:f b:c", "DV");
	assert_int_equal(s.retry_count, 3);
	assert_int_equal(s.committed, -1);
	assert_true(s.needs_dead_letter);
}

static void a_completed_batch_gives_the_budget_back(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;

	o.retry_limit = 1;
	configure(c, "q", o);
	lane = push(c, "a").lane_id;
	take(c, L1, 0, 0);
	ack(c, lane, L1, "a:f", "F");
	assert_int_equal(take(c, L1, 0, 0).attempt, 2);
	ack(c, lane, L1, "a:c", "C");
	push(c, "b");
	assert_int_equal(take(c, L1, 1, 1).attempt, 1);
	ack(c, lane, L1, "b:f", "F");
	take(c, L1, 1, 1);
	ack(c, lane, L1, "b:f", "D");
}

static void the_rest_of_a_batch_keeps_its_count_of_deliveries(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;

	take(c, L1, 0, 2);
	ack(c, lane, L1, "a:c", "C");
	ack(c, lane, L1, "b:r", "R");
	assert_int_equal(take(c, L2, 1, 2).attempt, 2);
}

static void a_full_ack_above_partial_ones(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;

	take(c, L1, 0, 2);
	assert_int_equal(ack(c, lane, L1, "b:c", "C").committed, 1);
	ack(c, lane, L1, "a:c b:c a:f", "NNm");
	assert_true(ack(c, lane, L1, "d:c", "C").lease_released);
}

static void lanes_of_one_call_are_apart(void **state)
{
	struct ct *c = *state;
	struct qn_uuid p1 = push_to(c, "q", "p1", "a b").lane_id, p2 = push_to(c, "q", "p2", "a b").lane_id, nowhere;
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_settle_op *op = ct_alloc(c, sizeof(*op));

	qn_uuid7(&nowhere);
	p.max_lanes = 2;
	assert_int_equal(claim(c, p).lane_count, 2);
	op->lanes = ct_alloc(c, 3 * sizeof(*op->lanes));
	op->lane_count = 3;
	op->lanes[0] = ack_of(c, p1, L1, "b:c");
	op->lanes[1] = ack_of(c, nowhere, L1, "a:c");
	op->lanes[2] = ack_of(c, p2, L1, "a:c b:f");
	ct_settle_op(c, op);
	assert_string_equal(outcomes(c, &op->lanes[0]), "C");
	assert_string_equal(outcomes(c, &op->lanes[1]), "n");
	assert_string_equal(outcomes(c, &op->lanes[2]), "CF");
	assert_int_equal(op->lanes[0].committed, 1);
	assert_false(op->lanes[0].has_more);
	assert_int_equal(op->lanes[2].committed, 0);
	assert_true(op->lanes[2].has_more);
	assert_memory_equal(op->lanes[2].partition.p, "p2", 2);
}

static void groups_have_their_own_cursors_and_budgets(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct qn_claim_pop p = pop_of(c, L2);
	struct qn_settle_lane s;

	take(c, L1, 0, 0);
	p.group = ct_span("h");
	assert_int_equal(claim(c, p).lane_count, 1);
	ack(c, lane, L1, "a:f", "F");
	s = ack_of(c, lane, L2, "a:c");
	s.group = ct_span("h");
	s = settle(c, s);
	assert_string_equal(outcomes(c, &s), "C");
	assert_int_equal(take(c, L1, 0, 0).attempt, 2);
}

static void repeats_resolve_to_the_lowest_in_the_batch(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;

	o.dedup_window_s = 0;
	configure(c, "q", o);
	lane = push(c, "a b a b").lane_id;
	take(c, L1, 0, 3);
	assert_int_equal(ack(c, lane, L1, "a:c", "C").committed, 0);
	assert_int_equal(ack(c, lane, L1, "a:c", "C").committed, 2);
	assert_int_equal(ack(c, lane, L1, "a:c", "N").committed, 2);
}

/* "a0 a1 a2 ...": the ids of many messages. */
static const char *series(struct ct *c, char prefix, int count)
{
	const size_t width = 8;
	char *text = ct_alloc(c, (size_t)count * width), *at = text;

	for (int i = 0; i < count; i++) {
		at += snprintf(at, width, "%s%c%d", i == 0 ? "" : " ", prefix, i);
	}
	return text;
}

static void ids_are_found_however_far_from_the_cursor(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, "");
	struct qn_uuid lane = push(c, series(c, 'a', 3000)).lane_id;

	push(c, series(c, 'b', 3000));
	p.budget = 6000;
	p.budget_bytes = 1 << 24;
	assert_int_equal(claim(c, p).lane_count, 1);
	push(c, series(c, 'd', 3000));
	push(c, series(c, 'e', 3000));
	ack(c, lane, "", "b2999:c b1000:c a5:c a5:f none:c", "NNNmu");
	ack(c, lane, "", "a0:c a1:c a2:c a3:c b3:c b4:c b5:c b6:c b7:c x:c x:f y:r", "NNNNNNNNNuuu");
	/* Above without a batch: completing moves the cursor there, a signal needs a batch. */
	assert_int_equal(ack(c, lane, "", "e10:c e11:f a0:c d7:c", "CbNC").committed, 9010);
	ack(c, lane, "", "d7:c e10:c e12:c", "NNC");
}

/* The one above the cursor is meant, however near the other is. */
static void a_repeat_far_above_goes_before_one_just_below(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;

	o.dedup_window_s = 0;
	configure(c, "q", o);
	lane = push(c, "a b").lane_id;
	take(c, "", 0, 1);
	push(c, series(c, 'e', 3000));
	push(c, "a");
	ack(c, lane, "", "b:c", "N");
	assert_int_equal(ack(c, lane, "", "a:c", "C").committed, 3002);
}

const struct CMUnitTest settle_cases[] = {
	CASE(an_unknown_lane_or_group_has_no_consumer),
	CASE(an_expired_lease_is_refused_and_none_is_accepted),
	CASE(a_zombie_cannot_ack_anothers_batch),
	CASE(repeating_an_ack_that_succeeded_is_a_noop),
	CASE(without_a_batch_only_completed_items_act),
	CASE(the_budget_is_spent_by_failed_only),
	CASE(a_completed_batch_gives_the_budget_back),
	CASE(the_rest_of_a_batch_keeps_its_count_of_deliveries),
	CASE(a_full_ack_above_partial_ones),
	CASE(lanes_of_one_call_are_apart),
	CASE(groups_have_their_own_cursors_and_budgets),
	CASE(repeats_resolve_to_the_lowest_in_the_batch),
	CASE(ids_are_found_however_far_from_the_cursor),
	CASE(a_repeat_far_above_goes_before_one_just_below),
};
const size_t settle_case_count = CT_COUNT(settle_cases);
