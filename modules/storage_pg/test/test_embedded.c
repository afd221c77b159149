/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded server through its whole life: initialised, used, stopped, killed, orphaned, adopted
 * by the next start, and refused where it must be.
 */
#include "fake_host.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[128];

static void start(struct fake_broker *b)
{
	struct qn_pg_options o = fake_options();
	struct qn_error e = {0};
	if (fake_broker_start(b, &o, &e) != QN_OK) {
		fail_msg("%s", e.msg);
	}
}

static int fails_to_start(struct qn_error *e)
{
	struct fake_broker b;
	struct qn_pg_options o = fake_options();
	return fake_broker_start(&b, &o, e);
}

static unsigned processes(void)
{
	char data[160];
	snprintf(data, sizeof(data), "%s/pg", dir);
	return qn_pg_signal_processes(data, 0);
}

static void starts_serves_and_stops(void **state)
{
	(void)state;
	struct fake_broker b;
	struct stat st;
	char path[160];
	start(&b);
	assert_int_equal(fake_log_count("storage.initdb_done"), 1);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	assert_true(processes() > 0);
	snprintf(path, sizeof(path), "%s/pg.password", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(path, sizeof(path), "%s/pg", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	fake_broker_stop(&b);
	assert_int_equal(processes(), 0);
	assert_int_equal(fake_postmaster(dir), 0);
}

static void starts_again_without_applying_anything(void **state)
{
	(void)state;
	struct fake_broker b;
	fake_log_reset();
	start(&b);
	assert_int_equal(fake_log_count("storage.initdb"), 0);
	assert_int_equal(fake_log_count("storage.schema_applied"), 0);
	fake_broker_stop(&b);
}

static void data_dir_in_use_is_refused(void **state)
{
	(void)state;
	struct fake_broker b;
	struct qn_error e = {0};
	start(&b);
	assert_int_equal(fails_to_start(&e), QN_CONFLICT);
	assert_non_null(strstr(e.msg, "in use by another queend"));
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
}

static void killed_postmaster_is_started_again(void **state)
{
	(void)state;
	struct fake_broker b;
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	pid_t before = fake_postmaster(dir);
	assert_true(before > 0);
	fake_log_reset();
	assert_int_equal(kill(before, SIGKILL), 0);
	while (fake_log_count("storage.server_died") == 0) {
		qn_pg_sleep_ms(10);
	}
	fake_ping_until_up(&b);
	assert_int_not_equal(fake_postmaster(dir), before);
	fake_broker_stop(&b);
	assert_int_equal(processes(), 0);
}

/* A child runs the module and dies without a goodbye; with_server: so does its postmaster, backends stay. */
static void die_in_child(bool with_server)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		struct fake_broker b;
		start(&b);
		fake_ping_until_up(&b);
		(void)!write(ready[1], "x", 1);
		for (;;) {
			pause();
		}
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	pid_t postmaster = fake_postmaster(dir);
	assert_true(postmaster > 0);
	if (with_server) {
		assert_int_equal(kill(child, SIGSTOP), 0);
		assert_int_equal(kill(postmaster, SIGKILL), 0);
	}
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ready[0]);
	close(ready[1]);
}

static void survives_its_own_kill(void **state)
{
	(void)state;
	struct fake_broker b;
	die_in_child(false);
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
}

static void survives_the_kill_of_both(void **state)
{
	(void)state;
	struct fake_broker b;
	die_in_child(true);
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
	assert_int_equal(processes(), 0);
}

static void a_foreign_process_with_the_recorded_id_is_left_alone(void **state)
{
	(void)state;
	struct fake_broker b;
	char path[160];
	pid_t other = fork();
	if (other == 0) {
		for (;;) {
			pause();
		}
	}
	snprintf(path, sizeof(path), "%s/pg/postmaster.pid", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%ld\n%s/pg\n", (long)other, dir);
	assert_int_equal(fclose(f), 0);
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

static void half_made_cluster_is_made_anew(void **state)
{
	(void)state;
	struct fake_broker b;
	char fresh[128];
	char path[200];
	fake_data_dir(fresh, sizeof(fresh));
	snprintf(path, sizeof(path), "%s/pg.new", fresh);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/pg.new/PG_VERSION", fresh);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
	fake_remove_dir(fresh);
}

static void long_data_dir_gets_its_socket_elsewhere(void **state)
{
	(void)state;
	struct fake_broker b;
	char top[128];
	char deep[256];
	fake_data_dir(top, sizeof(top));
	snprintf(deep, sizeof(deep), "%s/%0100d", top, 0);
	assert_int_equal(mkdir(deep, 0755), 0);
	fake_set_data_dir(deep);
	start(&b);
	assert_int_equal(fake_ping(&b, NULL), QN_OK);
	fake_broker_stop(&b);
	fake_remove_dir(top);
}

static void another_major_version_is_refused(void **state)
{
	(void)state;
	struct qn_error e = {0};
	char path[160];
	fake_set_data_dir(dir);
	snprintf(path, sizeof(path), "%s/pg/PG_VERSION", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("9\n", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(fails_to_start(&e), QN_CONFLICT);
	assert_non_null(strstr(e.msg, "made by version 9"));
}

static int make_dir(void **state)
{
	(void)state;
	fake_data_dir(dir, sizeof(dir));
	return 0;
}

static int drop_dir(void **state)
{
	(void)state;
	fake_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_serves_and_stops),
		cmocka_unit_test(starts_again_without_applying_anything),
		cmocka_unit_test(data_dir_in_use_is_refused),
		cmocka_unit_test(killed_postmaster_is_started_again),
		cmocka_unit_test(survives_its_own_kill),
		cmocka_unit_test(survives_the_kill_of_both),
		cmocka_unit_test(a_foreign_process_with_the_recorded_id_is_left_alone),
		cmocka_unit_test(half_made_cluster_is_made_anew),
		cmocka_unit_test(long_data_dir_gets_its_socket_elsewhere),
		cmocka_unit_test(another_major_version_is_refused),
	};
	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
