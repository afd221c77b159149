/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker remembers of the leases it granted, and what it forgets first. */
#include "../../../core/arena.h"
#include "../../../core/broker/internal.h"
#include "../../../core/wire/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WIDE 20000

static struct qn_broker broker;
static struct qn_claimed lanes[WIDE];

static int setup(void **state)
{
	(void)state;
	memset(&broker, 0, sizeof(broker));
	qn_list_init(&broker.leases_by_age);
	for (uint32_t i = 0; i < WIDE; i++) {
		memcpy(lanes[i].partition_id.b, &i, sizeof(i));
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	qn_leases_stop(&broker);
	return (int)broker.lease_bytes;
}

static struct qn_span name_of(int lease, char *text)
{
	return (struct qn_span){text, (size_t)snprintf(text, 16, "lease-%d", lease)};
}

static void grant(int lease, uint32_t count)
{
	char text[16];
	struct qn_claim_pop pop = {.lease_id = name_of(lease, text), .lanes = lanes, .lane_count = count};

	pop.group = QN_SPAN_LIT("g");
	qn_lease_granted(&broker, &pop);
}

static void end_one(int lease)
{
	char text[16];
	struct qn_settle_lane lane = {.lease_id = name_of(lease, text)};

	qn_lease_lane_ended(&broker, &lane);
}

/* How many lanes are named, all of them checked. */
static uint32_t recalled(int lease, uint8_t tenant)
{
	char text[16];
	struct qn_arena *a = qn_arena_create();
	struct qn_extend_op op = {.op.arena = a, .lease_id = name_of(lease, text)};
	uint32_t count;

	op.tenant.b[0] = tenant;
	qn_lease_recall(&broker, &op);
	count = op.count;
	for (uint32_t i = 0; i < count; i++) {
		assert_memory_equal(&op.partition_ids[i], &lanes[i].partition_id, sizeof(struct qn_uuid));
	}
	if (count > 0) {
		assert_true(qn_span_eq(op.group, QN_SPAN_LIT("g")));
	}
	qn_arena_destroy(a);
	return count;
}

static void a_granted_lease_is_recalled_by_its_tenant(void **state)
{
	const struct qn_claim_pop auto_ack = {.lanes = lanes, .lane_count = 1};

	(void)state;
	grant(1, 3);
	grant(2, 1);
	assert_int_equal(recalled(1, 0), 3);
	assert_int_equal(recalled(2, 0), 1);
	assert_int_equal(recalled(3, 0), 0);
	assert_int_equal(recalled(1, 7), 0);
	qn_lease_granted(&broker, &auto_ack);
	assert_int_equal(broker.leases.count, 2);
	/* Also when all of it was acked: asking again should not cost more than asking before. */
	end_one(2);
	end_one(2);
	end_one(3);
	assert_int_equal(recalled(2, 0), 1);
}

static void what_was_acked_is_forgotten_first_then_the_oldest(void **state)
{
	int n = 0;

	(void)state;
	while (broker.lease_bytes < (31u << 20)) {
		grant(n++, WIDE);
	}
	for (uint32_t i = 0; i < WIDE; i++) {
		end_one(5);
	}
	end_one(6);
	for (int more = 0; recalled(5, 0) > 0; more++) {
		assert_true(more < 8);
		grant(n++, WIDE);
	}
	assert_int_equal(recalled(0, 0), WIDE);
	while (recalled(0, 0) > 0) {
		grant(n++, WIDE);
	}
	assert_int_equal(recalled(1, 0), WIDE);
	assert_int_equal(recalled(6, 0), WIDE);
	assert_int_equal(recalled(n - 1, 0), WIDE);
	assert_true(broker.lease_bytes <= 32u << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_granted_lease_is_recalled_by_its_tenant, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_acked_is_forgotten_first_then_the_oldest, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
