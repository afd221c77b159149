/* SPDX-License-Identifier: Apache-2.0 */
/* Where groups start: ST-10. "sees" claims with auto_ack and says how many messages came. */
#include "storage_kit.h"

static int64_t sees(struct ct *c, const char *queue, const char *group)
{
	struct qn_claim_pop p = pop_of(c, "");
	int64_t n = 0;

	p.queue = ct_span(queue);
	p.group = ct_span(group);
	p.max_lanes = 0;
	p = claim(c, p);
	for (uint32_t i = 0; i < p.lane_count; i++) {
		n += p.lanes[i].batch_end - p.lanes[i].first_offset + 1;
	}
	return n;
}

static void st10_all_starts_at_the_oldest(void **state)
{
	struct ct *c = *state;

	push(c, "a b");
	assert_true(registers(c, "q", "g", QN_START_ALL, 0));
	push(c, "d");
	assert_int_equal(sees(c, "q", "g"), 3);
}

static void st10_new_skips_the_backlog(void **state)
{
	struct ct *c = *state;

	push(c, "a b");
	assert_true(registers(c, "q", "g", QN_START_NEW, 0));
	assert_int_equal(sees(c, "q", "g"), 0);
	push(c, "d");
	assert_int_equal(sees(c, "q", "g"), 1);
}

static void st10_new_sees_all_of_lanes_born_later(void **state)
{
	struct ct *c = *state;

	push_to(c, "q", "old", "a b");
	assert_true(registers(c, "q", "g", QN_START_NEW, 0));
	push_to(c, "q", "young", "a b d");
	push_to(c, "q", "young", "e");
	assert_int_equal(sees(c, "q", "g"), 4);
}

static void st10_queue_mode_is_always_all(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	push(c, "a b");
	(void)registers(c, "q", QN_QUEUE_MODE, QN_START_NEW, 0);
	assert_int_equal(sees(c, "q", QN_QUEUE_MODE), 2);
	push_to(c, "q2", "p", "a");
	p.queue = ct_span("q2");
	p.from = QN_CLAIM_LANE;
	p.group = ct_span(QN_QUEUE_MODE);
	p.start.mode = QN_START_NEW;
	assert_int_equal(claim(c, p).lane_count, 1);
}

static void st10_a_time_starts_at_its_segment(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a = push(c, "a b"), b;

	ct_wait_until_us(a.created_at_us + 2000);
	b = push(c, "d e f");
	assert_true(registers(c, "q", "exact", QN_START_TIME, b.created_at_us));
	assert_true(registers(c, "q", "before", QN_START_TIME, a.created_at_us - 1));
	assert_true(registers(c, "q", "between", QN_START_TIME, a.created_at_us + 1));
	assert_true(registers(c, "q", "after", QN_START_TIME, b.created_at_us + 1));
	assert_true(registers(c, "q", "epoch", QN_START_TIME, 0));
	assert_int_equal(sees(c, "q", "exact"), 3);
	assert_int_equal(sees(c, "q", "before"), 5);
	assert_int_equal(sees(c, "q", "between"), 3);
	assert_int_equal(sees(c, "q", "after"), 0);
	assert_int_equal(sees(c, "q", "epoch"), 5);
	push(c, "h");
	assert_int_equal(sees(c, "q", "after"), 1);
}

static void st10_later_lanes_start_by_the_registered_time(void **state)
{
	struct ct *c = *state;
	struct qn_push_lane a;

	assert_true(registers(c, "q", "g", QN_START_TIME, qn_now_us() + SECOND));
	a = push(c, "a b");
	ct_wait_until_us(a.created_at_us + SECOND + 20000);
	push(c, "d");
	/* The lane is met only now: what came before the time is not delivered. */
	assert_int_equal(sees(c, "q", "g"), 1);
}

static void st10_registering_twice_changes_nothing(void **state)
{
	struct ct *c = *state;

	push(c, "a b");
	assert_true(registers(c, "q", "g", QN_START_NEW, 0));
	assert_false(registers(c, "q", "g", QN_START_ALL, 0));
	assert_int_equal(sees(c, "q", "g"), 0);
	assert_true(registers(c, "q", "h", QN_START_ALL, 0));
	assert_false(registers(c, "q", "h", QN_START_NEW, 0));
	assert_int_equal(sees(c, "q", "h"), 2);
}

