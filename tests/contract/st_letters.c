/* SPDX-License-Identifier: Apache-2.0 */
/* Dead letters, and leases that are extended or given back. */
#include "storage_kit.h"

static void a_dead_letter_moves_past_its_message(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;
	struct qn_settle_lane s;
	struct qn_dead_letter d;

	take(c, L1, 0, 2);
	s = ack(c, lane, L1, "a:c b:d", "CD");
	assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
	d = bury(c, &s);
	assert_true(d.has_more);
	assert_int_equal(d.queue.n, 1);
	assert_int_equal(d.partition.n, 1);
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 1);
	assert_int_equal(take(c, L2, 2, 2).attempt, 1);
}

static void a_dead_letter_gives_the_budget_back(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;
	struct qn_settle_lane s;

	o.retry_limit = 1;
	configure(c, "q", o);
	lane = push(c, "a b").lane_id;
	take(c, L1, 0, 1);
	ack(c, lane, L1, "a:f", "F");
	take(c, L1, 0, 1);
	s = ack(c, lane, L1, "a:f", "D");
	(void)bury(c, &s);
	take(c, L1, 1, 1);
	ack(c, lane, L1, "b:f", "F");
}

static bool file_again(struct ct *c, const struct qn_settle_lane *s, const char *lease)
{
	struct qn_dead_letter item = {.tenant = s->tenant,
	                              .partition_id = s->partition_id,
	                              .group = s->group,
	                              .lease_id = ct_span(lease),
	                              .offset = s->poison_offset,
	                              .count = 1,
	                              .transaction_id = ct_span("t"),
	                              .payload = ct_span("1"),
	                              .error = ct_span("e")};
	struct qn_dead_letter_op op = {.items = &item, .count = 1};

	ct_dead_letter_op(c, &op);
	return item.filed;
}

static void a_dead_letter_is_filed_once(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_settle_lane s;

	take(c, L1, 0, 1);
	s = ack(c, lane, L1, "a:d", "D");
	assert_false(file_again(c, &s, L2));
	(void)bury(c, &s);
	assert_false(file_again(c, &s, L1));
	assert_false(file_again(c, &s, ""));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 1);
	s.partition_id = c->tenant;
	assert_false(file_again(c, &s, L1));
}

static void a_whole_segment_can_be_filed(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;
	struct qn_dead_letter item = {.tenant = c->tenant,
	                              .partition_id = lane,
	                              .group = ct_span("g"),
	                              .lease_id = ct_span(L1),
	                              .offset = 0,
	                              .count = 3,
	                              .transaction_id = ct_span(""),
	                              .payload = ct_span(""),
	                              .error = ct_span("unreadable")};
	struct qn_dead_letter_op op = {.items = &item, .count = 1};

	push(c, "e");
	take(c, L1, 0, 3);
	ct_dead_letter_op(c, &op);
	assert_true(item.filed);
	assert_true(item.has_more);
	take(c, L2, 3, 3);
}

static void dead_letters_are_not_fenced_without_a_lease(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_settle_lane s;

	p.lease_s = 1;
	p = claim(c, p);
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	s = ack(c, lane, "", "b:d", "D");
	assert_int_equal(s.poison_offset, 1);
	assert_false(bury(c, &s).has_more);
	assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
}

/** Letters of count messages from offset on, under a lease; true when all were filed. */
static bool file_as(struct ct *c, struct qn_uuid lane, enum qn_letter_kind kind, const char *lease, int64_t offset,
                    uint32_t count)
{
	struct qn_dead_letter items[4];
	struct qn_dead_letter_op op = {.items = items, .count = kind == QN_LETTER_BESIDE ? count : 1};
	bool all = true;

	for (uint32_t i = 0; i < op.count; i++) {
		items[i] = (struct qn_dead_letter){.kind = kind,
		                                   .tenant = c->tenant,
		                                   .partition_id = lane,
		                                   .group = ct_span("g"),
		                                   .lease_id = ct_span(lease),
		                                   .offset = offset + i,
		                                   .count = count / op.count,
		                                   .transaction_id = ct_span("t"),
		                                   .payload = ct_span("1"),
		                                   .error = ct_span("unreadable")};
	}
	ct_dead_letter_op(c, &op);
	for (uint32_t i = 0; i < op.count; i++) {
		all = all && items[i].filed;
	}
	return all;
}

