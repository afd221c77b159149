/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk: one page of a queue's lanes that hold messages for a group, from queen.walk_v1.
 */
#include "conn.h"
#include "ops.h"

#include <string.h>

static int read_page(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct qn_walk_op *op = QN_PG_CONTAINER(call->op, struct qn_walk_op, op);
	struct qn_pg_list lanes = qn_pg_list_of(r, 0, 3, QN_PG_UUID);
	struct qn_span id;

	if (r->bad == NULL && r->n != 1) {
		qn_pg_rows_reject(r, r->n, 0, "not one row");
	}
	op->after = (struct qn_walk_place){qn_pg_uuid(r, 0, 0), qn_pg_int8_or(r, 0, 1, 0)};
	op->last = qn_pg_bool(r, 0, 2);
	op->lane_count = 0;
	op->lanes = lanes.n == 0 ? NULL : call->pool->host->arena_alloc(op->op.arena, lanes.n * sizeof(*op->lanes));
	while (r->bad == NULL && op->lane_count < lanes.n) {
		if (!qn_pg_list_next(&lanes, &id) || id.n != sizeof(op->lanes[0].b)) {
			qn_pg_rows_reject(r, 0, 3, "not a list of ids");
			break;
		}
		memcpy(op->lanes[op->lane_count].b, id.p, id.n);
		op->lane_count++;
	}
	return qn_pg_rows_check(r, call->pool->host, "walk", e);
}

void qn_pg_walk(struct qn_pg_pool *pool, struct qn_walk_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_WALK);
	struct qn_pg_params *p = &call->params;

	call->read = read_page;
	qn_pg_put_uuid(p, &op->tenant);
	qn_pg_put_text(p, op->queue);
	qn_pg_put_text(p, op->group);
	qn_pg_put_uuid(p, &op->after.id);
	qn_pg_put_int8(p, op->after.written_us);
	qn_pg_put_int4(p, op->limit > INT32_MAX ? INT32_MAX : (int32_t)op->limit);
	qn_pg_put_int4(p, op->written_within_s);
	qn_pg_pool_submit(call);
}
