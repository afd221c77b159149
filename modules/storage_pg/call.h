/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One statement on its way: queued in its class, sent on one connection, read into its op.
 *
 * Engine thread only. A call belongs to the pool from qn_pg_pool_submit() until `complete` runs,
 * then to `complete`, which frees it (qn_pg_call_done) or submits it again.
 */
#ifndef QN_PG_CALL_H
#define QN_PG_CALL_H

#include "params.h"
#include "rows.h"
#include "statements.h"

#include <qn/op.h>

struct qn_pg_pool;
struct qn_pg_conn;

enum qn_pg_call_state { QN_PG_CALL_NEW, QN_PG_CALL_QUEUED, QN_PG_CALL_RUNNING, QN_PG_CALL_FINISHED };

struct qn_pg_call {
	struct qn_pg_call *prev, *next; /* in the class queue or the finished list */
	struct qn_pg_pool *pool;
	struct qn_op *op;
	enum qn_pg_statement_id statement;
	struct qn_pg_params params;
	/** Reads the rows into the op. A span into the result makes it stay with the op's arena. */
	int (*read)(struct qn_pg_call *call, struct qn_pg_rows *rows, struct qn_error *e);
	/** e is NULL on success. */
	void (*complete)(struct qn_pg_call *call, const struct qn_error *e);
	enum qn_pg_call_state state;
	bool canceled, finished_badly;
	unsigned repeats;        /* after serialisation failures and deadlocks */
	uint64_t deadline_ms;    /* 0: none */
	struct qn_pg_conn *conn; /* while running */
	struct qn_error error;   /* while in the finished list */
	uint32_t cursor;         /* bundles: the lane, once they go lane by lane */
	bool alone;              /* bundles: one lane per statement */
};

#endif
