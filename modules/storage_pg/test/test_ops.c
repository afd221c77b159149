/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation once against the real functions: each field arrives where it belongs, both ways. */
#include "fake_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENANT                    \
	{                         \
		.b = { [15] = 1 } \
	}
#define LEASE "018f0000-0000-7000-8000-000000000001"

static struct fake_server server;
static struct fake_broker b;
static struct fake_wait w;
static struct qn_uuid lane_id;
static uint8_t hashes[3 * 16];

static struct qn_span text(const char *s)
{
	return (struct qn_span){s, strlen(s)};
}

static void is(struct qn_span s, const char *want)
{
	assert_int_equal(s.n, strlen(want));
	assert_memory_equal(s.p, want, s.n);
}

/* Starts the op through its member of the vtable and waits for a good end; the arena stays for the checks. */
#define RUN(member, o)                                                    \
	do {                                                              \
		fake_op(&b, &(o)->op, &w, 20000);                         \
		b.vt->member(b.self, (o));                                \
		fake_wait(&b, &w);                                        \
		if (w.error.code != QN_OK) {                              \
			fail_msg("%s %s", w.error.sqlstate, w.error.msg); \
		}                                                         \
	} while (0)

static void configure_sets_every_option(void **state)
{
	(void)state;
	static const struct qn_uuid nil;
	struct qn_configure_op op = {.tenant = TENANT, .queue = text("orders.eu")};
	int32_t v = 11;
	op.options.name_space = text("shop");
	op.options.task = text("ship");
#define X(field, json, column, def, lo, hi) op.options.field = v++;
	QN_QUEUE_INTS(X)
#undef X
	op.options.lease_time_s = 77;
	op.options.delayed_processing_s = op.options.window_buffer_s = 0;
	op.options.dlq_after_max_retries = op.options.retention_enabled = true;
	RUN(configure, &op);
	assert_memory_not_equal(op.queue_id.b, nil.b, 16);
	struct qn_list_op list = {.tenant = TENANT, .one = true, .queue = text("orders.eu"), .limit = -1};
	RUN(list, &list);
	assert_int_equal(list.row_count, 1);
	is(list.rows[0].name, "orders.eu");
	is(list.rows[0].options.name_space, "shop");
	is(list.rows[0].options.task, "ship");
	assert_memory_equal(list.rows[0].id.b, op.queue_id.b, 16);
#define X(field, json, column, def, lo, hi) assert_int_equal(list.rows[0].options.field, op.options.field);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) assert_int_equal(list.rows[0].options.field, op.options.field);
	QN_QUEUE_BOOLS(X)
#undef X
	fake_op_free(&list.op);
	fake_op_free(&op.op);
}

static void push_then_fetch(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(hashes); i++) {
		hashes[i] = (uint8_t)(i / 16 + 1);
	}
	struct qn_push_lane lane = {.tenant = TENANT,
	                            .queue = text("orders.eu"),
	                            .partition = text("cust-1"),
	                            .count = 3,
	                            .raw_bytes = 9,
	                            .verified = -1,
	                            .hashes = {hashes, sizeof(hashes)},
	                            .blob = text("abcdefghi")};
	struct qn_push_op op = {.lanes = &lane, .lane_count = 1};
	RUN(push, &op);
	assert_int_equal(lane.status, QN_PUSH_QUEUED);
	assert_int_equal(lane.base_offset, 0);
	lane_id = lane.lane_id;
	fake_op_free(&op.op);
	struct qn_fetch items[2] = {{.partition_id = lane_id, .offset = 2}, {.partition_id = lane_id, .offset = 3}};
	struct qn_fetch_op fetch = {.tenant = TENANT, .items = items, .count = 2};
	RUN(fetch, &fetch);
	assert_true(items[0].found);
	assert_int_equal(items[0].base_offset, 0);
	assert_int_equal(items[0].count, 3);
	assert_int_equal(items[0].created_at_us, lane.created_at_us);
	is(items[0].blob, "abcdefghi");
	assert_false(items[1].found);
	fake_op_free(&fetch.op);
}

