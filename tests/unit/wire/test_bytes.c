/* SPDX-License-Identifier: Apache-2.0 */
/* The growable buffer and the JSON pieces written into it. */
#include "wire_test.h"

#include "arena.h"
#include "wire/bytes.h"
#include "wire/json_scan.h"

#include <stdio.h>

static void grows_and_keeps_everything(void **state)
{
	struct qn_bytes b = {0};
	struct qn_buf out;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		uint8_t c = (uint8_t)(i * 7);

		qn_bytes_put(&b, &c, 1);
	}
	assert_false(b.failed);
	assert_int_equal(b.n, 100000);
	for (unsigned i = 0; i < 100000; i++) {
		assert_int_equal(b.p[i], (uint8_t)(i * 7));
	}
	out = qn_bytes_take(&b);
	assert_int_equal(out.n, 100000);
	assert_null(b.p);
	assert_int_equal(b.n, 0);
	out.free(out.p, out.ctx);
	qn_bytes_fini(&b);
}

static void the_maximum_is_hard_and_failure_sticks(void **state)
{
	struct qn_bytes b = {.max = 10};

	(void)state;
	qn_bytes_put(&b, "0123456789", 10);
	assert_false(b.failed);
	assert_true(b.cap <= 10);
	qn_bytes_put(&b, "x", 1);
	assert_true(b.failed);
	assert_int_equal(b.n, 10);
	assert_null(qn_bytes_grow(&b, 0));
	qn_bytes_fini(&b);
	assert_false(b.failed);
	assert_int_equal(b.max, 10);
	assert_null(qn_bytes_grow(&b, 11));
	qn_bytes_fini(&b);
	assert_null(qn_bytes_grow(&b, SIZE_MAX));
	qn_bytes_fini(&b);
	b.max = 0;
	qn_bytes_reserve(&b, SIZE_MAX / 2);
	assert_true(b.failed);
	qn_bytes_fini(&b);
}

static void grow_of_nothing_is_no_failure(void **state)
{
	struct qn_bytes b = {0};

	(void)state;
	assert_non_null(qn_bytes_grow(&b, 0));
	assert_false(b.failed);
	qn_bytes_put(&b, NULL, 0);
	assert_int_equal(b.n, 0);
	qn_bytes_fini(&b);
}

static void reserve_then_fill(void **state)
{
	struct qn_bytes b = {0};
	uint8_t *p, *at;

	(void)state;
	qn_bytes_reserve(&b, 5000);
	p = b.p;
	at = qn_bytes_grow(&b, 5000);
	assert_ptr_equal(at, p);
	memset(at, 1, 5000);
	assert_int_equal(b.n, 5000);
	qn_bytes_fini(&b);
}

static void written(struct qn_span in, const char *want)
{
	struct qn_bytes b = {0};

	qn_json_put_str(&b, in);
	assert_false(b.failed);
	assert_int_equal(b.n, strlen(want));
	assert_memory_equal(b.p, want, b.n);
	qn_bytes_fini(&b);
}

static void strings_escape_only_what_they_must(void **state)
{
	(void)state;
	written((struct qn_span){NULL, 0}, "\"\"");
	written(text("plain / \x7f \xc3\xa9 \xe2\x80\xa8"), "\"plain / \x7f \xc3\xa9 \xe2\x80\xa8\"");
	written(text("\"\\"), "\"\\\"\\\\\"");
	written(text("\b\f\n\r\t\x01\x1f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\"");
	written((struct qn_span){"a\0b", 3}, "\"a\\u0000b\"");
}

/** What is written reads back the same, for each ASCII byte at each place around the blocks. */
static void strings_survive_a_round_trip(void **state)
{
	struct qn_arena *a = qn_arena_create();

	(void)state;
	for (size_t n = 1; n <= 50; n++) {
		for (size_t at = 0; at < n; at++) {
			for (int c = 0; c < 0x80; c++) {
				char buf[64];
				struct qn_bytes b = {0};
				struct qn_span in, out, json;
				struct qn_json j;

				memset(buf, 'x', sizeof(buf));
				buf[at] = (char)c;
				in = exact(buf, n);
				qn_json_put_str(&b, in);
				json = exact(b.p, b.n);
				qn_json_init(&j, json);
				assert_true(qn_json_string(&j, a, &out));
				assert_true(qn_json_end(&j));
				assert_int_equal(out.n, n);
				assert_memory_equal(out.p, in.p, n);
				free_span(in);
				free_span(json);
				qn_bytes_fini(&b);
			}
		}
	}
	qn_arena_destroy(a);
}

static void scalars(void **state)
{
	static const int64_t numbers[] = {0, 1, -1, 9, 10, -10, 1234567890123, INT64_MAX, INT64_MIN, INT64_MIN + 1};
	const struct qn_uuid u = {
		{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}};
	struct qn_bytes b = {0};

	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++) {
		char want[32];

		(void)snprintf(want, sizeof(want), "%lld", (long long)numbers[i]);
		b.n = 0;
		qn_json_put_i64(&b, numbers[i]);
		assert_int_equal(b.n, strlen(want));
		assert_memory_equal(b.p, want, b.n);
	}
	b.n = 0;
	qn_json_put_bool(&b, true);
	qn_json_put_bool(&b, false);
	qn_json_put_uuid(&b, &u);
	qn_json_put_time_us(&b, 1);
	qn_json_put_time_ms(&b, 1999);
	qn_json_put_cstr(&b, "c");
	ASSERT_SPAN(((struct qn_span){b.p, b.n}), "truefalse\"01234567-89ab-cdef-fedc-ba9876543210\""
	                                          "\"1970-01-01T00:00:00.000001Z\"\"1970-01-01T00:00:00.001Z\"\"c\"");
	qn_bytes_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_keeps_everything),
		cmocka_unit_test(the_maximum_is_hard_and_failure_sticks),
		cmocka_unit_test(grow_of_nothing_is_no_failure),
		cmocka_unit_test(reserve_then_fill),
		cmocka_unit_test(strings_escape_only_what_they_must),
		cmocka_unit_test(strings_survive_a_round_trip),
		cmocka_unit_test(scalars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
