/* SPDX-License-Identifier: Apache-2.0 */
/* Whole values: what is JSON and what is not, block boundaries, and nesting without recursion. */
#include "wire_test.h"

#include "wire/json_scan.h"

#include <pthread.h>

static bool whole(struct qn_span s, struct qn_json *j)
{
	struct qn_span raw;

	qn_json_init(j, s);
	return qn_json_skip(j, &raw) && qn_json_end(j);
}

#define GOOD(lit)                    \
	{                            \
		lit, sizeof(lit) - 1 \
	}

static const struct {
	const char *p;
	size_t n;
} good[] = {
	GOOD("null"),
	GOOD("true"),
	GOOD("false"),
	GOOD("0"),
	GOOD("-0"),
	GOOD("-1"),
	GOOD("10"),
	GOOD("0.1"),
	GOOD("1.10"),
	GOOD("1e2"),
	GOOD("1E+2"),
	GOOD("1e-2"),
	GOOD("-0.0e-0"),
	GOOD("1e400"),
	GOOD("1e05"),
	GOOD("9223372036854775808"),
	GOOD("18446744073709551616000000000000"),
	GOOD("3.14159265358979323846264338327950288"),
	GOOD("\"\""),
	GOOD("\"a\""),
	GOOD("\"a\\/b\\u00e9\""),
	GOOD("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
	GOOD("\"\\u0000\""),
	GOOD("\"\\ud83d\""),
	GOOD("\"\\ude00\\ud83d\""),
	GOOD("\"\\uD83D\\uDE00\""),
	GOOD("\"\x7f\""),
	GOOD("\"\xc2\x80\""),
	GOOD("\"\xe2\x82\xac\""),
	GOOD("\"\xf0\x9f\x98\x80\""),
	GOOD("\"\xf4\x8f\xbf\xbf\""),
	GOOD("\"\xef\xbf\xbf\""),
	GOOD("\"\xed\x9f\xbf\""),
	GOOD("\"\xe2\x80\xa8\""),
	GOOD("[]"),
	GOOD("{}"),
	GOOD("[ ]"),
	GOOD("{ }"),
	GOOD("[[],{}]"),
	GOOD("[1,2 , 3]"),
	GOOD(" \t\r\n1 \t\r\n"),
	GOOD("{\"a\":1,\"a\":2}"),
	GOOD("{\"\":0}"),
	GOOD("{ \"a\" : [ { } ] , \"b\" : null }"),
	GOOD("{\"\\u0000\":{\"\\ud800\":[]}}"),
	GOOD("{ \"z\":0.1,\"y\":1e2,\"x\":1.10,\"w\":-0,\"v\":1.0,\"s\":\"a\\/b\\u00e9\",\"z\":0.1 , \"n\":[1 , 2]}"),
};

static void good_texts_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		struct qn_span s = exact(good[i].p, good[i].n);
		struct qn_json j;

		if (!whole(s, &j)) {
			fail_msg("%s: %s at %zu", good[i].p, j.error, j.at);
		}
		free_span(s);
	}
}

/** Every proper prefix of a good text is refused, unless it happens to be a number or word of its own. */
static void truncation_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		if (strchr("\"[{", good[i].p[0]) == NULL) {
			continue;
		}
		for (size_t n = 0; n < good[i].n; n++) {
			struct qn_span s = exact(good[i].p, n);
			struct qn_json j;

			assert_false(whole(s, &j));
			assert_non_null(j.error);
			assert_true(j.at <= n);
			free_span(s);
		}
	}
}

#define BAD(lit, why, at)                     \
	{                                     \
		lit, sizeof(lit) - 1, why, at \
	}

