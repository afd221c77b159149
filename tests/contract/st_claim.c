/* SPDX-License-Identifier: Apache-2.0 */
/* claim: ST-6, ST-7, budgets, candidates, several pops of one call. */
#include "storage_kit.h"

static void st6_one_batch_at_a_time(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;
	struct qn_claimed first;

	push(c, "a b");
	first = take(c, L1, 0, 1);
	assert_int_equal(first.attempt, 1);
	assert_int_equal(first.last_offset, 1);
	assert_true(first.lease_expires_at_us > qn_now_us() + 50 * SECOND);
	push(c, "d");
	p = claim(c, pop_of(c, L2));
	assert_int_equal(p.lane_count, 0);
	assert_false(p.contended);
	assert_int_equal(p.next_due_us, first.lease_expires_at_us);
	p = pop_of(c, L2);
	p.group = ct_span("other");
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].batch_end, 2);
}

static void st6_an_expired_lease_is_given_again(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;
	struct qn_claimed second;

	push(c, "a b");
	p = pop_of(c, L1);
	p.lease_s = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	second = take(c, L2, 0, 1);
	assert_int_equal(second.attempt, 2);
}

static void st7_batches_run_over_segment_borders(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;
	struct qn_claimed l;

	push(c, "a b");
	push(c, "d e f");
	push(c, "h");
	p = pop_of(c, L1);
	p.budget = 4;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	l = p.lanes[0];
	assert_int_equal(l.batch_end, 3);
	assert_int_equal(l.last_offset, 5);
	assert_int_equal(l.slice_count, 2);
	assert_int_equal(l.slices[0].base_offset, 0);
	assert_int_equal(l.slices[0].take, 2);
	assert_memory_equal(l.slices[0].blob.p, "a b", 3);
	assert_int_equal(l.slices[1].base_offset, 2);
	assert_int_equal(l.slices[1].count, 3);
	assert_int_equal(l.slices[1].first, 0);
	assert_int_equal(l.slices[1].take, 2);
	ack(c, l.partition_id, L1, "e:c", "C");
	l = take(c, L2, 4, 5);
	assert_int_equal(l.slices[0].base_offset, 2);
	assert_int_equal(l.slices[0].first, 2);
	assert_int_equal(l.slices[0].take, 1);
	assert_int_equal(l.slices[0].blob.n, 5);
	assert_int_equal(l.slices[1].take, 1);
}

static void st7_auto_ack_moves_the_cursor(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push(c, "a b");
	struct qn_claimed l = take(c, "", 0, 1);

	assert_int_equal(l.lease_expires_at_us, 0);
	assert_int_equal(claim(c, pop_of(c, "")).lane_count, 0);
	ack(c, a.lane_id, "", "a:c b:f", "Nm");
	push(c, "d");
	take(c, "", 2, 2);
}

static void st7_a_byte_budget_delivers_at_least_one(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p;

	push(c, "a b d e f");
	p = pop_of(c, "");
	p.budget_bytes = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].batch_end, 0);
	/* A message costs its average of 100 bytes and what an answer adds to it. */
	p = pop_of(c, "");
	p.budget_bytes = 1200;
	p = claim(c, p);
	assert_int_equal(p.lanes[0].first_offset, 1);
	assert_in_range(p.lanes[0].batch_end, 1, 3);
}

static void st7_the_byte_budget_is_the_calls(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	push_to(c, "q", "p1", "a b");
	push_to(c, "q", "p2", "a b");
	p.max_lanes = 2;
	p.budget_bytes = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].batch_end, 0);
}

static void one_lease_covers_several_lanes(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	push_to(c, "q", "p1", "a b");
	push_to(c, "q", "p2", "a b");
	push_to(c, "q", "p3", "a b");
	p.max_lanes = 2;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 2);
	assert_false(same_id(p.lanes[0].partition_id, p.lanes[1].partition_id));
	p = pop_of(c, L2);
	p.max_lanes = 0;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].queue.n, 1);
	assert_int_equal(p.lanes[0].partition.n, 2);
}

static void a_scan_finds_at_most_512_lanes(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);
	char name[8];

	for (int i = 0; i < 514; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		push_to(c, "q", name, "a");
	}
	p.max_lanes = 0;
	p.budget = 1000;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 512);
	p = pop_of(c, L2);
	p.max_lanes = 1000;
	p.budget = 1000;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 2);
}

