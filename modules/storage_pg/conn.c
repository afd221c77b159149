/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to PostgreSQL on the engine's loop.
 *
 * Invariants: at most one statement is in flight; an answer is read up to ReadyForQuery before the
 * next is sent, so answers never cross calls; the socket's watch is closed before libpq closes the
 * socket and is made anew after each step of connecting, because the descriptor may have changed. In
 * the extended protocol the commit happens at Sync, after the command's own answer: an error that
 * comes behind it is a failed commit, a silence behind it leaves the statement in doubt.
 * Waiting calls and the clock are pool.c's.
 */
#include "conn.h"

#include "errors.h"

#include <string.h>

#define CONNECT_TIMEOUT_MS 10000
#define STATEMENT_GRACE_MS 2000
#define BACKOFF_MIN_MS     100
#define BACKOFF_MAX_MS     5000

struct qn_pg_watch {
	uv_poll_t poll;
	struct qn_pg_conn *conn; /* NULL once closed */
	struct qn_pg_pool *pool;
};

struct cancel_work {
	uv_work_t work;
	struct qn_pg_pool *pool;
	PGcancel *cancel;
};

static void on_socket(uv_poll_t *poll, int status, int events);

/* ---- the watch --------------------------------------------------------------------------------- */

static void on_watch_closed(uv_handle_t *h)
{
	struct qn_pg_watch *w = h->data;
	struct qn_pg_pool *pool = w->pool;
	pool->host->free(w);
	qn_pg_pool_unref(pool);
}

static void unwatch(struct qn_pg_conn *c)
{
	if (c->watch != NULL) {
		c->watch->conn = NULL;
		uv_close((uv_handle_t *)&c->watch->poll, on_watch_closed);
		c->watch = NULL;
	}
}

static bool watch(struct qn_pg_conn *c, int events)
{
	int fd = PQsocket(c->pg);
	if (fd < 0) {
		return false;
	}
	struct qn_pg_watch *w = c->pool->host->alloc(sizeof(*w));
	w->conn = c;
	w->pool = c->pool;
	if (uv_poll_init(c->pool->loop, &w->poll, fd) != 0) {
		c->pool->host->free(w);
		return false;
	}
	w->poll.data = w;
	c->watch = w;
	c->pool->refs++;
	return uv_poll_start(&w->poll, events, on_socket) == 0;
}

/* ---- ending a statement ------------------------------------------------------------------------ */

static void drop_result(struct qn_pg_conn *c)
{
	PQclear(c->result);
	c->result = NULL;
	c->answered = false;
}

static struct qn_pg_call *detach(struct qn_pg_conn *c)
{
	struct qn_pg_call *call = c->call;
	c->call = NULL;
	if (call != NULL) {
		call->conn = NULL;
	}
	return call;
}

static void hang_up(struct qn_pg_conn *c)
{
	unwatch(c);
	drop_result(c);
	if (c->pg != NULL) {
		PQfinish(c->pg);
		c->pg = NULL;
	}
	c->prepared = 0;
	c->preparing = false;
}

static uint64_t backoff_ms(struct qn_pg_conn *c)
{
	uint64_t base = BACKOFF_MIN_MS;
	for (unsigned i = 1; i < c->failures && base < BACKOFF_MAX_MS; i++) {
		base *= 2;
	}
	base = base < BACKOFF_MAX_MS ? base : BACKOFF_MAX_MS;
	uint16_t r;
	c->pool->host->random(&r, sizeof(r));
	return base / 2 + base / 2 * r / UINT16_MAX;
}

/* A statement that was sent and not answered may be committed. */
static bool in_doubt(const struct qn_pg_conn *c)
{
	return c->call != NULL && !c->preparing && qn_pg_statements[c->call->statement].once;
}

