/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of module.conf and --set: what it takes, and what each refusal says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"

#include <string.h>

static int parse(struct qn_conf *c, const char *text, struct qn_error *e)
{
	memset(e, 0, sizeof(*e));
	return qn_conf_parse(c, "f.conf", (struct qn_span){text, strlen(text)}, e);
}

static const char *value(const struct qn_conf *c, const char *section, const char *key)
{
	const struct qn_conf_entry *entry = qn_conf_find(c, section, key, QN_CONF_FILE);

	return entry != NULL ? entry->value : NULL;
}

static void refused(const char *text, const char *message)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e;

	assert_int_equal(parse(&c, text, &e), QN_INVALID);
	assert_string_equal(e.msg, message);
	qn_arena_destroy(c.arena);
}

static void takes_the_grammar(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e;

	(void)state;
	assert_int_equal(parse(&c,
	                       "# top\n\n[core]  # note\r\n\tio_threads = 2 \n empty =\n"
	                       "hash = a#b # comment\nquoted = \" x # \\\"y\\\\ \"  # c\n"
	                       "[plugin  one-2 ]\nequals = a=b=c",
	                       &e),
	                 QN_OK);
	assert_string_equal(value(&c, "core", "io_threads"), "2");
	assert_string_equal(value(&c, "core", "empty"), "");
	assert_string_equal(value(&c, "core", "hash"), "a#b");
	assert_string_equal(value(&c, "core", "quoted"), " x # \"y\\ ");
	assert_string_equal(value(&c, "plugin one-2", "equals"), "a=b=c");
	assert_null(value(&c, "storage", "equals"));
	assert_int_equal(qn_conf_find(&c, "plugin one-2", "equals", QN_CONF_FILE)->line, 9);
	assert_string_equal(c.sections->name, "core");
	assert_string_equal(c.sections->next->name, "plugin one-2");
	qn_arena_destroy(c.arena);
}

static void refuses(void **state)
{
	(void)state;
	refused("a = 1", "f.conf:1: a stands before the first section");
	refused("[core]\nnothing here", "f.conf:2: neither [section] nor key = value");
	refused("[core\n", "f.conf:1: a section ends with ]");
	refused("[", "f.conf:1: a section ends with ]");
	refused("[htp]", "f.conf:1: unknown section [htp], did you mean [http]?");
	refused("[nothing_like_it]", "f.conf:1: unknown section [nothing_like_it]");
	refused("[plugin a/b]", "f.conf:1: \"a/b\" is not a plugin name");
	refused("[plugin ]", "f.conf:1: unknown section [plugin]");
	refused("[core]\nx y = 1", "f.conf:2: \"x y\" is not a key");
	refused("[core]\n = 1", "f.conf:2: \"\" is not a key");
	refused("[core]\na = 1\n\na = 2", "f.conf:4: a is set twice, first at f.conf:2");
	refused("[core]\n[http]\n[core]", "f.conf:3: section [core] is there already, at f.conf:1");
	refused("[core]\na = \"x", "f.conf:2: a quoted value ends with \"");
	refused("[core]\na = \"x\\", "f.conf:2: a quoted value ends with \"");
	refused("[core]\na = \"", "f.conf:2: a quoted value ends with \"");
	refused("[core]\na = \"x\" y", "f.conf:2: text behind a quoted value");
}

static void refuses_nul(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e = {0};

	(void)state;
	assert_int_equal(qn_conf_parse(&c, "f.conf", (struct qn_span){"[core]\na = 1\0 2", 14}, &e), QN_INVALID);
	assert_string_equal(e.msg, "f.conf:2: a NUL byte");
	qn_arena_destroy(c.arena);
}

static void ranks(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e;

	(void)state;
	assert_int_equal(parse(&c, "[hotlist]\nuse = a\n", &e), QN_OK);
	assert_string_equal(value(&c, "hotlist", "use"), "a");
	qn_conf_imply(&c, "hotlist", "use", "b", "QUEEN_HOTLIST");
	assert_string_equal(value(&c, "hotlist", "use"), "b");
	assert_int_equal(qn_conf_set(&c, "hotlist.use=c", &e), QN_OK);
	assert_int_equal(qn_conf_set(&c, "hotlist.use = d=e ", &e), QN_OK);
	assert_string_equal(value(&c, "hotlist", "use"), "d=e");
	assert_int_equal(qn_conf_set(&c, "plugin p.path=/a.b/c.so", &e), QN_OK);
	assert_string_equal(value(&c, "plugin p", "path"), "/a.b/c.so");
	assert_string_equal(c.sections->next->name, "plugin p");
	assert_null(qn_conf_find(&c, "hotlist", "other", QN_CONF_FILE));
	qn_arena_destroy(c.arena);
}

static void set_refuses(void **state)
{
	static const char *const bad[] = {"", "=", "core", "core=1", "core.=1", "cor.e=1", "core.a b=1", ".a=1"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct qn_conf c = {.arena = qn_arena_create()};
		struct qn_error e = {0};

		assert_int_equal(qn_conf_set(&c, bad[i], &e), QN_INVALID);
		assert_int_equal(strncmp(e.msg, "--set: ", 7), 0);
		assert_null(c.entries);
		qn_arena_destroy(c.arena);
	}
}

static void missing_file(void **state)
{
	struct qn_conf c = {.arena = qn_arena_create()};
	struct qn_error e = {0};

	(void)state;
	assert_int_equal(qn_conf_load(&c, "/nowhere/at/all.conf", &e), QN_INVALID);
	assert_string_equal(e.msg, "/nowhere/at/all.conf: No such file or directory");
	qn_arena_destroy(c.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_grammar), cmocka_unit_test(refuses),
		cmocka_unit_test(refuses_nul),       cmocka_unit_test(ranks),
		cmocka_unit_test(set_refuses),       cmocka_unit_test(missing_file),
	};

	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
