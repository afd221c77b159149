/* SPDX-License-Identifier: Apache-2.0 */
/* The pull side: containers level by level, typed values, unescaping, and errors that stick. */
#include "wire_test.h"

#include "arena.h"
#include "wire/json_scan.h"

static struct qn_arena *arena;

static int make_arena(void **state)
{
	(void)state;
	arena = qn_arena_create();
	return arena == NULL;
}

static int drop_arena(void **state)
{
	(void)state;
	qn_arena_destroy(arena);
	return 0;
}

static void walks_a_push_body(void **state)
{
	static const char body[] =
		" { \"x\" : 1, \"items\" : [ {\"queue\":\"a\\u0062\", \"payload\" : {\"v\": [1]} , \"n\":-7},"
		"{} ,{\"flag\":true,\"none\":null} ] } ";
	struct qn_json j;
	struct qn_span key, s;
	int64_t v;
	bool b;

	(void)state;
	qn_json_init(&j, text(body));
	assert_int_equal(qn_json_peek(&j), QN_JSON_OBJECT);
	assert_true(qn_json_enter_object(&j));
	assert_true(qn_json_next_key(&j, arena, &key));
	ASSERT_SPAN(key, "x");
	assert_int_equal(qn_json_peek(&j), QN_JSON_NUMBER);
	assert_true(qn_json_skip(&j, &s));
	ASSERT_SPAN(s, "1");
	assert_true(qn_json_next_key(&j, arena, &key));
	ASSERT_SPAN(key, "items");
	assert_true(qn_json_enter_array(&j));

	assert_true(qn_json_next_item(&j));
	assert_true(qn_json_enter_object(&j));
	assert_true(qn_json_next_key(&j, arena, &key));
	assert_true(qn_json_string(&j, arena, &s));
	ASSERT_SPAN(s, "ab");
	assert_true(qn_json_next_key(&j, arena, &key));
	assert_true(qn_json_skip(&j, &s));
	ASSERT_SPAN(s, "{\"v\": [1]}");
	assert_true(qn_json_next_key(&j, arena, &key));
	assert_true(qn_json_i64(&j, &v));
	assert_int_equal(v, -7);
	assert_false(qn_json_next_key(&j, arena, &key));
	assert_null(j.error);

	assert_true(qn_json_next_item(&j));
	assert_true(qn_json_enter_object(&j));
	assert_false(qn_json_next_key(&j, arena, &key));
	assert_null(j.error);

	assert_true(qn_json_next_item(&j));
	assert_true(qn_json_enter_object(&j));
	assert_true(qn_json_next_key(&j, arena, &key));
	assert_true(qn_json_bool(&j, &b));
	assert_true(b);
	assert_true(qn_json_next_key(&j, arena, &key));
	ASSERT_SPAN(key, "none");
	assert_int_equal(qn_json_peek(&j), QN_JSON_NULL);
	assert_true(qn_json_null(&j));
	assert_false(qn_json_next_key(&j, arena, &key));

	assert_false(qn_json_next_item(&j));
	assert_false(qn_json_next_key(&j, arena, &key));
	assert_true(qn_json_end(&j));
}

#define CASE(in, out)                    \
	{                                \
		in, out, sizeof(out) - 1 \
	}

static void strings_are_unescaped(void **state)
{
	static const struct {
		const char *in, *out;
		size_t n;
	} cases[] = {
		CASE("\"\"", ""),
		CASE("\"plain\"", "plain"),
		CASE("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"),
		CASE("\"a\\u0000b\"", "a\0b"),
		CASE("\"\\u007f\\u0080\\u07ff\\u0800\\uFFFF\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"),
		CASE("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"),
		CASE("\"\\uD800\\uDC00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
		CASE("\"\\u00e9\xc3\xa9\\u00E9\"", "\xc3\xa9\xc3\xa9\xc3\xa9"),
		CASE("\"tail\\n\"", "tail\n"),
		CASE("\"0123456789abcdef\\t0123456789abcdef\"", "0123456789abcdef\t0123456789abcdef"),
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct qn_span in = exact(cases[i].in, strlen(cases[i].in)), out;
		struct qn_json j;

		qn_json_init(&j, in);
		assert_true(qn_json_string(&j, arena, &out));
		assert_int_equal(out.n, cases[i].n);
		if (out.n > 0) {
			assert_memory_equal(out.p, cases[i].out, out.n);
		}
		assert_true(qn_json_end(&j));
		free_span(in);
	}
}

static void plain_strings_are_not_copied(void **state)
{
	static const char in[] = "\"plain\"";
	struct qn_span out;
	struct qn_json j;

	(void)state;
	qn_json_init(&j, text(in));
	assert_true(qn_json_string(&j, arena, &out));
	assert_ptr_equal(out.p, in + 1);
}

static void lone_surrogates_are_no_strings(void **state)
{
	static const char *const cases[] = {"\"\\ud83d\"",       "\"\\ude00\"",        "\"\\ud83dx\"",
	                                    "\"\\ud83d\\n\"",    "\"\\ud83d\\u0041\"", "\"\\ud83d\\ud83d\\ude00\"",
	                                    "\"\\ude00\\ud83d\""};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct qn_span in = exact(cases[i], strlen(cases[i])), out;
		struct qn_json j;

		qn_json_init(&j, in);
		assert_false(qn_json_string(&j, arena, &out));
		assert_string_equal(j.error, "lone surrogate in string");
		free_span(in);
	}
}

