/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole first, then lane by lane.
 *
 * The bundle's transaction rolled back when its statement answers an error, so running the lanes
 * again one at a time repeats nothing. Errors that are not about the data (connections, time-outs,
 * overload) fail the whole op while nothing of it is stored; once some lanes are, they fail the
 * lanes that are left.
 */
#include "bundle.h"

#include "conn.h"

#include <string.h>

static const struct qn_pg_bundle *bundle_of(const struct qn_pg_call *call)
{
	return call->op->impl[1];
}

static void submit_lanes(struct qn_pg_call *call, uint32_t first, uint32_t n)
{
	bundle_of(call)->encode(&call->params, call->op, first, n);
	qn_pg_pool_submit(call);
}

static int read_lanes(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	const struct qn_pg_bundle *b = bundle_of(call);
	uint32_t n = call->alone ? 1 : b->count(call->op);
	if (r->bad == NULL && (uint32_t)r->n != n) {
		qn_pg_rows_reject(r, r->n, 0, "another number of rows");
	}
	if (r->bad == NULL) {
		b->decode(r, call->op, call->pool, call->cursor, n);
	}
	return qn_pg_rows_check(r, call->pool->host, qn_pg_statements[b->statement].label, e);
}

/* Class 42 is a function that is missing or wrong: no lane is to blame for it. */
static bool is_about_data(const struct qn_error *e)
{
	return e->sqlstate[0] != '\0' && !e->retryable && e->code != QN_TIMEOUT && strncmp(e->sqlstate, "08", 2) != 0 &&
	       strncmp(e->sqlstate, "42", 2) != 0;
}

static void fail_lane(struct qn_pg_call *call, uint32_t i, const struct qn_error *e)
{
	struct qn_pg_pool *pool = call->pool;
	QN_LOG(pool->host, pool->pg->mod, QN_WARN, "storage.lane_failed", QN_S("sqlstate", e->sqlstate),
	       QN_S("error", e->msg));
	bundle_of(call)->fail(call->op, i, e);
}

static void complete_lanes(struct qn_pg_call *call, const struct qn_error *e)
{
	const struct qn_pg_bundle *b = bundle_of(call);
	uint32_t count = b->count(call->op);
	if (e == NULL && !call->alone) {
		qn_pg_call_done(call, NULL);
		return;
	}
	if (!call->alone) {
		if (!is_about_data(e)) {
			qn_pg_call_done(call, e);
			return;
		}
		if (count > 1) {
			call->alone = true;
			qn_pg_call_reset(call);
			submit_lanes(call, 0, 1);
			return;
		}
		fail_lane(call, 0, e);
		qn_pg_call_done(call, NULL);
		return;
	}
	if (e != NULL) {
		fail_lane(call, call->cursor, e);
	}
	call->cursor++;
	if (e != NULL && !is_about_data(e)) {
		for (; call->cursor < count; call->cursor++) {
			b->fail(call->op, call->cursor, e);
		}
	}
	if (call->cursor == count) {
		qn_pg_call_done(call, NULL);
		return;
	}
	qn_pg_call_reset(call);
	submit_lanes(call, call->cursor, 1);
}

void qn_pg_bundle_submit(struct qn_pg_pool *pool, const struct qn_pg_bundle *b, struct qn_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, op, b->statement);
	op->impl[1] = (void *)(uintptr_t)b;
	call->read = read_lanes;
	call->complete = complete_lanes;
	submit_lanes(call, 0, b->count(op));
}
