/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction body is read as, and what is said of bodies that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/transaction_parse.h"
#include "broker/job.h"

#include <stdio.h>
#include <string.h>

struct ctx {
	struct qn_arena *a;
	struct qn_txn_input in;
	struct qn_txn_fault fault;
};

static int setup(void **state)
{
	static struct ctx c;

	memset(&c, 0, sizeof(c));
	c.a = qn_arena_create();
	*state = &c;
	return 0;
}

static int teardown(void **state)
{
	qn_arena_destroy(((struct ctx *)*state)->a);
	return 0;
}

static struct qn_span span(const char *text)
{
	return (struct qn_span){text, strlen(text)};
}

static void parses(struct ctx *c, const char *body)
{
	if (!qn_txn_parse(c->a, span(body), &c->in, &c->fault)) {
		fail_msg("%s", c->fault.text);
	}
}

static void is_text(struct qn_span s, const char *text)
{
	assert_true(qn_span_eq(s, span(text)));
}

static void a_nested_push(void **state)
{
	struct ctx *c = *state;

	parses(c, "{\"operations\":[{\"items\":[{\"queue\":\"q\",\"partition\":\"p\",\"transactionId\":\"t\\u0041\","
	          "\"payload\":{\"b\": 1.0, \"a\":\"\\ud83d\"},\"data\":1,\"traceId\":"
	          "\"0198c0de-2222-7aaa-8bbb-00000000000a\"},{\"queue\":\"q2\"}],\"type\":\"push\"}]}");
	assert_int_equal(c->in.push_count, 2);
	assert_int_equal(c->in.slot_count, 2);
	assert_true(c->in.slots[0].is_push && c->in.slots[1].is_push);
	assert_int_equal(c->in.slots[1].index, 1);
	is_text(c->in.pushes[0].queue, "q");
	is_text(c->in.pushes[0].partition, "p");
	is_text(c->in.pushes[0].transaction_id, "tA");
	is_text(c->in.pushes[0].payload, "{\"b\": 1.0, \"a\":\"\\ud83d\"}");
	assert_true(c->in.pushes[0].has_trace);
	assert_int_equal(c->in.pushes[0].trace_id.b[15], 10);
	is_text(c->in.pushes[1].payload, "{}");
	assert_false(c->in.pushes[1].has_partition || c->in.pushes[1].has_transaction || c->in.pushes[1].has_trace);
}

static void a_flat_push_and_loose_types(void **state)
{
	struct ctx *c = *state;

	parses(c,
	       "{\"operations\":[{\"type\":\"push\",\"items\":{},\"queue\":\"q\",\"data\": [1, 2] ,\"partition\":null,"
	       "\"transactionId\":\"\",\"traceId\":\"no\"},{\"type\":\"push\",\"queue\":7,\"payload\":null,\"data\":1},"
	       "{\"type\":\"push\",\"items\":[]},{\"type\":\"push\",\"items\":[3]},"
	       "{\"type\":\"ack\",\"type\":\"push\",\"queue\":\"a\",\"queue\":\"\",\"partition\":\"\"}]}");
	assert_int_equal(c->in.push_count, 4);
	assert_int_equal(c->in.nameless, 2);
	is_text(c->in.pushes[0].payload, "[1, 2]");
	assert_false(c->in.pushes[0].has_partition || c->in.pushes[0].has_transaction || c->in.pushes[0].has_trace);
	is_text(c->in.pushes[1].payload, "null");
	assert_true(c->in.pushes[3].has_queue && c->in.pushes[3].has_partition);
	is_text(c->in.pushes[3].queue, "");
}

static void acks_and_leases(void **state)
{
	struct ctx *c = *state;

	parses(c,
	       "{\"requiredLeases\":[\"0198C0DE-2222-7AAA-8BBB-00000000000A\",\"\",5,null,\"x\"],\"operations\":["
	       "{\"type\":\"ack\"},{\"type\":\"ack\",\"transactionId\":\"t\",\"partitionId\":\"p\",\"status\":\"ok\","
	       "\"consumerGroup\":\"g\",\"leaseId\":\"0198C0DE-2222-7AAA-8BBB-00000000000A\",\"error\":\"e\\u0000f\"},"
	       "{\"type\":\"ack\",\"status\":null,\"consumerGroup\":\"\",\"leaseId\":null},"
	       "{\"type\":\"ack\",\"status\":\"Completed\"},{\"type\":\"ack\",\"status\":1},"
	       "{\"type\":\"ack\",\"status\":\"retry\"},{\"type\":\"ack\",\"status\":\"dlq\"}]}");
	assert_int_equal(c->in.lease_count, 2);
	is_text(c->in.leases[0], "0198c0de-2222-7aaa-8bbb-00000000000a");
	is_text(c->in.leases[1], "00000000-0000-0000-0000-000000000000");
	assert_int_equal(c->in.ack_count, 7);
	is_text(c->in.acks[0].group, QN_QUEUE_MODE);
	is_text(c->in.acks[0].transaction_id, "");
	is_text(c->in.acks[0].lease_id, "");
	assert_int_equal(c->in.acks[0].status, QN_ACK_COMPLETED);
	is_text(c->in.acks[1].transaction_id, "t");
	is_text(c->in.acks[1].partition_id, "p");
	is_text(c->in.acks[1].group, "g");
	is_text(c->in.acks[1].lease_id, "0198c0de-2222-7aaa-8bbb-00000000000a");
	is_text(c->in.acks[1].error, "e f");
	assert_int_equal(c->in.acks[1].status, QN_ACK_COMPLETED);
	is_text(c->in.acks[2].group, QN_QUEUE_MODE);
	assert_int_equal(c->in.acks[2].status, QN_ACK_COMPLETED);
	assert_int_equal(c->in.acks[3].status, QN_ACK_FAILED);
	assert_int_equal(c->in.acks[4].status, QN_ACK_FAILED);
	assert_int_equal(c->in.acks[5].status, QN_ACK_RETRY);
	assert_int_equal(c->in.acks[6].status, QN_ACK_DLQ);
}