static const struct {
	const char *p;
	size_t n;
	const char *why;
	size_t at;
} bad[] = {
	BAD("", "unexpected end of input", 0),
	BAD("  \n", "unexpected end of input", 3),
	BAD("NaN", "invalid value", 0),
	BAD("Infinity", "invalid value", 0),
	BAD("-Infinity", "invalid number", 0),
	BAD("nul", "invalid value", 0),
	BAD("nulll", "trailing text", 4),
	BAD("True", "invalid value", 0),
	BAD("\xef\xbb\xbf{}", "invalid value", 0),
	BAD("'a'", "invalid value", 0),
	BAD("01", "invalid number", 0),
	BAD("-01", "invalid number", 0),
	BAD("00", "invalid number", 0),
	BAD("-", "invalid number", 0),
	BAD("+1", "invalid value", 0),
	BAD(".5", "invalid value", 0),
	BAD("1.", "invalid number", 0),
	BAD("1.e5", "invalid number", 0),
	BAD("1e", "invalid number", 0),
	BAD("1e+", "invalid number", 0),
	BAD("0x10", "trailing text", 1),
	BAD("1 2", "trailing text", 2),
	BAD("{} x", "trailing text", 3),
	BAD("[]\0", "trailing text", 2),
	BAD("\"a\nb\"", "control character in string", 2),
	BAD("\"a\0b\"", "control character in string", 2),
	BAD("\"\x1f\"", "control character in string", 1),
	BAD("\"\\x41\"", "invalid escape", 1),
	BAD("\"\\u12g4\"", "invalid escape", 1),
	BAD("\"\\u-123\"", "invalid escape", 1),
	BAD("\"\\U0041\"", "invalid escape", 1),
	BAD("\"\\\0\"", "invalid escape", 1),
	BAD("\"\\\xc3\xa9\"", "invalid escape", 1),
	BAD("\"\x80\"", "invalid UTF-8", 1),
	BAD("\"\xff\"", "invalid UTF-8", 1),
	BAD("\"\xc0\xaf\"", "invalid UTF-8", 1),
	BAD("\"\xc1\xbf\"", "invalid UTF-8", 1),
	BAD("\"\xe0\x9f\xbf\"", "invalid UTF-8", 1),
	BAD("\"\xed\xa0\x80\"", "invalid UTF-8", 1),
	BAD("\"\xf0\x8f\xbf\xbf\"", "invalid UTF-8", 1),
	BAD("\"\xf4\x90\x80\x80\"", "invalid UTF-8", 1),
	BAD("\"\xf5\x80\x80\x80\"", "invalid UTF-8", 1),
	BAD("\"\xe2\x82\"", "invalid UTF-8", 1),
	BAD("\"\xc3\xa9\xe9\"", "invalid UTF-8", 3),
	BAD("\"\xc3", "invalid UTF-8", 1),
	BAD("\"abc", "unexpected end of input", 4),
	BAD("\"abc\\", "unexpected end of input", 5),
	BAD("\"\\u12", "unexpected end of input", 5),
	BAD("[", "unexpected end of input", 1),
	BAD("[1", "unexpected end of input", 2),
	BAD("[1,", "unexpected end of input", 3),
	BAD("[1,]", "invalid value", 3),
	BAD("[,1]", "invalid value", 1),
	BAD("[1 2]", "expected `,` or `]`", 3),
	BAD("[1}", "expected `,` or `]`", 2),
	BAD("[}", "invalid value", 1),
	BAD("{", "unexpected end of input", 1),
	BAD("{]", "key must be a string", 1),
	BAD("{\"a\"", "unexpected end of input", 4),
	BAD("{\"a\":", "unexpected end of input", 5),
	BAD("{\"a\":}", "invalid value", 5),
	BAD("{\"a\" 1}", "expected `:`", 5),
	BAD("{\"a\"=1}", "expected `:`", 4),
	BAD("{\"a\":1,}", "key must be a string", 7),
	BAD("{\"a\":1]", "expected `,` or `}`", 6),
	BAD("{a:1}", "key must be a string", 1),
	BAD("{1:1}", "key must be a string", 1),
	BAD("{,}", "key must be a string", 1),
	BAD("[//x\n]", "invalid value", 1),
	BAD("\f1", "invalid value", 0),
	BAD("\xc2\xa0 1", "invalid value", 0),
};

static void bad_texts_fail_with_a_reason_and_a_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct qn_span s = exact(bad[i].p, bad[i].n);
		struct qn_json j;

		if (whole(s, &j)) {
			fail_msg("accepted: %s", bad[i].p);
		}
		assert_string_equal(j.error, bad[i].why);
		assert_int_equal(j.at, bad[i].at);
		free_span(s);
	}
}

/** Each special byte at each place of strings whose length goes around the blocks of 16. */
static void every_byte_at_every_place_of_a_string(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 50; n++) {
		for (size_t at = 0; at < n; at++) {
			for (unsigned c = 0; c < 256; c++) {
				char buf[64];
				struct qn_span s;
				struct qn_json j;
				bool ok;

				memset(buf, 'x', sizeof(buf));
				buf[0] = buf[n + 1] = '"';
				buf[1 + at] = (char)c;
				s = exact(buf, n + 2);
				ok = whole(s, &j);
				if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
					assert_true(ok);
				} else {
					assert_false(ok);
					assert_in_range(j.at, 1 + at, 3 + at);
				}
				free_span(s);
			}
		}
	}
}

static void multibyte_at_every_place(void **state)
{
	static const char *const seq[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};

	(void)state;
	for (size_t k = 0; k < COUNT(seq); k++) {
		for (size_t at = 0; at < 40; at++) {
			for (size_t cut = 1; cut <= strlen(seq[k]); cut++) {
				char buf[64];
				struct qn_span s;
				struct qn_json j;

				memset(buf, 'x', sizeof(buf));
				buf[0] = '"';
				memcpy(buf + 1 + at, seq[k], cut);
				buf[1 + at + cut] = '"';
				s = exact(buf, at + cut + 2);
				assert_int_equal(whole(s, &j), cut == strlen(seq[k]));
				free_span(s);
			}
		}
	}
}

