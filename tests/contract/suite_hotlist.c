/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of kind hotlist: HL-1 to HL-6. A list that answers SCAN is right by HL-1 and passes; one
 * that answers with lanes or with EMPTY is held to every rule. Times are given, nothing waits.
 */
#include "harness.h"

#include <qn/hotlist.h>

/* Every case has a time of its own, later than all before it. */
#define T0     t0
#define NOW_US INT64_C(1700000000000000)
#define MANY   64

static uint64_t t0 = 1000000;

struct hot {
	struct qn_uuid tenant, lane[MANY];
};

static const struct qn_hotlist_vt *vt(void)
{
	return (const struct qn_hotlist_vt *)(const void *)ct_service().vt;
}

static void *self(void)
{
	return ct_service().self;
}

static struct qn_group_key key(const struct hot *h, const char *group)
{
	return (struct qn_group_key){h->tenant, ct_span("q"), ct_span(group)};
}

/* What a take gave: -1 for SCAN, else the number of lanes. */
struct taken {
	int count;
	struct qn_uuid lanes[MANY];
};

struct taking {
	const struct hot *h;
	const char *group;
	uint32_t max_lanes, budget;
	uint64_t tick_ms;
	struct taken out;
};

static void take_on_engine(void *arg)
{
	struct taking *t = arg;
	struct qn_group_key k = key(t->h, t->group);
	uint32_t count = MANY;
	enum qn_take kind = vt()->take(self(), &k, t->max_lanes, t->budget, t->out.lanes, &count, t->tick_ms);

	t->out.count = kind == QN_TAKE_SCAN ? -1 : kind == QN_TAKE_EMPTY ? 0 : (int)count;
	if (kind == QN_TAKE_LANES && count == 0) {
		t->out.count = -2; /* LANES promises at least one */
	}
}

static struct taken take(const struct hot *h, const char *group, uint32_t max_lanes, uint32_t budget, uint64_t tick_ms)
{
	struct taking t = {.h = h, .group = group, .max_lanes = max_lanes, .budget = budget, .tick_ms = tick_ms};

	ct_on_engine(take_on_engine, &t);
	assert_int_not_equal(t.out.count, -2);
	return t.out;
}

static bool has(const struct taken *t, struct qn_uuid lane)
{
	for (int i = 0; i < t->count; i++) {
		if (memcmp(&t->lanes[i], &lane, sizeof(lane)) == 0) {
			return true;
		}
	}
	return false;
}

static void mark(const struct hot *h, int lane, uint32_t messages)
{
	const struct qn_lane_mark m = {.tenant = h->tenant,
	                               .queue = ct_span("q"),
	                               .partition_id = h->lane[lane],
	                               .messages = messages,
	                               .last_offset = messages - 1};

	vt()->mark(self(), &m, T0);
}

static void settle(const struct hot *h, const char *group, int lane, enum qn_verdict_kind kind, int64_t until_us)
{
	struct qn_group_key k = key(h, group);
	const struct qn_verdict v = {
		.partition_id = h->lane[lane], .kind = kind, .until_us = until_us, .last_offset = 9, .batch_end = 9};

	vt()->settle(self(), &k, &v, 1, NOW_US, T0);
}

/* Answers the group's walk with `count` lanes from `from` on, all on its first page. */
static void walk(const struct hot *h, const char *group, int from, uint32_t count)
{
	struct qn_group_key k = key(h, group);
	struct qn_walk w;

	while (vt()->walk_due(self(), &k, &w, T0)) {
		const struct qn_walk_page page = {&h->lane[from], count, {.id = h->lane[MANY - 1]}, true, w.ticket};

		assert_false(vt()->walk_due(self(), &k, &w, T0));
		vt()->walk_page(self(), &k, &page, T0);
		count = 0;
	}
}

/* True when the module answers with lanes; the group is known and its walk over from then on. */
static bool answers(const struct hot *h, const char *group)
{
	bool is_cold = take(h, group, 1, 1, T0).count < 0;

	walk(h, group, 0, 0);
	return !is_cold || take(h, group, 1, 1, T0).count >= 0;
}