static void register_is_once(void **state)
{
	(void)state;
	struct qn_register_op op = {
		.tenant = TENANT, .queue = text("orders.eu"), .group = text("g"), .start = {.mode = QN_START_ALL}};
	RUN(register_group, &op);
	assert_true(op.registered);
	assert_false(op.created_queue);
	fake_op_free(&op.op);
	RUN(register_group, &op);
	assert_false(op.registered);
	fake_op_free(&op.op);
}

static void claim_gives_slices_and_verdicts(void **state)
{
	(void)state;
	struct qn_uuid unknown = {.b = {9}};
	struct qn_uuid ids[2] = {lane_id, unknown};
	struct qn_claim_pop pops[2] = {
		{.tenant = TENANT,
	         .from = QN_CLAIM_QUEUE,
	         .queue = text("orders.eu"),
	         .group = text("g"),
	         .lease_id = text(LEASE),
	         .budget = 2,
	         .budget_bytes = 1 << 20,
	         .max_lanes = 1,
	         .candidates = ids,
	         .candidate_count = 2},
		{.tenant = TENANT,
	         .from = QN_CLAIM_LANE,
	         .queue = text("nowhere"),
	         .partition = text("p"),
	         .group = text("g"),
	         .budget = 1,
	         .budget_bytes = 1 << 20},
	};
	struct qn_claim_op op = {.pops = pops, .pop_count = 2};
	RUN(claim, &op);
	assert_int_equal(pops[0].lane_count, 1);
	const struct qn_claimed *l = &pops[0].lanes[0];
	is(l->queue, "orders.eu");
	is(l->partition, "cust-1");
	assert_memory_equal(l->partition_id.b, lane_id.b, 16);
	assert_int_equal(l->first_offset, 0);
	assert_int_equal(l->batch_end, 1);
	assert_int_equal(l->last_offset, 2);
	assert_int_equal(l->attempt, 1);
	assert_true(l->lease_expires_at_us > INT64_C(1700000000000000));
	assert_int_equal(l->slice_count, 1);
	assert_int_equal(l->slices[0].count, 3);
	assert_int_equal(l->slices[0].first, 0);
	assert_int_equal(l->slices[0].take, 2);
	is(l->slices[0].blob, "abcdefghi");
	assert_int_equal(pops[0].verdict_count, 2);
	for (int i = 0; i < 2; i++) {
		bool ours = memcmp(pops[0].verdicts[i].partition_id.b, lane_id.b, 16) == 0;
		assert_int_equal(pops[0].verdicts[i].kind, ours ? QN_TOOK : QN_LANE_GONE);
	}
	assert_int_equal(pops[1].lane_count, 0);
	assert_int_equal(pops[1].verdict_count, 0);
	fake_op_free(&op.op);
}

static void extend_and_settle(void **state)
{
	(void)state;
	struct qn_extend_op extend = {.tenant = TENANT, .lease_id = text(LEASE), .seconds = 500};
	RUN(extend, &extend);
	assert_int_equal(extend.renewed, 1);
	assert_true(extend.expires_at_us > 0);
	fake_op_free(&extend.op);
	struct qn_ack_item items[2] = {{.status = QN_ACK_COMPLETED}, {.status = QN_ACK_DLQ}};
	memcpy(items[0].hash, hashes, 16);
	memcpy(items[1].hash, hashes + 16, 16);
	struct qn_settle_lane lane = {.tenant = TENANT,
	                              .partition_id = lane_id,
	                              .group = text("g"),
	                              .lease_id = text(LEASE),
	                              .items = items,
	                              .item_count = 2};
	struct qn_settle_op op = {.lanes = &lane, .lane_count = 1};
	RUN(settle, &op);
	is(lane.queue, "orders.eu");
	is(lane.partition, "cust-1");
	assert_int_equal(items[0].outcome, QN_OUT_COMPLETED);
	assert_int_equal(items[1].outcome, QN_OUT_DEAD_LETTERED);
	assert_int_equal(items[1].reason, QN_ACK_OK);
	assert_true(lane.needs_dead_letter);
	assert_int_equal(lane.poison_item, 1);
	assert_int_equal(lane.poison_offset, 1);
	assert_true(lane.poison.found);
	assert_int_equal(lane.poison.count, 3);
	is(lane.poison.blob, "abcdefghi");
	fake_op_free(&op.op);
}