void qn_pg_conn_lost(struct qn_pg_conn *c, const struct qn_error *e)
{
	struct qn_error lost = {0};
	if (e == NULL) {
		const char *label = c->call != NULL ? qn_pg_statements[c->call->statement].label : "connection";
		qn_pg_error_lost(c->pool->host, label, in_doubt(c), &lost);
		e = &lost;
	}
	struct qn_pg_call *call = detach(c);
	hang_up(c);
	c->state = QN_PG_DOWN;
	c->due_ms = c->pool->host->mono_ms() + (c->failures == 0 ? 0 : backoff_ms(c));
	if (call != NULL) {
		qn_pg_pool_finish(call, e);
	}
}

static void on_canceled(uv_work_t *work, int status)
{
	(void)status;
	struct cancel_work *w = work->data;
	struct qn_pg_pool *pool = w->pool;
	PQfreeCancel(w->cancel);
	pool->host->free(w);
	qn_pg_pool_unref(pool);
}

static void do_cancel(uv_work_t *work)
{
	struct cancel_work *w = work->data;
	char text[256];
	/* Only a courtesy to the server: the session is given up whether or not it hears this. */
	(void)PQcancel(w->cancel, text, sizeof(text));
}

void qn_pg_conn_expire(struct qn_pg_conn *c)
{
	const struct qn_pg_statement *s = &qn_pg_statements[c->call->statement];
	struct qn_error e = {0};
	bool doubt = in_doubt(c);
	QN_ERR(c->pool->host, &e, QN_TIMEOUT, "%s: statement timed out%s", s->label, doubt ? ", in doubt" : "");
	e.retryable = !doubt;
	PGcancel *cancel = PQgetCancel(c->pg);
	if (cancel != NULL) {
		struct cancel_work *w = c->pool->host->alloc(sizeof(*w));
		w->pool = c->pool;
		w->cancel = cancel;
		w->work.data = w;
		c->pool->refs++;
		(void)uv_queue_work(c->pool->loop, &w->work, do_cancel, on_canceled);
	}
	qn_pg_conn_lost(c, &e);
}

static void clear_result(void *res)
{
	PQclear(res);
}

static int read_rows(struct qn_pg_conn *c, struct qn_pg_call *call, struct qn_error *e)
{
	PGresult *res = c->result;
	struct qn_pg_rows rows;
	c->result = NULL;
	qn_pg_rows_init(&rows, res, qn_pg_statements[call->statement].columns);
	/* The rows live as long as the op's arena: blobs and names are not copied. */
	c->pool->host->arena_defer(call->op->arena, clear_result, res);
	return call->read(call, &rows, e);
}

/* ReadyForQuery after the statement of c->call. */
static void on_statement_end(struct qn_pg_conn *c)
{
	struct qn_pg_pool *pool = c->pool;
	struct qn_pg_call *call = c->call;
	struct qn_error e = {0};
	ExecStatusType status = PQresultStatus(c->result);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		qn_pg_error_from_result(pool->host, c->result, qn_pg_statements[call->statement].label, &e);
	} else if (c->preparing) {
		c->prepared |= UINT32_C(1) << call->statement;
		drop_result(c);
		qn_pg_conn_send(c, call);
		return;
	} else {
		detach(c);
		c->state = QN_PG_IDLE;
		int rc = read_rows(c, call, &e);
		drop_result(c);
		qn_pg_pool_dispatch(pool, c->class);
		qn_pg_pool_finish(call, rc != QN_OK ? &e : NULL);
		return;
	}
	if (qn_pg_sqlstate_evicts(e.sqlstate)) {
		qn_pg_conn_lost(c, &e);
		return;
	}
	detach(c);
	drop_result(c);
	c->preparing = false;
	c->state = QN_PG_IDLE;
	if (qn_pg_sqlstate_unprepared(e.sqlstate) && !pool->unnamed) {
		pool->unnamed = true;
		QN_LOG(pool->host, pool->pg->mod, QN_WARN, "storage.pooler_found", QN_S("sqlstate", e.sqlstate),
		       QN_S("effect", "prepared statements are off"));
		qn_pg_pool_requeue(call);
	} else if (qn_pg_sqlstate_unprepared(e.sqlstate) || qn_pg_sqlstate_repeats(e.sqlstate)) {
		if (call->repeats++ < QN_PG_REPEATS_MAX) {
			qn_pg_pool_requeue(call);
		} else {
			qn_pg_pool_finish(call, &e);
		}
	} else {
		qn_pg_pool_finish(call, &e);
	}
	qn_pg_pool_dispatch(pool, c->class);
}

