/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance: the turn with its page of queues, and one step of a sweep.
 *
 * Both may run twice when a connection breaks: a turn is taken from oneself, and a step deletes what
 * is still there. Nothing is decided here.
 */
#include "conn.h"
#include "ops.h"

#define COL_QUEUE   4
#define COL_OPTIONS 7

static void read_due(struct qn_pg_rows *r, int row, struct qn_due_queue *q)
{
	int c = COL_OPTIONS;
	*q = (struct qn_due_queue){.id = qn_pg_uuid(r, row, COL_QUEUE)};
	q->options.name_space = qn_pg_bytes(r, row, COL_QUEUE + 1);
	q->options.task = qn_pg_bytes(r, row, COL_QUEUE + 2);
#define X(field, json, column, def, lo, hi) q->options.field = qn_pg_int4_or(r, row, c++, def);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) q->options.field = qn_pg_bool(r, row, c++);
	QN_QUEUE_BOOLS(X)
#undef X
	q->live_us = qn_pg_int8_or(r, row, c++, INT64_MAX);
	q->hashes_us = qn_pg_int8_or(r, row, c++, INT64_MAX);
	q->idle_us = qn_pg_int8_or(r, row, c, INT64_MAX);
}

static int read_maintain(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_maintain_op *op = QN_PG_CONTAINER(call->op, struct qn_maintain_op, op);
	if (r->bad == NULL && r->n < 1) {
		qn_pg_rows_reject(r, r->n, 0, "no row");
	}
	op->held = qn_pg_bool(r, 0, 0);
	op->fence = qn_pg_int8(r, 0, 1);
	op->now_us = qn_pg_int8(r, 0, 2);
	op->wait_ms = qn_pg_int8(r, 0, 3);
	op->queue_count = 0;
	op->queues = call->pool->host->arena_alloc(op->op.arena, (size_t)r->n * sizeof(*op->queues) + 1);
	for (int row = 1; row < r->n && r->bad == NULL; row++) {
		read_due(r, row, &op->queues[op->queue_count++]);
	}
	return qn_pg_rows_check(r, call->pool->host, "maintain", e);
}

void qn_pg_maintain(struct qn_pg_pool *pool, struct qn_maintain_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_MAINTAIN);
	struct qn_pg_params *p = &call->params;
	call->read = read_maintain;
	qn_pg_put_text(p, op->holder);
	qn_pg_put_int8(p, op->fence);
	qn_pg_put_bool(p, op->end);
	qn_pg_put_int8(p, op->period_ms);
	qn_pg_put_int8(p, op->lease_ms);
	qn_pg_put_uuid(p, &op->after);
	qn_pg_put_int4(p, (int32_t)op->limit);
	qn_pg_pool_submit(call);
}

static int read_sweep(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_sweep_op *op = QN_PG_CONTAINER(call->op, struct qn_sweep_op, op);
	op->held = r->n > 0;
	if (r->bad == NULL && op->held && (uint32_t)r->n != op->rule_count) {
		qn_pg_rows_reject(r, r->n, 0, "another number of rows");
	}
	for (int row = 0; row < r->n && r->bad == NULL; row++) {
		struct qn_sweep_rule *rule = &op->rules[row];
		if (qn_pg_int4(r, row, 0) != row) {
			qn_pg_rows_reject(r, row, 0, "out of order");
		}
		rule->ended = qn_pg_bool(r, row, 1);
		rule->at_us = qn_pg_int8(r, row, 2);
		rule->after = qn_pg_uuid(r, row, 3);
		rule->lanes = (uint32_t)qn_pg_int4(r, row, 4);
		rule->deleted = (uint32_t)qn_pg_int4(r, row, 5);
		rule->messages = qn_pg_int8(r, row, 6);
	}
	return qn_pg_rows_check(r, call->pool->host, "sweep", e);
}

void qn_pg_sweep(struct qn_pg_pool *pool, struct qn_sweep_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_SWEEP);
	struct qn_pg_params *p = &call->params;
	const struct qn_sweep_rule *rule = op->rules;
	call->read = read_sweep;
	qn_pg_put_int8(p, op->fence);
	qn_pg_put_int8(p, op->lease_ms);
	qn_pg_put_int4(p, (int32_t)op->kind);
	qn_pg_put_int4(p, (int32_t)op->batch);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, op->rule_count, &rule[i].queue_id);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, op->rule_count, rule[i].cutoff_us);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, op->rule_count, rule[i].at_us);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, op->rule_count, &rule[i].after);
	qn_pg_pool_submit(call);
}
