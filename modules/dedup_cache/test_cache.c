/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache alone, with a clock that the test moves: what it vouches for after gaps, overlaps,
 * readings, widenings and expiry, and that it stays below its cap by evicting only who is idle.
 */
#include "test_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define T0     INT64_C(1700000000000000)
#define WINDOW 3600
#define MIB    ((size_t)1 << 20)

static struct qn_dc c;

static void open_cache(size_t cap)
{
	struct qn_error e = {0};

	memset(&c, 0, sizeof(c));
	c.host = &th_host;
	assert_int_equal(qn_dc_open(&c, cap, &e), QN_OK);
}

static int setup(void **state)
{
	(void)state;
	th_mono_ms = 1000000;
	open_cache(64 * MIB);
	return 0;
}

/* Nothing is left, whatever a case did. */
static int teardown(void **state)
{
	(void)state;
	qn_dc_close(&c);
	assert_int_equal(c.used, 0);
	assert_int_equal(th_bytes, 0);
	return 0;
}

static struct qn_span hashes(uint64_t first, uint32_t count)
{
	static uint8_t bytes[65536 * QN_HASH_BYTES];

	assert_true(count <= 65536);
	for (uint32_t i = 0; i < count; i++) {
		th_hash(first + i, bytes + (size_t)i * QN_HASH_BYTES);
	}
	return (struct qn_span){bytes, (size_t)count * QN_HASH_BYTES};
}

/* Offset o of a lane holds hash o, unless a case says otherwise. */
static void learn_as(uint64_t lane, int64_t base, uint64_t first, uint32_t count, int64_t at_us, int32_t window_s)
{
	struct qn_uuid id = th_lane(lane);

	qn_dc_learn(&c, &id, base, hashes(first, count), at_us, window_s);
}

static void learn(uint64_t lane, int64_t base, uint32_t count, int64_t at_us)
{
	learn_as(lane, base, (uint64_t)base, count, at_us, WINDOW);
}

static int64_t since;

static int64_t ask(uint64_t lane, uint64_t hash, int64_t now_us)
{
	struct qn_uuid id = th_lane(lane);

	since = -1;
	return qn_dc_watermark(&c, &id, hashes(hash, 1), now_us, &since);
}

static const uint64_t NEW = 1 << 30;

static void expire(int64_t now_us)
{
	c.now_us = now_us;
	qn_dc_expire(&c, UINT32_MAX);
}

static bool due(struct qn_dedup_read *r)
{
	return qn_dc_read_due(&c, r);
}

/* Answers a read with rows of one message each for offsets [from, until). */
static void answer(const struct qn_dedup_read *r, int64_t from, int64_t until, int64_t at_us, int64_t last, bool more)
{
	static uint8_t bytes[8192 * QN_HASH_BYTES];
	static struct qn_hash_row rows[8192];
	struct qn_hashes_op page = {.found = true,
	                            .more = more,
	                            .last_offset = last,
	                            .since_us = at_us - WINDOW * QN_DC_SECOND_US,
	                            .dedup_window_s = WINDOW,
	                            .rows = rows,
	                            .row_count = (uint32_t)(until - from)};

	assert_true(until - from <= 8192);
	for (int64_t o = from; o < until; o++) {
		uint8_t *h = bytes + (o - from) * QN_HASH_BYTES;

		th_hash((uint64_t)o, h);
		rows[o - from] = (struct qn_hash_row){o, at_us, 1, {h, QN_HASH_BYTES}};
	}
	qn_dc_read_page(&c, r, &page);
}

static void a_lane_seen_from_its_first_message_is_complete(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 0, 10, T0);
	learn(1, 10, 5, T0 + 1);
	assert_int_equal(ask(1, NEW, T0), 14);
	assert_int_equal(since, 0);
	assert_int_equal(ask(1, 14, T0), -1);
	assert_int_equal(ask(1, 0, T0), -1);
	assert_false(due(&r));
}

