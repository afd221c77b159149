/* SPDX-License-Identifier: Apache-2.0 */
/* Log: what a line looks like in both formats, whatever the values are, and how repeats are limited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log.h"
#include "thread.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fds[2];
static uint64_t clock_ms = 1000000;
static char text[65536];

static int64_t fake_now_us(void)
{
	return INT64_C(1700000000123456);
}

static uint64_t fake_mono_ms(void)
{
	return clock_ms;
}

/* All that was written since the last call; the pipe is private and was written before this reads. */
static const char *written(void)
{
	ssize_t got;

	assert_int_equal(write(fds[1], "", 1), 1);
	got = read(fds[0], text, sizeof(text));
	assert_true(got > 0);
	return text;
}

static const char *one_logfmt(struct qn_kv kv)
{
	static char event[32];
	static unsigned n;
	const char *line, *at;

	(void)snprintf(event, sizeof(event), "e.l%u", n++);
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, fds[1]);
	qn_log_write("m", QN_INFO, event, &kv, 1);
	line = written();
	at = strstr(line, "thread=main ");
	assert_non_null(at);
	assert_int_equal(strchr(line, '\n') - line, strlen(line) - 1);
	return at + strlen("thread=main ");
}

static void logfmt_line(void **state)
{
	(void)state;
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, fds[1]);
	qn_log(QN_WARN, "a.b", QN_S("s", "plain"), QN_U("u", UINT64_MAX), QN_I("i", -3), QN_F("f", 0.5),
	       QN_BOOL("t", true));
	assert_string_equal(written(), "ts=2023-11-14T22:13:20.123Z level=warn event=a.b module=core thread=main "
	                               "s=plain u=18446744073709551615 i=-3 f=0.5 t=true\n");
}

static void logfmt_quoting(void **state)
{
	(void)state;
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "")), "k=\"\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "a b")), "k=\"a b\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "a=b")), "k=\"a=b\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "a\"\\\n\t\x01")), "k=\"a\\\"\\\\\\n\\t\\u0001\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "\xc3\xa9")), "k=\"\xc3\xa9\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_S("k", "x\xff")), "k=\"x\\u00ff\"\n");
	assert_string_equal(one_logfmt((struct qn_kv)QN_SP("k", ((struct qn_span){"a\0b", 3}))), "k=\"a\\u0000b\"\n");
}

static void json_line(void **state)
{
	json_t *root;

	(void)state;
	qn_log_setup(QN_INFO, QN_LOG_JSON, fds[1]);
	qn_log(QN_ERROR, "a.json", QN_S("s", "q\"\\\n\x7f\xf0\x9f\x98\x80"), QN_S("bad", "\xc3("), QN_U("u", 7),
	       QN_F("nan", NAN), QN_BOOL("no", false));
	root = json_loads(written(), 0, NULL);
	assert_non_null(root);
	assert_string_equal(json_string_value(json_object_get(root, "level")), "error");
	assert_string_equal(json_string_value(json_object_get(root, "s")), "q\"\\\n\x7f\xf0\x9f\x98\x80");
	assert_string_equal(json_string_value(json_object_get(root, "bad")), "\xc3\x83(");
	assert_int_equal(json_integer_value(json_object_get(root, "u")), 7);
	assert_true(json_is_null(json_object_get(root, "nan")));
	assert_true(json_is_false(json_object_get(root, "no")));
	json_decref(root);
}

static void long_values_stay_valid(void **state)
{
	char *big = malloc(20000);
	json_t *root;

	(void)state;
	assert_non_null(big);
	memset(big, 1, 20000);
	qn_log_setup(QN_INFO, QN_LOG_JSON, fds[1]);
	qn_log(QN_INFO, "a.long", QN_SP("big", ((struct qn_span){big, 20000})),
	       QN_SP("euro", ((struct qn_span){"\xe2\x82\xac", 3})));
	root = json_loads(written(), 0, NULL);
	assert_non_null(root);
	assert_null(json_object_get(root, "big"));
	assert_non_null(json_object_get(root, "euro"));
	assert_true(json_is_true(json_object_get(root, "cut")));
	json_decref(root);
	for (size_t i = 0; i + 2 < 20000; i += 3) {
		memcpy(big + i, "\xe2\x82\xac", 3);
	}
	qn_log(QN_INFO, "a.long2", QN_SP("big", ((struct qn_span){big, 19998})));
	root = json_loads(written(), 0, NULL);
	assert_non_null(root);
	assert_int_equal(json_string_length(json_object_get(root, "big")), 2046);
	json_decref(root);
	free(big);
}

static void levels(void **state)
{
	(void)state;
	qn_log_setup(QN_WARN, QN_LOG_LOGFMT, fds[1]);
	qn_log(QN_INFO, "a.level");
	assert_string_equal(written(), "");
	assert_true(qn_log_enabled(QN_ERROR));
	assert_false(qn_log_enabled(QN_DEBUG));
}

static unsigned lines_of(unsigned times)
{
	unsigned n = 0;

	for (unsigned i = 0; i < times; i++) {
		qn_log(QN_INFO, "a.repeat", QN_U("i", i));
	}
	for (const char *p = written(); *p != '\0'; p++) {
		n += *p == '\n' ? 1 : 0;
	}
	return n;
}

static void repeats_are_limited(void **state)
{
	(void)state;
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, fds[1]);
	assert_int_equal(lines_of(50), 10);
	assert_null(strstr(text, "dropped"));
	clock_ms += 1000;
	assert_int_equal(lines_of(5), 1);
	assert_non_null(strstr(text, " dropped=40\n"));
	clock_ms += 1000;
	assert_int_equal(lines_of(1), 1);
	assert_non_null(strstr(text, " dropped=4\n"));
	clock_ms += 10001;
	assert_int_equal(lines_of(50), 10);
	qn_log(QN_INFO, "a.other");
	assert_non_null(strstr(written(), "event=a.other"));
}

static int setup(void **state)
{
	(void)state;
	qn_clock_replace(fake_now_us, fake_mono_ms);
	return pipe(fds);
}

static int teardown(void **state)
{
	(void)state;
	qn_log_setup(QN_INFO, QN_LOG_LOGFMT, STDERR_FILENO);
	qn_clock_replace(NULL, NULL);
	(void)close(fds[0]);
	return close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logfmt_line), cmocka_unit_test(logfmt_quoting),
		cmocka_unit_test(json_line),   cmocka_unit_test(long_values_stay_valid),
		cmocka_unit_test(levels),      cmocka_unit_test(repeats_are_limited),
	};

	return cmocka_run_group_tests_name("log", tests, setup, teardown);
}
