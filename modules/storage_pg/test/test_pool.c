/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool against a real server: what it does when statements fail, sessions die, the server goes
 * away, or a session is read-only; and two brokers applying the schema at once.
 */
#include "fake_host.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TENANT                    \
	{                         \
		.b = { [15] = 1 } \
	}

static struct fake_server server;
static struct fake_broker broker;
static PGconn *admin;   /* may hold a transaction open */
static PGconn *watcher; /* never does: what it sees is fresh */

static void broker_up(const struct qn_pg_options *o)
{
	struct qn_error e = {0};
	if (fake_broker_start(&broker, o, &e) != QN_OK) {
		fail_msg("%s", e.msg);
	}
}

static void reconnect_admin(void)
{
	PQfinish(admin);
	PQfinish(watcher);
	admin = NULL;
	watcher = NULL;
	admin = fake_server_connect(&server);
	watcher = fake_server_connect(&server);
}

static struct qn_pg_options options(void)
{
	struct qn_pg_options o = fake_options();
	o.dsn = server.dsn;
	return o;
}

static struct qn_span text(const char *s)
{
	return (struct qn_span){s, strlen(s)};
}

/* A lane of one message whose hash is filled with `mark`. */
static struct qn_push_lane lane(const char *queue, const char *partition, uint8_t hash[16], uint8_t mark)
{
	memset(hash, mark, 16);
	return (struct qn_push_lane){.tenant = TENANT,
	                             .queue = text(queue),
	                             .partition = text(partition),
	                             .count = 1,
	                             .raw_bytes = 4,
	                             .verified = -1,
	                             .hashes = {hash, 16},
	                             .blob = text("blob")};
}

static int push(struct qn_push_lane *lanes, uint32_t n, struct qn_error *e)
{
	struct qn_push_op op = {.lanes = lanes, .lane_count = n};
	struct fake_wait w;
	fake_op(&broker, &op.op, &w, 30000);
	broker.vt->push(broker.self, &op);
	assert_false(w.done);
	assert_int_equal(broker.vt->inflight(broker.self), 1);
	fake_wait(&broker, &w);
	assert_int_equal(broker.vt->inflight(broker.self), 0);
	fake_op_free(&op.op);
	if (e != NULL) {
		*e = w.error;
	}
	return w.error.code;
}

static unsigned waiting_backends(void)
{
	return (unsigned)strtoul(fake_sql(watcher,
	                                  "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queend'"
	                                  " AND wait_event_type = 'Lock'"),
	                         NULL, 10);
}

/* Starts a push that hangs behind the admin's table lock, and waits until it does. */
static void push_into_lock(struct qn_push_op *op, struct fake_wait *w, uint64_t deadline_in_ms)
{
	fake_sql(admin, "BEGIN; LOCK TABLE queen.log_partitions, queen.queues IN ACCESS EXCLUSIVE MODE");
	fake_op(&broker, &op->op, w, deadline_in_ms);
	broker.vt->push(broker.self, op);
	while (waiting_backends() == 0) {
		assert_false(w->done);
		uv_run(&broker.loop, UV_RUN_ONCE);
	}
}

static void push_stores_and_names_duplicates(void **state)
{
	(void)state;
	uint8_t h[2][16];
	struct qn_push_lane l[2] = {lane("a", "x", h[0], 1), lane("a", "y", h[1], 2)};
	struct qn_pg_options o = options();
	broker_up(&o);
	assert_int_equal(push(l, 2, NULL), QN_OK);
	assert_int_equal(l[0].status, QN_PUSH_QUEUED);
	assert_int_equal(l[1].status, QN_PUSH_QUEUED);
	assert_int_equal(l[0].base_offset, 0);
	assert_int_equal(l[0].dedup_window_s, 3600);
	assert_true(l[0].created_at_us > INT64_C(1700000000000000));
	struct qn_push_op op = {.lanes = l, .lane_count = 1};
	struct fake_wait w;
	fake_op(&broker, &op.op, &w, 0);
	broker.vt->push(broker.self, &op);
	fake_wait(&broker, &w);
	assert_int_equal(l[0].status, QN_PUSH_DUPLICATE);
	assert_int_equal(l[0].dup_count, 1);
	assert_int_equal(l[0].dups[0].index, 0);
	assert_int_equal(l[0].dups[0].offset, 0);
	fake_op_free(&op.op);
	fake_broker_stop(&broker);
}