static void raw_is_the_exact_value(void **state)
{
	static const char in[] = " {\"a\" : [1 , 2.50 ]}\t , rest";
	struct qn_json j;
	struct qn_span raw;

	(void)state;
	qn_json_init(&j, text(in));
	assert_true(qn_json_skip(&j, &raw));
	ASSERT_SPAN(raw, "{\"a\" : [1 , 2.50 ]}");
	assert_ptr_equal(raw.p, in + 1);
}

static struct qn_span nested(size_t depth, const char *open, const char *close)
{
	size_t o = strlen(open), c = strlen(close);
	char *p = malloc(depth * (o + c) + 1);

	assert_non_null(p);
	for (size_t i = 0; i < depth; i++) {
		memcpy(p + i * o, open, o);
		memcpy(p + depth * o + i * c, close, c);
	}
	return (struct qn_span){p, depth * (o + c)};
}

static void *deep_in_a_small_thread(void *arg)
{
	struct qn_json j;

	return whole(*(struct qn_span *)arg, &j) ? arg : NULL;
}

static void nesting_needs_no_stack(void **state)
{
	static const size_t depths[] = {1, 63, 64, 65, 511, 512, 513, 1024, 1025, 2000, QN_JSON_DEPTH_MAX};

	(void)state;
	for (size_t i = 0; i < COUNT(depths); i++) {
		struct qn_span s = nested(depths[i], "[", "]");
		pthread_attr_t attr;
		pthread_t t;
		void *result;

		assert_int_equal(pthread_attr_init(&attr), 0);
		assert_int_equal(pthread_attr_setstacksize(&attr, 128 * 1024), 0);
		assert_int_equal(pthread_create(&t, &attr, deep_in_a_small_thread, &s), 0);
		assert_int_equal(pthread_join(t, &result), 0);
		assert_ptr_equal(result, &s);
		(void)pthread_attr_destroy(&attr);
		free_span(s);
	}
}

/** Objects and arrays in turn: the kind of each level must be remembered across all words. */
static void kinds_are_remembered_at_every_depth(void **state)
{
	struct qn_span s;
	struct qn_json j;
	char *p;

	(void)state;
	p = malloc(3000 * 8 + 2);
	assert_non_null(p);
	for (size_t depth = 1; depth <= 3000; depth += depth < 140 ? 1 : 97) {
		size_t n = 0;

		for (size_t i = 0; i < depth; i++) {
			const char *open = i % 3 == 0 ? "{\"k\":" : "[";

			memcpy(p + n, open, strlen(open));
			n += strlen(open);
		}
		p[n++] = '0';
		for (size_t i = depth; i > 0; i--) {
			p[n++] = (i - 1) % 3 == 0 ? '}' : ']';
		}
		s = exact(p, n);
		assert_true(whole(s, &j));
		free_span(s);
		p[n - depth / 2 - 1] ^= '}' ^ ']';
		s = exact(p, n);
		assert_false(whole(s, &j));
		assert_int_equal(j.at, n - depth / 2 - 1);
		free_span(s);
	}
	free(p);
}

static void too_deep_is_an_error(void **state)
{
	struct qn_span s = nested(QN_JSON_DEPTH_MAX + 1, "[", "]");
	struct qn_json j;

	(void)state;
	assert_false(whole(s, &j));
	assert_string_equal(j.error, "nesting too deep");
	free_span(s);
	s = nested(1000000, "{\"a\":", "");
	assert_false(whole(s, &j));
	assert_string_equal(j.error, "nesting too deep");
	free_span(s);
}

static void errors_name_line_and_column(void **state)
{
	char out[128];
	struct qn_json j;

	(void)state;
	assert_false(whole(text("{\n  \"a\": 01\n}"), &j));
	assert_string_equal(qn_json_error(&j, out, sizeof(out)), "invalid number at line 2 column 8");
	assert_false(whole(text(""), &j));
	assert_string_equal(qn_json_error(&j, out, sizeof(out)), "unexpected end of input at line 1 column 1");
	assert_false(whole((struct qn_span){NULL, 0}, &j));
	assert_string_equal(qn_json_error(&j, out, 8), "unexpec");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_texts_pass),
		cmocka_unit_test(truncation_is_refused),
		cmocka_unit_test(bad_texts_fail_with_a_reason_and_a_place),
		cmocka_unit_test(every_byte_at_every_place_of_a_string),
		cmocka_unit_test(multibyte_at_every_place),
		cmocka_unit_test(raw_is_the_exact_value),
		cmocka_unit_test(nesting_needs_no_stack),
		cmocka_unit_test(kinds_are_remembered_at_every_depth),
		cmocka_unit_test(too_deep_is_an_error),
		cmocka_unit_test(errors_name_line_and_column),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
