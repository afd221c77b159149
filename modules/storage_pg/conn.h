/* SPDX-License-Identifier: Apache-2.0 */
/** The pool's inside: shared by pool.c (queues, clock) and conn.c (one connection). */
#ifndef QN_PG_CONN_H
#define QN_PG_CONN_H

#include "pool.h"

enum qn_pg_conn_state { QN_PG_DOWN, QN_PG_RESOLVING, QN_PG_CONNECTING, QN_PG_IDLE, QN_PG_BUSY };

struct qn_pg_watch;
struct qn_pg_resolve;

struct qn_pg_conn {
	struct qn_pg_pool *pool;
	enum qn_pg_class class;
	enum qn_pg_conn_state state;
	PGconn *pg;
	struct qn_pg_watch *watch;     /* polls pg's socket; replaced whenever that may have changed */
	struct qn_pg_resolve *resolve; /* in the uv pool */
	struct qn_pg_call *call;       /* BUSY */
	PGresult *result;              /* BUSY: the first error, else the last rows */
	bool answered;                 /* BUSY: the command's own answer came; the commit's verdict may be missing */
	bool preparing;                /* BUSY: the statement is being prepared for `call` */
	uint32_t prepared;             /* bit per statement */
	unsigned failures;             /* attempts since the last success */
	uint64_t due_ms;               /* DOWN: next attempt; BUSY and connecting: give up */
};

struct qn_pg_queue {
	struct qn_pg_call *head, *tail;
};

struct qn_pg_pool {
	struct qn_pg *pg;
	const struct qn_host *host;
	uv_loop_t *loop;
	uv_timer_t clock; /* every QN_PG_CLOCK_MS: deadlines, reconnects */
	uv_timer_t soon;  /* completes the finished list */
	struct qn_pg_conn *conns;
	uint32_t conn_count;
	struct qn_pg_queue queues[QN_PG_CLASSES];
	struct qn_pg_queue finished;
	uint32_t inflight;
	uint32_t refs;   /* open handles and work in the uv pool */
	unsigned in_api; /* > 0: complete() must not run now */
	bool is_down;    /* nothing is up and the last attempt failed */
	bool unnamed;    /* no named prepared statements */
	bool closing;
};

/* conn.c */
void qn_pg_conn_open(struct qn_pg_conn *c);
/** Sends the call; a failure to do so loses the connection. */
void qn_pg_conn_send(struct qn_pg_conn *c, struct qn_pg_call *call);
/** Closes the connection, completes its call (e NULL: lost) and arranges the next attempt. */
void qn_pg_conn_lost(struct qn_pg_conn *c, const struct qn_error *e);
/** The statement takes too long: asks the server to stop it and gives the connection up. */
void qn_pg_conn_expire(struct qn_pg_conn *c);
void qn_pg_conn_close(struct qn_pg_conn *c);

/* pool.c */
void qn_pg_pool_finish(struct qn_pg_call *call, const struct qn_error *e);
void qn_pg_pool_requeue(struct qn_pg_call *call);
void qn_pg_pool_dispatch(struct qn_pg_pool *pool, enum qn_pg_class class);
/** A connection came up. */
void qn_pg_pool_up(struct qn_pg_conn *c);
/** An attempt to connect failed. */
void qn_pg_pool_attempt_failed(struct qn_pg_conn *c, const char *why);
void qn_pg_pool_unref(struct qn_pg_pool *pool);

/* resolve.c */
/** True when names of the host list must be looked up before libpq may have them. */
bool qn_pg_resolve_needed(const struct qn_pg_conninfo *c);
/** Looks names up in the uv pool; done(c, info, why) on the loop; info is NULL on failure. */
void qn_pg_resolve_start(struct qn_pg_conn *c);
void qn_pg_conn_resolved(struct qn_pg_conn *c, const struct qn_pg_conninfo *info, const char *why);

#endif