static void empty_and_unknown_things(void **state)
{
	struct ctx *c = *state;

	parses(c, " {\"operations\":[],\"requiredLeases\":\"x\",\"kv\":[],\"timers\":null,\"more\":{}} ");
	assert_int_equal(c->in.slot_count, 0);
	assert_int_equal(c->in.lease_count, 0);
}

#define NEEDS_TYPE "every transaction operation needs a `type` of push or ack"
#define NO_ARRAY   "transaction requires an operations array"

static void what_is_refused(void **state)
{
	static const struct {
		const char *body, *text;
		bool is_body;
	} rows[] = {
		{"", "bad body: ", true},
		{"{\"operations\":[}", "bad body: ", true},
		{"{\"operations\":[]} x", "bad body: ", true},
		{"{\"operations\":[{\"type\":\"push\",\"payload\":01}]}", "bad body: ", true},
		{"{\"operations\":[{\"type\":\"push\",\n\"queue\":\"\\ud83d\"}]}", "queue of item 0: lone surrogate",
	         false},
		{"{\"operations\":[],\"requiredLeases\":[\"\\ud83d\"]}", "bad body: ", true},
		{"[]", NO_ARRAY, false},
		{"{}", NO_ARRAY, false},
		{"{\"operations\":null}", NO_ARRAY, false},
		{"{\"operations\":{}}", NO_ARRAY, false},
		{"{\"operations\":[{}]}", NEEDS_TYPE, false},
		{"{\"operations\":[7]}", NEEDS_TYPE, false},
		{"{\"operations\":[{\"type\":null}]}", NEEDS_TYPE, false},
		{"{\"operations\":[{\"type\":\"Push\",\"items\":[]}]}",
	         "segments transaction supports only push and ack operations, got `Push`", false},
		{"{\"operations\":[{\"type\":\"\"}]}",
	         "segments transaction supports only push and ack operations, got ``", false},
		{"{\"operations\":[],\"kv\":[1]}", "transactions with kv or timers are not supported", false},
		{"{\"operations\":[{\"type\":\"ack\"},{\"type\":\"push\",\"queue\":\"a\\n\"}]}",
	         "queue of item 1: ", false},
		{"{\"operations\":[{\"type\":\"ack\",\"consumerGroup\":\"\\u007f\"}]}",
	         "consumerGroup of item 0: ", false},
		{"{\"operations\":[{\"type\":\"ack\",\"transactionId\":\"\\u0001\"}]}",
	         "transactionId of item 0: ", false},
	};
	struct ctx *c = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (qn_txn_parse(c->a, span(rows[i].body), &c->in, &c->fault)) {
			fail_msg("accepted: %s", rows[i].body);
		}
		if (strncmp(c->fault.text, rows[i].text, strlen(rows[i].text)) != 0 ||
		    c->fault.is_body != rows[i].is_body) {
			fail_msg("%s: %s", rows[i].body, c->fault.text);
		}
	}
}

static void errors_inside_values_tell_their_place(void **state)
{
	struct ctx *c = *state;

	assert_false(qn_txn_parse(c->a, span("{\"operations\":[\n{\"type\":\"push\",\"queue\":\"ab\\ud83d\"}]}"),
	                          &c->in, &c->fault));
	assert_non_null(strstr(c->fault.text, "at line 2 column "));
}

static void a_long_type_is_cut_between_characters(void **state)
{
	struct ctx *c = *state;
	char body[256], accents[81];

	for (int i = 0; i < 40; i++) {
		memcpy(accents + 2 * i, "\xc3\xa9", 3);
	}
	(void)snprintf(body, sizeof(body), "{\"operations\":[{\"type\":\"x%s\"}]}", accents);
	assert_false(qn_txn_parse(c->a, span(body), &c->in, &c->fault));
	assert_true(qn_utf8_valid(span(c->fault.text), NULL));
	assert_non_null(strstr(c->fault.text, "\xc3\xa9`"));
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_nested_push),
		CASE(a_flat_push_and_loose_types),
		CASE(acks_and_leases),
		CASE(empty_and_unknown_things),
		CASE(what_is_refused),
		CASE(errors_inside_values_tell_their_place),
		CASE(a_long_type_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
