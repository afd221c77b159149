/* SPDX-License-Identifier: Apache-2.0 */
/* push and fetch: ST-1 to ST-5, ST-11, ST-12. */
#include "storage_kit.h"

static void st1_offsets_are_dense_and_time_never_goes_back(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push(c, "a b c"), b = push(c, "d"), d = push(c, "e f");

	assert_int_equal(a.base_offset, 0);
	assert_int_equal(b.base_offset, 3);
	assert_int_equal(d.base_offset, 4);
	assert_true(a.created_at_us <= b.created_at_us && b.created_at_us <= d.created_at_us);
	assert_true(same_id(a.lane_id, b.lane_id) && same_id(b.lane_id, d.lane_id));
	assert_int_equal(a.dedup_window_s, 3600);
}

static void st1_lanes_count_for_themselves(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push_to(c, "q", "p1", "a b"), b = push_to(c, "q", "p2", "a"),
			    d = push_to(c, "q2", "p1", "a");

	assert_int_equal(a.base_offset, 0);
	assert_int_equal(b.base_offset, 0);
	assert_int_equal(d.base_offset, 0);
	assert_false(same_id(a.lane_id, b.lane_id) || same_id(a.lane_id, d.lane_id));
	assert_int_equal(push_to(c, "q", "p1", "x").base_offset, 2);
}

static void st2_a_refused_lane_harms_no_other(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_op *op = ct_alloc(c, sizeof(*op));

	o.encryption_enabled = true;
	configure(c, "secret", o);
	push_to(c, "q", "p2", "seen");
	op->lanes = ct_alloc(c, 4 * sizeof(*op->lanes));
	op->lanes[0] = lane_of(c, "q", "p1", "a b");
	op->lanes[1] = lane_of(c, "secret", "p", "a");
	op->lanes[2] = lane_of(c, "q", "p2", "new seen");
	op->lanes[3] = lane_of(c, "q", "p3", "a b c");
	op->lane_count = 4;
	ct_push_op(c, op);
	assert_int_equal(op->lanes[0].status, QN_PUSH_QUEUED);
	assert_int_equal(op->lanes[1].status, QN_PUSH_UNSEALED);
	assert_int_equal(op->lanes[2].status, QN_PUSH_DUPLICATE);
	assert_int_equal(op->lanes[3].status, QN_PUSH_QUEUED);
	assert_int_equal(list_one(c, "q").rows[0].messages, 6);
	assert_int_equal(list_one(c, "secret").rows[0].messages, 0);
}

static void st3_a_duplicate_stops_the_lane_and_all_are_named(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane first = push(c, "a b c"), again;

	push(c, "d");
	again = push_lane(c, lane_of(c, "q", "p", "new c other a d"));
	assert_int_equal(again.status, QN_PUSH_DUPLICATE);
	assert_true(same_id(again.lane_id, first.lane_id));
	assert_int_equal(again.dedup_window_s, 3600);
	assert_int_equal(again.dup_count, 3);
	assert_int_equal(again.dups[0].index, 1);
	assert_int_equal(again.dups[0].offset, 2);
	assert_int_equal(again.dups[1].index, 3);
	assert_int_equal(again.dups[1].offset, 0);
	assert_int_equal(again.dups[2].index, 4);
	assert_int_equal(again.dups[2].offset, 3);
	assert_int_equal(push(c, "new other").base_offset, 4);
}

static void st3_an_id_is_its_lanes_own(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane foreign;

	push_to(c, "q", "p", "a");
	push_to(c, "q", "p2", "a");
	push_to(c, "q2", "p", "a");
	foreign = lane_of(c, "q", "p", "a");
	qn_uuid7(&foreign.tenant);
	foreign = push_lane(c, foreign);
	assert_int_equal(foreign.status, QN_PUSH_QUEUED);
	assert_int_equal(foreign.base_offset, 0);
	assert_int_equal(push_lane(c, lane_of(c, "q", "p", "a")).status, QN_PUSH_DUPLICATE);
}

static void st3_window_zero_is_off(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();

	o.dedup_window_s = 0;
	configure(c, "q", o);
	assert_int_equal(push(c, "a").base_offset, 0);
	assert_int_equal(push(c, "a a").base_offset, 1);
	assert_int_equal(push(c, "a").dedup_window_s, 0);
	o.dedup_window_s = 3600;
	configure(c, "q", o);
	assert_int_equal(push_lane(c, lane_of(c, "q", "p", "a")).dups[0].offset, 0);
}