static void every_hash_of_many_runs_is_found_and_no_other(void **state)
{
	int64_t base = 0;

	(void)state;
	for (uint32_t n = 1; base < 300000; n = n * 7 % 4099) {
		learn(1, base, n, T0 + base);
		base += n;
	}
	for (uint64_t i = 0; i < (uint64_t)base; i += 3) {
		assert_int_equal(ask(1, i, T0), -1);
		assert_int_equal(ask(1, NEW + i, T0), base - 1);
	}
}

static void hashes_that_were_chosen_to_look_alike_are_told_apart(void **state)
{
	static uint8_t bytes[5000 * QN_HASH_BYTES];
	struct qn_uuid id = th_lane(1);
	struct qn_span one = {bytes, QN_HASH_BYTES};

	(void)state;
	/* All halves but the last four bytes are equal, so they all lie at one place of the order. */
	memset(bytes, 0x55, sizeof(bytes));
	for (uint32_t i = 0; i < 5000; i++) {
		memcpy(bytes + (size_t)i * QN_HASH_BYTES + 12, &(uint32_t){i * 2}, 4);
	}
	qn_dc_learn(&c, &id, 0, (struct qn_span){bytes, sizeof(bytes)}, T0, WINDOW);
	for (uint32_t i = 0; i < 10000; i++) {
		memcpy(bytes + 12, &i, 4);
		assert_int_equal(qn_dc_watermark(&c, &id, one, T0, &since), i % 2 == 0 ? -1 : 4999);
	}
}

static void a_gap_is_read_back(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 0, 10, T0);
	learn(1, 15, 5, T0);
	assert_false(due(&r)); /* nobody has asked yet */
	assert_int_equal(ask(1, NEW, T0), 9);
	assert_int_equal(ask(1, 17, T0), -1);
	assert_int_equal(ask(1, 3, T0), -1);
	assert_true(due(&r));
	assert_int_equal(r.after_offset, 9);
	assert_false(due(&r));
	/* Meanwhile the lane goes on. */
	learn(1, 20, 5, T0);
	assert_int_equal(ask(1, NEW, T0), 9);
	answer(&r, 10, 20, T0, 19, false);
	assert_int_equal(ask(1, NEW, T0), 24);
	assert_int_equal(ask(1, 12, T0), -1);
	assert_int_equal(ask(1, 22, T0), -1);
	assert_false(due(&r));
}

static void a_past_is_read_page_by_page(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 10000, 10, T0);
	assert_int_equal(ask(1, NEW, T0), -1);
	assert_true(due(&r));
	assert_int_equal(r.after_offset, -1);
	answer(&r, 1000, 5000, T0 - 10, 10009, true);
	assert_int_equal(ask(1, NEW, T0), 4999);
	assert_int_equal(since, T0 - 10 - WINDOW * QN_DC_SECOND_US);
	assert_true(due(&r));
	assert_int_equal(r.after_offset, 4999);
	answer(&r, 5000, 10010, T0 - 5, 10009, false);
	assert_int_equal(ask(1, NEW, T0), 10009);
	assert_int_equal(since, T0 - 5 - WINDOW * QN_DC_SECOND_US);
	assert_int_equal(ask(1, 1000, T0), -1);
	assert_int_equal(ask(1, 9999, T0), -1);
	assert_int_equal(ask(1, 999, T0), 10009);
}

static void pages_for_what_is_gone_are_dropped(void **state)
{
	struct qn_dedup_read r, again;
	struct qn_uuid id = th_lane(1);

	(void)state;
	learn(1, 100, 10, T0);
	(void)ask(1, NEW, T0);
	assert_true(due(&r));
	qn_dc_lane_drop(&c, qn_dc_lane_find(&c, &id));
	answer(&r, 0, 100, T0, 109, false);
	assert_int_equal(ask(1, NEW, T0), -1);
	learn(1, 200, 10, T0);
	answer(&r, 0, 100, T0, 109, false);
	assert_int_equal(ask(1, NEW, T0), -1);
	assert_true(due(&again));
	answer(&r, 0, 200, T0, 209, false);
	assert_int_equal(ask(1, NEW, T0), -1);
	answer(&again, 0, 200, T0, 209, false);
	assert_int_equal(ask(1, NEW, T0), 209);
}

