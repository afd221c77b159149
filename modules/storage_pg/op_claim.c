/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim: several pops in one queen.claim_v1 (ST-6 ... ST-8, ST-10).
 *
 * Rows come typed by their first column: a pop, its verdicts, its lanes each followed by its slices.
 * Two passes: the first counts, the second fills arrays of exactly that size in the op's arena. Blobs
 * and names stay in the result, which the arena keeps.
 */
#include "conn.h"
#include "ops.h"

#include <string.h>

enum row_kind { ROW_POP, ROW_VERDICT, ROW_LANE, ROW_SLICE };

enum column {
	COL_KIND,
	COL_POP,
	COL_LANE,
	COL_PARTITION_ID,
	COL_QUEUE,
	COL_PARTITION,
	COL_FIRST_OFFSET,
	COL_BATCH_END,
	COL_LAST_OFFSET,
	COL_AT_US,
	COL_N,
	COL_BASE_OFFSET,
	COL_COUNT,
	COL_FIRST,
	COL_TAKE,
	COL_BLOB,
};

struct reading {
	struct qn_pg_rows *r;
	struct qn_claim_op *op;
	const struct qn_host *host;
	struct qn_claim_pop *pop; /* of the rows being read */
	struct qn_claimed *lane;  /* of the slices being read */
	uint32_t slices_due;
};

static struct qn_claim_op *claim_of(const struct qn_op *op)
{
	return QN_PG_CONTAINER(op, struct qn_claim_op, op);
}

static uint32_t candidates(const struct qn_claim_op *op)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < op->pop_count; i++) {
		n += op->pops[i].candidate_count;
	}
	return n;
}

static void encode_candidates(struct qn_pg_params *p, const struct qn_claim_op *op)
{
	uint32_t n = candidates(op);
	qn_pg_array(p, QN_PG_INT4S, n);
	for (uint32_t i = 0; i < op->pop_count; i++) {
		for (uint32_t k = 0; k < op->pops[i].candidate_count; k++) {
			qn_pg_elem_int4(p, (int32_t)i);
		}
	}
	qn_pg_array(p, QN_PG_UUIDS, n);
	for (uint32_t i = 0; i < op->pop_count; i++) {
		for (uint32_t k = 0; k < op->pops[i].candidate_count; k++) {
			qn_pg_elem_uuid(p, &op->pops[i].candidates[k]);
		}
	}
}

static void encode(struct qn_pg_params *p, const struct qn_claim_op *op, bool lease_async)
{
	const struct qn_claim_pop *c = op->pops;
	uint32_t n = op->pop_count;
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &c[i].tenant);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)c[i].from);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].queue);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].partition);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].name_space);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].task);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].group);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)c[i].start.mode);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, c[i].start.from_us);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, c[i].lease_id);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, c[i].lease_s);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, c[i].budget);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, c[i].budget_bytes);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, c[i].max_lanes);
	encode_candidates(p, op);
	qn_pg_put_bool(p, lease_async);
	QN_PG_EACH(p, QN_PG_BOOLS, qn_pg_elem_bool, n, c[i].may_hold);
	QN_PG_EACH(p, QN_PG_BOOLS, qn_pg_elem_bool, n, c[i].window_kept);
}

static struct qn_claim_pop *pop_at(struct reading *g, int row)
{
	int32_t i = qn_pg_int4(g->r, row, COL_POP);
	if (i < 0 || (uint32_t)i >= g->op->pop_count) {
		qn_pg_rows_reject(g->r, row, COL_POP, "no such pop");
		return NULL;
	}
	return &g->op->pops[i];
}

static void count_row(struct reading *g, int row)
{
	struct qn_claim_pop *pop = pop_at(g, row);
	int32_t kind = qn_pg_int4(g->r, row, COL_KIND);
	if (pop == NULL || g->r->bad != NULL) {
		return;
	}
	if (kind == ROW_VERDICT) {
		pop->verdict_count++;
	} else if (kind == ROW_LANE) {
		pop->lane_count++;
	} else if (kind != ROW_POP && kind != ROW_SLICE) {
		qn_pg_rows_reject(g->r, row, COL_KIND, "unknown kind");
	}
}

static void allocate(struct reading *g)
{
	for (uint32_t i = 0; i < g->op->pop_count; i++) {
		struct qn_claim_pop *pop = &g->op->pops[i];
		if (pop->verdict_count > 0) {
			pop->verdicts =
				g->host->arena_alloc(g->op->op.arena, pop->verdict_count * sizeof(*pop->verdicts));
		}
		if (pop->lane_count > 0) {
			pop->lanes = g->host->arena_alloc(g->op->op.arena, pop->lane_count * sizeof(*pop->lanes));
		}
		pop->verdict_count = pop->lane_count = 0;
	}
}

static void read_verdict(struct reading *g, int row, struct qn_claim_pop *pop)
{
	struct qn_pg_rows *r = g->r;
	struct qn_verdict *v = &pop->verdicts[pop->verdict_count++];
	int32_t kind = qn_pg_int4(r, row, COL_N);
	if (kind < QN_TOOK || kind > QN_LANE_GONE) {
		qn_pg_rows_reject(r, row, COL_N, "unknown verdict");
		return;
	}
	*v = (struct qn_verdict){.partition_id = qn_pg_uuid(r, row, COL_PARTITION_ID),
	                         .kind = (enum qn_verdict_kind)kind,
	                         .until_us = qn_pg_int8_or(r, row, COL_AT_US, 0),
	                         .last_offset = qn_pg_int8_or(r, row, COL_LAST_OFFSET, 0),
	                         .batch_end = qn_pg_int8_or(r, row, COL_BATCH_END, 0)};
}