static void a_bad_lane_fails_alone(void **state)
{
	(void)state;
	uint8_t h[3][16];
	struct qn_error e = {0};
	struct qn_push_lane l[3] = {lane("b", "1", h[0], 1), lane("b", "\xff", h[1], 2), lane("b", "3", h[2], 3)};
	struct qn_pg_options o = options();
	broker_up(&o);
	assert_int_equal(push(l, 3, &e), QN_OK);
	assert_int_equal(l[0].status, QN_PUSH_QUEUED);
	assert_int_equal(l[1].status, QN_PUSH_FAILED);
	assert_string_equal(l[1].error.sqlstate, "22021");
	assert_false(l[1].error.retryable);
	assert_int_equal(l[2].status, QN_PUSH_QUEUED);
	assert_string_equal(fake_sql(admin, "SELECT count(*) FROM queen.log_segments s JOIN queen.log_partitions p"
	                                    " ON p.id = s.partition_id JOIN queen.queues q ON q.id = p.queue_id"
	                                    " WHERE q.name = 'b'"),
	                    "2");
	fake_broker_stop(&broker);
}

static void terminated_statement_is_retryable(void **state)
{
	(void)state;
	uint8_t h[16];
	struct fake_wait w;
	struct qn_push_lane l = lane("c", "x", h, 1);
	struct qn_push_op op = {.lanes = &l, .lane_count = 1};
	struct qn_pg_options o = options();
	broker_up(&o);
	push_into_lock(&op, &w, 0);
	fake_sql(watcher, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'queend'");
	fake_wait(&broker, &w);
	assert_int_equal(w.error.code, QN_UNAVAIL);
	assert_string_equal(w.error.sqlstate, "57P01");
	assert_true(w.error.retryable);
	fake_op_free(&op.op);
	fake_sql(admin, "ROLLBACK");
	fake_ping_until_up(&broker);
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_int_equal(l.base_offset, 0);
	fake_broker_stop(&broker);
}

static void killed_backend_leaves_the_push_in_doubt(void **state)
{
	(void)state;
	uint8_t h[16];
	struct fake_wait w;
	struct qn_push_lane l = lane("d", "x", h, 1);
	struct qn_push_op op = {.lanes = &l, .lane_count = 1};
	struct qn_pg_options o = options();
	o.push_connections = 1;
	broker_up(&o);
	push_into_lock(&op, &w, 0);
	pid_t pid = (pid_t)strtol(fake_sql(watcher, "SELECT pid FROM pg_stat_activity WHERE application_name = 'queend'"
	                                            " AND wait_event_type = 'Lock'"),
	                          NULL, 10);
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	fake_wait(&broker, &w);
	assert_int_equal(w.error.code, QN_UNAVAIL);
	assert_false(w.error.retryable);
	assert_non_null(strstr(w.error.msg, "in doubt"));
	fake_op_free(&op.op);
	fake_ping_until_up(&broker);
	reconnect_admin();
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	fake_broker_stop(&broker);
}

static void slow_statement_times_out_in_the_server(void **state)
{
	(void)state;
	uint8_t h[16];
	struct fake_wait w;
	struct qn_push_lane l = lane("e", "x", h, 1);
	struct qn_push_op op = {.lanes = &l, .lane_count = 1};
	struct qn_pg_options o = options();
	o.statement_timeout_ms = 500;
	broker_up(&o);
	push_into_lock(&op, &w, 0);
	fake_wait(&broker, &w);
	assert_int_equal(w.error.code, QN_TIMEOUT);
	assert_string_equal(w.error.sqlstate, "57014");
	assert_true(w.error.retryable);
	fake_op_free(&op.op);
	fake_sql(admin, "ROLLBACK");
	fake_broker_stop(&broker);
}

static void deadline_ends_a_running_statement(void **state)
{
	(void)state;
	uint8_t h[16];
	struct fake_wait w;
	struct qn_push_lane l = lane("f", "x", h, 1);
	struct qn_push_op op = {.lanes = &l, .lane_count = 1};
	struct qn_pg_options o = options();
	broker_up(&o);
	push_into_lock(&op, &w, 5000);
	fake_wait(&broker, &w);
	assert_int_equal(w.error.code, QN_TIMEOUT);
	assert_false(w.error.retryable);
	fake_op_free(&op.op);
	/* The server was told to stop: nobody waits for the lock any more. */
	while (waiting_backends() != 0) {
		uv_run(&broker.loop, UV_RUN_ONCE);
	}
	fake_sql(admin, "ROLLBACK");
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	fake_broker_stop(&broker);
}

static void queued_op_can_be_canceled_and_times_out(void **state)
{
	(void)state;
	uint8_t h[3][16];
	struct fake_wait w[3];
	struct qn_push_lane l[3] = {lane("g", "1", h[0], 1), lane("g", "2", h[1], 2), lane("g", "3", h[2], 3)};
	struct qn_push_op op[3] = {{.lanes = &l[0], .lane_count = 1},
	                           {.lanes = &l[1], .lane_count = 1},
	                           {.lanes = &l[2], .lane_count = 1}};
	struct qn_pg_options o = options();
	o.push_connections = 1;
	broker_up(&o);
	push_into_lock(&op[0], &w[0], 0);
	fake_op(&broker, &op[1].op, &w[1], 0);
	broker.vt->push(broker.self, &op[1]);
	fake_op(&broker, &op[2].op, &w[2], 200);
	broker.vt->push(broker.self, &op[2]);
	assert_int_equal(broker.vt->inflight(broker.self), 3);
	broker.vt->cancel(broker.self, &op[1].op);
	assert_false(w[1].done);
	fake_wait(&broker, &w[1]);
	assert_int_equal(w[1].error.code, QN_CANCELED);
	fake_wait(&broker, &w[2]);
	assert_int_equal(w[2].error.code, QN_TIMEOUT);
	assert_true(w[2].error.retryable);
	assert_false(w[0].done);
	broker.vt->cancel(broker.self, &op[0].op);
	fake_sql(admin, "ROLLBACK");
	fake_wait(&broker, &w[0]);
	assert_int_equal(w[0].error.code, QN_OK);
	for (int i = 0; i < 3; i++) {
		fake_op_free(&op[i].op);
	}
	fake_broker_stop(&broker);
}

static void stop_ends_what_runs_and_waits(void **state)
{
	(void)state;
	uint8_t h[2][16];
	struct fake_wait w[2];
	struct qn_push_lane l[2] = {lane("h", "1", h[0], 1), lane("h", "2", h[1], 2)};
	struct qn_push_op op[2] = {{.lanes = &l[0], .lane_count = 1}, {.lanes = &l[1], .lane_count = 1}};
	struct qn_pg_options o = options();
	o.push_connections = 1;
	broker_up(&o);
	push_into_lock(&op[0], &w[0], 0);
	fake_op(&broker, &op[1].op, &w[1], 0);
	broker.vt->push(broker.self, &op[1]);
	struct qn_thread *none = NULL;
	broker.module->thread_stop(broker.self, none, broker.tself);
	assert_true(w[0].done && w[1].done);
	assert_int_equal(w[1].error.code, QN_CANCELED);
	assert_int_not_equal(w[0].error.code, QN_OK);
	fake_op_free(&op[0].op);
	fake_op_free(&op[1].op);
	fake_sql(admin, "ROLLBACK");
	fake_broker_stop(&broker);
}

static void crashed_server_fails_fast_and_comes_back(void **state)
{
	(void)state;
	uint8_t h[16];
	struct qn_error e = {0};
	struct qn_push_lane l = lane("i", "x", h, 1);
	struct qn_pg_options o = options();
	broker_up(&o);
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	fake_log_reset();
	/* What pg_ctl stop -m immediate sends. */
	assert_int_equal(kill(fake_postmaster(server.dir), SIGQUIT), 0);
	while (fake_log_count("storage.connect_failed") == 0) {
		uv_run(&broker.loop, UV_RUN_ONCE);
	}
	if (fake_ping(&broker, &e) != QN_OK) {
		assert_int_equal(e.code, QN_UNAVAIL);
		assert_true(e.retryable);
	}
	fake_ping_until_up(&broker);
	memset(h, 9, sizeof(h));
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	assert_int_equal(l.base_offset, 1);
	reconnect_admin();
	fake_broker_stop(&broker);
}

static void read_only_sessions_are_thrown_away(void **state)
{
	(void)state;
	uint8_t h[16];
	struct qn_error e = {0};
	struct qn_push_lane l = lane("j", "x", h, 1);
	char dsn[PATH_MAX + 300];
	struct qn_pg_options o = options();
	/* target_session_attrs would refuse such sessions at once; a pooler in between would not. */
	snprintf(dsn, sizeof(dsn), "%s target_session_attrs=any", server.dsn);
	o.dsn = dsn;
	o.push_connections = 1;
	broker_up(&o);
	fake_ping_until_up(&broker);
	fake_sql(admin, "ALTER DATABASE postgres SET default_transaction_read_only = on");
	fake_sql(watcher, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'queend'");
	do {
		memset(&e, 0, sizeof(e));
	} while (push(&l, 1, &e) != QN_OK && strcmp(e.sqlstate, "25006") != 0);
	assert_string_equal(e.sqlstate, "25006");
	assert_true(e.retryable);
	fake_sql(admin, "SET default_transaction_read_only = off");
	fake_sql(admin, "ALTER DATABASE postgres RESET default_transaction_read_only");
	do {
		memset(&e, 0, sizeof(e));
		memset(&l.error, 0, sizeof(l.error));
	} while (push(&l, 1, &e) != QN_OK && e.retryable);
	assert_int_equal(e.code, QN_OK);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	fake_broker_stop(&broker);
}

static void unnamed_statements_do_the_same(void **state)
{
	(void)state;
	uint8_t h[16];
	struct qn_push_lane l = lane("k", "x", h, 1);
	struct qn_pg_options o = options();
	o.prepared = QN_PG_PREPARED_OFF;
	broker_up(&o);
	assert_int_equal(push(&l, 1, NULL), QN_OK);
	assert_int_equal(l.status, QN_PUSH_QUEUED);
	fake_broker_stop(&broker);
}

/* ---- schema ------------------------------------------------------------------------------------------- */

static int apply_in_child(const char *dsn)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct fake_broker b;
		struct qn_error e = {0};
		struct qn_pg_options o = fake_options();
		o.dsn = dsn;
		int rc = fake_broker_start(&b, &o, &e);
		if (rc != QN_OK) {
			fprintf(stderr, "child: %s\n", e.msg);
		}
		_exit(rc == QN_OK ? 0 : 1);
	}
	return pid;
}