static void st3_the_window_ends(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane first, second;

	o.dedup_window_s = 1;
	configure(c, "q", o);
	first = push(c, "a");
	assert_int_equal(push_lane(c, lane_of(c, "q", "p", "a")).status, QN_PUSH_DUPLICATE);
	ct_wait_until_us(first.created_at_us + SECOND + 10000);
	second = push(c, "a");
	assert_int_equal(second.base_offset, 1);
	/* Only the copy inside the window is the original now. */
	second = push_lane(c, lane_of(c, "q", "p", "a"));
	assert_int_equal(second.status, QN_PUSH_DUPLICATE);
	assert_int_equal(second.dup_count, 1);
	assert_int_equal(second.dups[0].offset, 1);
}

static void st3_a_watermark_only_shortens_the_search(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane l;

	struct qn_uuid id = push(c, "a b").lane_id;

	push(c, "d");
	l = lane_of(c, "q", "p", "e");
	l.partition_id = id;
	l.verified = 2;
	assert_int_equal(push_lane(c, l).base_offset, 3);
	l = lane_of(c, "q", "p", "d");
	l.partition_id = id;
	l.verified = 1;
	l = push_lane(c, l);
	assert_int_equal(l.status, QN_PUSH_DUPLICATE);
	assert_int_equal(l.dups[0].offset, 2);
	/* It is believed: the caller is the one who compared. */
	l = lane_of(c, "q", "p", "a");
	l.partition_id = id;
	l.verified = 1;
	assert_int_equal(push_lane(c, l).status, QN_PUSH_QUEUED);
}

static void st3_a_watermark_of_another_lane_is_not_believed(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane l;

	push(c, "a");
	l = lane_of(c, "q", "p", "a");
	l.verified = 5;
	l.partition_id = push_to(c, "q", "other", "x").lane_id;
	assert_int_equal(push_lane(c, l).status, QN_PUSH_DUPLICATE);
	l.partition_id = (struct qn_uuid){{0}};
	assert_int_equal(push_lane(c, l).status, QN_PUSH_DUPLICATE);
}

static void st3_a_watermark_must_reach_back_as_far_as_the_window(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane first = push(c, "a"), l = lane_of(c, "q", "p", "a");

	l.partition_id = first.lane_id;
	l.verified = 0;
	/* Compared with what a window of half an hour holds, and the window is an hour. */
	l.verified_since_us = first.created_at_us - 1800 * SECOND;
	assert_int_equal(push_lane(c, l).status, QN_PUSH_DUPLICATE);
	o.dedup_window_s = 1799;
	configure(c, "q", o);
	assert_int_equal(push_lane(c, l).status, QN_PUSH_QUEUED);
}

static struct qn_hashes_op hashes_of(struct ct *c, struct qn_uuid lane, int64_t after, int64_t limit)
{
	struct qn_hashes_op *op = ct_alloc(c, sizeof(*op));

	op->partition_id = lane;
	op->after_offset = after;
	op->byte_limit = limit;
	ct_hashes_op(c, op);
	return *op;
}

static void assert_row(struct ct *c, const struct qn_hash_row *row, const struct qn_push_lane *l, const char *ids)
{
	struct qn_push_lane same = lane_of(c, "q", "p", ids);

	assert_int_equal(row->base_offset, l->base_offset);
	assert_int_equal(row->created_at_us, l->created_at_us);
	assert_int_equal(row->count, same.count);
	assert_int_equal(row->hashes.n, same.hashes.n);
	assert_memory_equal(row->hashes.p, same.hashes.p, same.hashes.n);
}