static void letters_beside_a_batch_leave_it_alone(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d e").lane_id, tenant = c->tenant;

	take(c, L1, 0, 3);
	assert_true(file_as(c, lane, QN_LETTER_BESIDE, L1, 0, 3));
	assert_true(file_as(c, lane, QN_LETTER_BESIDE, "", 1, 2));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 3);
	assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
	assert_true(ack(c, lane, L1, "e:c", "C").lease_released);
	assert_true(file_as(c, lane, QN_LETTER_BESIDE, "", 3, 1));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 4);
	assert_false(file_as(c, lane, QN_LETTER_BESIDE, "", 4, 1));
	qn_uuid7(&c->tenant);
	assert_false(file_as(c, lane, QN_LETTER_BESIDE, "", 0, 1));
	c->tenant = tenant;
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 4);
}

static void letters_at_the_head_are_filed_once_and_move(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d e").lane_id;

	take(c, L1, 0, 3);
	assert_true(file_as(c, lane, QN_LETTER_BESIDE, L1, 1, 1));
	assert_false(file_as(c, lane, QN_LETTER_HEAD, L2, 0, 3));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 1);
	assert_true(file_as(c, lane, QN_LETTER_HEAD, L1, 0, 3));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 3);
	assert_false(file_as(c, lane, QN_LETTER_HEAD, L1, 0, 3));
	take(c, L2, 3, 3);
}

static void a_batch_can_be_cut_short(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;

	take(c, L1, 0, 2);
	assert_false(file_as(c, lane, QN_LETTER_DEFER, L2, 1, 2));
	assert_true(file_as(c, lane, QN_LETTER_DEFER, L1, 1, 2));
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 0);
	assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
	assert_true(ack(c, lane, L1, "a:c", "C").lease_released);
	take(c, L2, 1, 2);
	assert_false(file_as(c, lane, QN_LETTER_DEFER, L1, 2, 1));
	assert_false(ack(c, lane, L2, "b:c", "C").lease_released);
}

static struct qn_extend_op extend(struct ct *c, const char *lease, int32_t seconds)
{
	struct qn_extend_op op = {.tenant = c->tenant, .lease_id = ct_span(lease), .seconds = seconds};

	ct_extend_op(c, &op);
	return op;
}

static void extending_never_shortens(void **state)
{
	struct ct *c = *state;
	struct qn_claimed l;
	struct qn_extend_op op;

	push(c, "a");
	l = take(c, L1, 0, 0);
	op = extend(c, L1, 1);
	assert_int_equal(op.renewed, 1);
	assert_int_equal(op.expires_at_us, l.lease_expires_at_us);
	op = extend(c, L1, 600);
	assert_int_equal(op.renewed, 1);
	assert_true(op.expires_at_us > l.lease_expires_at_us + 500 * SECOND);
	assert_int_equal(claim(c, pop_of(c, L2)).next_due_us, op.expires_at_us);
	assert_int_equal(extend(c, L2, 60).renewed, 0);
	assert_int_equal(extend(c, L2, 60).expires_at_us, 0);
	assert_int_equal(extend(c, "garbage", 60).renewed, 0);
	qn_uuid7(&c->tenant);
	assert_int_equal(extend(c, L1, 60).renewed, 0);
}

static void extending_renews_every_lane_of_the_lease(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_extend_op op;
	struct qn_uuid lane;

	push_to(c, "q", "p1", "a");
	push_to(c, "q", "p2", "a");
	p.max_lanes = 2;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 2);
	op = extend(c, L1, 120);
	assert_int_equal(op.renewed, 2);
	assert_true(op.expires_at_us > p.lanes[0].lease_expires_at_us);
	lane = p.lanes[0].partition_id;
	ack(c, lane, L1, "a:c", "C");
	assert_int_equal(extend(c, L1, 240).renewed, 1);
}

