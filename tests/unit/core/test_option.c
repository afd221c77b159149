/* SPDX-License-Identifier: Apache-2.0 */
/* Options: every type with its units and bounds, where values come from, and tables that are broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "option.h"
#include "options.h"

#include <stdlib.h>
#include <string.h>

struct values {
	const char *text, *secret;
	bool flag;
	int64_t number, wait_ms, room_bytes;
	double factor;
	int choice;
};

static const char *const choices[] = {"red", "green", NULL};

#define FIELD(f) .offset = offsetof(struct values, f), .doc = "doc"

static const struct qn_option rows[] = {
	{.name = "text", .env = "QNT_TEXT|QNT_TEXT2", .type = QN_OPT_STR, .def = "t", FIELD(text)},
	{.name = "secret", .type = QN_OPT_SECRET, .def = "", FIELD(secret)},
	{.name = "flag", .env = "QNT_FLAG", .type = QN_OPT_BOOL, .def = "no", FIELD(flag)},
	{.name = "number", .type = QN_OPT_INT, .def = "5", .min = -2, .max = 9, FIELD(number)},
	{.name = "wait", .type = QN_OPT_DURATION, .unit = "s", .def = "2", .min = 1, .max = 90000000, FIELD(wait_ms)},
	{.name = "room", .type = QN_OPT_BYTES, .unit = "MiB", .def = "1", FIELD(room_bytes)},
	{.name = "factor", .type = QN_OPT_FLOAT, .def = "1.5", .min = 0, .max = 4, FIELD(factor)},
	{.name = "choice", .type = QN_OPT_ENUM, .def = "green", .choices = choices, FIELD(choice)},
	{.name = NULL},
};
static const struct qn_table table = {"http", "test", rows, sizeof(struct values)};

static const struct qn_option *row(const char *name)
{
	const struct qn_option *o = rows;

	while (strcmp(o->name, name) != 0) {
		o++;
	}
	return o;
}

static int64_t whole(const char *name, const char *text)
{
	struct values v = {0};
	struct qn_error e = {0};

	if (qn_option_parse(row(name), text, &v, &e) != QN_OK) {
		fail_msg("%s: %s", text, e.msg);
	}
	return *(int64_t *)(void *)((char *)&v + row(name)->offset);
}

static void refused(const char *name, const char *text, const char *message)
{
	struct values v = {0};
	struct qn_error e = {0};

	assert_int_equal(qn_option_parse(row(name), text, &v, &e), QN_INVALID);
	assert_string_equal(e.msg, message);
}

static void units(void **state)
{
	(void)state;
	assert_int_equal(whole("number", "-2"), -2);
	assert_int_equal(whole("wait", "3"), 3000);
	assert_int_equal(whole("wait", "3ms"), 3);
	assert_int_equal(whole("wait", "3 s"), 3000);
	assert_int_equal(whole("wait", "2m"), 120000);
	assert_int_equal(whole("wait", "1h"), 3600000);
	assert_int_equal(whole("wait", "1D"), 86400000);
	assert_int_equal(whole("room", "2"), 2 << 20);
	assert_int_equal(whole("room", "7B"), 7);
	assert_int_equal(whole("room", "7kib"), 7168);
	assert_int_equal(whole("room", "3GiB"), INT64_C(3) << 30);
}

static void bounds_and_types(void **state)
{
	(void)state;
	refused("number", "10", "10 is above the maximum 9");
	refused("number", "-3", "-3 is below the minimum -2");
	refused("number", "", "\"\" is not a whole number");
	refused("number", "1.5", "\"1.5\" is not a whole number");
	refused("number", "3s", "\"3s\" is not a whole number");
	refused("number", "99999999999999999999", "99999999999999999999 is out of range");
	refused("wait", "0", "0 is below the minimum 1");
	refused("wait", "2 days", "\"2 days\": unit is none of ms s m h d");
	refused("wait", "s", "\"s\" is not a whole number with a unit");
	refused("room", "9223372036854775807GiB", "9223372036854775807GiB is out of range");
	refused("room", "1MB", "\"1MB\": unit is none of B KiB MiB GiB");
	refused("factor", "5", "5 is above the maximum 4");
	refused("factor", "nan", "\"nan\" is not a number");
	refused("factor", "1e999", "\"1e999\" is not a number");
	refused("flag", "ja", "\"ja\" is not a boolean (expected true/false, 1/0, yes/no, on/off)");
	refused("choice", "gren", "\"gren\" is not a choice, did you mean green?");
	refused("choice", "ultramarine", "\"ultramarine\" is not a choice, the first is red");
}

static void booleans(void **state)
{
	static const char *const yes[] = {"true", "1", "yes", "on", "TRUE", "On"};
	static const char *const no[] = {"false", "0", "no", "off", "False", "OFF"};
	bool b;

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		b = false;
		assert_true(qn_option_bool(yes[i], &b) && b);
		assert_true(qn_option_bool(no[i], &b) && !b);
	}
	assert_false(qn_option_bool("", &b));
	assert_false(qn_option_bool("2", &b));
}

static void precedence(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e = {0};
	struct values v = {0};

	(void)state;
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_OK);
	assert_string_equal(v.text, "t");
	assert_string_equal(v.secret, "");
	assert_false(v.flag);
	assert_int_equal(v.wait_ms, 2000);
	assert_int_equal(v.room_bytes, 1 << 20);
	assert_true(v.factor == 1.5);
	assert_int_equal(v.choice, 1);
	assert_int_equal(qn_conf_parse(&c, "f", QN_SPAN_LIT("[http]\ntext = file\nchoice = RED\n"), &e), QN_OK);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_OK);
	assert_string_equal(v.text, "file");
	assert_int_equal(v.choice, 0);
	assert_int_equal(setenv("QNT_TEXT", "", 1), 0);
	assert_int_equal(setenv("QNT_TEXT2", " second ", 1), 0);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_OK);
	assert_string_equal(v.text, "second");
	assert_int_equal(setenv("QNT_TEXT", "first", 1), 0);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_OK);
	assert_string_equal(v.text, "first");
	assert_int_equal(qn_conf_set(&c, "http.text=line", &e), QN_OK);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_OK);
	assert_string_equal(v.text, "line");
	assert_int_equal(unsetenv("QNT_TEXT"), 0);
	assert_int_equal(unsetenv("QNT_TEXT2"), 0);
	assert_int_equal(setenv("QNT_FLAG", "maybe", 1), 0);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_INVALID);
	assert_string_equal(e.msg, "QNT_FLAG: \"maybe\" is not a boolean (expected true/false, 1/0, yes/no, on/off)");
	assert_int_equal(unsetenv("QNT_FLAG"), 0);
	qn_arena_destroy(c.arena);
}

static void places_in_messages(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e = {0};
	struct values v = {0};

	(void)state;
	assert_int_equal(qn_conf_parse(&c, "f", QN_SPAN_LIT("[http]\n\nnumber = 77\n"), &e), QN_OK);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_INVALID);
	assert_string_equal(e.msg, "f:3: number: 77 is above the maximum 9");
	memset(&e, 0, sizeof(e));
	assert_int_equal(qn_conf_set(&c, "http.number=x", &e), QN_OK);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_INVALID);
	assert_string_equal(e.msg, "--set: http.number: \"x\" is not a whole number");
	memset(&e, 0, sizeof(e));
	assert_int_equal(qn_conf_set(&c, "http.nummer=1", &e), QN_OK);
	assert_int_equal(qn_table_fill(&table, &c, &v, &e), QN_INVALID);
	assert_string_equal(e.msg, "--set: unknown key nummer in [http], did you mean number?");
	qn_arena_destroy(c.arena);
}

static void dump_masks_and_reads_back(void **state)
{
	struct values v = {.text = "a \"b\" # c",
	                   .secret = "geheim",
	                   .flag = true,
	                   .number = -1,
	                   .wait_ms = 90000,
	                   .room_bytes = 3 << 20,
	                   .factor = 0.1,
	                   .choice = 0};
	char *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);

	(void)state;
	assert_non_null(f);
	qn_table_dump(&table, &v, f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(out, "text = \"a \\\"b\\\" # c\"\nsecret = ***\nflag = true\nnumber = -1\nwait = 90s\n"
	                         "room = 3MiB\nfactor = 0.10000000000000001\nchoice = red\n");
	free(out);
}

static void broken_tables(void **state)
{
	struct qn_option bad[] = {rows[3], {.name = NULL}};
	struct qn_table t = {"http", "m", bad, sizeof(struct values)};
	struct qn_error e = {0};

	(void)state;
	assert_int_equal(qn_table_check(&table, &e), QN_OK);
	assert_int_equal(qn_table_check(&qn_core_table, &e), QN_OK);
	bad[0].offset = sizeof(struct values);
	assert_int_equal(qn_table_check(&t, &e), QN_ABI);
	bad[0] = rows[3];
	bad[0].type = 99;
	assert_int_equal(qn_table_check(&t, &e), QN_ABI);
	bad[0] = rows[3];
	bad[0].def = NULL;
	assert_int_equal(qn_table_check(&t, &e), QN_ABI);
	bad[0] = rows[3];
	bad[0].name = "use";
	assert_int_equal(qn_table_check(&t, &e), QN_ABI);
}

static void core_defaults(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_core_options o = {0};
	struct qn_error e = {0};

	(void)state;
	assert_int_equal(setenv("LOG_LEVEL", "nonsense", 1), 0);
	assert_int_equal(setenv("DEFAULT_SUBSCRIPTION_MODE", "whatever", 1), 0);
	assert_int_equal(setenv("QUEEN_POP_MAX_MB", "3", 1), 0);
	assert_int_equal(setenv("POP_DEFAULT_TIMEOUT_MS", "1234", 1), 0);
	assert_int_equal(qn_core_imply(&c, &e), QN_OK);
	assert_int_equal(qn_table_fill(&qn_core_table, &c, &o, &e), QN_OK);
	assert_int_equal(o.log_level, QN_INFO);
	assert_int_equal(o.default_subscription, 1);
	assert_int_equal(o.pop_max_bytes, 3 << 20);
	assert_int_equal(o.pop_timeout_ms, 1234);
	assert_int_equal(o.push_memory_bytes, 256 << 20);
	assert_int_equal(o.drain_timeout_ms, 8000);
	assert_int_equal(unsetenv("LOG_LEVEL"), 0);
	assert_int_equal(unsetenv("DEFAULT_SUBSCRIPTION_MODE"), 0);
	assert_int_equal(unsetenv("QUEEN_POP_MAX_MB"), 0);
	assert_int_equal(unsetenv("POP_DEFAULT_TIMEOUT_MS"), 0);
	qn_arena_destroy(c.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units),
		cmocka_unit_test(bounds_and_types),
		cmocka_unit_test(booleans),
		cmocka_unit_test(precedence),
		cmocka_unit_test(places_in_messages),
		cmocka_unit_test(dump_masks_and_reads_back),
		cmocka_unit_test(broken_tables),
		cmocka_unit_test(core_defaults),
	};

	return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
