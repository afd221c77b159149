/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: paths, query strings, and the numbers in them. */
#include "wire_test.h"

#include "arena.h"
#include "wire/text.h"

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

/** The decoded segments, each behind a bar. */
static void path_is(const char *raw, const char *want)
{
	struct qn_span in = exact(raw, strlen(raw));
	struct qn_path p;
	const char *why = NULL;
	char got[256];
	size_t n = 0;

	if (!qn_path_split(in, arena, &p, &why)) {
		fail_msg("%s: %s", raw, why);
	}
	assert_true(p.count <= QN_PATH_SEGMENTS);
	for (unsigned i = 0; i < p.count; i++) {
		got[n++] = '|';
		if (p.seg[i].n > 0) {
			memcpy(got + n, p.seg[i].p, p.seg[i].n);
		}
		n += p.seg[i].n;
	}
	got[n] = '\0';
	assert_string_equal(got, want);
	free_span(in);
}

static void paths(void **state)
{
	(void)state;
	path_is("/api/v1/push", "|api|v1|push");
	path_is("/", "|");
	path_is("", "|");
	path_is("api", "|api");
	path_is("/a//b", "|a||b");
	path_is("/a/", "|a|");
	path_is("//", "||");
	path_is("/api/v1/pop/queue/", "|api|v1|pop|queue|");
	path_is("/api/v1/pop/queue//partition/", "|api|v1|pop|queue||partition|");
	path_is("/q/a%2Fb/c", "|q|a/b|c");
	path_is("/q/a%2fb", "|q|a/b");
	path_is("/%41/%2541/%25", "|A|%41|%");
	path_is("/../a/./%2e%2E", "|..|a|.|..");
	path_is("/a+b/a%20b/a%2Bb", "|a+b|a b|a+b");
	path_is("/%C3%A9/\xc3\xa9/%f0%9F%98%80", "|\xc3\xa9|\xc3\xa9|\xf0\x9f\x98\x80");
	path_is("/a%3Fb%23c&d=e", "|a?b#c&d=e");
	path_is("/1/2/3/4/5/6/7/8/9/a/b/c", "|1|2|3|4|5|6|7|8|9|a|b|c");
}

static void too_many_segments_match_nothing(void **state)
{
	struct qn_path p;
	const char *why;

	(void)state;
	assert_true(qn_path_split(text("/1/2/3/4/5/6/7/8/9/a/b/c/d"), arena, &p, &why));
	assert_int_equal(p.count, QN_PATH_SEGMENTS + 1);
	assert_true(qn_path_split(text("/1/2/3/4/5/6/7/8/9/a/b/c/"), arena, &p, &why));
	assert_int_equal(p.count, QN_PATH_SEGMENTS + 1);
	assert_true(qn_path_split((struct qn_span){NULL, 0}, arena, &p, &why));
	assert_int_equal(p.count, 1);
}

static const struct {
	const char *raw, *why;
} refused[] = {
	{"/a%", "malformed percent escape"},
	{"/a%4", "malformed percent escape"},
	{"/a%4/b", "malformed percent escape"},
	{"/a%zz", "malformed percent escape"},
	{"/a%%41", "malformed percent escape"},
	{"/%+1", "malformed percent escape"},
	{"/%00", "NUL is not allowed"},
	{"/a%00b", "NUL is not allowed"},
	{"/%ff", "not valid UTF-8"},
	{"/%C0%AF", "not valid UTF-8"},
	{"/%ED%A0%80", "not valid UTF-8"},
	{"/%C3", "not valid UTF-8"},
	{"/a/\xff", "not valid UTF-8"},
	{"/%C3/%A9", "not valid UTF-8"},
};

static void refused_everywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct qn_span in = exact(refused[i].raw, strlen(refused[i].raw));
		struct qn_path p;
		struct qn_param *list;
		unsigned count;
		const char *why = NULL;

		assert_false(qn_path_split(in, arena, &p, &why));
		assert_string_equal(why, refused[i].why);
		why = NULL;
		assert_false(qn_query_split(in, arena, &list, &count, &why));
		assert_string_equal(why, refused[i].why);
		free_span(in);
	}
}

static void query_is(const char *raw, const char *want)
{
	struct qn_span in = exact(raw, strlen(raw));
	struct qn_param *list;
	unsigned count;
	const char *why = NULL;
	char got[256];
	size_t n = 0;

	if (!qn_query_split(in, arena, &list, &count, &why)) {
		fail_msg("%s: %s", raw, why);
	}
	for (unsigned i = 0; i < count; i++) {
		got[n++] = '|';
		memcpy(got + n, list[i].name.p, list[i].name.n);
		n += list[i].name.n;
		got[n++] = ':';
		memcpy(got + n, list[i].value.p, list[i].value.n);
		n += list[i].value.n;
	}
	got[n] = '\0';
	assert_string_equal(got, want);
	free_span(in);
}

static void queries(void **state)
{
	struct qn_param *list;
	unsigned count;
	const char *why;

	(void)state;
	query_is("", "");
	query_is("a=1&b=2", "|a:1|b:2");
	query_is("a=1&a=2", "|a:1|a:2");
	query_is("flag", "|flag:");
	query_is("flag&b=", "|flag:|b:");
	query_is("=v", "|:v");
	query_is("&&a=1&&", "|a:1");
	query_is("&", "");
	query_is("a=b=c", "|a:b=c");
	query_is("a+b=c+d", "|a b:c d");
	query_is("a%2Bb=%26%3D%25", "|a+b:&=%");
	query_is("consumerGroup=%C3%A9", "|consumerGroup:\xc3\xa9");
	query_is("a=%41%42&%63=x/y?z", "|a:AB|c:x/y?z");
	assert_true(qn_query_split((struct qn_span){NULL, 0}, arena, &list, &count, &why));
	assert_int_equal(count, 0);
}

static void numbers(void **state)
{
	static const char *const bad[] = {"",   "+",   "-",   "--1", "+-1", "-+1", " 1",
	                                  "1 ", "1.0", "1e3", "0x1", "a",   "1a"};
	int64_t i;
	uint64_t u;

	(void)state;
	assert_true(qn_parse_i64(text("0"), &i) && i == 0);
	assert_true(qn_parse_i64(text("-0"), &i) && i == 0);
	assert_true(qn_parse_i64(text("+12"), &i) && i == 12);
	assert_true(qn_parse_i64(text("-007"), &i) && i == -7);
	assert_true(qn_parse_i64(text("9223372036854775807"), &i) && i == INT64_MAX);
	assert_true(qn_parse_i64(text("-9223372036854775808"), &i) && i == INT64_MIN);
	assert_false(qn_parse_i64(text("9223372036854775808"), &i));
	assert_false(qn_parse_i64(text("-9223372036854775809"), &i));
	assert_true(qn_parse_u64(text("18446744073709551615"), &u) && u == UINT64_MAX);
	assert_false(qn_parse_u64(text("18446744073709551616"), &u));
	assert_false(qn_parse_u64(text("99999999999999999999"), &u));
	assert_false(qn_parse_u64(text("-1"), &u));
	for (size_t k = 0; k < COUNT(bad); k++) {
		assert_false(qn_parse_i64(text(bad[k]), &i));
		assert_false(qn_parse_u64(text(bad[k]), &u));
	}
	assert_false(qn_parse_i64((struct qn_span){NULL, 0}, &i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(too_many_segments_match_nothing),
		cmocka_unit_test(refused_everywhere),
		cmocka_unit_test(queries),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
