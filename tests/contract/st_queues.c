/* SPDX-License-Identifier: Apache-2.0 */
/* configure, delete, list: options round trip, nothing is left, counts are right. */
#include "storage_kit.h"

static void configure_sets_every_option(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default(), got;
	int32_t value = 1;

#define X(field, json, column, def, lo, hi) o.field = value++;
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) o.field = !o.field;
	QN_QUEUE_BOOLS(X)
#undef X
	o.name_space = ct_span("ns");
	o.task = ct_span("t");
	configure(c, "q", o);
	got = list_one(c, "q").rows[0].options;
#define X(field, json, column, def, lo, hi) assert_int_equal(got.field, o.field);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) assert_int_equal(got.field, o.field);
	QN_QUEUE_BOOLS(X)
#undef X
	assert_int_equal(got.name_space.n, 2);
	assert_memory_equal(got.name_space.p, "ns", 2);
	assert_int_equal(got.task.n, 1);
}

static void configure_replaces_everything(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default(), got;
	struct qn_uuid lane = push_to(c, "a.b", "p", "x").lane_id;
	struct qn_uuid id = list_one(c, "a.b").rows[0].id;

	configure(c, "a.b", o);
	got = list_one(c, "a.b").rows[0].options;
	assert_int_equal(got.lease_time_s, 300);
	assert_int_equal(got.name_space.n, 0);
	assert_int_equal(got.task.n, 0);
	assert_true(same_id(list_one(c, "a.b").rows[0].id, id));
	assert_true(same_id(list_one(c, "a.b").lanes[0].id, lane));
	assert_int_equal(list_one(c, "a.b").rows[0].messages, 1);
}

static bool delete_queue(struct ct *c, const char *queue)
{
	struct qn_delete_op op = {.tenant = c->tenant, .queue = ct_span(queue)};

	ct_delete_op(c, &op);
	return op.existed;
}

static void deleting_leaves_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_claim_pop p;
	struct qn_push_lane l;

	assert_true(registers(c, "q", "g", QN_START_ALL, 0));
	take(c, L1, 0, 1);
	assert_true(delete_queue(c, "q"));
	assert_false(delete_queue(c, "q"));
	assert_int_equal(list_one(c, "q").row_count, 0);
	ack(c, lane, L1, "a:c", "n");
	p = pop_of(c, L2);
	p.candidates = &lane;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.verdicts[0].kind, QN_LANE_GONE);
	l = lane_of(c, "q", "p", "a");
	l.partition_id = lane;
	l = push_lane(c, l);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_int_equal(l.base_offset, 0);
	assert_false(same_id(l.lane_id, lane));
	assert_true(registers(c, "q", "g", QN_START_NEW, 0));
	assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
}

static void deleting_harms_no_other_queue(void **state)
{
	struct ct *c = *state;
	struct qn_uuid mine = c->tenant, theirs;

	push(c, "a");
	push_to(c, "q2", "p", "a");
	qn_uuid7(&theirs);
	c->tenant = theirs;
	push(c, "a");
	c->tenant = mine;
	assert_true(delete_queue(c, "q"));
	assert_int_equal(list_one(c, "q2").rows[0].messages, 1);
	c->tenant = theirs;
	assert_int_equal(list_one(c, "q").rows[0].messages, 1);
}

static void a_list_without_sizes_has_all_other_counts(void **state)
{
	struct ct *c = *state;
	struct qn_list_op op = {.without_sizes = true, .limit = -1};

	push_to(c, "q", "p", "a b");
	op.tenant = c->tenant;
	ct_list_op(c, &op);
	assert_int_equal(op.row_count, 1);
	assert_int_equal(op.rows[0].partitions, 1);
	assert_int_equal(op.rows[0].messages, 2);
	assert_int_equal(op.rows[0].pending, 2);
	assert_int_equal(op.rows[0].segments, 0);
	assert_int_equal(op.rows[0].retained_bytes, 0);
}