static void integers(void **state)
{
	static const struct {
		const char *in;
		int64_t v;
	} good[] = {{"0", 0},
	            {"-0", 0},
	            {" 42 ", 42},
	            {"9223372036854775807", INT64_MAX},
	            {"-9223372036854775808", INT64_MIN},
	            {"-1", -1}};
	static const char *const bad[] = {"1.0",  "1e3", "9223372036854775808", "-9223372036854775809", "\"1\"",
	                                  "null", "[]"};
	struct qn_json j;
	int64_t v;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		qn_json_init(&j, text(good[i].in));
		assert_true(qn_json_i64(&j, &v));
		assert_true(v == good[i].v);
		assert_true(qn_json_end(&j));
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		v = 99;
		qn_json_init(&j, text(bad[i]));
		assert_false(qn_json_i64(&j, &v));
		assert_string_equal(j.error, "integer expected");
		assert_int_equal(j.at, 0);
		assert_int_equal(v, 99);
	}
}

static void wrong_types_say_what_was_expected(void **state)
{
	struct qn_json j;
	struct qn_span s;
	bool b;

	(void)state;
	qn_json_init(&j, text("1"));
	assert_false(qn_json_bool(&j, &b));
	assert_string_equal(j.error, "boolean expected");
	qn_json_init(&j, text("1"));
	assert_false(qn_json_string(&j, arena, &s));
	assert_string_equal(j.error, "string expected");
	qn_json_init(&j, text("true"));
	assert_false(qn_json_null(&j));
	assert_string_equal(j.error, "null expected");
	qn_json_init(&j, text("[]"));
	assert_false(qn_json_enter_object(&j));
	assert_string_equal(j.error, "object expected");
	qn_json_init(&j, text("{}"));
	assert_false(qn_json_enter_array(&j));
	assert_string_equal(j.error, "array expected");
	qn_json_init(&j, text("tru"));
	assert_int_equal(qn_json_peek(&j), QN_JSON_BOOL);
	assert_false(qn_json_bool(&j, &b));
	assert_string_equal(j.error, "invalid value");
}

static const struct {
	const char *in, *why;
	size_t at;
} broken[] = {
	{"{\"a\":1,}", "key must be a string", 7},
	{"{,\"a\":1}", "key must be a string", 1},
	{"{\"a\" 1}", "expected `:`", 5},
	{"{\"a\":1 \"b\":2}", "expected `,` or `}`", 7},
	{"{\"a\":1", "unexpected end of input", 6},
	{"{\"a\":1,", "unexpected end of input", 7},
	{"{\"a\"", "unexpected end of input", 4},
	{"{", "unexpected end of input", 1},
	{"{\"a\":1]", "expected `,` or `}`", 6},
	{"{\"\\ud800\":1}", "lone surrogate in string", 9},
	{"[1,]", "invalid value", 3},
	{"[1 2]", "expected `,` or `]`", 3},
	{"[1}", "expected `,` or `]`", 2},
	{"[1", "unexpected end of input", 2},
	{"[", "unexpected end of input", 1},
	{"[,]", "invalid value", 1},
	{"{} x", "trailing text", 3},
};

/** Reads one level as a caller would. */
static bool one_level(struct qn_json *j)
{
	struct qn_span s;

	if (qn_json_peek(j) == QN_JSON_OBJECT) {
		assert_true(qn_json_enter_object(j));
		while (qn_json_next_key(j, arena, &s)) {
			if (!qn_json_skip(j, &s)) {
				return false;
			}
		}
	} else {
		assert_true(qn_json_enter_array(j));
		while (qn_json_next_item(j)) {
			if (!qn_json_skip(j, &s)) {
				return false;
			}
		}
	}
	return qn_json_end(j);
}

static void broken_containers(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(broken); i++) {
		struct qn_span in = exact(broken[i].in, strlen(broken[i].in));
		struct qn_json j;

		qn_json_init(&j, in);
		assert_false(one_level(&j));
		assert_string_equal(j.error, broken[i].why);
		assert_int_equal(j.at, broken[i].at);
		free_span(in);
	}
}

static void the_first_error_stays(void **state)
{
	struct qn_json j;
	struct qn_span s;
	int64_t v;

	(void)state;
	qn_json_init(&j, text("[1, 2]"));
	assert_true(qn_json_enter_array(&j));
	assert_true(qn_json_next_item(&j));
	assert_false(qn_json_fail(&j, "not today"));
	assert_false(qn_json_skip(&j, &s));
	assert_false(qn_json_i64(&j, &v));
	assert_false(qn_json_next_item(&j));
	assert_false(qn_json_next_key(&j, arena, &s));
	assert_false(qn_json_end(&j));
	assert_int_equal(qn_json_peek(&j), QN_JSON_ERROR);
	assert_false(qn_json_fail(&j, "something else"));
	assert_string_equal(j.error, "not today");
	assert_int_equal(j.at, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_a_push_body),
		cmocka_unit_test(strings_are_unescaped),
		cmocka_unit_test(plain_strings_are_not_copied),
		cmocka_unit_test(lone_surrogates_are_no_strings),
		cmocka_unit_test(integers),
		cmocka_unit_test(wrong_types_say_what_was_expected),
		cmocka_unit_test(broken_containers),
		cmocka_unit_test(the_first_error_stays),
	};

	return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