static int setup(void **state)
{
	static struct hot h;

	t0 += 10000000;
	qn_uuid7(&h.tenant);
	for (int i = 0; i < MANY; i++) {
		qn_uuid7(&h.lane[i]);
	}
	*state = &h;
	return 0;
}

static int teardown(void **state)
{
	const struct hot *h = *state;

	vt()->forget_queue(self(), &h->tenant, ct_span("q"));
	return 0;
}

static void hl1_a_marked_lane_is_offered_to_every_group(void **state)
{
	const struct hot *h = *state;
	bool g = answers(h, "g"), k = answers(h, "k");
	struct taken t;

	mark(h, 0, 5);
	t = take(h, "g", 10, 100, T0);
	assert_true(g ? has(&t, h->lane[0]) : t.count == -1);
	t = take(h, "k", 10, 100, T0);
	assert_true(k ? has(&t, h->lane[0]) : t.count == -1);
}

static void hl1_a_group_met_after_the_mark_is_not_told_empty(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	mark(h, 0, 5);
	t = take(h, "young", 10, 100, T0);
	assert_true(t.count == -1 || has(&t, h->lane[0]));
}

static void hl2_the_caps_hold(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	for (int i = 0; i < MANY; i++) {
		mark(h, i, 10);
	}
	t = take(h, "g", 3, 1000, T0);
	assert_int_equal(t.count, 3);
	t = take(h, "g", 50, 25, T0);
	assert_int_equal(t.count, 3);
}

static void hl3_a_taken_lane_is_out_until_it_is_given_back(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
	mark(h, 0, 5);
	t = take(h, "g", 10, 100, T0);
	assert_false(has(&t, h->lane[0]));
	settle(h, "g", 0, QN_LANE_BUSY, 0);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
	settle(h, "g", 0, QN_TOOK, NOW_US + 60000000);
	vt()->promote(self(), &k, &h->lane[0], true, T0);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
}

static void hl4_a_mark_during_a_claim_survives_empty(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
	mark(h, 0, 1);
	settle(h, "g", 0, QN_LANE_EMPTY, 0);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
}

static void hl4_empty_without_a_mark_ends_it(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	settle(h, "g", 0, QN_LANE_EMPTY, 0);
	t = take(h, "g", 10, 100, T0);
	assert_int_equal(t.count, 0);
}

static void hl5_a_leased_lane_comes_back_at_its_expiry(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	settle(h, "g", 0, QN_LANE_LEASED, NOW_US + 5000000);
	assert_true(vt()->next_due_ms(self()) <= T0 + 5000);
	t = take(h, "g", 10, 100, T0 + 5001);
	assert_true(has(&t, h->lane[0]));
}

static void hl5_a_time_that_is_over_counts_as_now(void **state)
{
	const struct hot *h = *state;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	settle(h, "g", 0, QN_LANE_LATER, NOW_US - 1);
	t = take(h, "g", 10, 100, T0 + 10);
	assert_true(has(&t, h->lane[0]));
}

static void hl5_promote_brings_it_back_at_once(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	settle(h, "g", 0, QN_LANE_LEASED, NOW_US + 3600000000);
	vt()->promote(self(), &k, &h->lane[0], true, T0);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
}

static void hl5_promote_during_a_claim_outdates_leased(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	vt()->promote(self(), &k, &h->lane[0], true, T0);
	settle(h, "g", 0, QN_LANE_LEASED, NOW_US + 3600000000);
	t = take(h, "g", 10, 100, T0);
	assert_true(has(&t, h->lane[0]));
}

static void hl6_forgetting_leaves_nothing(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct taken t;
	bool g = answers(h, "g");

	mark(h, 0, 5);
	vt()->forget_group(self(), &k);
	t = take(h, "g", 10, 100, T0);
	/* A group of which nothing is left is a group met for the first time. */
	assert_true(t.count <= 0 || has(&t, h->lane[0]));
	mark(h, 1, 5);
	vt()->forget_queue(self(), &h->tenant, ct_span("q"));
	t = take(h, "g", 10, 100, T0);
	assert_true(t.count <= 0);
	assert_true(g || t.count == -1);
	assert_int_equal(vt()->next_due_ms(self()), UINT64_MAX);
}

