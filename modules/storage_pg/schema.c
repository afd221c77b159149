/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schema apply.
 *
 * One transaction per SQL file, each under the transaction-scoped advisory lock SCHEMA_LOCK, so that
 * brokers starting together take turns, a crash leaves whole files only, and a transaction pooler
 * strands nothing. A file whose recorded checksum equals is skipped. Waits for locks are cut into
 * LOCK_SLICE pieces, so that a queue of other sessions never forms behind this one for long.
 * The schema's version is the number in the name of the last file; a database that has seen a higher
 * one is refused. SQL files are idempotent and know nothing of this.
 */
#include "schema.h"

#include "errors.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCHEMA_LOCK   "778120010"
#define LOCK_SLICE    "'1s'"
#define APPLY_MS      60000
#define STARTING_MS   120000
#define PAUSE_MS      250
#define OLDEST_SERVER 140000

struct session {
	struct qn_pg *pg;
	PGconn *c;
};

static void pause_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

static void ignore_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

static int own_version(void)
{
	int version = 0;
	for (const struct qn_pg_sql_file *f = qn_pg_sql_files; f->name != NULL; f++) {
		version = (int)strtol(f->name, NULL, 10);
	}
	return version;
}

static int connect_server(struct session *s, struct qn_error *e)
{
	struct qn_pg *pg = s->pg;
	uint64_t until = pg->host->mono_ms() + STARTING_MS;
	for (;;) {
		const char *const *k = (const char *const *)pg->conninfo.keywords;
		const char *const *v = (const char *const *)pg->conninfo.values;
		s->c = PQconnectdbParams(k, v, 0);
		if (s->c != NULL && PQstatus(s->c) == CONNECTION_OK) {
			PQsetNoticeReceiver(s->c, ignore_notice, NULL);
			return QN_OK;
		}
		char why[200] = "";
		strncat(why, s->c != NULL ? PQerrorMessage(s->c) : "out of memory", sizeof(why) - 1);
		why[strcspn(why, "\n")] = '\0';
		PQfinish(s->c);
		s->c = NULL;
		if (qn_pg_conninfo_refused(&pg->conninfo, why)) {
			QN_LOG(pg->host, pg->mod, QN_WARN, "storage.settings_refused",
			       QN_S("effect", "time zone and time-outs are the server's"));
			continue;
		}
		if (PQpingParams(k, v, 0) != PQPING_REJECT || pg->host->mono_ms() > until) {
			return QN_ERR(pg->host, e, QN_UNAVAIL, "cannot connect to PostgreSQL: %s", why);
		}
		pause_ms(PAUSE_MS);
	}
}

/* Runs text; *out (may be NULL) gets the last result. */
static int run(struct session *s, const char *what, const char *text, PGresult **out, struct qn_error *e)
{
	PGresult *res = PQexec(s->c, text);
	ExecStatusType status = PQresultStatus(res);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		int code = qn_pg_error_from_result(s->pg->host, res, what, e);
		PQclear(res);
		return code;
	}
	if (out != NULL) {
		*out = res;
	} else {
		PQclear(res);
	}
	return QN_OK;
}

static int run_with(struct session *s, const char *what, const char *text, const char *const *values, int n,
                    PGresult **out, struct qn_error *e)
{
	PGresult *res = PQexecParams(s->c, text, n, NULL, values, NULL, NULL, 0);
	ExecStatusType status = PQresultStatus(res);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		int code = qn_pg_error_from_result(s->pg->host, res, what, e);
		PQclear(res);
		return code;
	}
	*out = res;
	return QN_OK;
}

static int check_version(struct session *s, bool must_be_complete, struct qn_error *e)
{
	PGresult *res = NULL;
	int rc = run(s, "schema version", "SELECT to_regclass('queen.schema_version') IS NOT NULL", &res, e);
	if (rc != QN_OK) {
		return rc;
	}
	bool exists = PQgetvalue(res, 0, 0)[0] == 't';
	PQclear(res);
	int found = 0;
	if (exists) {
		rc = run(s, "schema version", "SELECT COALESCE(max(version), 0) FROM queen.schema_version", &res, e);
		if (rc != QN_OK) {
			return rc;
		}
		found = (int)strtol(PQgetvalue(res, 0, 0), NULL, 10);
		PQclear(res);
	}
	if (found > own_version()) {
		return QN_ERR(s->pg->host, e, QN_CONFLICT,
		              "the database's schema is version %d, this queend knows %d: "
		              "start a newer queend",
		              found, own_version());
	}
	if (must_be_complete && found < own_version()) {
		return QN_ERR(s->pg->host, e, QN_CONFLICT,
		              "the database's schema is version %d, this queend needs %d: "
		              "start once with apply_schema = true",
		              found, own_version());
	}
	return QN_OK;
}

static int prepare_bookkeeping(struct session *s, struct qn_error *e)
{
	/* CREATE ... IF NOT EXISTS would demand the privilege to create also where everything exists. */
	static const char text[] =
		"DO $$ BEGIN"
		" IF to_regnamespace('queen') IS NULL THEN CREATE SCHEMA queen; END IF;"
		" IF to_regclass('queen.schema_version') IS NULL THEN"
		"  CREATE TABLE queen.schema_version (file text PRIMARY KEY, version int NOT NULL, checksum text NOT NULL,"
		"   applied_at timestamptz NOT NULL DEFAULT now());"
		" END IF; END $$";
	return run(s, "schema bookkeeping", text, NULL, e);
}