static void dead_letter_files_and_frees(void **state)
{
	(void)state;
	struct qn_dead_letter letter = {.tenant = TENANT,
	                                .partition_id = lane_id,
	                                .group = text("g"),
	                                .lease_id = text(LEASE),
	                                .offset = 1,
	                                .count = 1,
	                                .transaction_id = text("t-1"),
	                                .payload = {"\0\xff", 2},
	                                .error = text("no good")};
	struct qn_dead_letter_op op = {.items = &letter, .count = 1};
	RUN(dead_letter, &op);
	assert_true(letter.filed);
	assert_true(letter.has_more);
	is(letter.queue, "orders.eu");
	is(letter.partition, "cust-1");
	fake_op_free(&op.op);
	PGconn *c = fake_server_connect(&server);
	assert_string_equal(fake_sql(c, "SELECT encode(payload, 'hex') || transaction_id FROM queen.log_dlq"),
	                    "00fft-1");
	PQfinish(c);
}

static void release_gives_back(void **state)
{
	(void)state;
	struct qn_claim_pop pop = {.tenant = TENANT,
	                           .from = QN_CLAIM_LANE,
	                           .queue = text("orders.eu"),
	                           .partition = text("cust-1"),
	                           .group = text("g"),
	                           .lease_id = text(LEASE),
	                           .budget = 9,
	                           .budget_bytes = 1 << 20,
	                           .max_lanes = 1};
	struct qn_claim_op claim = {.pops = &pop, .pop_count = 1};
	RUN(claim, &claim);
	assert_int_equal(pop.lane_count, 1);
	assert_int_equal(pop.lanes[0].first_offset, 2);
	fake_op_free(&claim.op);
	struct qn_release_op op = {
		.tenant = TENANT, .group = text("g"), .lease_id = text(LEASE), .partition_ids = &lane_id, .count = 1};
	RUN(release, &op);
	assert_int_equal(op.released, 1);
	fake_op_free(&op.op);
	RUN(release, &op);
	assert_int_equal(op.released, 0);
	fake_op_free(&op.op);
}

static void list_counts_and_delete_deletes(void **state)
{
	(void)state;
	struct qn_list_op list = {.tenant = TENANT, .one = true, .queue = text("orders.eu"), .limit = -1};
	RUN(list, &list);
	assert_int_equal(list.row_count, 1);
	assert_int_equal(list.rows[0].partitions, 1);
	assert_int_equal(list.rows[0].messages, 3);
	assert_int_equal(list.rows[0].pending, 1);
	assert_int_equal(list.lane_count, 1);
	is(list.lanes[0].name, "cust-1");
	assert_int_equal(list.lanes[0].total, 3);
	assert_int_equal(list.lanes[0].dead_letter, 1);
	assert_memory_equal(list.lanes[0].id.b, lane_id.b, 16);
	fake_op_free(&list.op);
	struct qn_delete_op op = {.tenant = TENANT, .queue = text("orders.eu")};
	RUN(delete_queue, &op);
	assert_true(op.existed);
	fake_op_free(&op.op);
	RUN(delete_queue, &op);
	assert_false(op.existed);
	fake_op_free(&op.op);
	list = (struct qn_list_op){.tenant = TENANT, .limit = -1};
	RUN(list, &list);
	assert_int_equal(list.row_count, 0);
	fake_op_free(&list.op);
}

static void slots_are_the_options(void **state)
{
	(void)state;
	struct qn_storage_slots s = b.vt->slots(b.self);
	assert_int_equal(s.push, 2);
	assert_int_equal(s.claim, 1);
	assert_int_equal(s.settle, 1);
	assert_int_equal(s.query, 2);
}

static int group_setup(void **state)
{
	(void)state;
	struct qn_error e = {0};
	struct qn_pg_options o = fake_options();
	fake_server_start(&server);
	o.dsn = server.dsn;
	if (fake_broker_start(&b, &o, &e) != QN_OK) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	fake_broker_stop(&b);
	fake_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configure_sets_every_option),
		cmocka_unit_test(push_then_fetch),
		cmocka_unit_test(register_is_once),
		cmocka_unit_test(claim_gives_slices_and_verdicts),
		cmocka_unit_test(extend_and_settle),
		cmocka_unit_test(dead_letter_files_and_frees),
		cmocka_unit_test(release_gives_back),
		cmocka_unit_test(list_counts_and_delete_deletes),
		cmocka_unit_test(slots_are_the_options),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
