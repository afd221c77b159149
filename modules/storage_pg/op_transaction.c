/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transaction: pushes, acks and prepared dead letters to queen.transaction_v1 (ST-13).
 *
 * Rows come as push lanes, ack lanes, filed letters, and last the verdict. After a refusal they say
 * what the call would have done, or where it stopped: only the last row tells.
 */
#include "conn.h"
#include "lanes.h"
#include "ops.h"

enum row_kind { ROW_VERDICT, ROW_PUSH, ROW_ACK, ROW_LETTER };

static struct qn_txn_op *txn_of(const struct qn_op *op)
{
	return QN_PG_CONTAINER(op, struct qn_txn_op, op);
}

static void read_letter(struct qn_pg_rows *r, int row, struct qn_settle_lane *l)
{
	l->lease_released = true;
	l->committed = l->poison_offset;
	l->has_more = qn_pg_bool(r, row, 9);
	l->needs_dead_letter = false;
}

static void read_row(struct qn_pg_call *call, struct qn_pg_rows *r, int row)
{
	static const struct qn_pg_push_columns push = {2, 3, 4, 5, 6, 21, 22, 23};
	static const struct qn_pg_settle_columns settle = {7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
	struct qn_txn_op *op = txn_of(call->op);
	int32_t kind = qn_pg_int4(r, row, 0);
	uint32_t lane = (uint32_t)qn_pg_int4(r, row, 1);
	uint32_t lanes = kind == ROW_PUSH ? op->push_count : op->ack_count;
	if (r->bad != NULL) {
		return;
	}
	if (kind < ROW_PUSH || kind > ROW_LETTER || lane >= lanes) {
		qn_pg_rows_reject(r, row, 0, "no such lane");
	} else if (kind == ROW_PUSH) {
		qn_pg_read_push_lane(r, row, &push, &op->pushes[lane]);
	} else if (kind == ROW_ACK) {
		qn_pg_read_settle_lane(r, row, &settle, &op->acks[lane]);
	} else {
		read_letter(r, row, &op->acks[lane]);
	}
}

static int read_rows(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_txn_op *op = txn_of(call->op);
	int last = r->n - 1;
	if (r->bad == NULL && (r->n < 1 || qn_pg_int4(r, last, 0) != ROW_VERDICT)) {
		qn_pg_rows_reject(r, last, 0, "no verdict");
	}
	for (int row = 0; r->bad == NULL && row < last; row++) {
		read_row(call, r, row);
	}
	int32_t verdict = qn_pg_int4(r, last, 2);
	op->refused = (uint32_t)qn_pg_int4(r, last, 1);
	if (r->bad == NULL && (verdict < QN_TXN_COMMITTED || verdict > QN_TXN_POISONED)) {
		qn_pg_rows_reject(r, last, 2, "unknown verdict");
	}
	if (r->bad == NULL && verdict == QN_TXN_COMMITTED && (uint32_t)last < op->push_count + op->ack_count) {
		qn_pg_rows_reject(r, last, 0, "lanes are missing");
	}
	op->verdict = (enum qn_txn_verdict)verdict;
	return qn_pg_rows_check(r, call->pool->host, "transaction", e);
}

static void encode_letters(struct qn_pg_params *p, const struct qn_txn_op *op)
{
	const struct qn_txn_letter *d = op->letters;
	uint32_t n = op->letter_count;
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)d[i].lane);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, d[i].offset);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &d[i].message_id);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].transaction_id);
	QN_PG_EACH(p, QN_PG_BYTEAS, qn_pg_elem_bytes, n, d[i].payload);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].error);
}

void qn_pg_transaction(struct qn_pg_pool *pool, struct qn_txn_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_TRANSACTION);
	struct qn_pg_params *p = &call->params;
	call->read = read_rows;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_encode_push_lanes(p, op->pushes, op->push_count);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, op->push_count, (int32_t)op->repeats[i]);
	qn_pg_encode_settle_lanes(p, op->acks, op->ack_count);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, op->fence_count, op->fences[i]);
	qn_pg_put_bool(p, op->borrow);
	qn_pg_put_text(p, op->hint);
	encode_letters(p, op);
	qn_pg_pool_submit(call);
}