static int apply_in_transaction(struct session *s, const struct qn_pg_sql_file *f, bool *changed, struct qn_error *e)
{
	const char *name[] = {f->name};
	char version[16];
	PGresult *res = NULL;
	int rc = check_version(s, false, e);
	if (rc == QN_OK) {
		rc = prepare_bookkeeping(s, e);
	}
	if (rc == QN_OK) {
		rc = run_with(s, f->name, "SELECT checksum FROM queen.schema_version WHERE file = $1", name, 1, &res,
		              e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	bool same = PQntuples(res) == 1 && strcmp(PQgetvalue(res, 0, 0), f->checksum) == 0;
	PQclear(res);
	if (same) {
		return QN_OK;
	}
	*changed = true;
	rc = run(s, f->name, f->text, NULL, e);
	if (rc != QN_OK) {
		return rc;
	}
	snprintf(version, sizeof(version), "%ld", strtol(f->name, NULL, 10));
	const char *row[] = {f->name, version, f->checksum};
	rc = run_with(s, f->name,
	              "INSERT INTO queen.schema_version (file, version, checksum) VALUES ($1, $2::int, $3)"
	              " ON CONFLICT (file) DO UPDATE SET version = excluded.version, checksum = excluded.checksum,"
	              " applied_at = now()",
	              row, 3, &res, e);
	if (rc == QN_OK) {
		PQclear(res);
	}
	return rc;
}

static int apply_file(struct session *s, const struct qn_pg_sql_file *f, bool *changed, struct qn_error *e)
{
	int rc = run(s, "schema lock",
	             "BEGIN; SET LOCAL lock_timeout = " LOCK_SLICE "; SET LOCAL statement_timeout = '5min';"
	             " SET LOCAL client_min_messages = warning; SELECT pg_advisory_xact_lock(" SCHEMA_LOCK ")",
	             NULL, e);
	if (rc == QN_OK) {
		rc = apply_in_transaction(s, f, changed, e);
	}
	if (rc == QN_OK) {
		return run(s, f->name, "COMMIT", NULL, e);
	}
	(void)run(s, f->name, "ROLLBACK", NULL, NULL);
	return rc;
}

/* Names who holds locks on our tables, longest transaction first. */
static void name_blocker(struct session *s, struct qn_error *e)
{
	static const char text[] =
		"SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
		" WHERE a.pid <> pg_backend_pid() AND l.granted AND l.database = (SELECT oid FROM pg_database"
		" WHERE datname = current_database()) AND (l.locktype = 'advisory' OR l.relation IN"
		" (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('queen')))"
		" ORDER BY a.xact_start NULLS LAST LIMIT 1";
	PGresult *res = NULL;
	if (run(s, "schema lock", text, &res, NULL) != QN_OK) {
		return;
	}
	if (PQntuples(res) == 1) {
		size_t n = strlen(e->msg);
		snprintf(e->msg + n, sizeof(e->msg) - n, "; blocked by database session %.12s", PQgetvalue(res, 0, 0));
	}
	PQclear(res);
}

static int apply_patiently(struct session *s, const struct qn_pg_sql_file *f, struct qn_error *e)
{
	const struct qn_host *h = s->pg->host;
	uint64_t from = h->mono_ms();
	for (;;) {
		struct qn_error failed = {0};
		bool changed = false;
		int rc = apply_file(s, f, &changed, &failed);
		if (rc == QN_OK) {
			if (changed) {
				QN_LOG(h, s->pg->mod, QN_INFO, "storage.schema_applied", QN_S("file", f->name),
				       QN_U("took_ms", h->mono_ms() - from));
			}
			return QN_OK;
		}
		bool again = strcmp(failed.sqlstate, "55P03") == 0 || qn_pg_sqlstate_repeats(failed.sqlstate);
		if (!again || h->mono_ms() > from + APPLY_MS || PQstatus(s->c) != CONNECTION_OK) {
			if (again) {
				name_blocker(s, &failed);
			}
			if (e != NULL && e->code == 0) {
				*e = failed;
			}
			return rc;
		}
		QN_LOG(h, s->pg->mod, QN_INFO, "storage.schema_waits", QN_S("file", f->name),
		       QN_S("error", failed.msg));
		pause_ms(PAUSE_MS);
	}
}

static int check_server(struct session *s, struct qn_error *e)
{
	int version = PQserverVersion(s->c);
	if (version < OLDEST_SERVER) {
		return QN_ERR(s->pg->host, e, QN_INVALID, "PostgreSQL %d.%d is too old: 14 or later is needed",
		              version / 10000, version % 10000);
	}
	return QN_OK;
}

int qn_pg_schema_apply(struct qn_pg *pg, struct qn_error *e)
{
	struct session s = {.pg = pg};
	int rc = connect_server(&s, e);
	if (rc != QN_OK) {
		return rc;
	}
	rc = check_server(&s, e);
	if (rc == QN_OK && !pg->options->apply_schema) {
		rc = check_version(&s, true, e);
	}
	if (rc == QN_OK && pg->options->apply_schema) {
		for (const struct qn_pg_sql_file *f = qn_pg_sql_files; f->name != NULL && rc == QN_OK; f++) {
			rc = apply_patiently(&s, f, e);
		}
	}
	PQfinish(s.c);
	return rc;
}