static void counts_follow_the_cursors(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane first = push_to(c, "q", "p1", "a b d"), second = push_to(c, "q", "p1", "e");
	struct qn_list_op l;

	push_to(c, "q", "p0", "a");
	l = list_one(c, "q");
	assert_int_equal(l.rows[0].partitions, 2);
	assert_int_equal(l.rows[0].segments, 3);
	assert_int_equal(l.rows[0].messages, 5);
	assert_int_equal(l.rows[0].pending, 5);
	assert_int_equal(l.rows[0].processing, 0);
	assert_true(l.rows[0].retained_bytes > 0);
	assert_int_equal(l.lane_count, 2);
	assert_memory_equal(l.lanes[0].name.p, "p0", 2);
	assert_memory_equal(l.lanes[1].name.p, "p1", 2);
	assert_true(same_id(l.lanes[1].id, first.lane_id));
	assert_int_equal(l.lanes[1].oldest_pending_at_us, first.created_at_us);
	assert_int_equal(l.lanes[1].newest_at_us, second.created_at_us);
	for (int i = 0; i < 2; i++) {
		struct qn_claim_pop p = pop_of(c, i == 0 ? L1 : L2);

		p.budget = 4;
		assert_int_equal(claim(c, p).lane_count, 1);
	}
	l = list_one(c, "q");
	assert_int_equal(l.rows[0].pending, 5);
	assert_int_equal(l.rows[0].processing, 5);
	assert_int_equal(l.lanes[1].processing, 4);
	ack(c, first.lane_id, "", "d:c", "C");
	l = list_one(c, "q");
	assert_int_equal(l.rows[0].pending, 2);
	assert_int_equal(l.rows[0].processing, 2);
	assert_int_equal(l.lanes[1].total, 4);
	assert_int_equal(l.lanes[1].pending, 1);
	assert_int_equal(l.lanes[1].completed, 3);
	assert_int_equal(l.lanes[1].oldest_pending_at_us, second.created_at_us);
}

static void the_slowest_group_counts(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, "");

	push(c, "a b d");
	take(c, "", 0, 2);
	assert_int_equal(list_one(c, "q").rows[0].pending, 0);
	p.group = ct_span("h");
	p.budget = 1;
	assert_int_equal(claim(c, p).lane_count, 1);
	assert_int_equal(list_one(c, "q").rows[0].pending, 2);
	assert_int_equal(list_one(c, "q").lanes[0].completed, 1);
}

static struct qn_list_op list_some(struct ct *c, const char *name_space, const char *search, int64_t limit,
                                   int64_t offset)
{
	struct qn_list_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->queue = op->task = ct_span("");
	op->name_space = ct_span(name_space);
	op->search = ct_span(search);
	op->limit = limit;
	op->offset = offset;
	ct_list_op(c, op);
	return *op;
}

static void lists_are_filtered_and_paged(void **state)
{
	struct ct *c = *state;
	const char *const names[] = {"shop.a", "shop.b", "mail.a", "shop_c"};
	struct qn_list_op l;

	for (size_t i = 0; i < CT_COUNT(names); i++) {
		struct qn_push_lane p = push_to(c, names[i], "p", "x");

		ct_wait_until_us(p.created_at_us + 2000);
	}
	l = list_some(c, "", "", -1, 0);
	assert_int_equal(l.row_count, 4);
	assert_int_equal(l.lane_count, 0);
	for (size_t i = 0; i < 4; i++) {
		assert_memory_equal(l.rows[i].name.p, names[3 - i], 6);
	}
	assert_int_equal(list_some(c, "shop", "", -1, 0).row_count, 2);
	assert_int_equal(list_some(c, "", ".a", -1, 0).row_count, 2);
	assert_int_equal(list_some(c, "", "%", -1, 0).row_count, 0);
	assert_int_equal(list_some(c, "", "p_c", -1, 0).row_count, 1);
	assert_int_equal(list_some(c, "", "_", -1, 0).row_count, 1);
	l = list_some(c, "", "", 2, 1);
	assert_int_equal(l.row_count, 2);
	assert_memory_equal(l.rows[0].name.p, "mail.a", 6);
	assert_int_equal(list_some(c, "", "", 2, 3).row_count, 1);
	assert_int_equal(list_some(c, "", "", 0, 0).row_count, 0);
	assert_int_equal(list_some(c, "", "", -1, 9).row_count, 0);
}

const struct CMUnitTest queue_cases[] = {
	CASE(configure_sets_every_option),  CASE(configure_replaces_everything),
	CASE(deleting_leaves_nothing),      CASE(deleting_harms_no_other_queue),
	CASE(counts_follow_the_cursors),    CASE(the_slowest_group_counts),
	CASE(lists_are_filtered_and_paged), CASE(a_list_without_sizes_has_all_other_counts),
};
const size_t queue_case_count = CT_COUNT(queue_cases);
