/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions: all or nothing, what refuses them, and dead letters inside (ST-13). */
#include "storage_kit.h"

#define LANES_MAX 4

struct txn {
	struct qn_txn_op op;
	struct qn_push_lane pushes[LANES_MAX];
	enum qn_txn_repeats repeats[LANES_MAX];
	struct qn_settle_lane acks[LANES_MAX];
	struct qn_span fences[LANES_MAX];
	struct qn_txn_letter letters[LANES_MAX];
};

static struct txn *begin(struct ct *c)
{
	struct txn *t = ct_alloc(c, sizeof(*t));

	t->op.tenant = c->tenant;
	t->op.pushes = t->pushes;
	t->op.repeats = t->repeats;
	t->op.acks = t->acks;
	t->op.fences = t->fences;
	t->op.letters = t->letters;
	t->op.hint = ct_span("");
	return t;
}

static void pushes(struct ct *c, struct txn *t, const char *queue, const char *partition, const char *ids)
{
	t->pushes[t->op.push_count++] = lane_of(c, queue, partition, ids);
}

static void acks(struct ct *c, struct txn *t, struct qn_uuid lane, const char *lease, const char *items)
{
	t->acks[t->op.ack_count++] = ack_of(c, lane, lease, items);
}

static void fence(struct txn *t, const char *lease)
{
	t->fences[t->op.fence_count++] = ct_span(lease);
	t->op.borrow = true;
}

static void commits(struct ct *c, struct txn *t)
{
	ct_txn_op(c, &t->op);
	assert_int_equal(t->op.verdict, QN_TXN_COMMITTED);
}

static void refused(struct ct *c, struct txn *t, enum qn_txn_verdict verdict, uint32_t at)
{
	ct_txn_op(c, &t->op);
	assert_int_equal(t->op.verdict, verdict);
	assert_int_equal(t->op.refused, at);
}

/* Messages of queue q, by lanes' totals. */
static int64_t total(struct ct *c, const char *queue)
{
	struct qn_list_op l = list_one(c, queue);
	int64_t n = 0;

	for (uint32_t i = 0; i < l.lane_count; i++) {
		n += l.lanes[i].total;
	}
	return n;
}

static void pushes_and_acks_happen_together(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct txn *t = begin(c);

	take(c, L1, 0, 1);
	pushes(c, t, "out", "p1", "x y");
	pushes(c, t, "out", "p2", "x");
	acks(c, t, lane, L1, "b:c");
	commits(c, t);
	assert_int_equal(t->pushes[0].base_offset, 0);
	assert_int_equal(t->pushes[1].base_offset, 0);
	assert_int_equal(t->pushes[0].dedup_window_s, 3600);
	assert_true(t->pushes[0].created_at_us > 0);
	assert_false(same_id(t->pushes[0].lane_id, t->pushes[1].lane_id));
	assert_true(t->acks[0].lease_released);
	assert_false(t->acks[0].has_more);
	assert_int_equal(t->acks[0].committed, 1);
	assert_string_equal(outcomes(c, &t->acks[0]), "C");
	assert_int_equal(total(c, "out"), 3);
	ack(c, lane, L1, "b:c", "N");
}

static void nothing_at_all_commits(void **state)
{
	struct ct *c = *state;

	commits(c, begin(c));
}

static void a_duplicate_leaves_no_trace(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct txn *t = begin(c);

	push_to(c, "out", "p1", "x");
	take(c, L1, 0, 0);
	pushes(c, t, "fresh", "p", "n");
	pushes(c, t, "out", "p1", "y x");
	pushes(c, t, "out", "p2", "z");
	acks(c, t, lane, L1, "a:c");
	refused(c, t, QN_TXN_DUPLICATE, 1);
	assert_int_equal(total(c, "out"), 1);
	assert_int_equal(list_one(c, "out").lane_count, 1);
	assert_int_equal(list_one(c, "fresh").row_count, 0);
	assert_true(ack(c, lane, L1, "a:c", "C").lease_released);
}