static void hashes_come_back_in_pages(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push(c, "a b"), b = push(c, "d"), d = push(c, "e f g");
	struct qn_hashes_op all = hashes_of(c, a.lane_id, -1, 1 << 20), page;

	assert_true(all.found && !all.more);
	assert_int_equal(all.last_offset, 5);
	assert_int_equal(all.dedup_window_s, 3600);
	assert_true(all.since_us >= d.created_at_us - 3600 * SECOND && all.since_us <= qn_now_us() - 3599 * SECOND);
	assert_int_equal(all.row_count, 3);
	assert_row(c, &all.rows[0], &a, "a b");
	assert_row(c, &all.rows[1], &b, "d");
	assert_row(c, &all.rows[2], &d, "e f g");
	page = hashes_of(c, a.lane_id, -1, 32);
	assert_true(page.more);
	assert_int_equal(page.row_count, 1);
	assert_row(c, &page.rows[0], &a, "a b");
	page = hashes_of(c, a.lane_id, 1, 1);
	assert_true(page.more);
	assert_row(c, &page.rows[0], &b, "d");
	/* From the middle of a row the whole row. */
	page = hashes_of(c, a.lane_id, 3, 1 << 20);
	assert_false(page.more);
	assert_int_equal(page.row_count, 1);
	assert_row(c, &page.rows[0], &d, "e f g");
	page = hashes_of(c, a.lane_id, 5, 1 << 20);
	assert_true(page.found && !page.more);
	assert_int_equal(page.row_count, 0);
	assert_false(hashes_of(c, c->tenant, -1, 1 << 20).found);
}

static void hashes_are_those_of_the_window(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane a = push(c, "a b"), d;
	struct qn_hashes_op page;

	o.dedup_window_s = 1;
	configure(c, "q", o);
	ct_wait_until_us(a.created_at_us + SECOND + 10000);
	d = push(c, "d");
	page = hashes_of(c, a.lane_id, -1, 1 << 20);
	assert_int_equal(page.row_count, 1);
	assert_row(c, &page.rows[0], &d, "d");
	assert_int_equal(page.dedup_window_s, 1);
	o.dedup_window_s = 0;
	configure(c, "q", o);
	page = hashes_of(c, a.lane_id, -1, 1 << 20);
	assert_true(page.found && !page.more);
	assert_int_equal(page.row_count, 0);
	assert_int_equal(page.last_offset, 2);
	o.dedup_window_s = 3600;
	configure(c, "q", o);
	assert_int_equal(hashes_of(c, a.lane_id, -1, 1 << 20).row_count, 2);
}

static void st4_push_makes_queue_and_lane(void **state)
{
	struct ct *c = *state;
	struct qn_list_op l;

	push_to(c, "billing.invoice.eu", "p", "a");
	push_to(c, "plain", "p", "a");
	l = list_one(c, "billing.invoice.eu");
	assert_int_equal(l.row_count, 1);
	assert_memory_equal(l.rows[0].options.name_space.p, "billing", 7);
	assert_int_equal(l.rows[0].options.name_space.n, 7);
	assert_memory_equal(l.rows[0].options.task.p, "invoice", 7);
	assert_int_equal(l.rows[0].options.task.n, 7);
	assert_int_equal(l.rows[0].options.lease_time_s, QN_LEASE_IMPLICIT_S);
	assert_int_equal(l.rows[0].options.dedup_window_s, 3600);
	assert_true(l.rows[0].options.dead_letter_queue && l.rows[0].options.dlq_after_max_retries);
	l = list_one(c, "plain");
	assert_int_equal(l.rows[0].options.name_space.n, 5);
	assert_int_equal(l.rows[0].options.task.n, 0);
}

static void st5_plain_payloads_are_refused_where_sealed_ones_are_wanted(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane l = lane_of(c, "q", "p", "a");

	push(c, "before");
	o.encryption_enabled = true;
	configure(c, "q", o);
	assert_int_equal(push_lane(c, l).status, QN_PUSH_UNSEALED);
	l.sealed = true;
	l = push_lane(c, l);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_int_equal(l.base_offset, 1);
}

static void a_push_tells_what_the_queue_says_now(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_push_lane l = push(c, "a");

	assert_false(l.encryption_enabled);
	assert_int_equal(l.delayed_processing_s, 0);
	assert_int_equal(l.window_buffer_s, 0);
	o.encryption_enabled = true;
	o.delayed_processing_s = 7;
	o.window_buffer_s = 11;
	o.dedup_window_s = 13;
	configure(c, "q", o);
	for (int i = 0; i < 2; i++) {
		l = lane_of(c, "q", "p", "b");
		l.sealed = true;
		l = push_lane(c, l);
		assert_int_equal(l.status, i == 0 ? QN_PUSH_QUEUED : QN_PUSH_DUPLICATE);
		assert_true(l.encryption_enabled);
		assert_int_equal(l.delayed_processing_s, 7);
		assert_int_equal(l.window_buffer_s, 11);
		assert_int_equal(l.dedup_window_s, 13);
	}
}

