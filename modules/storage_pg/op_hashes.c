/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hashes: one page of a lane's deduplication window from queen.hashes_v1.
 *
 * One row comes back, none when the lane is gone; its three arrays run parallel. The hashes stay where
 * libpq put them and live as long as the op's arena.
 */
#include "conn.h"
#include "ops.h"

static void read_rows(struct qn_pg_rows *r, struct qn_hashes_op *op, const struct qn_host *h)
{
	struct qn_pg_list base = qn_pg_list_of(r, 0, 4, QN_PG_INT8);
	struct qn_pg_list created = qn_pg_list_of(r, 0, 5, QN_PG_INT8);
	struct qn_pg_list hashes = qn_pg_list_of(r, 0, 6, QN_PG_BYTEA);
	if (r->bad != NULL || base.n == 0) {
		return;
	}
	if (base.n != created.n || base.n != hashes.n) {
		qn_pg_rows_reject(r, 0, 4, "arrays of different lengths");
		return;
	}
	op->rows = h->arena_alloc(op->op.arena, base.n * sizeof(*op->rows));
	for (op->row_count = 0; op->row_count < base.n; op->row_count++) {
		struct qn_hash_row *row = &op->rows[op->row_count];
		struct qn_span b;
		struct qn_span c;
		if (!qn_pg_list_next(&base, &b) || !qn_pg_list_next(&created, &c) ||
		    !qn_pg_list_next(&hashes, &row->hashes) || b.n != 8 || c.n != 8 || row->hashes.n == 0 ||
		    row->hashes.n % QN_HASH_BYTES != 0) {
			qn_pg_rows_reject(r, 0, 6, "not a row of hashes");
			return;
		}
		row->base_offset = qn_pg_span_int8(b);
		row->created_at_us = qn_pg_span_int8(c);
		row->count = (uint32_t)(row->hashes.n / QN_HASH_BYTES);
	}
}

static int read_hashes(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_hashes_op *op = QN_PG_CONTAINER(call->op, struct qn_hashes_op, op);
	op->found = r->n > 0;
	op->row_count = 0;
	if (op->found) {
		op->last_offset = qn_pg_int8(r, 0, 0);
		op->dedup_window_s = qn_pg_int4(r, 0, 1);
		op->since_us = qn_pg_int8(r, 0, 2);
		op->more = qn_pg_bool(r, 0, 3);
		read_rows(r, op, call->pool->host);
	}
	return qn_pg_rows_check(r, call->pool->host, "hashes", e);
}

void qn_pg_hashes(struct qn_pg_pool *pool, struct qn_hashes_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_HASHES);
	struct qn_pg_params *p = &call->params;
	call->read = read_hashes;
	qn_pg_put_uuid(p, &op->partition_id);
	qn_pg_put_int8(p, op->after_offset);
	qn_pg_put_int8(p, op->byte_limit);
	qn_pg_pool_submit(call);
}
