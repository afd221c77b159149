/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real executable with fake and broken modules: each defect has its own message, whatever was
 * done before a failure is undone in reverse, and the process starts, reloads, drains and ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000

struct run {
	pid_t pid;
	int fd, status;
	size_t n;
	char out[65536];
};

static char dir[64];
static struct run run;

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The six kinds, with one replaced, and more text behind. */
static void write_conf(const char *kind, const char *with, const char *more)
{
	static const char *const kinds[] = {"storage", "hotlist", "dedup", "retention", "encryption", "http"};
	const char *fakes = getenv("QN_FAKES");
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/module.conf", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	(void)fprintf(f, "[core]\nio_threads = 2\ndata_dir = %s/data\ndrain_timeout = 200ms\nmodule_dir = %s\n", dir,
	              fakes);
	for (size_t i = 0; i < 6; i++) {
		const char *good = strcmp(kinds[i], kind) == 0 ? with : NULL;

		if (good != NULL) {
			(void)fprintf(f, "[%s]\nuse = %s\n", kinds[i], good);
		} else {
			(void)fprintf(f, "[%s]\nuse = good_%s\n", kinds[i], kinds[i]);
		}
	}
	(void)fputs(more, f);
	assert_int_equal(fclose(f), 0);
}

static void start(const char *a, const char *b)
{
	char conf[128];
	int fds[2];

	(void)snprintf(conf, sizeof(conf), "%s/module.conf", dir);
	memset(&run, 0, sizeof(run));
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	run.pid = fork();
	assert_true(run.pid >= 0);
	if (run.pid == 0) {
		const char *argv[] = {"queend", "--config", conf, a, b, NULL};

		(void)dup2(fds[1], 1);
		(void)dup2(fds[1], 2);
		(void)execv(getenv("QN_QUEEND"), (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	(void)close(fds[1]);
	run.fd = fds[0];
}

static int read_more(int64_t deadline_ms)
{
	struct pollfd pfd = {.fd = run.fd, .events = POLLIN};
	int64_t left_ms = deadline_ms - now_ms();
	ssize_t got;

	if (left_ms <= 0 || poll(&pfd, 1, (int)left_ms) <= 0) {
		(void)kill(run.pid, SIGKILL);
		fail_msg("timed out, so far:\n%s", run.out);
	}
	got = read(run.fd, run.out + run.n, sizeof(run.out) - 1 - run.n);
	assert_true(got >= 0);
	run.n += (size_t)got;
	return (int)got;
}

static void wait_for(const char *text)
{
	int64_t deadline_ms = now_ms() + PATIENCE_MS;

	while (strstr(run.out, text) == NULL) {
		if (read_more(deadline_ms) == 0) {
			fail_msg("ended without \"%s\":\n%s", text, run.out);
		}
	}
}

static void finish(int status)
{
	int64_t deadline_ms = now_ms() + PATIENCE_MS;

	while (read_more(deadline_ms) > 0) {
	}
	(void)close(run.fd);
	assert_int_equal(waitpid(run.pid, &run.status, 0), run.pid);
	if (!WIFEXITED(run.status) || WEXITSTATUS(run.status) != status) {
		fail_msg("wait status %d, expected exit %d:\n%s", run.status, status, run.out);
	}
}

static void must_have(const char *text)
{
	if (strstr(run.out, text) == NULL) {
		fail_msg("no \"%s\" in:\n%s", text, run.out);
	}
}

static void must_not_have(const char *text)
{
	if (strstr(run.out, text) != NULL) {
		fail_msg("\"%s\" in:\n%s", text, run.out);
	}
}

/* "module=NAME thread=T step=STEP" lines in this order, others between them allowed. */
static void in_order(const char *const *lines)
{
	const char *at = run.out;

	for (; *lines != NULL; lines++) {
		const char *found = strstr(at, *lines);

		if (found == NULL) {
			fail_msg("no \"%s\" after what came before it in:\n%s", *lines, run.out);
		}
		at = found + strlen(*lines);
	}
}

static void plugin_refused(const char *plugin, const char *message)
{
	char more[128];

	(void)snprintf(more, sizeof(more), "[plugin it]\nuse = %s/%s.so\n", getenv("QN_FAKES"), plugin);
	write_conf("", NULL, more);
	start(NULL, NULL);
	finish(1);
	must_have("level=error event=config.refused");
	must_have(message);
	must_have(plugin);
	must_have("module.conf:19: ");
	must_have("module=good_http thread=main step=unload");
	must_not_have("step=start");
}

static void refuses_no_entry(void **state)
{
	(void)state;
	plugin_refused("no_entry", "exports no qn_module_entry");
}

static void refuses_null_descriptor(void **state)
{
	(void)state;
	plugin_refused("null_descriptor", "qn_module_entry returned NULL, expected a descriptor");
}

static void refuses_bad_magic(void **state)
{
	(void)state;
	plugin_refused("bad_magic", "magic is 0x12345678, expected 0x514e4d44");
}

static void refuses_bad_major(void **state)
{
	(void)state;
	plugin_refused("bad_major", "ABI major is 7, expected 1");
}

static void refuses_newer_minor(void **state)
{
	(void)state;
	plugin_refused("newer_minor", "ABI minor is 9, the core has 0");
}

static void refuses_short_size(void **state)
{
	(void)state;
	plugin_refused("short_size", "descriptor size is 40, expected at least ");
}

static void refuses_bad_sig(void **state)
{
	(void)state;
	plugin_refused("bad_sig", "build signature is \\\"p4,l4,plain\\\", expected ");
}

static void refuses_bad_op_size(void **state)
{
	(void)state;
	plugin_refused("bad_op_size", "op size is 8, expected ");
}

static void refuses_missing_file(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin ghost]\n");
	start(NULL, NULL);
	finish(1);
	must_have("ghost.so: No such file or directory");
}

static void refuses_wrong_kind(void **state)
{
	(void)state;
	write_conf("storage", "good_hotlist", "");
	start(NULL, NULL);
	finish(1);
	must_have("kind is \\\"hotlist\\\", expected \\\"storage\\\"");
}

static void refuses_relative_path(void **state)
{
	(void)state;
	write_conf("storage", "some/where.so", "");
	start(NULL, NULL);
	finish(1);
	must_have("module.conf:7: some/where.so: a module's path must be absolute");
}

static void refuses_writable_file(void **state)
{
	char copy[128], more[192], buffer[4096];
	size_t n;
	FILE *from, *to;

	(void)state;
	(void)snprintf(copy, sizeof(copy), "%s/good_plugin.so", dir);
	(void)snprintf(more, sizeof(more), "%s/good_plugin.so", getenv("QN_FAKES"));
	from = fopen(more, "r");
	to = fopen(copy, "w");
	assert_true(from != NULL && to != NULL);
	for (n = fread(buffer, 1, sizeof(buffer), from); n > 0; n = fread(buffer, 1, sizeof(buffer), from)) {
		assert_int_equal(fwrite(buffer, 1, n, to), n);
	}
	(void)fclose(from);
	assert_int_equal(fclose(to), 0);
	assert_int_equal(chmod(copy, 0775), 0);
	(void)snprintf(more, sizeof(more), "[plugin it]\nuse = %s\n", copy);
	write_conf("", NULL, more);
	start(NULL, NULL);
	finish(1);
	must_have("mode 0775 lets others write");
	assert_int_equal(chmod(copy, 0755), 0);
	start("--check-config", NULL);
	finish(0);
	must_have("configuration ok");
}

static void load_failure_undoes(void **state)
{
	static const char *const steps[] = {"module=load_fails thread=main step=load",
	                                    "module=good_http thread=main step=unload",
	                                    "module=good_encryption thread=main step=unload",
	                                    "module=good_retention thread=main step=unload",
	                                    "module=good_dedup thread=main step=unload",
	                                    "module=good_hotlist thread=main step=unload",
	                                    "module=good_storage thread=main step=unload",
	                                    "load_fails: load: the fake does not load",
	                                    NULL};

	(void)state;
	write_conf("", NULL, "[plugin load_fails]\n");
	start(NULL, NULL);
	finish(1);
	in_order(steps);
	must_not_have("module=load_fails thread=main step=unload");
}

static void start_failure_undoes(void **state)
{
	static const char *const steps[] = {
		"module=good_http thread=main step=start",     "module=start_fails thread=main step=start",
		"module=good_http thread=main step=stop",      "module=good_storage thread=main step=stop",
		"module=start_fails thread=main step=unload",  "module=good_storage thread=main step=unload",
		"start_fails: start: the fake does not start", NULL};

	(void)state;
	write_conf("", NULL, "[plugin start_fails]\n");
	start(NULL, NULL);
	finish(1);
	in_order(steps);
	must_not_have("module=start_fails thread=main step=stop");
	must_have("event=core.start_failed");
}

static void thread_start_failure_undoes(void **state)
{
	static const char *const steps[] = {"module=thread_start_fails thread=engine step=thread_start",
	                                    "module=good_http thread=io-0 step=thread_start",
	                                    "module=thread_start_fails thread=io-0 step=thread_start",
	                                    "module=good_http thread=io-0 step=thread_stop",
	                                    "module=good_storage thread=io-0 step=thread_stop",
	                                    "module=thread_start_fails thread=engine step=thread_stop",
	                                    "module=good_storage thread=engine step=thread_stop",
	                                    "module=thread_start_fails thread=main step=stop",
	                                    "module=good_storage thread=main step=stop",
	                                    "module=good_storage thread=main step=unload",
	                                    "thread_start_fails: thread_start: the fake does not enter a second thread",
	                                    NULL};

	(void)state;
	write_conf("", NULL, "[plugin thread_start_fails]\n");
	start(NULL, NULL);
	finish(1);
	in_order(steps);
	must_not_have("module=thread_start_fails thread=io-0 step=thread_stop");
	must_not_have("step=listen");
}

static void refuses_second_provider(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin provides_twice]\n");
	start(NULL, NULL);
	finish(1);
	must_have("auth is provided twice: by provides_twice and by provides_twice");
	write_conf("", NULL, "[plugin provides_storage]\n");
	start(NULL, NULL);
	finish(1);
	must_have("storage is provided twice: by good_storage and by provides_storage");
}

static void refuses_missing_kind(void **state)
{
	(void)state;
	write_conf("http", "provides_nothing", "");
	start(NULL, NULL);
	finish(1);
	must_have("nothing provides http");
}

static void refuses_unmet_need(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin needs_missing]\n");
	start(NULL, NULL);
	finish(1);
	must_have("unmet need: needs_missing needs spool, which nothing provides");
}