static void read_lane(struct reading *g, int row, struct qn_claim_pop *pop)
{
	struct qn_pg_rows *r = g->r;
	int32_t slices = qn_pg_int4(r, row, COL_COUNT);
	if (slices < 0 || slices > r->n - row - 1) {
		qn_pg_rows_reject(r, row, COL_COUNT, "fewer slices than promised");
		return;
	}
	g->lane = &pop->lanes[pop->lane_count++];
	*g->lane = (struct qn_claimed){.partition_id = qn_pg_uuid(r, row, COL_PARTITION_ID),
	                               .queue = qn_pg_bytes(r, row, COL_QUEUE),
	                               .partition = qn_pg_bytes(r, row, COL_PARTITION),
	                               .first_offset = qn_pg_int8(r, row, COL_FIRST_OFFSET),
	                               .batch_end = qn_pg_int8(r, row, COL_BATCH_END),
	                               .last_offset = qn_pg_int8(r, row, COL_LAST_OFFSET),
	                               .lease_expires_at_us = qn_pg_int8_or(r, row, COL_AT_US, 0),
	                               .attempt = qn_pg_int4(r, row, COL_N)};
	g->slices_due = (uint32_t)slices;
	if (slices > 0) {
		g->lane->slices = g->host->arena_alloc(g->op->op.arena, (size_t)slices * sizeof(*g->lane->slices));
	}
}

static void read_slice(struct reading *g, int row)
{
	struct qn_pg_rows *r = g->r;
	if (g->slices_due == 0) {
		qn_pg_rows_reject(r, row, COL_KIND, "a slice too many");
		return;
	}
	int32_t count = qn_pg_int4(r, row, COL_COUNT);
	int32_t first = qn_pg_int4(r, row, COL_FIRST);
	int32_t take = qn_pg_int4(r, row, COL_TAKE);
	if (r->bad == NULL && (count < 1 || first < 0 || take < 1 || first >= count || take > count - first)) {
		qn_pg_rows_reject(r, row, COL_TAKE, "a slice outside its segment");
		return;
	}
	g->slices_due--;
	g->lane->slices[g->lane->slice_count++] = (struct qn_slice){.base_offset = qn_pg_int8(r, row, COL_BASE_OFFSET),
	                                                            .count = (uint32_t)count,
	                                                            .first = (uint32_t)first,
	                                                            .take = (uint32_t)take,
	                                                            .created_at_us = qn_pg_int8(r, row, COL_AT_US),
	                                                            .blob = qn_pg_bytes(r, row, COL_BLOB)};
}

static void read_row(struct reading *g, int row)
{
	struct qn_claim_pop *pop = pop_at(g, row);
	int32_t kind = qn_pg_int4(g->r, row, COL_KIND);
	if (pop == NULL || g->r->bad != NULL) {
		return;
	}
	if (kind != ROW_SLICE && g->slices_due > 0) {
		qn_pg_rows_reject(g->r, row, COL_KIND, "fewer slices than promised");
	} else if (kind == ROW_POP) {
		pop->next_due_us = qn_pg_int8_or(g->r, row, COL_AT_US, 0);
		pop->contended = qn_pg_int4_or(g->r, row, COL_N, 0) != 0;
		pop->hold_ms = qn_pg_int4(g->r, row, COL_COUNT);
		pop->ready = qn_pg_int8(g->r, row, COL_LAST_OFFSET);
		g->op->now_us = qn_pg_int8(g->r, row, COL_BASE_OFFSET);
	} else if (kind == ROW_VERDICT) {
		read_verdict(g, row, pop);
	} else if (kind == ROW_LANE) {
		read_lane(g, row, pop);
	} else {
		read_slice(g, row);
	}
}

static int read_claim(struct qn_pg_call *call, struct qn_pg_rows *r, struct qn_error *e)
{
	struct reading g = {.r = r, .op = claim_of(call->op), .host = call->pool->host};
	for (uint32_t i = 0; i < g.op->pop_count; i++) {
		struct qn_claim_pop *pop = &g.op->pops[i];
		pop->lanes = NULL;
		pop->verdicts = NULL;
		pop->lane_count = pop->verdict_count = 0;
	}
	for (int row = 0; row < r->n && r->bad == NULL; row++) {
		count_row(&g, row);
	}
	if (r->bad == NULL) {
		allocate(&g);
	}
	for (int row = 0; row < r->n && r->bad == NULL; row++) {
		read_row(&g, row);
	}
	return qn_pg_rows_check(r, g.host, "claim", e);
}

void qn_pg_claim(struct qn_pg_pool *pool, struct qn_claim_op *op)
{
	struct qn_pg_call *call = qn_pg_call_create(pool, &op->op, QN_PG_STMT_CLAIM);
	call->read = read_claim;
	encode(&call->params, op, pool->pg->options->lease_commit == QN_PG_LEASE_ASYNC);
	qn_pg_pool_submit(call);
}