static void the_message_budget_is_the_calls(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);
	int64_t messages = 0;

	push_to(c, "q", "p1", "a b d");
	push_to(c, "q", "p2", "a b d");
	push_to(c, "q", "p3", "a b d");
	p.max_lanes = -1;
	p.budget = 5;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 2);
	for (uint32_t i = 0; i < p.lane_count; i++) {
		messages += p.lanes[i].batch_end - p.lanes[i].first_offset + 1;
	}
	assert_int_equal(messages, 5);
}

static enum qn_verdict_kind verdict_on(const struct qn_claim_pop *p, struct qn_uuid lane)
{
	for (uint32_t i = 0; i < p->verdict_count; i++) {
		if (same_id(p->verdicts[i].partition_id, lane)) {
			return p->verdicts[i].kind;
		}
	}
	fail_msg("no verdict");
	return QN_LANE_GONE;
}

static void every_candidate_gets_a_verdict(void **state)
{
	struct ct *c = *state;
	struct qn_uuid full = push_to(c, "q", "full", "a b").lane_id, empty = push_to(c, "q", "empty", "a").lane_id,
		       leased = push_to(c, "q", "leased", "a").lane_id, other = push_to(c, "q2", "p", "a").lane_id,
		       unknown = c->tenant;
	const struct qn_uuid candidates[] = {full, empty, leased, other, unknown};
	struct qn_claim_pop p = pop_of(c, "");

	p.candidates = &candidates[1];
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	p = pop_of(c, L1);
	p.candidates = &candidates[2];
	p.candidate_count = 1;
	assert_int_equal(claim(c, p).lane_count, 1);
	p = pop_of(c, L2);
	p.candidates = candidates;
	p.candidate_count = 5;
	p.max_lanes = 5;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_true(same_id(p.lanes[0].partition_id, full));
	assert_int_equal(p.verdict_count, 5);
	assert_int_equal(verdict_on(&p, full), QN_TOOK);
	assert_int_equal(verdict_on(&p, empty), QN_LANE_EMPTY);
	assert_int_equal(verdict_on(&p, leased), QN_LANE_LEASED);
	assert_int_equal(verdict_on(&p, other), QN_LANE_GONE);
	assert_int_equal(verdict_on(&p, unknown), QN_LANE_GONE);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(p.verdicts[i].until_us != 0,
		                 p.verdicts[i].kind == QN_LANE_LEASED || p.verdicts[i].kind == QN_TOOK);
		if (p.verdicts[i].kind == QN_TOOK) {
			assert_int_equal(p.verdicts[i].until_us, p.lanes[0].lease_expires_at_us);
			assert_int_equal(p.verdicts[i].batch_end, 1);
			assert_int_equal(p.verdicts[i].last_offset, 1);
		}
	}
}

static void candidates_beyond_the_budget_are_not_taken(void **state)
{
	struct ct *c = *state;
	const struct qn_uuid candidates[] = {push_to(c, "q", "p1", "a b").lane_id,
	                                     push_to(c, "q", "p2", "a b").lane_id};
	struct qn_claim_pop p = pop_of(c, L1);

	p.candidates = candidates;
	p.candidate_count = 2;
	p.max_lanes = 2;
	p.budget = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.verdict_count, 2);
	assert_int_equal(verdict_on(&p, candidates[0]) == QN_TOOK, verdict_on(&p, candidates[1]) == QN_LANE_BUSY);
	p.lease_id = ct_span(L2);
	p.verdicts = NULL;
	assert_int_equal(claim(c, p).lane_count, 1);
}

static void check_apart(const struct qn_claim_op *op)
{
	for (uint32_t i = 0; i < op->pop_count; i++) {
		assert_true(op->pops[i].lane_count <= 1);
		for (uint32_t k = 0; k < i; k++) {
			assert_false(op->pops[i].lane_count + op->pops[k].lane_count == 2 &&
			             same_id(op->pops[i].lanes[0].partition_id, op->pops[k].lanes[0].partition_id));
		}
	}
}