static void refuses_circular_need(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin cycle_a]\n[plugin cycle_b]\n");
	start(NULL, NULL);
	finish(1);
	must_have("circular need: cycle_a needs kind_b, cycle_b needs kind_a");
}

static void refuses_unknown_key(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsise = 3\n");
	start("--check-config", NULL);
	finish(1);
	must_have("module.conf:19: unknown key sise in [plugin good_plugin], did you mean size?");
}

static void refuses_bad_values(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsize = 2MiB\n");
	start("--check-config", NULL);
	finish(1);
	must_have("module.conf:19: size: 2MiB is above the maximum 1048576");
	write_conf("", NULL, "[plugin good_plugin]\nsize = many\n");
	start("--check-config", NULL);
	finish(1);
	must_have("module.conf:19: size: \"many\" is not a whole number with a unit");
}

static void life_cycle(void **state)
{
	static const char *const steps[] = {"module=good_http thread=main step=start",
	                                    "module=good_plugin thread=main step=start",
	                                    "module=good_plugin thread=engine step=thread_start",
	                                    "module=good_plugin thread=io-0 step=thread_start",
	                                    "module=good_plugin thread=io-1 step=thread_start",
	                                    "module=good_http thread=io-0 step=listen",
	                                    "module=good_http thread=io-1 step=listen",
	                                    "event=core.open",
	                                    "event=core.ready",
	                                    "event=core.draining",
	                                    "module=good_plugin thread=io-0 step=drain",
	                                    "module=good_http thread=io-1 step=drain",
	                                    "module=good_plugin thread=engine step=drain",
	                                    "event=core.drained",
	                                    "module=good_plugin thread=io-1 step=thread_stop",
	                                    "module=good_http thread=io-1 step=thread_stop",
	                                    "module=good_plugin thread=io-0 step=thread_stop",
	                                    "module=good_plugin thread=engine step=thread_stop",
	                                    "module=good_plugin thread=main step=stop",
	                                    "module=good_http thread=main step=stop",
	                                    "module=good_storage thread=main step=stop",
	                                    "module=good_plugin thread=main step=unload",
	                                    "module=good_storage thread=main step=unload",
	                                    "event=core.stopped",
	                                    NULL};

	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsize = 2\n");
	start("--set", "plugin good_plugin.word=hello there");
	wait_for("event=core.ready");
	wait_for("step=reply");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	finish(0);
	in_order(steps);
	must_have("event=fake.options module=good_plugin thread=main size=2048 word=\"hello there\"");
}

