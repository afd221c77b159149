/* SPDX-License-Identifier: Apache-2.0 */
/* When messages may be seen: delayedProcessing, windowBuffer, lease lengths, next_due_us; OP-4, OP-5. */
#include "storage_kit.h"

static const struct qn_storage_vt *vt(void)
{
	return (const struct qn_storage_vt *)(const void *)ct_service().vt;
}

static void delayed_messages_come_later(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane a;
	struct qn_claim_pop p;

	o.delayed_processing_s = 1;
	configure(c, "q", o);
	a = push(c, "a b");
	p = pop_of(c, L1);
	p.candidates = &a.lane_id;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(p.verdicts[0].kind, QN_LANE_LATER);
	assert_int_equal(p.verdicts[0].until_us, a.created_at_us + SECOND);
	assert_int_equal(p.next_due_us, a.created_at_us + SECOND);
	assert_int_equal(claim(c, pop_of(c, L1)).lane_count, 0);
	ct_wait_until_us(a.created_at_us + SECOND + 10000);
	push(c, "d");
	/* The tail that is too young is cut off. */
	take(c, L1, 0, 1);
}

static void a_window_waits_for_quiet(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane a, b;
	struct qn_claim_pop p;

	o.window_buffer_s = 1;
	configure(c, "q", o);
	a = push(c, "a");
	ct_wait_until_us(a.created_at_us + SECOND / 2);
	b = push(c, "b");
	p = pop_of(c, L1);
	p.candidates = &a.lane_id;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(p.verdicts[0].kind, QN_LANE_LATER);
	assert_int_equal(p.verdicts[0].until_us, b.created_at_us + SECOND);
	ct_wait_until_us(b.created_at_us + SECOND + 10000);
	take(c, L1, 0, 1);
}

static void options_act_on_what_is_stored(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();

	push(c, "a");
	o.delayed_processing_s = 3600;
	configure(c, "q", o);
	assert_int_equal(claim(c, pop_of(c, L1)).lane_count, 0);
	o.delayed_processing_s = 0;
	configure(c, "q", o);
	take(c, L1, 0, 0);
}

static void the_queue_says_how_long_a_lease_is(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_claim_pop p;
	int64_t now_us = qn_now_us(), lease_us;

	o.lease_time_s = 500;
	configure(c, "q", o);
	push_to(c, "q", "p1", "a");
	push_to(c, "q", "p2", "a");
	p = pop_of(c, L1);
	p.lease_s = 0;
	p = claim(c, p);
	lease_us = p.lanes[0].lease_expires_at_us - now_us;
	assert_in_range(lease_us, 500 * SECOND, 520 * SECOND);
	p = pop_of(c, L2);
	p.lease_s = 30;
	p = claim(c, p);
	lease_us = p.lanes[0].lease_expires_at_us - now_us;
	assert_in_range(lease_us, 30 * SECOND, 50 * SECOND);
}

static void the_next_due_time_is_the_earliest(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop first, second, p;

	push_to(c, "q", "p1", "a");
	push_to(c, "q", "p2", "a");
	assert_int_equal(claim(c, pop_of(c, L1)).lane_count, 1);
	second = pop_of(c, L2);
	second.lease_s = 20;
	second = claim(c, second);
	assert_int_equal(second.lane_count, 1);
	p = claim(c, pop_of(c, L1));
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(p.next_due_us, second.lanes[0].lease_expires_at_us);
	first = pop_of(c, L1);
	first.queue = ct_span("nothing");
	assert_int_equal(claim(c, first).next_due_us, 0);
}

static void st8_expiry_charges_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;
	struct qn_settle_lane s;

	o.retry_limit = 1;
	configure(c, "q", o);
	lane = push(c, "a").lane_id;
	for (int i = 0; i < 3; i++) {
		struct qn_claim_pop p = pop_of(c, i % 2 == 0 ? L1 : L2);

		p.lease_s = 1;
		p = claim(c, p);
		assert_int_equal(p.lane_count, 1);
		assert_int_equal(p.lanes[0].attempt, i + 1);
		ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	}
	assert_int_equal(take(c, L2, 0, 0).attempt, 4);
	ack(c, lane, L2, "a:f", "F");
	take(c, L1, 0, 0);
	s = ack(c, lane, L1, "a:f", "D");
	assert_int_equal(s.retry_count, 1);
}

static void start_and_cancel(void *op)
{
	vt()->ping(ct_service().self, op);
	vt()->cancel(ct_service().self, op);
}

static void start_ping(void *op)
{
	vt()->ping(ct_service().self, op);
}

static void op4_cancel_only_hurries(void **state)
{
	struct qn_ping_op op = {0};
	int rc = ct_run(&op.op, start_and_cancel, &op, NULL);

	(void)state;
	assert_true(rc == QN_OK || rc == QN_CANCELED);
	qn_arena_destroy(op.op.arena);
}

static void op5_a_deadline_ends_an_operation(void **state)
{
	struct qn_ping_op op = {0};
	int rc;

	(void)state;
	op.op.deadline_ms = qn_mono_ms() + 1;
	rc = ct_run(&op.op, start_ping, &op, NULL);
	assert_true(rc == QN_OK || rc == QN_TIMEOUT);
	qn_arena_destroy(op.op.arena);
	op = (struct qn_ping_op){0};
	op.op.deadline_ms = qn_mono_ms() + 30000;
	assert_int_equal(ct_run(&op.op, start_ping, &op, NULL), QN_OK);
	qn_arena_destroy(op.op.arena);
}

