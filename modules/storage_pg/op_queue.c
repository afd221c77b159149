/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: configure, delete, list.
 *
 * The order of the option columns is that of QN_QUEUE_INTS and QN_QUEUE_BOOLS in both directions.
 * list of one queue is two statements after each other: its row, then its lanes.
 */
#include "conn.h"
#include "ops.h"

#define COL_OPTIONS 4

static int read_configure(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_configure_op *op = QN_PG_CONTAINER(call->op, struct qn_configure_op, op);
	if (r->bad == NULL && r->n != 1) {
		qn_pg_rows_reject(r, r->n, 0, "not one row");
	}
	op->queue_id = qn_pg_uuid(r, 0, 0);
	return qn_pg_rows_check(r, call->pool->host, "configure", e);
}

void qn_pg_configure(struct qn_pg_pool *pool, struct qn_configure_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_CONFIGURE);
	struct qn_pg_params *p = &call->params;
	const struct qn_queue_options *o = &op->options;
	call->read = read_configure;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_put_text(p, op->queue);
	qn_pg_put_text(p, o->name_space);
	qn_pg_put_text(p, o->task);
#define X(field, json, column, def, lo, hi) qn_pg_put_int4(p, o->field);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) qn_pg_put_bool(p, o->field);
	QN_QUEUE_BOOLS(X)
#undef X
	qn_pg_pool_submit(call);
}

static int read_delete(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_delete_op *op = QN_PG_CONTAINER(call->op, struct qn_delete_op, op);
	if (r->bad == NULL && r->n != 1) {
		qn_pg_rows_reject(r, r->n, 0, "not one row");
	}
	op->existed = qn_pg_bool(r, 0, 0);
	return qn_pg_rows_check(r, call->pool->host, "delete_queue", e);
}

void qn_pg_delete(struct qn_pg_pool *pool, struct qn_delete_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_DELETE);
	call->read = read_delete;
	qn_pg_put_uuid(&call->params, &op->tenant);
	qn_pg_put_text(&call->params, op->queue);
	qn_pg_pool_submit(call);
}

/* ---- list ------------------------------------------------------------------------------------------ */

static struct qn_list_op *list_of(struct qn_pg_call *call)
{
	return QN_PG_CONTAINER(call->op, struct qn_list_op, op);
}

static void read_queue(struct qn_pg_rows *r, int row, struct qn_queue_row *q)
{
	int c = COL_OPTIONS;
	*q = (struct qn_queue_row){.id = qn_pg_uuid(r, row, 0), .name = qn_pg_bytes(r, row, 1)};
	q->options.name_space = qn_pg_bytes(r, row, 2);
	q->options.task = qn_pg_bytes(r, row, 3);
#define X(field, json, column, def, lo, hi) q->options.field = qn_pg_int4_or(r, row, c++, def);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) q->options.field = qn_pg_bool(r, row, c++);
	QN_QUEUE_BOOLS(X)
#undef X
	q->created_at_us = qn_pg_int8_or(r, row, c++, 0);
	q->partitions = qn_pg_int8_or(r, row, c++, 0);
	q->segments = qn_pg_int8_or(r, row, c++, 0);
	q->messages = qn_pg_int8_or(r, row, c++, 0);
	q->pending = qn_pg_int8_or(r, row, c++, 0);
	q->processing = qn_pg_int8_or(r, row, c++, 0);
	q->retained_bytes = qn_pg_int8_or(r, row, c, 0);
}

static int read_queues(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_list_op *op = list_of(call);
	op->rows = NULL;
	op->lanes = NULL;
	op->row_count = op->lane_count = 0;
	if (r->n > 0) {
		op->rows = call->pool->host->arena_alloc(op->op.arena, (size_t)r->n * sizeof(*op->rows));
	}
	for (int row = 0; row < r->n && r->bad == NULL; row++) {
		read_queue(r, row, &op->rows[row]);
		op->row_count++;
	}
	return qn_pg_rows_check(r, call->pool->host, "list_queues", e);
}

static int read_lanes(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_list_op *op = list_of(call);
	if (r->n > 0) {
		op->lanes = call->pool->host->arena_alloc(op->op.arena, (size_t)r->n * sizeof(*op->lanes));
	}
	for (int row = 0; row < r->n && r->bad == NULL; row++) {
		op->lanes[row] = (struct qn_lane_row){.id = qn_pg_uuid(r, row, 0),
		                                      .name = qn_pg_bytes(r, row, 1),
		                                      .created_at_us = qn_pg_int8_or(r, row, 2, 0),
		                                      .total = qn_pg_int8_or(r, row, 3, 0),
		                                      .pending = qn_pg_int8_or(r, row, 4, 0),
		                                      .processing = qn_pg_int8_or(r, row, 5, 0),
		                                      .completed = qn_pg_int8_or(r, row, 6, 0),
		                                      .dead_letter = qn_pg_int8_or(r, row, 7, 0),
		                                      .oldest_pending_at_us = qn_pg_int8_or(r, row, 8, 0),
		                                      .newest_at_us = qn_pg_int8_or(r, row, 9, 0)};
		op->lane_count++;
	}
	return qn_pg_rows_check(r, call->pool->host, "list_partitions", e);
}

static void complete_list(struct qn_pg_call *call, const struct qn_error *e)
{
	struct qn_list_op *op = list_of(call);
	if (e != NULL || !op->one || op->row_count == 0 || call->statement == QN_PG_STMT_LIST_PARTITIONS) {
		qn_pg_call_done(call, e);
		return;
	}
	qn_pg_call_reset(call);
	call->statement = QN_PG_STMT_LIST_PARTITIONS;
	call->read = read_lanes;
	qn_pg_put_uuid(&call->params, &op->tenant);
	qn_pg_put_text(&call->params, op->queue);
	qn_pg_pool_submit(call);
}

void qn_pg_list(struct qn_pg_pool *pool, struct qn_list_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_LIST_QUEUES);
	struct qn_pg_params *p = &call->params;
	call->read = read_queues;
	call->complete = complete_list;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_put_bool(p, op->one);
	qn_pg_put_text(p, op->queue);
	qn_pg_put_text(p, op->name_space);
	qn_pg_put_text(p, op->task);
	qn_pg_put_text(p, op->search);
	qn_pg_put_int8(p, op->limit);
	qn_pg_put_int8(p, op->offset);
	qn_pg_put_bool(p, !op->without_sizes);
	qn_pg_pool_submit(call);
}