static void a_failed_read_comes_again_later(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 100, 10, T0);
	(void)ask(1, NEW, T0);
	assert_true(due(&r));
	qn_dc_read_page(&c, &r, NULL);
	(void)ask(1, NEW, T0);
	assert_false(due(&r));
	th_mono_ms += QN_DC_READ_RETRY_S * 1000;
	(void)ask(1, NEW, T0);
	assert_true(due(&r));
}

static void a_lane_written_in_turns_is_not_read_all_the_time(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 0, 10, T0);
	learn(1, 12, 1, T0);
	(void)ask(1, NEW, T0);
	assert_true(due(&r));
	answer(&r, 10, 12, T0, 12, false);
	learn(1, 20, 1, T0);
	assert_int_equal(ask(1, NEW, T0), 12);
	assert_false(due(&r));
	learn(1, 30, 1, T0);
	assert_int_equal(ask(1, NEW, T0), 12);
	assert_int_equal(ask(1, 20, T0), 12); /* forgotten with the tail, behind the watermark */
	th_mono_ms += QN_DC_READ_PAUSE_S * 1000;
	(void)ask(1, NEW, T0);
	assert_true(due(&r));
	answer(&r, 13, 31, T0, 30, false);
	assert_int_equal(ask(1, NEW, T0), 30);
	assert_int_equal(ask(1, 20, T0), -1);
}

static void what_comes_late_fills_its_gap(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn(1, 0, 10, T0);
	learn(1, 15, 5, T0 + 2);
	learn(1, 12, 3, T0 + 1); /* not what comes next: it stays to be read */
	assert_int_equal(ask(1, NEW, T0), 9);
	learn(1, 10, 2, T0);
	assert_int_equal(ask(1, NEW, T0), 11);
	learn(1, 12, 3, T0 + 1);
	assert_int_equal(ask(1, NEW, T0), 19);
	assert_int_equal(ask(1, 11, T0), -1);
	assert_int_equal(ask(1, 13, T0), -1);
	assert_false(due(&r));
}

static void an_overlap_begins_the_lane_anew(void **state)
{
	(void)state;
	learn(1, 0, 100, T0);
	learn_as(1, 0, 500, 10, T0, WINDOW);
	assert_int_equal(ask(1, 50, T0), 9);
	learn_as(1, 5, 600, 10, T0, WINDOW);
	assert_int_equal(ask(1, NEW, T0), -1);
}

static void the_clock_alone_expires(void **state)
{
	const int64_t out = WINDOW * QN_DC_SECOND_US + QN_DC_SLACK_US;
	size_t empty = c.used;

	(void)state;
	for (uint64_t lane = 0; lane < 1000; lane++) {
		learn(lane, 0, 3, T0);
	}
	expire(T0 + out - QN_DC_SECOND_US);
	assert_int_equal(c.lane_count, 1000);
	expire(T0 + out + 2 * QN_DC_SECOND_US);
	assert_int_equal(c.lane_count, 0);
	assert_int_equal(c.used, empty);
}

static void a_tick_looks_at_no_more_than_its_share(void **state)
{
	(void)state;
	for (uint64_t lane = 0; lane < 1000; lane++) {
		learn(lane, 0, 1, T0);
	}
	c.now_us = T0 + 2 * WINDOW * QN_DC_SECOND_US;
	qn_dc_expire(&c, 100);
	assert_int_equal(c.lane_count, 900);
	for (int i = 0; i < 9; i++) {
		qn_dc_expire(&c, 100);
	}
	assert_int_equal(c.lane_count, 0);
}

