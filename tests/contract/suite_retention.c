/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of kind retention: a pure function of options and time that fills every cut-off. Keeping
 * more than asked for is always allowed, deleting more never is: each case is an upper bound.
 */
#include "harness.h"

#include <qn/retention.h>

#define NOW_US INT64_C(1700000000000000)
#define SECOND INT64_C(1000000)
#define UNSET  INT64_C(0x5a5a5a5a5a5a5a5a)

static struct qn_cutoffs plan(const struct qn_queue_options *q, int64_t now_us)
{
	const struct qn_retention_vt *vt = (const struct qn_retention_vt *)(const void *)ct_service().vt;
	struct qn_cutoffs out = {UNSET, UNSET, UNSET, UNSET};

	vt->plan(ct_service().self, q, now_us, &out);
	return out;
}

static void every_cutoff_is_filled_and_past(void **state)
{
	struct qn_queue_options q = {.retention_enabled = true,
	                             .retention_s = 60,
	                             .completed_retention_s = 30,
	                             .max_wait_time_s = 90,
	                             .dedup_window_s = 3600};
	struct qn_cutoffs c = plan(&q, NOW_US);

	(void)state;
	assert_true(c.all_us <= NOW_US && c.completed_us <= NOW_US && c.max_wait_us <= NOW_US && c.hashes_us <= NOW_US);
}

static void no_option_keeps_all_messages(void **state)
{
	struct qn_queue_options q = {.dedup_window_s = 3600};
	struct qn_cutoffs c = plan(&q, NOW_US);

	(void)state;
	assert_int_equal(c.all_us, QN_KEEP_ALL);
	assert_int_equal(c.completed_us, QN_KEEP_ALL);
	assert_int_equal(c.max_wait_us, QN_KEEP_ALL);
}

static void seconds_without_the_flag_keep_all(void **state)
{
	struct qn_queue_options q = {.retention_s = 60, .completed_retention_s = 30};
	struct qn_cutoffs c = plan(&q, NOW_US);

	(void)state;
	assert_int_equal(c.all_us, QN_KEEP_ALL);
	assert_int_equal(c.completed_us, QN_KEEP_ALL);
}

static void the_flag_without_seconds_keeps_all(void **state)
{
	struct qn_queue_options q = {.retention_enabled = true};
	struct qn_cutoffs c = plan(&q, NOW_US);

	(void)state;
	assert_int_equal(c.all_us, QN_KEEP_ALL);
	assert_int_equal(c.completed_us, QN_KEEP_ALL);
	assert_int_equal(c.max_wait_us, QN_KEEP_ALL);
}

static void nothing_goes_before_its_time(void **state)
{
	struct qn_queue_options q = {
		.retention_enabled = true, .retention_s = 60, .completed_retention_s = 30, .max_wait_time_s = 90};
	struct qn_cutoffs c = plan(&q, NOW_US);

	(void)state;
	assert_true(c.all_us <= NOW_US - 60 * SECOND);
	assert_true(c.completed_us <= NOW_US - 30 * SECOND);
	assert_true(c.max_wait_us <= NOW_US - 90 * SECOND);
}

static void hashes_outlive_every_window_that_needs_them(void **state)
{
	struct qn_queue_options q = {.dedup_window_s = 0};

	(void)state;
	assert_true(plan(&q, NOW_US).hashes_us <= NOW_US - 900 * SECOND);
	q.dedup_window_s = 7200;
	assert_true(plan(&q, NOW_US).hashes_us <= NOW_US - 7200 * SECOND);
	q.completed_retention_s = 86400;
	assert_true(plan(&q, NOW_US).hashes_us <= NOW_US - 86400 * SECOND);
}

static void it_is_a_function(void **state)
{
	struct qn_queue_options q = {.retention_enabled = true,
	                             .retention_s = 315360000,
	                             .completed_retention_s = 315360000,
	                             .max_wait_time_s = 315360000,
	                             .dedup_window_s = 315360000};
	struct qn_cutoffs a = plan(&q, NOW_US), b = plan(&q, NOW_US);

	(void)state;
	assert_memory_equal(&a, &b, sizeof(a));
	b = plan(&q, 0);
	assert_true(b.all_us <= 0 && b.completed_us <= 0 && b.max_wait_us <= 0 && b.hashes_us <= 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(every_cutoff_is_filled_and_past),
		cmocka_unit_test(no_option_keeps_all_messages),
		cmocka_unit_test(seconds_without_the_flag_keep_all),
		cmocka_unit_test(the_flag_without_seconds_keeps_all),
		cmocka_unit_test(nothing_goes_before_its_time),
		cmocka_unit_test(hashes_outlive_every_window_that_needs_them),
		cmocka_unit_test(it_is_a_function),
	};
	int failed;

	ct_open("retention", argc, argv);
	failed = cmocka_run_group_tests_name("retention", cases, NULL, NULL);
	ct_close();
	return failed;
}