static void a_refused_ack_stores_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id, other = push_to(c, "q", "p2", "m").lane_id;
	struct txn *t = begin(c);
	struct qn_claim_pop p = pop_of(c, L1);

	p.max_lanes = 2;
	assert_int_equal(claim(c, p).lane_count, 2);
	pushes(c, t, "fresh", "p", "n");
	acks(c, t, other, L1, "m:c");
	acks(c, t, lane, L1, "a:c ghost:c");
	refused(c, t, QN_TXN_UNKNOWN, 1);
	assert_int_equal(list_one(c, "fresh").row_count, 0);
	assert_true(ack(c, other, L1, "m:c", "C").lease_released);
	assert_int_equal(ack(c, lane, L1, "a:c", "C").committed, 0);
}

static void every_kind_of_refused_ack(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id, nowhere;
	struct txn *t = begin(c);

	qn_uuid7(&nowhere);
	acks(c, t, nowhere, "", "a:c");
	refused(c, t, QN_TXN_NOT_OWNED, 0);
	t = begin(c);
	qn_uuid7(&t->op.tenant);
	acks(c, t, lane, "", "a:c");
	refused(c, t, QN_TXN_NOT_OWNED, 0);
	t = begin(c);
	acks(c, t, lane, "", "a:c");
	refused(c, t, QN_TXN_NO_CONSUMER, 0);
	take(c, L1, 0, 1);
	t = begin(c);
	acks(c, t, lane, L2, "a:c");
	refused(c, t, QN_TXN_BAD_LEASE, 0);
	t = begin(c);
	acks(c, t, lane, L1, "b:c");
	commits(c, t);
	/* A repetition may carry pushes that are not known to be one: decisions 17 is for acks alone. */
	refused(c, t, QN_TXN_BAD_LEASE, 0);
	push(c, "d");
	t = begin(c);
	acks(c, t, lane, "", "d:f");
	refused(c, t, QN_TXN_NO_BATCH, 0);
}

static void acks_that_can_do_nothing_refuse_nothing(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);
	struct txn *t = begin(c);

	p.budget = 2;
	assert_int_equal(claim(c, p).lanes[0].batch_end, 1);
	ack(c, lane, L1, "a:c", "C");
	acks(c, t, lane, L1, "a:c a:f d:c d:f");
	commits(c, t);
	assert_false(t->acks[0].lease_released);
	assert_int_equal(t->acks[0].committed, 0);
	assert_true(ack(c, lane, L1, "b:c", "C").lease_released);
	take(c, L2, 2, 2);
}

static void acks_do_not_see_the_calls_own_pushes(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct txn *t = begin(c);

	take(c, "", 0, 0);
	pushes(c, t, "q", "p", "b");
	acks(c, t, lane, "", "b:c");
	refused(c, t, QN_TXN_UNKNOWN, 0);
	assert_int_equal(total(c, "q"), 1);
}

static void an_ack_and_a_push_of_one_lane(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct txn *t = begin(c);

	take(c, L1, 0, 0);
	pushes(c, t, "q", "p", "b");
	acks(c, t, lane, L1, "a:c");
	commits(c, t);
	assert_int_equal(t->pushes[0].base_offset, 1);
	assert_true(t->acks[0].lease_released && t->acks[0].has_more);
	take(c, L2, 1, 1);
}

static void failing_charges_only_when_it_commits(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;
	struct txn *t = begin(c);

	o.retry_limit = 1;
	configure(c, "q", o);
	lane = push(c, "a").lane_id;
	push_to(c, "out", "p", "x");
	take(c, L1, 0, 0);
	pushes(c, t, "out", "p", "x");
	acks(c, t, lane, L1, "a:f");
	refused(c, t, QN_TXN_DUPLICATE, 0);
	t->op.push_count = 0;
	commits(c, t);
	assert_string_equal(outcomes(c, &t->acks[0]), "F");
	assert_true(t->acks[0].has_more);
	take(c, L1, 0, 0);
	ack(c, lane, L1, "a:f", "D");
}

