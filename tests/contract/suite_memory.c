/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only storage_memory promises: its cap, and, with a clock that can be set forward, how long an
 * id can still be acked. Runs with max_mb = 1.
 */
#include "storage_kit.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t ahead_us; /* set by the test's thread, read by the engine's */

static int64_t shifted_now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * SECOND + t.tv_nsec / 1000 + atomic_load(&ahead_us);
}

static uint64_t mono_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void a_push_beyond_the_cap_fails_alone(void **state)
{
	static char big[700 * 1024];
	struct ct *c = *state;
	struct qn_push_op *op = ct_alloc(c, sizeof(*op));
	struct qn_delete_op gone = {.tenant = c->tenant, .queue = ct_span("q")};

	op->lanes = ct_alloc(c, 3 * sizeof(*op->lanes));
	op->lane_count = 3;
	op->lanes[0] = lane_of(c, "q", "p1", "a");
	op->lanes[1] = lane_of(c, "q", "p2", "a");
	op->lanes[2] = lane_of(c, "q", "p3", "a");
	op->lanes[0].blob = op->lanes[1].blob = (struct qn_span){big, sizeof(big)};
	ct_push_op(c, op);
	assert_int_equal(op->lanes[0].status, QN_PUSH_QUEUED);
	assert_int_equal(op->lanes[1].status, QN_PUSH_FAILED);
	assert_int_equal(op->lanes[1].error.code, QN_LIMIT);
	assert_int_equal(op->lanes[2].status, QN_PUSH_QUEUED);
	assert_int_equal(list_one(c, "q").rows[0].messages, 2);
	/* Deleting makes room. */
	ct_delete_op(c, &gone);
	assert_true(gone.existed);
	assert_int_equal(push_lane(c, op->lanes[1]).status, QN_PUSH_QUEUED);
	ct_delete_op(c, &gone);
}

static void acked_ids_are_known_for_the_longest_window(void **state)
{
	static const struct {
		int32_t dedup_s, completed_s, known_s;
	} rows[] = {{0, 0, 900}, {3600, 0, 3600}, {60, 7200, 7200}};
	struct ct *c = *state;

	for (size_t i = 0; i < CT_COUNT(rows); i++) {
		struct qn_queue_options o = options_default();
		struct qn_uuid lane;

		o.dedup_window_s = rows[i].dedup_s;
		o.completed_retention_s = rows[i].completed_s;
		configure(c, "q", o);
		lane = push_to(c, "q", i == 0 ? "p1" : i == 1 ? "p2" : "p3", "a").lane_id;
		(void)claim(c, pop_of(c, ""));
		ack(c, lane, "", "a:c", "N");
		atomic_fetch_add(&ahead_us, (rows[i].known_s - 5) * SECOND);
		ack(c, lane, "", "a:c a:f", "Nm");
		atomic_fetch_add(&ahead_us, 10 * SECOND);
		ack(c, lane, "", "a:c a:f", "uu");
	}
}

static void an_old_batch_can_still_be_acked(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;

	take(c, L1, 0, 0);
	atomic_fetch_add(&ahead_us, 100000 * SECOND);
	ack(c, lane, L1, "a:c", "l");
	ack(c, lane, "", "a:c", "C");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cases[] = {
		CASE(a_push_beyond_the_cap_fails_alone),
		CASE(acked_ids_are_known_for_the_longest_window),
		CASE(an_old_batch_can_still_be_acked),
	};
	int failed;

	qn_clock_replace(shifted_now_us, mono_ms);
	ct_open("storage", argc, argv);
	failed = cmocka_run_group_tests_name("memory", cases, NULL, NULL);
	ct_close();
	return failed;
}
