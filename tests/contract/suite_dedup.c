/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of kind dedup: DD-1 to DD-4. -1 is always right, so every rule says what a watermark must
 * not be; a module that always says -1 passes.
 */
#include "harness.h"

#include <qn/dedup.h>

#define NOW_US INT64_C(1700000000000000)
#define SECOND INT64_C(1000000)
#define WINDOW 3600

struct lane {
	struct qn_uuid id;
};

static const struct qn_dedup_vt *vt(void)
{
	return (const struct qn_dedup_vt *)(const void *)ct_service().vt;
}

static void *self(void)
{
	return ct_service().self;
}

/* Hashes numbered from `first`; those of equal numbers are equal. */
static struct qn_span hashes(unsigned first, unsigned count)
{
	static uint8_t out[4096 * 16];

	assert_true(count <= 4096);
	for (unsigned i = 0; i < count; i++) {
		unsigned id = first + i;

		qn_hash128((struct qn_span){&id, sizeof(id)}, out + (size_t)i * 16);
	}
	return (struct qn_span){out, (size_t)count * 16};
}

static int64_t watermark(const struct lane *l, unsigned first, unsigned count, int64_t now_us)
{
	int64_t since_us = INT64_MAX;
	int64_t w = vt()->watermark(self(), &l->id, hashes(first, count), now_us, &since_us);

	/* Nothing these cases learn is older than NOW_US, and most of it is inside the window. */
	assert_true(w == -1 || since_us <= (now_us > NOW_US + WINDOW * SECOND ? now_us - WINDOW * SECOND : NOW_US));
	return w;
}

static void learn(const struct lane *l, int64_t base, unsigned first, unsigned count, int64_t at_us)
{
	vt()->learn(self(), &l->id, base, hashes(first, count), at_us, WINDOW);
}

static int setup(void **state)
{
	static struct lane l;

	qn_uuid7(&l.id);
	*state = &l;
	return 0;
}

static int teardown(void **state)
{
	vt()->forget(self(), &((struct lane *)*state)->id);
	return 0;
}

static void dd1_nothing_is_known_of_a_lane_never_seen(void **state)
{
	const struct lane nil = {{{0}}};

	assert_int_equal(watermark(*state, 1, 10, NOW_US), -1);
	assert_int_equal(watermark(&nil, 1, 10, NOW_US), -1);
}

static void dd1_no_more_is_vouched_for_than_was_learned(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 10, NOW_US);
	assert_true(watermark(l, 100, 5, NOW_US) <= 9);
	learn(l, 10, 10, 10, NOW_US);
	assert_true(watermark(l, 100, 5, NOW_US) <= 19);
}

static void dd1_a_lane_first_seen_in_its_middle_has_a_past(void **state)
{
	const struct lane *l = *state;

	/* Offsets 0 to 99 were stored before we looked, and are inside the window. */
	learn(l, 100, 0, 10, NOW_US);
	assert_int_equal(watermark(l, 500, 5, NOW_US + SECOND), -1);
}

static void dd2_a_repeated_hash_makes_it_minus_one(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 3000, NOW_US);
	learn(l, 3000, 3000, 3000, NOW_US);
	for (unsigned id = 0; id < 6000; id += 7) {
		assert_int_equal(watermark(l, id, 1, NOW_US + SECOND), -1);
	}
	/* One among many. */
	assert_int_equal(watermark(l, 5999, 10, NOW_US + SECOND), -1);
	assert_int_equal(watermark(l, 5999, 1, NOW_US + WINDOW * SECOND - SECOND), -1);
}

static void dd2_lanes_do_not_share_hashes(void **state)
{
	const struct lane *l = *state;
	struct lane other;

	qn_uuid7(&other.id);
	learn(l, 0, 0, 10, NOW_US);
	learn(&other, 0, 10, 10, NOW_US);
	assert_int_equal(watermark(&other, 15, 1, NOW_US), -1);
	assert_int_equal(watermark(l, 5, 1, NOW_US), -1);
	vt()->forget(self(), &other.id);
}

static void dd3_a_gap_never_raises_it(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 10, NOW_US);
	/* Another broker wrote 10 to 14. */
	learn(l, 15, 15, 10, NOW_US);
	assert_true(watermark(l, 500, 1, NOW_US + SECOND) <= 9);
	assert_int_equal(watermark(l, 16, 1, NOW_US + SECOND), -1);
	learn(l, 25, 25, 10, NOW_US);
	assert_true(watermark(l, 500, 1, NOW_US + SECOND) <= 9);
}