static void repeats_are_the_windows_business(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct txn *t = begin(c);

	o.dedup_window_s = 0;
	configure(c, "off", o);
	pushes(c, t, "off", "p", "a");
	t->repeats[0] = QN_TXN_REPEATS_REMOVED;
	refused(c, t, QN_TXN_WINDOW, 0);
	assert_int_equal(t->pushes[0].dedup_window_s, 0);
	assert_int_equal(list_one(c, "off").lane_count, 0);
	t = begin(c);
	pushes(c, t, "off", "p", "a a");
	t->repeats[0] = QN_TXN_REPEATS_KEPT;
	commits(c, t);
	t = begin(c);
	pushes(c, t, "on", "p", "a");
	pushes(c, t, "on", "p2", "a a");
	t->repeats[0] = QN_TXN_REPEATS_REMOVED;
	t->repeats[1] = QN_TXN_REPEATS_KEPT;
	refused(c, t, QN_TXN_WINDOW, 1);
	assert_int_equal(t->pushes[1].dedup_window_s, 3600);
	assert_int_equal(list_one(c, "on").row_count, 0);
}

static void plaintext_is_refused(void **state)
{
	struct ct *c = *state;
	struct qn_queue_options o = options_default();
	struct txn *t = begin(c);

	o.encryption_enabled = true;
	configure(c, "secret", o);
	pushes(c, t, "open", "p", "a");
	pushes(c, t, "secret", "p", "a");
	refused(c, t, QN_TXN_UNSEALED, 1);
	assert_int_equal(list_one(c, "open").row_count, 0);
	t->pushes[1].sealed = true;
	commits(c, t);
}

static void a_required_lease_must_be_held(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct txn *t = begin(c);

	pushes(c, t, "out", "p", "x");
	fence(t, L1);
	refused(c, t, QN_TXN_FENCE, 0);
	take(c, L1, 0, 1);
	/* Held, though not by a lane of the call. */
	commits(c, t);
	t = begin(c);
	fence(t, L1);
	fence(t, L2);
	acks(c, t, lane, "", "a:c");
	refused(c, t, QN_TXN_FENCE, 1);
	t->op.fence_count = 1;
	commits(c, t);
	assert_int_equal(t->acks[0].committed, 0);
	t = begin(c);
	qn_uuid7(&t->op.tenant);
	fence(t, L1);
	refused(c, t, QN_TXN_FENCE, 0);
	ack(c, lane, L1, "b:c", "C");
	t = begin(c);
	fence(t, L1);
	refused(c, t, QN_TXN_FENCE, 0);
}

static void an_expired_lease_fences(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);
	struct txn *t = begin(c);

	p.lease_s = 1;
	p = claim(c, p);
	ct_wait_until_us(p.lanes[0].lease_expires_at_us + 10000);
	fence(t, L1);
	refused(c, t, QN_TXN_FENCE, 0);
	t = begin(c);
	acks(c, t, lane, "", "a:c");
	t->op.borrow = true;
	refused(c, t, QN_TXN_BAD_LEASE, 0);
	t->op.borrow = false;
	commits(c, t);
}

static void duplicates_are_told_before_fences(void **state)
{
	struct ct *c = *state;
	struct txn *t = begin(c);

	push_to(c, "out", "p", "x");
	pushes(c, t, "out", "p", "x");
	fence(t, L1);
	acks(c, t, c->tenant, "", "a:c");
	refused(c, t, QN_TXN_DUPLICATE, 0);
}

static void leases_are_borrowed_from_the_cursor_or_the_hint(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b").lane_id;
	struct txn *t = begin(c);

	take(c, L1, 0, 1);
	acks(c, t, lane, "", "a:c");
	t->op.borrow = true;
	t->op.hint = ct_span(L2);
	commits(c, t);
	ack(c, lane, L1, "b:c", "C");
	push(c, "d");
	t = begin(c);
	acks(c, t, lane, "", "b:c");
	t->op.borrow = true;
	t->op.hint = ct_span(L2);
	refused(c, t, QN_TXN_BAD_LEASE, 0);
	t->op.hint = ct_span("");
	commits(c, t);
}

