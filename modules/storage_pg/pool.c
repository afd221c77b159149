/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of the engine thread and the calls waiting for them.
 *
 * Invariants: a call is in exactly one place (its class queue, one connection, the finished list) and
 * complete() runs exactly once per submit, never inside a function of pool.h. While nothing is up and
 * the last attempt failed (is_down) calls fail at once instead of waiting for a database that is
 * gone. A clock of QN_PG_CLOCK_MS enforces deadlines and starts reconnects; no code waits.
 * It knows no statement's meaning.
 */
#include "conn.h"

#include "errors.h"

#include <string.h>

#define QN_PG_CLOCK_MS 25

/* ---- lists ------------------------------------------------------------------------------------- */

static void append(struct qn_pg_queue *q, struct qn_pg_call *call)
{
	call->next = NULL;
	call->prev = q->tail;
	*(q->tail != NULL ? &q->tail->next : &q->head) = call;
	q->tail = call;
}

static void prepend(struct qn_pg_queue *q, struct qn_pg_call *call)
{
	call->prev = NULL;
	call->next = q->head;
	*(q->head != NULL ? &q->head->prev : &q->tail) = call;
	q->head = call;
}

static void unlink_call(struct qn_pg_queue *q, struct qn_pg_call *call)
{
	*(call->prev != NULL ? &call->prev->next : &q->head) = call->next;
	*(call->next != NULL ? &call->next->prev : &q->tail) = call->prev;
	call->prev = call->next = NULL;
}

static struct qn_pg_queue *queue_of(struct qn_pg_call *call)
{
	return &call->pool->queues[qn_pg_statements[call->statement].class];
}

/* ---- ends of calls ------------------------------------------------------------------------------ */

static void complete(struct qn_pg_call *call, const struct qn_error *e)
{
	struct qn_pg_pool *pool = call->pool;
	call->state = QN_PG_CALL_NEW;
	pool->inflight--;
	call->complete(call, e);
}

static void on_soon(uv_timer_t *t)
{
	struct qn_pg_pool *pool = t->data;
	struct qn_pg_call *call;
	while ((call = pool->finished.head) != NULL) {
		unlink_call(&pool->finished, call);
		complete(call, call->finished_badly ? &call->error : NULL);
	}
}

void qn_pg_pool_finish(struct qn_pg_call *call, const struct qn_error *e)
{
	struct qn_pg_pool *pool = call->pool;
	if (pool->in_api == 0) {
		struct qn_error copy = e != NULL ? *e : (struct qn_error){0};
		complete(call, e != NULL ? &copy : NULL);
		return;
	}
	call->state = QN_PG_CALL_FINISHED;
	call->finished_badly = e != NULL;
	if (e != NULL) {
		call->error = *e;
	}
	append(&pool->finished, call);
	(void)uv_timer_start(&pool->soon, on_soon, 0, 0);
}

static void fail_queued(struct qn_pg_pool *pool, struct qn_pg_call *call)
{
	struct qn_error e = {0};
	unlink_call(queue_of(call), call);
	qn_pg_error_lost(pool->host, qn_pg_statements[call->statement].label, false, &e);
	qn_pg_pool_finish(call, &e);
}

void qn_pg_pool_requeue(struct qn_pg_call *call)
{
	call->state = QN_PG_CALL_QUEUED;
	prepend(queue_of(call), call);
}

void qn_pg_pool_dispatch(struct qn_pg_pool *pool, enum qn_pg_class class)
{
	struct qn_pg_queue *q = &pool->queues[class];
	for (uint32_t i = 0; i < pool->conn_count && q->head != NULL; i++) {
		struct qn_pg_conn *c = &pool->conns[i];
		if (c->class == class && c->state == QN_PG_IDLE) {
			struct qn_pg_call *call = q->head;
			unlink_call(q, call);
			qn_pg_conn_send(c, call);
		}
	}
}

/* ---- connections' ups and downs ------------------------------------------------------------------ */

void qn_pg_pool_up(struct qn_pg_conn *c)
{
	struct qn_pg_pool *pool = c->pool;
	if (pool->is_down) {
		pool->is_down = false;
		QN_LOG(pool->host, pool->pg->mod, QN_INFO, "storage.reconnected", QN_U("connection", c - pool->conns));
	}
	qn_pg_pool_dispatch(pool, c->class);
}

