/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of lanes: walk. A walk is described by the names of the lanes it found, one letter each. */
#include "storage_kit.h"

#include <stdlib.h>

#define LANES 7

static const char *const names[LANES] = {"a", "b", "c", "d", "e", "f", "g"};

static struct qn_walk_op *page(struct ct *c, const char *group, struct qn_walk_place after, uint32_t limit,
                               int32_t within_s)
{
	struct qn_walk_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->queue = ct_span("q");
	op->group = ct_span(group);
	op->after = after;
	op->limit = limit;
	op->written_within_s = within_s;
	ct_walk_op(c, op);
	return op;
}

static int by_id(const void *a, const void *b)
{
	return memcmp(&((const struct qn_push_lane *)a)->lane_id, &((const struct qn_push_lane *)b)->lane_id, 16);
}

/* Seven lanes of one message each, by ascending id. */
static struct qn_push_lane *seven(struct ct *c)
{
	struct qn_push_lane *l = ct_alloc(c, LANES * sizeof(*l));

	for (int i = 0; i < LANES; i++) {
		l[i] = push_to(c, "q", names[i], "m");
	}
	qsort(l, LANES, sizeof(*l), by_id);
	return l;
}

/* Walks with pages of every size; each lane must come exactly once, in the order of its kind when given. */
static void walk_all(struct ct *c, const struct qn_push_lane *l, int32_t within_s)
{
	for (uint32_t limit = 1; limit <= LANES + 1; limit++) {
		struct qn_walk_place after = {0};
		unsigned seen[LANES] = {0};
		uint32_t pages = 0, lanes = 0;
		bool last = false;

		while (!last) {
			const struct qn_walk_op *op = page(c, "g", after, limit, within_s);

			assert_true(op->lane_count <= limit);
			for (uint32_t i = 0; i < op->lane_count; i++) {
				for (uint32_t k = 0; k < LANES; k++) {
					seen[k] += same_id(op->lanes[i], l[k].lane_id) ? 1 : 0;
				}
				assert_true(within_s > 0 || same_id(op->lanes[i], l[lanes].lane_id));
				lanes++;
			}
			after = op->after;
			last = op->last;
			pages++;
			assert_true(pages <= LANES + 1);
		}
		assert_int_equal(lanes, LANES);
		for (uint32_t k = 0; k < LANES; k++) {
			assert_int_equal(seen[k], 1);
		}
	}
}

static void a_walk_sees_every_lane_with_work_once(void **state)
{
	struct ct *c = *state;
	const struct qn_push_lane *l = seven(c);

	(void)push_to(c, "other", "x", "m");
	walk_all(c, l, 0);
	walk_all(c, l, 3600);
}

static void a_walk_skips_what_the_group_has_read(void **state)
{
	struct ct *c = *state;
	const struct qn_push_lane *l = seven(c);
	struct qn_claim_pop p = pop_of(c, "");
	const struct qn_walk_op *op;

	p.from = QN_CLAIM_LANE;
	p.group = ct_span("g");
	p.start.mode = QN_START_ALL;
	p.partition = l[3].partition;
	assert_int_equal(claim(c, p).lane_count, 1);
	op = page(c, "g", (struct qn_walk_place){0}, 100, 0);
	assert_true(op->last);
	assert_int_equal(op->lane_count, LANES - 1);
	for (uint32_t i = 0; i < op->lane_count; i++) {
		assert_false(same_id(op->lanes[i], l[3].lane_id));
	}
	assert_int_equal(page(c, "another", (struct qn_walk_place){0}, 100, 0)->lane_count, LANES);
	/* What it has not read comes back, page by page, past lanes without work. */
	op = page(c, "g", (struct qn_walk_place){.id = l[2].lane_id}, 1, 0);
	assert_int_equal(op->lane_count, 0);
	assert_false(op->last);
	assert_true(same_id(op->after.id, l[3].lane_id));
}

static void a_walk_sees_leased_and_delayed_lanes(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_claim_pop p = pop_of(c, L1);

	(void)seven(c);
	p.from = QN_CLAIM_LANE;
	p.partition = ct_span("b");
	p.group = ct_span("g");
	p.start.mode = QN_START_ALL;
	assert_int_equal(claim(c, p).lane_count, 1);
	o.delayed_processing_s = 1000;
	configure(c, "q", o);
	assert_int_equal(page(c, "g", (struct qn_walk_place){0}, 100, 0)->lane_count, LANES);
}

static void a_walk_of_the_lately_written_skips_the_rest(void **state)
{
	struct ct *c = *state;
	const struct qn_push_lane *l = seven(c);
	int64_t newest_us = 0;
	struct qn_push_lane young;
	const struct qn_walk_op *op;

	for (int i = 0; i < LANES; i++) {
		newest_us = l[i].created_at_us > newest_us ? l[i].created_at_us : newest_us;
	}
	ct_wait_until_us(newest_us + 3500000);
	young = push_to(c, "q", names[5], "n");
	op = page(c, "g", (struct qn_walk_place){0}, 100, 1);
	assert_int_equal(op->lane_count, 1);
	assert_true(same_id(op->lanes[0], young.lane_id));
	assert_int_equal(page(c, "g", (struct qn_walk_place){0}, 100, 600)->lane_count, LANES);
}

static void a_walk_of_nothing_is_over(void **state)
{
	struct ct *c = *state;
	const struct qn_walk_op *op = page(c, "g", (struct qn_walk_place){0}, 10, 0);

	assert_true(op->last);
	assert_int_equal(op->lane_count, 0);
	assert_int_equal(list_one(c, "q").row_count, 0);
}

static void st12_a_walk_stays_in_its_tenant(void **state)
{
	struct ct *c = *state;
	struct ct other = *c;

	(void)seven(c);
	qn_uuid7(&other.tenant);
	assert_int_equal(page(&other, "g", (struct qn_walk_place){0}, 100, 0)->lane_count, 0);
}

const struct CMUnitTest walk_cases[] = {
	CASE(a_walk_sees_every_lane_with_work_once),
	CASE(a_walk_skips_what_the_group_has_read),
	CASE(a_walk_sees_leased_and_delayed_lanes),
	CASE(a_walk_of_the_lately_written_skips_the_rest),
	CASE(a_walk_of_nothing_is_over),
	CASE(st12_a_walk_stays_in_its_tenant),
};
const size_t walk_case_count = CT_COUNT(walk_cases);