static void reload_applies_and_refuses(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsize = 2\nword = one\n");
	start(NULL, NULL);
	wait_for("event=core.ready");
	write_conf("", NULL, "[plugin good_plugin]\nsize = 2\nwort = two\n");
	assert_int_equal(kill(run.pid, SIGHUP), 0);
	wait_for("event=config.reload_refused");
	write_conf("", NULL, "[plugin good_plugin]\nsize = 3\nword = two\n");
	assert_int_equal(kill(run.pid, SIGHUP), 0);
	wait_for("event=config.reloaded");
	assert_int_equal(kill(run.pid, SIGINT), 0);
	finish(0);
	must_have("event=fake.reloaded module=good_plugin thread=main size=2048 word=two");
	must_have("event=config.needs_restart module=core thread=main section=\"plugin good_plugin\" option=size");
	must_not_have("event=fake.reloaded module=good_http");
}

static void drain_ends_without_done(void **state)
{
	(void)state;
	write_conf("storage", "never_calls_done", "");
	start(NULL, NULL);
	wait_for("event=core.ready");
	wait_for("step=ping");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	finish(0);
	must_have("event=core.drain_timeout");
	must_have("open_calls=1");
	must_have("event=core.stopped");
}

static void second_signal_kills(void **state)
{
	(void)state;
	write_conf("storage", "never_calls_done", "");
	start("--set", "core.drain_timeout=1h");
	wait_for("event=core.ready");
	wait_for("step=ping");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	wait_for("event=core.draining");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	finish(1);
	must_have("event=core.killed");
}