static void brokers_starting_at_once_all_succeed(void **state)
{
	(void)state;
	enum { BROKERS = 4 };
	char dsn[PATH_MAX + 300];
	pid_t pids[BROKERS];
	fake_sql(admin, "CREATE DATABASE fresh");
	snprintf(dsn, sizeof(dsn), "%s dbname=fresh", server.dsn);
	for (int i = 0; i < BROKERS; i++) {
		pids[i] = apply_in_child(dsn);
		assert_true(pids[i] > 0);
	}
	for (int i = 0; i < BROKERS; i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void newer_database_is_refused(void **state)
{
	(void)state;
	struct qn_error e = {0};
	struct qn_pg_options o = options();
	fake_sql(admin, "INSERT INTO queen.schema_version (file, version, checksum) VALUES ('999_x.sql', 999, '')");
	assert_int_equal(fake_broker_start(&broker, &o, &e), QN_CONFLICT);
	assert_non_null(strstr(e.msg, "version 999"));
	fake_sql(admin, "DELETE FROM queen.schema_version WHERE version = 999");
}

static void check_only_refuses_an_empty_database(void **state)
{
	(void)state;
	struct qn_error e = {0};
	char dsn[PATH_MAX + 300];
	struct qn_pg_options o = options();
	fake_sql(admin, "CREATE DATABASE untouched");
	snprintf(dsn, sizeof(dsn), "%s dbname=untouched", server.dsn);
	o.dsn = dsn;
	o.apply_schema = false;
	assert_int_equal(fake_broker_start(&broker, &o, &e), QN_CONFLICT);
	assert_non_null(strstr(e.msg, "apply_schema"));
}

static void blocked_apply_waits_in_slices(void **state)
{
	(void)state;
	struct qn_pg_options o = options();
	fake_sql(admin, "UPDATE queen.schema_version SET checksum = '' WHERE file = '001_schema.sql'");
	fake_sql(admin, "BEGIN; SELECT pg_advisory_xact_lock(778120010)");
	pid_t pid = apply_in_child(o.dsn);
	while (strtol(fake_sql(watcher, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
	              NULL, 10) == 0) {
		qn_pg_sleep_ms(10);
	}
	while (strtol(fake_sql(watcher, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
	              NULL, 10) != 0) {
		qn_pg_sleep_ms(10);
	}
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	fake_sql(admin, "ROLLBACK");
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_not_equal(
		fake_sql(admin, "SELECT checksum FROM queen.schema_version WHERE file = '001_schema.sql'"), "");
}

static int group_setup(void **state)
{
	(void)state;
	fake_server_start(&server);
	reconnect_admin();
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	PQfinish(admin);
	PQfinish(watcher);
	fake_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(push_stores_and_names_duplicates),
		cmocka_unit_test(a_bad_lane_fails_alone),
		cmocka_unit_test(terminated_statement_is_retryable),
		cmocka_unit_test(killed_backend_leaves_the_push_in_doubt),
		cmocka_unit_test(slow_statement_times_out_in_the_server),
		cmocka_unit_test(deadline_ends_a_running_statement),
		cmocka_unit_test(queued_op_can_be_canceled_and_times_out),
		cmocka_unit_test(stop_ends_what_runs_and_waits),
		cmocka_unit_test(crashed_server_fails_fast_and_comes_back),
		cmocka_unit_test(read_only_sessions_are_thrown_away),
		cmocka_unit_test(unnamed_statements_do_the_same),
		cmocka_unit_test(brokers_starting_at_once_all_succeed),
		cmocka_unit_test(newer_database_is_refused),
		cmocka_unit_test(check_only_refuses_an_empty_database),
		cmocka_unit_test(blocked_apply_waits_in_slices),
	};
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