static bool any_up(const struct qn_pg_pool *pool)
{
	for (uint32_t i = 0; i < pool->conn_count; i++) {
		if (pool->conns[i].state == QN_PG_IDLE || pool->conns[i].state == QN_PG_BUSY) {
			return true;
		}
	}
	return false;
}

void qn_pg_pool_attempt_failed(struct qn_pg_conn *c, const char *why)
{
	struct qn_pg_pool *pool = c->pool;
	QN_LOG(pool->host, pool->pg->mod, QN_WARN, "storage.connect_failed", QN_S("error", why),
	       QN_U("attempt", c->failures), QN_U("connection", c - pool->conns));
	if (any_up(pool)) {
		return;
	}
	pool->is_down = true;
	for (unsigned k = 0; k < QN_PG_CLASSES; k++) {
		while (pool->queues[k].head != NULL) {
			fail_queued(pool, pool->queues[k].head);
		}
	}
}

static void expire_queued(struct qn_pg_pool *pool, uint64_t now)
{
	for (unsigned k = 0; k < QN_PG_CLASSES; k++) {
		struct qn_pg_call *next;
		for (struct qn_pg_call *call = pool->queues[k].head; call != NULL; call = next) {
			next = call->next;
			if (call->deadline_ms == 0 || now < call->deadline_ms) {
				continue;
			}
			struct qn_error e = {0};
			QN_ERR(pool->host, &e, QN_TIMEOUT, "%s: no connection became free in time",
			       qn_pg_statements[call->statement].label);
			e.retryable = true;
			unlink_call(&pool->queues[k], call);
			qn_pg_pool_finish(call, &e);
		}
	}
}

static void on_clock(uv_timer_t *t)
{
	struct qn_pg_pool *pool = t->data;
	uint64_t now = pool->host->mono_ms();
	pool->in_api++; /* completions wait for the loops below to end */
	for (uint32_t i = 0; i < pool->conn_count; i++) {
		struct qn_pg_conn *c = &pool->conns[i];
		if (now < c->due_ms) {
			continue;
		}
		if (c->state == QN_PG_DOWN) {
			qn_pg_conn_open(c);
		} else if (c->state == QN_PG_BUSY) {
			qn_pg_conn_expire(c);
		} else if (c->state == QN_PG_CONNECTING) {
			c->failures++;
			qn_pg_conn_lost(c, NULL);
			qn_pg_pool_attempt_failed(c, "connecting timed out");
		}
	}
	expire_queued(pool, now);
	pool->in_api--;
}

/* ---- calls --------------------------------------------------------------------------------------- */

struct qn_pg_call *qn_pg_call_create(struct qn_pg_pool *pool, struct qn_op *op, enum qn_pg_statement_id statement)
{
	struct qn_pg_call *call = pool->host->alloc(sizeof(*call));
	call->pool = pool;
	call->op = op;
	call->statement = statement;
	call->deadline_ms = op->deadline_ms;
	call->complete = qn_pg_call_done;
	op->impl[0] = call;
	qn_pg_params_init(&call->params, pool->host);
	return call;
}

void qn_pg_call_reset(struct qn_pg_call *call)
{
	qn_pg_params_fini(&call->params);
	qn_pg_params_init(&call->params, call->pool->host);
	call->repeats = 0;
}

void qn_pg_call_done(struct qn_pg_call *call, const struct qn_error *e)
{
	struct qn_op *op = call->op;
	struct qn_error copy = e != NULL ? *e : (struct qn_error){0};
	qn_pg_params_fini(&call->params);
	call->pool->host->free(call);
	op->impl[0] = NULL;
	op->done(op, e != NULL ? &copy : NULL);
}

void qn_pg_pool_submit(struct qn_pg_call *call)
{
	struct qn_pg_pool *pool = call->pool;
	struct qn_error e = {0};
	pool->in_api++;
	pool->inflight++;
	if (call->canceled || pool->closing) {
		QN_ERR(pool->host, &e, QN_CANCELED, "%s: canceled", qn_pg_statements[call->statement].label);
		qn_pg_pool_finish(call, &e);
	} else if (qn_pg_params_finish(&call->params, &e) != QN_OK) {
		qn_pg_pool_finish(call, &e);
	} else if (pool->is_down) {
		qn_pg_error_lost(pool->host, qn_pg_statements[call->statement].label, false, &e);
		qn_pg_pool_finish(call, &e);
	} else {
		call->state = QN_PG_CALL_QUEUED;
		append(queue_of(call), call);
		qn_pg_pool_dispatch(pool, qn_pg_statements[call->statement].class);
	}
	pool->in_api--;
}