static void what_expired_is_not_vouched_for(void **state)
{
	int64_t now = T0;

	(void)state;
	for (int64_t i = 0; i < 2 * WINDOW; i += 10) {
		now = T0 + i * QN_DC_SECOND_US;
		learn(1, i / 10, 1, now);
		expire(now);
		assert_int_equal(ask(1, NEW, now), i / 10);
		/* Whatever is gone is older than what the watermark is said to be good for; nothing of the window is gone. */
		assert_true(since <= now - WINDOW * QN_DC_SECOND_US);
	}
	for (int64_t i = WINDOW; i < 2 * WINDOW; i += 10) {
		assert_int_equal(ask(1, (uint64_t)i / 10, now), -1);
	}
	assert_true(since > T0);
	assert_int_equal(ask(1, 0, now), 2 * WINDOW / 10 - 1);
	/* An eighth of the window, at most, is kept longer than needed. */
	assert_int_equal(ask(1, (WINDOW - WINDOW / 8 - 60) / 10, now), 2 * WINDOW / 10 - 1);
}

static void a_gap_that_grew_older_than_the_window_is_none(void **state)
{
	const int64_t later = T0 + (WINDOW + 20) * QN_DC_SECOND_US;

	(void)state;
	learn(1, 100, 10, T0);
	learn(1, 110, 10, T0 + 100 * QN_DC_SECOND_US);
	assert_int_equal(ask(1, NEW, T0), -1);
	expire(later);
	assert_int_equal(ask(1, NEW, later), 119);
	assert_true(since > T0 && since <= later - WINDOW * QN_DC_SECOND_US);
	assert_int_equal(ask(1, 115, later), -1);
}

static void widening_makes_the_lane_incomplete_and_narrowing_expires(void **state)
{
	struct qn_dedup_read r;
	int64_t now = T0 + 100 * QN_DC_SECOND_US;

	(void)state;
	learn_as(1, 0, 0, 10, T0, 60);
	learn_as(1, 10, 10, 10, now, 60);
	expire(now);
	assert_int_equal(ask(1, 5, now), 19); /* expired */
	learn_as(1, 20, 20, 1, now, 120);
	assert_int_equal(ask(1, NEW, now), -1);
	assert_true(due(&r));
	assert_int_equal(r.after_offset, -1);
	answer(&r, 0, 21, now, 20, false);
	assert_int_equal(ask(1, 5, now), -1);
	assert_int_equal(ask(1, NEW, now), 20);
	learn_as(1, 21, 21, 1, now + 20 * QN_DC_SECOND_US, 10);
	expire(now + 20 * QN_DC_SECOND_US);
	assert_int_equal(ask(1, 5, now + 20 * QN_DC_SECOND_US), 21);
	assert_int_equal(ask(1, 21, now + 20 * QN_DC_SECOND_US), -1);
}

static void widening_before_anything_expired_costs_nothing(void **state)
{
	(void)state;
	learn_as(1, 0, 0, 10, T0, 60);
	learn_as(1, 10, 10, 10, T0 + 1, 6000);
	assert_int_equal(ask(1, NEW, T0), 19);
	assert_int_equal(ask(1, 5, T0), -1);
}

static void window_zero_remembers_nothing(void **state)
{
	struct qn_dedup_read r;

	(void)state;
	learn_as(1, 0, 0, 10, T0, WINDOW);
	learn_as(1, 10, 10, 10, T0, 0);
	assert_int_equal(c.lane_count, 0);
	learn_as(1, 20, 20, 10, T0, WINDOW);
	assert_int_equal(ask(1, NEW, T0), -1);
	assert_true(due(&r));
}

static void a_clock_that_was_set_back_does_not_stop_expiry(void **state)
{
	const int64_t back = T0 - 7200 * QN_DC_SECOND_US;

	(void)state;
	learn(1, 0, 1, T0);
	expire(T0 + 10 * QN_DC_SECOND_US);
	learn(2, 0, 1, back);
	expire(back);
	expire(back + (WINDOW + 10) * QN_DC_SECOND_US);
	assert_int_equal(c.lane_count, 1);
	expire(T0 + (WINDOW + 10) * QN_DC_SECOND_US);
	assert_int_equal(c.lane_count, 0);
}