static void hl6_a_page_for_a_forgotten_group_is_ignored(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct qn_walk_page page = {h->lane, 1, {.id = h->lane[0]}, true, 0};
	struct qn_walk w;

	(void)take(h, "g", 10, 100, T0);
	if (!vt()->walk_due(self(), &k, &w, T0)) {
		return;
	}
	page.ticket = w.ticket;
	vt()->forget_group(self(), &k);
	vt()->walk_page(self(), &k, &page, T0);
	assert_true(take(h, "g", 10, 100, T0).count <= 0);
}

static void hl7_lanes_of_a_page_are_marked(void **state)
{
	const struct hot *h = *state;
	struct taken t = take(h, "g", 10, 100, T0);

	walk(h, "g", 2, 3);
	t = take(h, "g", 10, 100, T0);
	for (int i = 2; t.count >= 0 && i < 5; i++) {
		assert_true(has(&t, h->lane[i]));
	}
}

static void hl7_a_page_that_could_not_be_read_is_asked_for_again(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key k = key(h, "g");
	struct qn_walk w, again;

	(void)take(h, "g", 10, 100, T0);
	if (!vt()->walk_due(self(), &k, &w, T0)) {
		return;
	}
	assert_true(w.limit >= 1);
	vt()->walk_page(self(), &k, NULL, T0);
	assert_true(vt()->walk_due(self(), &k, &again, T0 + 60000));
	assert_memory_equal(&again.after.id, &w.after.id, sizeof(w.after.id));
}

static void hl8_a_lane_that_becomes_ready_is_announced(void **state)
{
	const struct hot *h = *state;
	struct qn_group_key g;
	struct taken t;

	if (!answers(h, "g")) {
		return;
	}
	mark(h, 0, 5);
	(void)take(h, "g", 10, 100, T0);
	settle(h, "g", 0, QN_LANE_LATER, NOW_US + 5000000);
	assert_false(vt()->due(self(), &g, T0 + 1));
	assert_true(vt()->due(self(), &g, T0 + 5001));
	assert_int_equal(g.group.n, 1);
	assert_memory_equal(g.group.p, "g", 1);
	assert_memory_equal(&g.tenant, &h->tenant, sizeof(g.tenant));
	assert_int_equal(g.queue.n, 1);
	assert_false(vt()->due(self(), &g, T0 + 5001));
	assert_true(vt()->next_due_ms(self()) > T0 + 5001);
	t = take(h, "g", 10, 100, T0 + 5001);
	assert_true(has(&t, h->lane[0]));
}

#define HL(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest cases[] = {
		HL(hl1_a_marked_lane_is_offered_to_every_group),
		HL(hl1_a_group_met_after_the_mark_is_not_told_empty),
		HL(hl2_the_caps_hold),
		HL(hl3_a_taken_lane_is_out_until_it_is_given_back),
		HL(hl4_a_mark_during_a_claim_survives_empty),
		HL(hl4_empty_without_a_mark_ends_it),
		HL(hl5_a_leased_lane_comes_back_at_its_expiry),
		HL(hl5_a_time_that_is_over_counts_as_now),
		HL(hl5_promote_brings_it_back_at_once),
		HL(hl5_promote_during_a_claim_outdates_leased),
		HL(hl6_forgetting_leaves_nothing),
		HL(hl6_a_page_for_a_forgotten_group_is_ignored),
		HL(hl7_lanes_of_a_page_are_marked),
		HL(hl7_a_page_that_could_not_be_read_is_asked_for_again),
		HL(hl8_a_lane_that_becomes_ready_is_announced),
	};
	int failed;

	ct_open("hotlist", argc, argv);
	failed = cmocka_run_group_tests_name("hotlist", cases, NULL, NULL);
	ct_close();
	return failed;
}
