/* SPDX-License-Identifier: Apache-2.0 */
/* The loader in process, with the example module: checked, loaded, run on a real engine thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "module.h"
#include "thread.h"

#include <stdlib.h>
#include <string.h>

static void refused(struct qn_module_want want, const char *part)
{
	struct qn_error e = {0};
	struct qn_module d;

	assert_true(qn_module_open(&want, &d, &e) < 0);
	if (strstr(e.msg, part) == NULL) {
		fail_msg("\"%s\" does not say \"%s\"", e.msg, part);
	}
}

static void opens_and_refuses(void **state)
{
	const char *path = getenv("QN_SKELETON");
	struct qn_module_want want = {path, "skeleton", "plugin"};
	struct qn_module d;

	(void)state;
	assert_int_equal(qn_module_open(&want, &d, NULL), QN_OK);
	assert_string_equal(d.name, "skeleton");
	refused((struct qn_module_want){path, "other", "plugin"}, "module is named \"skeleton\", expected \"other\"");
	refused((struct qn_module_want){path, NULL, "http"}, "kind is \"plugin\", expected \"http\"");
	refused((struct qn_module_want){"skeleton.so", NULL, "plugin"}, "must be absolute");
	refused((struct qn_module_want){"/nowhere/x.so", NULL, "plugin"}, "No such file");
	refused((struct qn_module_want){"/dev/null", NULL, "plugin"}, "not a regular file");
	refused((struct qn_module_want){"/etc/passwd", NULL, "plugin"}, "/etc/passwd");
}

static int enter(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_mod *m = arg;

	return m->d.thread_start(m->self, t, &m->tself[0], e);
}

static int leave(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_mod *m = arg;

	(void)e;
	m->d.thread_stop(m->self, t, m->tself[0]);
	return 0;
}

static void example_runs(void **state)
{
	struct qn_module_want want = {getenv("QN_SKELETON"), NULL, "plugin"};
	struct qn_composition all = {.arena = qn_arena_create()};
	struct qn_conf conf = {.arena = all.arena};
	struct qn_mod *m = qn_arena_zalloc(all.arena, sizeof(*m));
	uint64_t deadline_ms = qn_mono_ms() + 20000;
	struct qn_thread *t;

	(void)state;
	assert_int_equal(qn_module_open(&want, &m->d, NULL), QN_OK);
	m->all = &all;
	m->section = "plugin skeleton";
	assert_int_equal(qn_conf_set(&conf, "plugin skeleton.interval=10ms", NULL), QN_OK);
	assert_int_equal(m->d.load(m, &qn_host, &m->self, NULL), QN_OK);
	all.mods[all.count++] = m;
	assert_int_equal(qn_compose_options(&all, &conf, NULL), QN_OK);
	assert_int_equal(m->d.start(m->self, m->options, NULL), QN_OK);
	assert_int_equal(qn_thread_create(QN_THREAD_ENGINE, 0, &t, NULL), QN_OK);
	assert_int_equal(qn_thread_call(t, enter, m, NULL), QN_OK);
	while (qn_host_counter("skeleton_beats") < 3 && qn_mono_ms() < deadline_ms) {
		uv_sleep(1);
	}
	assert_true(qn_host_counter("skeleton_beats") >= 3);
	assert_int_equal(qn_host_counter("never_named"), 0);
	assert_int_equal(qn_thread_call(t, leave, m, NULL), 0);
	qn_thread_destroy(t);
	qn_compose_unload(&all);
	qn_arena_destroy(all.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_and_refuses),
		cmocka_unit_test(example_runs),
	};

	return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