/* Keeps the first error, or the last good answer when there is none. */
static void keep_result(struct qn_pg_conn *c, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);
	bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
	ExecStatusType kept = PQresultStatus(c->result);
	bool have_error = c->result != NULL && kept != PGRES_TUPLES_OK && kept != PGRES_COMMAND_OK;
	c->answered |= good;
	if (have_error) {
		PQclear(res);
		return;
	}
	PQclear(c->result);
	c->result = res;
}

/* The server said why before it hung up: nothing of the statement is stored, unless it had answered already. */
static bool told_why(const struct qn_pg_conn *c)
{
	if (c->result == NULL || c->answered || PQresultStatus(c->result) != PGRES_FATAL_ERROR) {
		return false;
	}
	const char *sqlstate = PQresultErrorField(c->result, PG_DIAG_SQLSTATE);
	return sqlstate != NULL && strlen(sqlstate) == 5;
}

static void on_input(struct qn_pg_conn *c)
{
	bool alive = PQconsumeInput(c->pg) == 1;
	while (c->state == QN_PG_BUSY && !PQisBusy(c->pg)) {
		PGresult *res = PQgetResult(c->pg);
		if (res != NULL) {
			keep_result(c, res);
			continue;
		}
		if (alive && PQstatus(c->pg) == CONNECTION_OK && c->result != NULL) {
			on_statement_end(c);
			return;
		}
		break;
	}
	if (alive && PQstatus(c->pg) == CONNECTION_OK) {
		return;
	}
	struct qn_error e = {0};
	if (c->state == QN_PG_BUSY && told_why(c)) {
		qn_pg_error_from_result(c->pool->host, c->result, qn_pg_statements[c->call->statement].label, &e);
	}
	qn_pg_conn_lost(c, e.code != 0 ? &e : NULL);
}

static void flush(struct qn_pg_conn *c)
{
	int rc = PQflush(c->pg);
	if (rc < 0 ||
	    uv_poll_start(&c->watch->poll, rc == 1 ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_socket) != 0) {
		qn_pg_conn_lost(c, NULL);
	}
}

void qn_pg_conn_send(struct qn_pg_conn *c, struct qn_pg_call *call)
{
	const struct qn_pg_statement *s = &qn_pg_statements[call->statement];
	struct qn_pg_params *p = &call->params;
	const char *name = qn_pg_statement_name(call->statement);
	uint64_t now = c->pool->host->mono_ms();
	int sent;
	c->call = call;
	call->conn = c;
	call->state = QN_PG_CALL_RUNNING;
	c->state = QN_PG_BUSY;
	c->due_ms = now + (uint64_t)c->pool->pg->options->statement_timeout_ms + STATEMENT_GRACE_MS;
	if (call->deadline_ms != 0 && call->deadline_ms < c->due_ms) {
		c->due_ms = call->deadline_ms;
	}
	c->preparing = !c->pool->unnamed && (c->prepared & UINT32_C(1) << call->statement) == 0;
	if (c->preparing) {
		sent = PQsendPrepare(c->pg, name, s->text, p->count, p->types);
	} else if (c->pool->unnamed) {
		sent = PQsendQueryParams(c->pg, s->text, p->count, p->types, p->values, p->lengths, p->formats, 1);
	} else {
		sent = PQsendQueryPrepared(c->pg, name, p->count, p->values, p->lengths, p->formats, 1);
	}
	if (sent != 1) {
		qn_pg_conn_lost(c, NULL);
		return;
	}
	flush(c);
}