void qn_pg_pool_cancel(struct qn_pg_pool *pool, struct qn_op *op)
{
	struct qn_pg_call *call = op->impl[0];
	if (call == NULL) {
		return;
	}
	call->canceled = true;
	if (call->state == QN_PG_CALL_QUEUED) {
		struct qn_error e = {0};
		QN_ERR(pool->host, &e, QN_CANCELED, "%s: canceled", qn_pg_statements[call->statement].label);
		pool->in_api++;
		unlink_call(queue_of(call), call);
		qn_pg_pool_finish(call, &e);
		pool->in_api--;
	}
}

uint32_t qn_pg_pool_inflight(const struct qn_pg_pool *pool)
{
	return pool->inflight;
}

/* ---- life ----------------------------------------------------------------------------------------- */

void qn_pg_pool_unref(struct qn_pg_pool *pool)
{
	if (--pool->refs == 0) {
		const struct qn_host *h = pool->host;
		h->free(pool->conns);
		h->free(pool);
	}
}

static void on_timer_closed(uv_handle_t *h)
{
	qn_pg_pool_unref(h->data);
}

static void add_class(struct qn_pg_pool *pool, enum qn_pg_class class, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		struct qn_pg_conn *c = &pool->conns[pool->conn_count++];
		c->pool = pool;
		c->class = class;
	}
}

struct qn_pg_pool *qn_pg_pool_create(struct qn_pg *pg, uv_loop_t *loop)
{
	const struct qn_pg_options *o = pg->options;
	struct qn_pg_pool *pool = pg->host->alloc(sizeof(*pool));
	int64_t n = o->push_connections + o->claim_connections + o->settle_connections + o->query_connections +
	            QN_PG_UPKEEP_CONNECTIONS;
	pool->pg = pg;
	pool->host = pg->host;
	pool->loop = loop;
	pool->unnamed = o->prepared == QN_PG_PREPARED_OFF;
	pool->conns = pg->host->alloc((size_t)n * sizeof(*pool->conns));
	add_class(pool, QN_PG_PUSH, o->push_connections);
	add_class(pool, QN_PG_CLAIM, o->claim_connections);
	add_class(pool, QN_PG_SETTLE, o->settle_connections);
	add_class(pool, QN_PG_QUERY, o->query_connections);
	add_class(pool, QN_PG_UPKEEP, QN_PG_UPKEEP_CONNECTIONS);
	pool->refs = 2;
	/* Neither can fail: both only link the handle. */
	(void)uv_timer_init(loop, &pool->clock);
	(void)uv_timer_init(loop, &pool->soon);
	pool->clock.data = pool->soon.data = pool;
	(void)uv_timer_start(&pool->clock, on_clock, 0, QN_PG_CLOCK_MS);
	return pool;
}

void qn_pg_pool_close(struct qn_pg_pool *pool)
{
	pool->closing = true;
	for (unsigned k = 0; k < QN_PG_CLASSES; k++) {
		while (pool->queues[k].head != NULL) {
			struct qn_error e = {0};
			struct qn_pg_call *call = pool->queues[k].head;
			QN_ERR(pool->host, &e, QN_CANCELED, "%s: shutting down",
			       qn_pg_statements[call->statement].label);
			unlink_call(&pool->queues[k], call);
			qn_pg_pool_finish(call, &e);
		}
	}
	for (uint32_t i = 0; i < pool->conn_count; i++) {
		if (pool->conns[i].call != NULL) {
			qn_pg_conn_lost(&pool->conns[i], NULL);
		}
		qn_pg_conn_close(&pool->conns[i]);
	}
	on_soon(&pool->soon);
	uv_close((uv_handle_t *)&pool->clock, on_timer_closed);
	uv_close((uv_handle_t *)&pool->soon, on_timer_closed);
}