static void dd3_a_lane_that_began_again_is_another(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 100, NOW_US);
	learn(l, 0, 200, 10, NOW_US + SECOND);
	assert_true(watermark(l, 500, 1, NOW_US + SECOND) <= 9);
}

/* Answers a read with all messages of [0, count), message n having hash n, in one row. */
static void answer(const struct qn_dedup_read *r, unsigned count, int64_t at_us)
{
	struct qn_hash_row row = {.created_at_us = at_us, .count = count, .hashes = hashes(0, count)};
	struct qn_hashes_op page = {.found = true,
	                            .last_offset = count - 1,
	                            .since_us = at_us - WINDOW * SECOND,
	                            .dedup_window_s = WINDOW,
	                            .rows = &row,
	                            .row_count = 1};

	vt()->read_page(self(), r, &page);
}

static void dd1_what_is_read_back_is_compared(void **state)
{
	const struct lane *l = *state;
	struct qn_dedup_read r;

	learn(l, 100, 100, 10, NOW_US);
	(void)watermark(l, 500, 1, NOW_US);
	while (vt()->read_due(self(), &r)) {
		assert_memory_equal(&r.partition_id, &l->id, sizeof(l->id));
		assert_true(r.after_offset < 100 && r.byte_limit > 0);
		answer(&r, 110, NOW_US - SECOND);
	}
	assert_true(watermark(l, 500, 1, NOW_US) <= 109);
	for (unsigned id = 0; id < 110; id++) {
		assert_int_equal(watermark(l, id, 1, NOW_US), -1);
	}
}

static void dd1_a_failed_or_late_read_vouches_for_nothing(void **state)
{
	const struct lane *l = *state;
	struct qn_dedup_read r;

	learn(l, 100, 100, 10, NOW_US);
	(void)watermark(l, 500, 1, NOW_US);
	if (vt()->read_due(self(), &r)) {
		vt()->read_page(self(), &r, NULL);
		assert_int_equal(watermark(l, 500, 1, NOW_US), -1);
		vt()->forget(self(), &l->id);
		learn(l, 300, 300, 10, NOW_US);
		answer(&r, 110, NOW_US);
		assert_int_equal(watermark(l, 500, 1, NOW_US), -1);
	}
}

static void dd4_forgetting_leaves_nothing(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 10, NOW_US);
	vt()->forget(self(), &l->id);
	assert_int_equal(watermark(l, 500, 1, NOW_US), -1);
	assert_int_equal(watermark(l, 5, 1, NOW_US), -1);
	vt()->forget(self(), &l->id);
}

static void expiry_vouches_for_nothing_new(void **state)
{
	const struct lane *l = *state;

	learn(l, 0, 0, 10, NOW_US);
	learn(l, 10, 10, 10, NOW_US + WINDOW * SECOND);
	vt()->expire(self(), NOW_US + WINDOW * SECOND + 10 * SECOND);
	assert_true(watermark(l, 500, 1, NOW_US + WINDOW * SECOND + 10 * SECOND) <= 19);
	assert_int_equal(watermark(l, 15, 1, NOW_US + WINDOW * SECOND + 10 * SECOND), -1);
	vt()->expire(self(), NOW_US + 10 * WINDOW * SECOND);
	assert_true(watermark(l, 500, 1, NOW_US + 10 * WINDOW * SECOND) <= 19);
}

#define DD(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest cases[] = {
		DD(dd1_nothing_is_known_of_a_lane_never_seen),
		DD(dd1_no_more_is_vouched_for_than_was_learned),
		DD(dd1_a_lane_first_seen_in_its_middle_has_a_past),
		DD(dd2_a_repeated_hash_makes_it_minus_one),
		DD(dd2_lanes_do_not_share_hashes),
		DD(dd3_a_gap_never_raises_it),
		DD(dd3_a_lane_that_began_again_is_another),
		DD(dd1_what_is_read_back_is_compared),
		DD(dd1_a_failed_or_late_read_vouches_for_nothing),
		DD(dd4_forgetting_leaves_nothing),
		DD(expiry_vouches_for_nothing_new),
	};
	int failed;

	ct_open("dedup", argc, argv);
	failed = cmocka_run_group_tests_name("dedup", cases, NULL, NULL);
	ct_close();
	return failed;
}