static void no_lane_goes_to_two_pops_of_a_call(void **state)
{
	struct ct *c = *state;

	for (int leases = 0; leases < 2; leases++) {
		struct qn_claim_op *op = ct_alloc(c, sizeof(*op));
		const char *queue = leases == 0 ? "auto" : "leased";
		struct qn_claim_pop rest = pop_of(c, "");
		uint32_t lanes;

		push_to(c, queue, "p1", "a");
		push_to(c, queue, "p2", "a");
		op->pops = ct_alloc(c, 3 * sizeof(*op->pops));
		op->pop_count = 3;
		for (int i = 0; i < 3; i++) {
			op->pops[i] = pop_of(c, leases == 0 ? "" : i == 0 ? L1 : L2);
			op->pops[i].queue = ct_span(queue);
		}
		ct_claim_op(c, op);
		check_apart(op);
		lanes = op->pops[0].lane_count + op->pops[1].lane_count + op->pops[2].lane_count;
		assert_in_range(lanes, 1, 2);
		/* What no pop got is still there. */
		rest.queue = ct_span(queue);
		rest.max_lanes = 0;
		assert_int_equal(claim(c, rest).lane_count, 2 - lanes);
	}
}

static void groups_of_one_call_do_not_meet(void **state)
{
	struct ct *c = *state;
	struct qn_claim_op *op = ct_alloc(c, sizeof(*op));

	push(c, "a b");
	op->pops = ct_alloc(c, 2 * sizeof(*op->pops));
	op->pop_count = 2;
	op->pops[0] = pop_of(c, L1);
	op->pops[1] = pop_of(c, L2);
	op->pops[1].group = ct_span("h");
	ct_claim_op(c, op);
	assert_int_equal(op->pops[0].lane_count, 1);
	assert_int_equal(op->pops[1].lane_count, 1);
}

static void a_lane_by_name_creates_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	p.from = QN_CLAIM_LANE;
	assert_int_equal(claim(c, p).lane_count, 0);
	assert_int_equal(list_one(c, "q").row_count, 0);
	push_to(c, "q", "p2", "a");
	assert_int_equal(claim(c, p).lane_count, 0);
	assert_int_equal(list_one(c, "q").lane_count, 1);
	push_to(c, "q", "p", "a");
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].partition.n, 1);
	assert_int_equal(p.verdict_count, 0);
}

static uint32_t by_labels(struct ct *c, const char *name_space, const char *task)
{
	struct qn_claim_pop p = pop_of(c, "");
	static unsigned group;
	char *name = ct_alloc(c, 16);

	memcpy(name, "group-x", 7);
	name[6] = (char)('a' + group++ % 26);
	p.from = QN_CLAIM_LABELS;
	p.name_space = ct_span(name_space);
	p.task = ct_span(task);
	p.group = ct_span(name);
	p.max_lanes = 10;
	return claim(c, p).lane_count;
}

static void labels_select_queues(void **state)
{
	struct ct *c = *state;

	push_to(c, "shop.order", "p", "a");
	push_to(c, "shop.bill", "p", "a");
	push_to(c, "mail.order", "p", "a");
	assert_int_equal(by_labels(c, "shop", ""), 2);
	assert_int_equal(by_labels(c, "", "order"), 2);
	assert_int_equal(by_labels(c, "shop", "order"), 1);
	assert_int_equal(by_labels(c, "sho", ""), 0);
	assert_int_equal(by_labels(c, "mail", "bill"), 0);
}

static void st12_tenants_do_not_see_each_other(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);

	qn_uuid7(&p.tenant);
	assert_int_equal(claim(c, p).lane_count, 0);
	p.candidates = &lane;
	p.candidate_count = 1;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 0);
	assert_int_equal(verdict_on(&p, lane), QN_LANE_GONE);
}

const struct CMUnitTest claim_cases[] = {
	CASE(st6_one_batch_at_a_time),
	CASE(st6_an_expired_lease_is_given_again),
	CASE(st7_batches_run_over_segment_borders),
	CASE(st7_auto_ack_moves_the_cursor),
	CASE(st7_a_byte_budget_delivers_at_least_one),
	CASE(st7_the_byte_budget_is_the_calls),
	CASE(one_lease_covers_several_lanes),
	CASE(a_scan_finds_at_most_512_lanes),
	CASE(the_message_budget_is_the_calls),
	CASE(every_candidate_gets_a_verdict),
	CASE(candidates_beyond_the_budget_are_not_taken),
	CASE(no_lane_goes_to_two_pops_of_a_call),
	CASE(groups_of_one_call_do_not_meet),
	CASE(a_lane_by_name_creates_nothing),
	CASE(labels_select_queues),
	CASE(st12_tenants_do_not_see_each_other),
};
const size_t claim_case_count = CT_COUNT(claim_cases);
