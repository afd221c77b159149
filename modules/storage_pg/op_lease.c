/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short questions: fetch, register, extend, release, ping.
 *
 * Each is one statement of class query with one row back (fetch: one per item).
 */
#include "conn.h"
#include "ops.h"

static void one_row(struct qn_pg_rows *r)
{
	if (r->bad == NULL && r->n != 1) {
		qn_pg_rows_reject(r, r->n, 0, "not one row");
	}
}

static int read_fetch(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_fetch_op *op = QN_PG_CONTAINER(call->op, struct qn_fetch_op, op);
	if (r->bad == NULL && (uint32_t)r->n != op->count) {
		qn_pg_rows_reject(r, r->n, 0, "another number of rows");
	}
	for (int row = 0; r->bad == NULL && row < r->n; row++) {
		struct qn_fetch *f = &op->items[row];
		if (qn_pg_int4(r, row, 0) != row) {
			qn_pg_rows_reject(r, row, 0, "out of order");
		}
		f->found = !qn_pg_is_null(r, row, 1);
		if (f->found) {
			f->base_offset = qn_pg_int8(r, row, 1);
			f->created_at_us = qn_pg_int8(r, row, 2);
			f->count = (uint32_t)qn_pg_int4(r, row, 3);
			f->blob = qn_pg_bytes(r, row, 4);
		}
	}
	return qn_pg_rows_check(r, call->pool->host, "fetch", e);
}

void qn_pg_fetch(struct qn_pg_pool *pool, struct qn_fetch_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_FETCH);
	struct qn_pg_params *p = &call->params;
	const struct qn_fetch *f = op->items;
	call->read = read_fetch;
	qn_pg_put_uuid(p, &op->tenant);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, op->count, &f[i].partition_id);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, op->count, f[i].offset);
	qn_pg_pool_submit(call);
}

static int read_register(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_register_op *op = QN_PG_CONTAINER(call->op, struct qn_register_op, op);
	one_row(r);
	op->created_queue = qn_pg_bool(r, 0, 0);
	op->registered = qn_pg_bool(r, 0, 1);
	return qn_pg_rows_check(r, call->pool->host, "register", e);
}

void qn_pg_register(struct qn_pg_pool *pool, struct qn_register_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_REGISTER);
	struct qn_pg_params *p = &call->params;
	call->read = read_register;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_put_bool(p, op->by_labels);
	qn_pg_put_text(p, op->queue);
	qn_pg_put_text(p, op->name_space);
	qn_pg_put_text(p, op->task);
	qn_pg_put_text(p, op->group);
	qn_pg_put_int4(p, (int32_t)op->start.mode);
	qn_pg_put_int8(p, op->start.from_us);
	qn_pg_pool_submit(call);
}

static int read_extend(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_extend_op *op = QN_PG_CONTAINER(call->op, struct qn_extend_op, op);
	one_row(r);
	op->renewed = (uint32_t)qn_pg_int4(r, 0, 0);
	op->expires_at_us = qn_pg_int8_or(r, 0, 1, 0);
	return qn_pg_rows_check(r, call->pool->host, "extend", e);
}

void qn_pg_extend(struct qn_pg_pool *pool, struct qn_extend_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_EXTEND);
	call->read = read_extend;
	qn_pg_put_uuid(&call->params, &op->tenant);
	qn_pg_put_text(&call->params, op->lease_id);
	qn_pg_put_int4(&call->params, op->seconds);
	qn_pg_put_text(&call->params, op->group);
	QN_PG_EACH(&call->params, QN_PG_UUIDS, qn_pg_elem_uuid, op->count, &op->partition_ids[i]);
	qn_pg_pool_submit(call);
}

static int read_release(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_release_op *op = QN_PG_CONTAINER(call->op, struct qn_release_op, op);
	one_row(r);
	op->released = (uint32_t)qn_pg_int4(r, 0, 0);
	return qn_pg_rows_check(r, call->pool->host, "release", e);
}

void qn_pg_release(struct qn_pg_pool *pool, struct qn_release_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_RELEASE);
	struct qn_pg_params *p = &call->params;
	call->read = read_release;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_put_text(p, op->group);
	qn_pg_put_text(p, op->lease_id);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, op->count, &op->partition_ids[i]);
	qn_pg_pool_submit(call);
}

static int read_ping(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	one_row(r);
	return qn_pg_rows_check(r, call->pool->host, "ping", e);
}

void qn_pg_ping(struct qn_pg_pool *pool, struct qn_ping_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_PING);
	call->read = read_ping;
	qn_pg_pool_submit(call);
}
