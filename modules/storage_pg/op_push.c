/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push: the lanes of a flush to queen.push_v1 and its verdicts back (ST-1 ... ST-5).
 *
 * One row per lane comes back, in lane order. A lane the database refuses fails alone (bundle.c).
 * Blobs are copied once, into the statement's parameters.
 */
#include "bundle.h"
#include "conn.h"
#include "lanes.h"
#include "ops.h"

static struct qn_push_op *push_of(const struct qn_op *op)
{
	return QN_PG_CONTAINER(op, struct qn_push_op, op);
}

static uint32_t count(const struct qn_op *op)
{
	return push_of(op)->lane_count;
}

void qn_pg_encode_push_lanes(struct qn_pg_params *p, const struct qn_push_lane *l, uint32_t n)
{
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, l[i].queue);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, l[i].partition);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &l[i].partition_id);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)l[i].count);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)l[i].raw_bytes);
	QN_PG_EACH(p, QN_PG_BOOLS, qn_pg_elem_bool, n, l[i].sealed);
	QN_PG_EACH(p, QN_PG_BYTEAS, qn_pg_elem_bytes, n, l[i].hashes);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, l[i].verified);
	QN_PG_EACH(p, QN_PG_BYTEAS, qn_pg_elem_bytes, n, l[i].blob);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, l[i].verified_since_us);
}

static void encode(struct qn_pg_params *p, const struct qn_op *op, uint32_t first, uint32_t n)
{
	const struct qn_push_lane *l = push_of(op)->lanes + first;
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &l[i].tenant);
	qn_pg_encode_push_lanes(p, l, n);
}

static void read_dups(struct qn_pg_rows *r, int row, struct qn_push_lane *l, const struct qn_host *h,
                      struct qn_arena *arena)
{
	struct qn_pg_list index = qn_pg_list_of(r, row, 6, QN_PG_INT4);
	struct qn_pg_list offset = qn_pg_list_of(r, row, 7, QN_PG_INT8);
	struct qn_span i;
	struct qn_span o;
	if (r->bad != NULL) {
		return;
	}
	if (index.n == 0 || index.n != offset.n) {
		qn_pg_rows_reject(r, row, 6, "no or uneven duplicates");
		return;
	}
	l->dups = h->arena_alloc(arena, index.n * sizeof(*l->dups));
	for (l->dup_count = 0; l->dup_count < index.n; l->dup_count++) {
		struct qn_push_dup *d = &l->dups[l->dup_count];
		if (!qn_pg_list_next(&index, &i) || !qn_pg_list_next(&offset, &o) || i.n != 4 || o.n != 8 ||
		    (uint32_t)qn_pg_span_int4(i) >= l->count) {
			qn_pg_rows_reject(r, row, 6, "a duplicate that is not in the lane");
			return;
		}
		d->index = (uint32_t)qn_pg_span_int4(i);
		d->offset = qn_pg_span_int8(o);
	}
}

void qn_pg_read_push_lane(struct qn_pg_rows *r, int row, const struct qn_pg_push_columns *c, struct qn_push_lane *l)
{
	int32_t status = qn_pg_int4(r, row, c->status);
	l->lane_id = qn_pg_uuid(r, row, c->partition_id);
	l->dedup_window_s = qn_pg_int4_or(r, row, c->dedup, 0);
	l->encryption_enabled = qn_pg_bool(r, row, c->encryption);
	l->delayed_processing_s = qn_pg_int4(r, row, c->delay);
	l->window_buffer_s = qn_pg_int4(r, row, c->buffer);
	switch (status) {
	case QN_PUSH_QUEUED:
		l->base_offset = qn_pg_int8(r, row, c->base_offset);
		l->created_at_us = qn_pg_int8(r, row, c->created_at_us);
		break;
	case QN_PUSH_DUPLICATE:
	case QN_PUSH_UNSEALED:
		break;
	default:
		qn_pg_rows_reject(r, row, c->status, "unknown status");
		return;
	}
	l->status = (enum qn_push_status)status;
}

static void read_lane(struct qn_pg_rows *r, int row, struct qn_push_lane *l, const struct qn_host *h,
                      struct qn_arena *arena)
{
	static const struct qn_pg_push_columns columns = {1, 2, 3, 4, 5, 8, 9, 10};
	qn_pg_read_push_lane(r, row, &columns, l);
	if (r->bad == NULL && l->status == QN_PUSH_DUPLICATE) {
		read_dups(r, row, l, h, arena);
	}
}

static void decode(struct qn_pg_rows *r, struct qn_op *op, struct qn_pg_pool *pool, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int32_t ord = qn_pg_int4(r, (int)i, 0);
		if (r->bad == NULL && ord != (int32_t)i) {
			qn_pg_rows_reject(r, (int)i, 0, "out of order");
		}
		read_lane(r, (int)i, &push_of(op)->lanes[first + i], pool->host, op->arena);
	}
}

static void fail(struct qn_op *op, uint32_t i, const struct qn_error *e)
{
	struct qn_push_lane *l = &push_of(op)->lanes[i];
	l->status = QN_PUSH_FAILED;
	l->error = *e;
}

static const struct qn_pg_bundle bundle = {QN_PG_STMT_PUSH, count, encode, decode, fail};

void qn_pg_push(struct qn_pg_pool *pool, struct qn_push_op *op)
{
	qn_pg_bundle_submit(pool, &bundle, &op->op);
}