static void registering_creates_the_queue(void **state)
{
	struct ct *c = *state;
	struct qn_register_op op = {.tenant = c->tenant,
	                            .queue = ct_span("new.queue"),
	                            .name_space = ct_span(""),
	                            .task = ct_span(""),
	                            .group = ct_span("g")};

	ct_register_op(c, &op);
	assert_true(op.created_queue && op.registered);
	ct_register_op(c, &op);
	assert_false(op.created_queue || op.registered);
	assert_int_equal(list_one(c, "new.queue").rows[0].options.lease_time_s, QN_LEASE_IMPLICIT_S);
	assert_int_equal(list_one(c, "new.queue").rows[0].options.name_space.n, 3);
	assert_int_equal(list_one(c, "new.queue").rows[0].partitions, 0);
}

static bool registers_labels(struct ct *c, const char *name_space, const char *task, enum qn_start mode)
{
	struct qn_register_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->by_labels = true;
	op->queue = ct_span("");
	op->name_space = ct_span(name_space);
	op->task = ct_span(task);
	op->group = ct_span("g");
	op->start.mode = mode;
	ct_register_op(c, op);
	assert_false(op->created_queue);
	return op->registered;
}

static void st10_labels_register_on_queues_of_now_and_later(void **state)
{
	struct ct *c = *state;

	push_to(c, "shop.order", "p", "a b");
	push_to(c, "mail.order", "p", "a");
	assert_true(registers_labels(c, "shop", "", QN_START_NEW));
	assert_false(registers_labels(c, "shop", "", QN_START_ALL));
	assert_int_equal(sees(c, "shop.order", "g"), 0);
	push_to(c, "shop.order", "p", "d");
	push_to(c, "shop.bill", "p", "a b");
	assert_int_equal(sees(c, "shop.order", "g"), 1);
	/* Born after the registration: everything. The pop's own wish does not count any more. */
	assert_int_equal(sees(c, "shop.bill", "g"), 2);
	assert_int_equal(sees(c, "mail.order", "g"), 1);
}

static void st10_labels_cover_later_lanes(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, L1);

	push_to(c, "shop.order", "p", "a");
	assert_true(registers_labels(c, "shop", "order", QN_START_NEW));
	push_to(c, "shop.order", "p2", "a b");
	p.from = QN_CLAIM_LABELS;
	p.name_space = ct_span("shop");
	p.task = ct_span("order");
	p.start.mode = QN_START_NEW;
	p.max_lanes = 0;
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].batch_end, 1);
}

static void st10_a_lane_without_registration_asks_the_pop(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, "");
	struct qn_push_lane a = push(c, "a b");

	p.from = QN_CLAIM_LANE;
	p.start.mode = QN_START_NEW;
	assert_int_equal(claim(c, p).lane_count, 0);
	/* Decided: asking for all of it now is too late. */
	p.start.mode = QN_START_ALL;
	assert_int_equal(claim(c, p).lane_count, 0);
	p.group = ct_span("h");
	p.start = (struct qn_subscription){QN_START_TIME, a.created_at_us};
	p = claim(c, p);
	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].batch_end, 1);
}

static void st10_a_lane_obeys_the_record(void **state)
{
	struct ct *c = *state;
	struct qn_claim_pop p = pop_of(c, "");

	assert_true(registers(c, "q", "g", QN_START_ALL, 0));
	push(c, "a b");
	p.from = QN_CLAIM_LANE;
	p.start.mode = QN_START_NEW;
	assert_int_equal(claim(c, p).lane_count, 1);
}

const struct CMUnitTest group_cases[] = {
	CASE(st10_all_starts_at_the_oldest),
	CASE(st10_new_skips_the_backlog),
	CASE(st10_new_sees_all_of_lanes_born_later),
	CASE(st10_queue_mode_is_always_all),
	CASE(st10_a_time_starts_at_its_segment),
	CASE(st10_later_lanes_start_by_the_registered_time),
	CASE(st10_registering_twice_changes_nothing),
	CASE(registering_creates_the_queue),
	CASE(st10_labels_register_on_queues_of_now_and_later),
	CASE(st10_labels_cover_later_lanes),
	CASE(st10_a_lane_without_registration_asks_the_pop),
	CASE(st10_a_lane_obeys_the_record),
};
const size_t group_case_count = CT_COUNT(group_cases);