/* The lanes named are all that is looked at; what is not this lease's is not touched. */
static void extending_named_lanes(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);
	struct qn_extend_op op = {.tenant = c->tenant, .lease_id = ct_span(L1), .seconds = 120};
	struct qn_uuid ids[3];

	for (int i = 0; i < 3; i++) {
		ids[i] = push_to(c, "q", i == 0 ? "p1" : i == 1 ? "p2" : "p3", "a").lane_id;
	}
	p.max_lanes = 3;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 3);
	op.group = ct_span("g");
	op.partition_ids = ids;
	op.count = 2;
	ct_extend_op(c, &op);
	assert_int_equal(op.renewed, 2);
	assert_true(op.expires_at_us > p.lanes[0].lease_expires_at_us);
	assert_int_equal(extend(c, L1, 1).expires_at_us, p.lanes[0].lease_expires_at_us);
	op.count = 3;
	ack(c, ids[0], L1, "a:c", "C");
	ct_extend_op(c, &op);
	assert_int_equal(op.renewed, 2);
	op.group = ct_span("h");
	ct_extend_op(c, &op);
	assert_int_equal(op.renewed, 0);
	op.group = ct_span("g");
	op.lease_id = ct_span(L2);
	ct_extend_op(c, &op);
	assert_int_equal(op.renewed, 0);
	assert_int_equal(op.expires_at_us, 0);
	op.lease_id = ct_span(L1);
	qn_uuid7(&op.tenant);
	ct_extend_op(c, &op);
	assert_int_equal(op.renewed, 0);
}

static void an_expired_lease_is_not_revived(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	push(c, "a");
	p.lease_s = 1;
	p = claim(c, p);
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	assert_int_equal(extend(c, L1, 60).renewed, 0);
	take(c, L2, 0, 0);
}

static uint32_t release(struct ct *c, const char *lease, const struct qn_uuid *ids, uint32_t count)
{
	struct qn_release_op op = {.tenant = c->tenant,
	                           .group = ct_span("g"),
	                           .lease_id = ct_span(lease),
	                           .partition_ids = ids,
	                           .count = count};

	ct_release_op(c, &op);
	return op.released;
}

static void a_lease_given_back_was_never_there(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;

	take(c, L1, 0, 1);
	ack(c, lane, L1, "a:f", "F");
	assert_int_equal(take(c, L1, 0, 1).attempt, 2);
	assert_int_equal(release(c, L2, &lane, 1), 0);
	assert_int_equal(release(c, L1, &lane, 1), 1);
	assert_int_equal(release(c, L1, &lane, 1), 0);
	ack(c, lane, L1, "a:c", "l");
	assert_int_equal(take(c, L2, 0, 1).attempt, 2);
	assert_true(ack(c, lane, L2, "b:c", "C").lease_released);
}

static void giving_back_names_its_lanes(void **state)
{
	struct ct *c = *state;
	const struct qn_uuid lanes[] = {push_to(c, "q", "p1", "a").lane_id, push_to(c, "q", "p2", "a").lane_id,
	                                c->tenant};
	struct qn_claim_pop p = pop_of(c, L1);

	p.max_lanes = 2;
	assert_int_equal(claim(c, p).lane_count, 2);
	assert_int_equal(release(c, L1, lanes, 1), 1);
	ack(c, lanes[1], L1, "a:c", "C");
	assert_int_equal(release(c, L1, lanes, 3), 0);
	p = pop_of(c, L2);
	p.max_lanes = 2;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_true(same_id(p.lanes[0].partition_id, lanes[0]));
}

const struct CMUnitTest letter_cases[] = {
	CASE(a_dead_letter_moves_past_its_message),
	CASE(a_dead_letter_gives_the_budget_back),
	CASE(a_dead_letter_is_filed_once),
	CASE(a_whole_segment_can_be_filed),
	CASE(dead_letters_are_not_fenced_without_a_lease),
	CASE(letters_beside_a_batch_leave_it_alone),
	CASE(letters_at_the_head_are_filed_once_and_move),
	CASE(a_batch_can_be_cut_short),
	CASE(extending_never_shortens),
	CASE(extending_renews_every_lane_of_the_lease),
	CASE(extending_named_lanes),
	CASE(an_expired_lease_is_not_revived),
	CASE(a_lease_given_back_was_never_there),
	CASE(giving_back_names_its_lanes),
};
const size_t letter_case_count = CT_COUNT(letter_cases);
