/* SPDX-License-Identifier: Apache-2.0 */
/** The engine thread's connections, in four classes, and the calls that wait for them. */
#ifndef QN_PG_POOL_H
#define QN_PG_POOL_H

#include "call.h"
#include "module.h"

#include <uv.h>

#define QN_PG_REPEATS_MAX 3

/** Opens nothing yet: connections come up on the loop. */
struct qn_pg_pool *qn_pg_pool_create(struct qn_pg *pg, uv_loop_t *loop);
/** Completes every call with CANCELED and closes all handles; memory goes with the last of them. */
void qn_pg_pool_close(struct qn_pg_pool *pool);

/** A call for op with empty parameters; deadline from the op. */
struct qn_pg_call *qn_pg_call_create(struct qn_pg_pool *pool, struct qn_op *op, enum qn_pg_statement_id statement);
/** Takes the call; complete() comes later, never inside. Parameters are finished here. */
void qn_pg_pool_submit(struct qn_pg_call *call);
/** Empties the parameters for another submit from inside complete(). */
void qn_pg_call_reset(struct qn_pg_call *call);
/** The usual end: frees the call, then op->done. */
void qn_pg_call_done(struct qn_pg_call *call, const struct qn_error *e);
/** Hurries the op when its call is still queued. */
void qn_pg_pool_cancel(struct qn_pg_pool *pool, struct qn_op *op);
uint32_t qn_pg_pool_inflight(const struct qn_pg_pool *pool);

#endif