static void environment(void **state)
{
	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsize = 2\n");
	assert_int_equal(setenv("FAKE_SIZE", "7", 1), 0);
	assert_int_equal(setenv("QUEEN_MESH_PORT", "1", 1), 0);
	assert_int_equal(setenv("QUEEN_ADMISSION_ANY", "1", 1), 0);
	start(NULL, NULL);
	wait_for("event=core.ready");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	finish(0);
	must_have("module=good_plugin thread=main size=7168");
	must_have("event=config.ignored module=core thread=main name=");
	must_have("QUEEN_MESH_PORT");
	must_have("QUEEN_ADMISSION_ANY");
	assert_int_equal(unsetenv("QUEEN_MESH_PORT"), 0);
	assert_int_equal(unsetenv("QUEEN_ADMISSION_ANY"), 0);
	start("--set", "plugin good_plugin.size=9");
	wait_for("event=core.ready");
	assert_int_equal(kill(run.pid, SIGTERM), 0);
	finish(0);
	must_have("module=good_plugin thread=main size=9216");
	assert_int_equal(setenv("FAKE_SIZE", "big", 1), 0);
	start("--check-config", NULL);
	finish(1);
	must_have("FAKE_SIZE: \"big\" is not");
	assert_int_equal(unsetenv("FAKE_SIZE"), 0);
	assert_int_equal(setenv("QUEEN_LOG_JSON", "perhaps", 1), 0);
	start("--check-config", NULL);
	finish(1);
	must_have("QUEEN_LOG_JSON=\"perhaps\" is not a boolean");
	assert_int_equal(setenv("QUEEN_LOG_JSON", "on", 1), 0);
	start("--dump-config", NULL);
	finish(0);
	must_have("log_format = json");
	assert_int_equal(unsetenv("QUEEN_LOG_JSON"), 0);
}