static void st2_an_id_that_is_wrong_is_not_trusted(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane other = push_to(c, "q", "other", "a"), mine = push(c, "a"), l = lane_of(c, "q", "p", "b");

	l.partition_id = other.lane_id;
	l = push_lane(c, l);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_true(same_id(l.lane_id, mine.lane_id));
	assert_int_equal(l.base_offset, 1);
	l = lane_of(c, "q", "p", "c");
	qn_uuid7(&l.partition_id);
	l = push_lane(c, l);
	assert_true(same_id(l.lane_id, mine.lane_id));
	l = lane_of(c, "q", "p", "d");
	l.partition_id = mine.lane_id;
	assert_int_equal(push_lane(c, l).base_offset, 3);
}

static void st12_names_are_opaque(void **state)
{
	struct ct *c = *state;
	const char *const names[] = {"", " ", "%", "a/b", "\xc3\xa9", "e\xcc\x81", "Q", "q", "{x}", "\"", "\\", "NULL"};

	for (size_t i = 0; i < CT_COUNT(names); i++) {
		assert_int_equal(push_to(c, names[i], names[i], "a").base_offset, 0);
	}
	for (size_t i = 0; i < CT_COUNT(names); i++) {
		struct qn_claim_pop p = pop_of(c, "");

		p.queue = ct_span(names[i]);
		p = claim(c, p);
		assert_int_equal(p.lane_count, 1);
		assert_int_equal(p.lanes[0].partition.n, strlen(names[i]));
		assert_memory_equal(p.lanes[0].partition.p, names[i], strlen(names[i]));
	}
}

static void fetch_finds_the_segment_of_an_offset(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push(c, "a b"), b = push(c, "d e f");
	struct qn_fetch items[] = {{.partition_id = a.lane_id, .offset = 1},
	                           {.partition_id = a.lane_id, .offset = 2},
	                           {.partition_id = a.lane_id, .offset = 4},
	                           {.partition_id = a.lane_id, .offset = 5},
	                           {.partition_id = c->tenant, .offset = 0}};
	struct qn_fetch_op op = {.tenant = c->tenant, .items = items, .count = CT_COUNT(items)};

	ct_fetch_op(c, &op);
	assert_true(items[0].found && items[1].found && items[2].found);
	assert_false(items[3].found || items[4].found);
	assert_int_equal(items[0].base_offset, 0);
	assert_int_equal(items[0].count, 2);
	assert_int_equal(items[0].created_at_us, a.created_at_us);
	assert_int_equal(items[2].base_offset, 2);
	assert_int_equal(items[2].count, 3);
	assert_int_equal(items[2].created_at_us, b.created_at_us);
	assert_int_equal(items[2].blob.n, 5);
	assert_memory_equal(items[2].blob.p, "d e f", 5);
	qn_uuid7(&op.tenant);
	ct_fetch_op(c, &op);
	assert_false(items[0].found || items[2].found);
}

const struct CMUnitTest push_cases[] = {
	CASE(st1_offsets_are_dense_and_time_never_goes_back),
	CASE(st1_lanes_count_for_themselves),
	CASE(st2_a_refused_lane_harms_no_other),
	CASE(st2_an_id_that_is_wrong_is_not_trusted),
	CASE(st3_a_duplicate_stops_the_lane_and_all_are_named),
	CASE(st3_an_id_is_its_lanes_own),
	CASE(st3_window_zero_is_off),
	CASE(st3_the_window_ends),
	CASE(st3_a_watermark_only_shortens_the_search),
	CASE(st3_a_watermark_of_another_lane_is_not_believed),
	CASE(st3_a_watermark_must_reach_back_as_far_as_the_window),
	CASE(hashes_come_back_in_pages),
	CASE(hashes_are_those_of_the_window),
	CASE(st4_push_makes_queue_and_lane),
	CASE(st5_plain_payloads_are_refused_where_sealed_ones_are_wanted),
	CASE(a_push_tells_what_the_queue_says_now),
	CASE(st12_names_are_opaque),
	CASE(fetch_finds_the_segment_of_an_offset),
};
const size_t push_case_count = CT_COUNT(push_cases);