static void every_class_has_slots(void **state)
{
	struct qn_storage_slots s = vt()->slots(ct_service().self);

	(void)state;
	assert_true(s.push > 0 && s.claim > 0 && s.settle > 0 && s.query > 0);
}

/* ---- minPopWaitTime -------------------------------------------------------------------------- */

static struct qn_claim_pop held_pop(struct ct *c, int32_t budget)
{
	struct qn_claim_pop p = pop_of(c, L1);

	p.may_hold = true;
	p.budget = budget;
	p.max_lanes = 0;
	return p;
}

static void waits_for(struct ct *c, const char *queue, int32_t min_pop_wait_ms)
{
	struct qn_queue_options o = options_default();

	o.min_pop_wait_ms = min_pop_wait_ms;
	configure(c, queue, o);
}

static void a_batch_that_is_not_full_is_held(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;

	waits_for(c, "q", 700);
	push_to(c, "q", "p", "a b");
	push_to(c, "q", "p2", "a b d");
	p = claim(c, held_pop(c, 6));
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(p.hold_ms, 700);
	assert_int_equal(p.ready, 5);
	p = claim(c, held_pop(c, 5));
	assert_int_equal(p.hold_ms, 0);
	assert_int_equal(p.lane_count, 2);
}

static void a_pop_that_may_not_be_held_is_served(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = held_pop(c, 6);

	waits_for(c, "q", 700);
	push(c, "a b");
	p.may_hold = false;
	p = claim(c, p);
	assert_int_equal(p.hold_ms, 0);
	assert_int_equal(p.lane_count, 1);
}

static void nothing_is_held_where_nothing_is_ready(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;

	waits_for(c, "q", 700);
	assert_int_equal(claim(c, held_pop(c, 6)).hold_ms, 0);
	push(c, "a b");
	p = held_pop(c, 6);
	p.may_hold = false;
	assert_int_equal(claim(c, p).lane_count, 1);
	/* What is leased is not ready. */
	p = held_pop(c, 6);
	p.lease_id = ct_span(L2);
	p = claim(c, p);
	assert_int_equal(p.hold_ms, 0);
	assert_int_equal(p.lane_count, 0);
}

static void a_held_candidate_is_given_back(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = held_pop(c, 6);
	struct qn_push_lane l = push(c, "a b");

	waits_for(c, "q", 700);
	p.candidates = &l.lane_id;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.hold_ms, 700);
	assert_int_equal(p.verdict_count, 1);
	assert_int_equal(p.verdicts[0].kind, QN_LANE_BUSY);
}

static void one_queue_that_does_not_wait_is_enough(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_claim_pop p = held_pop(c, 6);

	o.name_space = ct_span("ns");
	o.min_pop_wait_ms = 900;
	configure(c, "q", o);
	o.min_pop_wait_ms = 300;
	configure(c, "q2", o);
	push_to(c, "q", "p", "a");
	push_to(c, "q2", "p", "a");
	p.from = QN_CLAIM_LABELS;
	p.queue = ct_span("");
	p.name_space = ct_span("ns");
	assert_int_equal(claim(c, p).hold_ms, 300);
	o.min_pop_wait_ms = 0;
	configure(c, "q2", o);
	p = claim(c, p);
	assert_int_equal(p.hold_ms, 0);
	assert_int_equal(p.lane_count, 2);
}

static void a_claim_tells_the_storages_time(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane l = push(c, "a");
	struct qn_claim_op *op = ct_alloc(c, sizeof(*op));
	struct qn_claim_pop p = pop_of(c, L1);

	op->pops = &p;
	op->pop_count = 1;
	ct_claim_op(c, op);
	assert_true(op->now_us >= l.created_at_us);
	assert_true(op->now_us < l.created_at_us + 60000000);
	assert_int_equal(p.lanes[0].lease_expires_at_us, op->now_us + QN_LEASE_IMPLICIT_S * INT64_C(1000000));
}

static void a_window_that_was_kept_is_not_judged_again(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane l = push(c, "a");
	struct qn_claim_pop p = pop_of(c, "");

	o.window_buffer_s = 1000;
	configure(c, "q", o);
	p.candidates = &l.lane_id;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(p.verdicts[0].kind, QN_LANE_LATER);
	p.window_kept = true;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	/* Only candidates were kept: a scan judges. */
	(void)push(c, "b");
	p.candidates = NULL;
	p.candidate_count = 0;
	assert_int_equal(claim(c, p).lane_count, 0);
}

const struct CMUnitTest visible_cases[] = {
	CASE(a_window_that_was_kept_is_not_judged_again),
	CASE(a_batch_that_is_not_full_is_held),
	CASE(a_pop_that_may_not_be_held_is_served),
	CASE(nothing_is_held_where_nothing_is_ready),
	CASE(a_held_candidate_is_given_back),
	CASE(one_queue_that_does_not_wait_is_enough),
	CASE(a_claim_tells_the_storages_time),
	CASE(delayed_messages_come_later),
	CASE(a_window_waits_for_quiet),
	CASE(options_act_on_what_is_stored),
	CASE(the_queue_says_how_long_a_lease_is),
	CASE(the_next_due_time_is_the_earliest),
	CASE(st8_expiry_charges_nothing),
	CASE(op4_cancel_only_hurries),
	CASE(op5_a_deadline_ends_an_operation),
	CASE(every_class_has_slots),
};
const size_t visible_case_count = CT_COUNT(visible_cases);