static void hotlist_switch(void **state)
{
	(void)state;
	write_conf("", NULL, "");
	assert_int_equal(setenv("QUEEN_HOTLIST", "0", 1), 0);
	start("--check-config", NULL);
	finish(1);
	must_have("hotlist_scan.so: No such file or directory");
	assert_int_equal(setenv("QUEEN_HOTLIST", "1", 1), 0);
	start("--check-config", NULL);
	finish(0);
	assert_int_equal(unsetenv("QUEEN_HOTLIST"), 0);
}

static void dedup_switch(void **state)
{
	(void)state;
	write_conf("", NULL, "");
	assert_int_equal(setenv("QUEEN_DEDUP_CACHE", "0", 1), 0);
	start("--check-config", NULL);
	finish(1);
	must_have("dedup_probe.so: No such file or directory");
	assert_int_equal(setenv("QUEEN_DEDUP_CACHE", "1", 1), 0);
	start("--check-config", NULL);
	finish(0);
	assert_int_equal(unsetenv("QUEEN_DEDUP_CACHE"), 0);
}

static void dump_reads_back(void **state)
{
	char path[128];
	FILE *f;

	(void)state;
	write_conf("", NULL, "[plugin good_plugin]\nsize = 5\nword = \"a # \\\" b\"\n");
	start("--dump-config", NULL);
	finish(0);
	must_have("[plugin good_plugin]\nuse = good_plugin\nsize = 5KiB\nword = \"a # \\\" b\"\n");
	(void)snprintf(path, sizeof(path), "%s/module.conf", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	/* What the fakes log comes first: standard output is written as the process ends. */
	assert_non_null(strstr(run.out, "[core]"));
	assert_true(fputs(strstr(run.out, "[core]"), f) >= 0);
	assert_int_equal(fclose(f), 0);
	start("--check-config", NULL);
	finish(0);
	must_have("configuration ok");
}

static void command_line(void **state)
{
	(void)state;
	write_conf("", NULL, "");
	start("--chek-config", NULL);
	finish(2);
	must_have("usage: queend");
	start("--set", NULL);
	finish(2);
	start("--set", "no-dot=1");
	finish(1);
	must_have("is not section.key=value");
	start("--version", NULL);
	finish(0);
	start("--help", NULL);
	finish(0);
	must_have("--list-options");
	start("--list-options", NULL);
	finish(0);
	must_have("| `word` |  | text | `none` |  | a word (reload) |");
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/qn-bad-modules-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const leftovers[] = {"module.conf", "good_plugin.so"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, leftovers[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof(path), "%s/data", dir);
	(void)rmdir(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_no_entry),
		cmocka_unit_test(refuses_null_descriptor),
		cmocka_unit_test(refuses_bad_magic),
		cmocka_unit_test(refuses_bad_major),
		cmocka_unit_test(refuses_newer_minor),
		cmocka_unit_test(refuses_short_size),
		cmocka_unit_test(refuses_bad_sig),
		cmocka_unit_test(refuses_bad_op_size),
		cmocka_unit_test(refuses_missing_file),
		cmocka_unit_test(refuses_wrong_kind),
		cmocka_unit_test(refuses_relative_path),
		cmocka_unit_test(refuses_writable_file),
		cmocka_unit_test(load_failure_undoes),
		cmocka_unit_test(start_failure_undoes),
		cmocka_unit_test(thread_start_failure_undoes),
		cmocka_unit_test(refuses_second_provider),
		cmocka_unit_test(refuses_missing_kind),
		cmocka_unit_test(refuses_unmet_need),
		cmocka_unit_test(refuses_circular_need),
		cmocka_unit_test(refuses_unknown_key),
		cmocka_unit_test(refuses_bad_values),
		cmocka_unit_test(life_cycle),
		cmocka_unit_test(reload_applies_and_refuses),
		cmocka_unit_test(drain_ends_without_done),
		cmocka_unit_test(second_signal_kills),
		cmocka_unit_test(environment),
		cmocka_unit_test(hotlist_switch),
		cmocka_unit_test(dedup_switch),
		cmocka_unit_test(dump_reads_back),
		cmocka_unit_test(command_line),
	};

	return cmocka_run_group_tests_name("bad_modules", tests, setup, teardown);
}