static void the_cap_holds_and_a_lane_beyond_it_falls_back(void **state)
{
	(void)state;
	qn_dc_close(&c);
	open_cache(2 * MIB);
	th_most = 0;
	for (int64_t base = 0; base < 400000; base += 100) {
		learn(1, base, 100, T0 + base);
		assert_true(c.used <= c.cap && th_bytes <= c.cap);
	}
	/* It was evicted once it did not fit, and is not taken back for a while. */
	assert_true(c.evictions >= 1);
	assert_int_equal(c.evictions, 1);
	assert_int_equal(ask(1, NEW, T0), -1);
	assert_int_equal(c.lane_count, 0);
	th_mono_ms += QN_DC_SUPPRESS_S * 1000;
	learn(1, 400000, 100, T0);
	assert_int_equal(c.lane_count, 1);
	assert_true(th_most <= c.cap);
}

static void a_lane_too_large_to_read_back_is_given_up(void **state)
{
	struct qn_dedup_read r;
	int pages = 0;

	(void)state;
	qn_dc_close(&c);
	open_cache(2 * MIB);
	learn(1, 1000000, 1, T0);
	(void)ask(1, NEW, T0);
	while (due(&r)) {
		answer(&r, r.after_offset + 1, r.after_offset + 8193, T0, 1000000, true);
		pages++;
		assert_true(th_bytes <= c.cap);
	}
	assert_in_range(pages, 5, 20);
	assert_int_equal(c.lane_count, 0);
}

static void only_idle_lanes_make_room_least_recent_first(void **state)
{
	uint64_t lane = 0;
	int64_t first_idle;

	(void)state;
	qn_dc_close(&c);
	open_cache(1 * MIB);
	for (uint64_t before = UINT64_MAX; before != c.lane_count; lane++) {
		before = c.lane_count;
		learn(lane, 0, 50, T0);
	}
	/* Full, and everybody was just used: the last one was not taken. */
	assert_int_equal(c.evictions, 0);
	assert_int_equal(ask(lane - 1, NEW, T0), -1);
	th_mono_ms += QN_DC_IDLE_S * 1000;
	assert_int_equal(ask(0, NEW, T0), 49);
	learn(lane, 0, 50, T0);
	assert_int_equal(ask(lane, NEW, T0), 49);
	assert_true(c.evictions > 0);
	first_idle = ask(1, NEW, T0);
	assert_int_equal(first_idle, -1);
	assert_int_equal(ask(0, NEW, T0), 49);
	assert_true(c.used <= c.cap);
}

static void the_count_is_what_malloc_takes(void **state)
{
	(void)state;
	for (uint64_t lane = 0; lane < 2000; lane++) {
		learn(lane, lane % 3 == 0 ? 5 : 0, (uint32_t)(lane % 700) + 1, T0);
	}
	/* Alignment of large chunks apart. */
	assert_in_range(th_bytes, c.used - c.used / 50, c.used + c.used / 100);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE(a_lane_seen_from_its_first_message_is_complete),
		CASE(every_hash_of_many_runs_is_found_and_no_other),
		CASE(hashes_that_were_chosen_to_look_alike_are_told_apart),
		CASE(a_gap_is_read_back),
		CASE(a_past_is_read_page_by_page),
		CASE(pages_for_what_is_gone_are_dropped),
		CASE(a_failed_read_comes_again_later),
		CASE(a_lane_written_in_turns_is_not_read_all_the_time),
		CASE(what_comes_late_fills_its_gap),
		CASE(an_overlap_begins_the_lane_anew),
		CASE(the_clock_alone_expires),
		CASE(a_tick_looks_at_no_more_than_its_share),
		CASE(what_expired_is_not_vouched_for),
		CASE(a_gap_that_grew_older_than_the_window_is_none),
		CASE(widening_makes_the_lane_incomplete_and_narrowing_expires),
		CASE(widening_before_anything_expired_costs_nothing),
		CASE(window_zero_remembers_nothing),
		CASE(a_clock_that_was_set_back_does_not_stop_expiry),
		CASE(the_cap_holds_and_a_lane_beyond_it_falls_back),
		CASE(a_lane_too_large_to_read_back_is_given_up),
		CASE(only_idle_lanes_make_room_least_recent_first),
		CASE(the_count_is_what_malloc_takes),
	};

	return cmocka_run_group_tests_name("dedup_cache", cases, NULL, NULL);
}