static void letter(struct txn *t, uint32_t lane, int64_t offset)
{
	t->letters[t->op.letter_count++] = (struct qn_txn_letter){.lane = lane,
	                                                          .offset = offset,
	                                                          .transaction_id = ct_span("b"),
	                                                          .payload = ct_span("{}"),
	                                                          .error = ct_span("why")};
}

static void a_dead_letter_is_part_of_it(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a b d").lane_id, other = push_to(c, "q", "p2", "m").lane_id;
	struct qn_claim_pop p = pop_of(c, L1);
	struct txn *t = begin(c);

	p.max_lanes = 2;
	assert_int_equal(claim(c, p).lane_count, 2);
	pushes(c, t, "out", "p", "x");
	acks(c, t, other, L1, "m:c");
	acks(c, t, lane, L1, "a:c b:d");
	refused(c, t, QN_TXN_POISONED, 0);
	assert_true(t->acks[1].needs_dead_letter);
	assert_false(t->acks[0].needs_dead_letter);
	assert_int_equal(t->acks[1].poison_item, 1);
	assert_int_equal(t->acks[1].poison_offset, 1);
	assert_true(t->acks[1].poison.found);
	assert_int_equal(t->acks[1].poison.count, 3);
	assert_int_equal(t->acks[1].poison.blob.n, strlen("a b d"));
	assert_int_equal(list_one(c, "out").row_count, 0);
	letter(t, 1, 0);
	refused(c, t, QN_TXN_POISONED, 0);
	t->op.letter_count = 0;
	letter(t, 1, 1);
	commits(c, t);
	assert_string_equal(outcomes(c, &t->acks[1]), "CD");
	assert_int_equal(t->acks[1].committed, 1);
	assert_true(t->acks[1].lease_released && t->acks[1].has_more);
	assert_false(t->acks[1].needs_dead_letter);
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 1);
	assert_int_equal(total(c, "out"), 1);
	take(c, L2, 2, 2);
}

static void a_letter_nobody_needs_is_not_filed(void **state)
{
	struct ct *c = *state;
	struct qn_uuid lane = push(c, "a").lane_id;
	struct txn *t = begin(c);

	take(c, L1, 0, 0);
	acks(c, t, lane, L1, "a:c");
	letter(t, 0, 0);
	commits(c, t);
	assert_int_equal(list_one(c, "q").lanes[0].dead_letter, 0);
}

static void transactions_and_pushes_share_a_lanes_offsets(void **state)
{
	struct ct *c = *state;

	for (int i = 0; i < 3; i++) {
		struct txn *t = begin(c);
		char ids[16];

		(void)snprintf(ids, sizeof(ids), "t%d", i);
		pushes(c, t, "q", "p", ids);
		commits(c, t);
		assert_int_equal(t->pushes[0].base_offset, 2 * i);
		(void)snprintf(ids, sizeof(ids), "o%d", i);
		assert_int_equal(push(c, ids).base_offset, 2 * i + 1);
	}
	take(c, L1, 0, 5);
}

const struct CMUnitTest transaction_cases[] = {
	CASE(pushes_and_acks_happen_together),
	CASE(nothing_at_all_commits),
	CASE(a_duplicate_leaves_no_trace),
	CASE(a_refused_ack_stores_nothing),
	CASE(every_kind_of_refused_ack),
	CASE(acks_that_can_do_nothing_refuse_nothing),
	CASE(acks_do_not_see_the_calls_own_pushes),
	CASE(an_ack_and_a_push_of_one_lane),
	CASE(failing_charges_only_when_it_commits),
	CASE(repeats_are_the_windows_business),
	CASE(plaintext_is_refused),
	CASE(a_required_lease_must_be_held),
	CASE(an_expired_lease_fences),
	CASE(duplicates_are_told_before_fences),
	CASE(leases_are_borrowed_from_the_cursor_or_the_hint),
	CASE(a_dead_letter_is_part_of_it),
	CASE(a_letter_nobody_needs_is_not_filed),
	CASE(transactions_and_pushes_share_a_lanes_offsets),
};
const size_t transaction_case_count = CT_COUNT(transaction_cases);