/* ---- connecting -------------------------------------------------------------------------------- */

static void connect_failed(struct qn_pg_conn *c, const char *why)
{
	char text[200] = "";
	strncat(text, why, sizeof(text) - 1);
	text[strcspn(text, "\n")] = '\0';
	bool again = qn_pg_conninfo_refused(&c->pool->pg->conninfo, text);
	hang_up(c);
	c->state = QN_PG_DOWN;
	c->failures++;
	c->due_ms = c->pool->host->mono_ms() + (again ? 0 : backoff_ms(c));
	if (!again) {
		qn_pg_pool_attempt_failed(c, text);
	}
}

static void ignore_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

static void connected(struct qn_pg_conn *c)
{
	if (PQsetnonblocking(c->pg, 1) != 0 || uv_poll_start(&c->watch->poll, UV_READABLE, on_socket) != 0) {
		connect_failed(c, "cannot switch to non-blocking mode");
		return;
	}
	PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
	c->state = QN_PG_IDLE;
	c->failures = 0;
	qn_pg_pool_up(c);
}

static void step(struct qn_pg_conn *c)
{
	PostgresPollingStatusType next = PQconnectPoll(c->pg);
	unwatch(c);
	if (next == PGRES_POLLING_FAILED) {
		connect_failed(c, PQerrorMessage(c->pg));
		return;
	}
	if (!watch(c, next == PGRES_POLLING_WRITING ? UV_WRITABLE : UV_READABLE)) {
		connect_failed(c, "cannot watch the socket");
		return;
	}
	if (next == PGRES_POLLING_OK) {
		connected(c);
	}
}

void qn_pg_conn_resolved(struct qn_pg_conn *c, const struct qn_pg_conninfo *info, const char *why)
{
	if (info == NULL) {
		connect_failed(c, why != NULL ? why : "the host name does not resolve");
		return;
	}
	c->state = QN_PG_CONNECTING;
	c->due_ms = c->pool->host->mono_ms() + CONNECT_TIMEOUT_MS;
	c->pg = PQconnectStartParams((const char *const *)info->keywords, (const char *const *)info->values, 0);
	if (c->pg == NULL || PQstatus(c->pg) == CONNECTION_BAD) {
		connect_failed(c, c->pg != NULL ? PQerrorMessage(c->pg) : "out of memory");
		return;
	}
	/* The first wait is always for writing. */
	if (!watch(c, UV_WRITABLE)) {
		connect_failed(c, "cannot watch the socket");
	}
}

void qn_pg_conn_open(struct qn_pg_conn *c)
{
	if (c->resolve != NULL) {
		return;
	}
	if (qn_pg_resolve_needed(&c->pool->pg->conninfo)) {
		c->state = QN_PG_RESOLVING;
		c->due_ms = UINT64_MAX;
		qn_pg_resolve_start(c);
		return;
	}
	qn_pg_conn_resolved(c, &c->pool->pg->conninfo, NULL);
}

void qn_pg_conn_close(struct qn_pg_conn *c)
{
	hang_up(c);
	c->state = QN_PG_DOWN;
	c->due_ms = UINT64_MAX;
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	struct qn_pg_watch *w = poll->data;
	struct qn_pg_conn *c = w->conn;
	if (c == NULL) {
		return;
	}
	if (c->state == QN_PG_CONNECTING) {
		step(c);
		return;
	}
	if (status < 0) {
		qn_pg_conn_lost(c, NULL);
		return;
	}
	if (events & UV_READABLE) {
		on_input(c);
	}
	/* The input may have ended the connection, or this watch. */
	if (w->conn == c && c->state == QN_PG_BUSY && (events & UV_WRITABLE)) {
		flush(c);
	}
}
