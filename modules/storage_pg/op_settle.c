/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle and dead_letter: acks to queen.settle_v1 and queen.dead_letter_v1 (ST-8, ST-9).
 *
 * The items of all lanes travel as one run of hashes; rows come back in lane order. A settled lane
 * whose statement the database refuses reports QN_ACK_STORAGE for each of its items and harms no
 * other (bundle.c).
 */
#include "bundle.h"
#include "conn.h"
#include "lanes.h"
#include "ops.h"

#include <string.h>

static struct qn_settle_op *settle_of(const struct qn_op *op)
{
	return QN_PG_CONTAINER(op, struct qn_settle_op, op);
}

static uint32_t lane_count(const struct qn_op *op)
{
	return settle_of(op)->lane_count;
}

static uint32_t items_in(const struct qn_settle_lane *l, uint32_t n)
{
	uint32_t items = 0;
	for (uint32_t i = 0; i < n; i++) {
		items += l[i].item_count;
	}
	return items;
}

static void encode_items(struct qn_pg_params *p, const struct qn_settle_lane *l, uint32_t n)
{
	uint32_t items = items_in(l, n);
	qn_pg_array(p, QN_PG_INT4S, items);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < l[i].item_count; k++) {
			qn_pg_elem_int4(p, (int32_t)i);
		}
	}
	qn_pg_put_bytea(p, (struct qn_span){NULL, 0});
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < l[i].item_count; k++) {
			qn_pg_more(p, l[i].items[k].hash, QN_HASH_BYTES);
		}
	}
	qn_pg_array(p, QN_PG_INT4S, items);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < l[i].item_count; k++) {
			qn_pg_elem_int4(p, (int32_t)l[i].items[k].status);
		}
	}
}

void qn_pg_encode_settle_lanes(struct qn_pg_params *p, const struct qn_settle_lane *l, uint32_t n)
{
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &l[i].partition_id);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, l[i].group);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, l[i].lease_id);
	encode_items(p, l, n);
}

static void encode_settle(struct qn_pg_params *p, const struct qn_op *op, uint32_t first, uint32_t n)
{
	const struct qn_settle_lane *l = settle_of(op)->lanes + first;
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &l[i].tenant);
	qn_pg_encode_settle_lanes(p, l, n);
}

static void read_items(struct qn_pg_rows *r, int row, const struct qn_pg_settle_columns *c, struct qn_settle_lane *l)
{
	struct qn_pg_list outcomes = qn_pg_list_of(r, row, c->outcomes, QN_PG_INT4);
	struct qn_pg_list reasons = qn_pg_list_of(r, row, c->reasons, QN_PG_INT4);
	if (r->bad == NULL && (outcomes.n != l->item_count || reasons.n != l->item_count)) {
		qn_pg_rows_reject(r, row, c->outcomes, "another number of items");
	}
	for (uint32_t k = 0; r->bad == NULL && k < l->item_count; k++) {
		struct qn_span a;
		struct qn_span b;
		if (!qn_pg_list_next(&outcomes, &a) || !qn_pg_list_next(&reasons, &b) || a.n != 4 || b.n != 4) {
			qn_pg_rows_reject(r, row, c->outcomes, "an item cut short");
			return;
		}
		int32_t outcome = qn_pg_span_int4(a);
		int32_t reason = qn_pg_span_int4(b);
		if (outcome < QN_OUT_COMPLETED || outcome > QN_OUT_REJECTED || reason < QN_ACK_OK ||
		    reason > QN_ACK_DLQ_REJECTED) {
			qn_pg_rows_reject(r, row, c->outcomes, "unknown outcome or reason");
			return;
		}
		l->items[k].outcome = (enum qn_ack_outcome)outcome;
		l->items[k].reason = (enum qn_ack_reason)reason;
	}
}

static void read_poison(struct qn_pg_rows *r, int row, const struct qn_pg_settle_columns *c, struct qn_settle_lane *l)
{
	int32_t item = qn_pg_int4_or(r, row, c->poison_item, -1);
	l->needs_dead_letter = item >= 0;
	l->poison = (struct qn_fetch){.partition_id = l->partition_id};
	if (item < 0) {
		return;
	}
	if ((uint32_t)item >= l->item_count) {
		qn_pg_rows_reject(r, row, c->poison_item, "no such item");
		return;
	}
	l->poison_item = (uint32_t)item;
	l->poison_offset = qn_pg_int8(r, row, c->poison_offset);
	l->retry_count = qn_pg_int4_or(r, row, c->retry_count, 0);
	l->poison.offset = l->poison_offset;
	l->poison.found = !qn_pg_is_null(r, row, c->seg_base);
	if (l->poison.found) {
		l->poison.base_offset = qn_pg_int8(r, row, c->seg_base);
		l->poison.count = (uint32_t)qn_pg_int4(r, row, c->seg_count);
		l->poison.created_at_us = qn_pg_int8(r, row, c->seg_created_at_us);
		l->poison.blob = qn_pg_bytes(r, row, c->seg_blob);
	}
}

void qn_pg_read_settle_lane(struct qn_pg_rows *r, int row, const struct qn_pg_settle_columns *c,
                            struct qn_settle_lane *l)
{
	l->lease_released = qn_pg_bool(r, row, c->lease_released);
	l->committed = qn_pg_int8_or(r, row, c->committed, -1);
	l->has_more = qn_pg_bool(r, row, c->has_more);
	l->queue = qn_pg_bytes(r, row, c->queue);
	l->partition = qn_pg_bytes(r, row, c->partition);
	read_items(r, row, c, l);
	read_poison(r, row, c, l);
}

static void decode_settle(struct qn_pg_rows *r, struct qn_op *op, struct qn_pg_pool *pool, uint32_t first, uint32_t n)
{
	static const struct qn_pg_settle_columns columns = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
	(void)pool;
	for (uint32_t i = 0; i < n; i++) {
		int row = (int)i;
		int32_t lane = qn_pg_int4(r, row, 0);
		if (r->bad == NULL && lane != row) {
			qn_pg_rows_reject(r, row, 0, "out of order");
		}
		qn_pg_read_settle_lane(r, row, &columns, &settle_of(op)->lanes[first + i]);
	}
}

static void fail_settle(struct qn_op *op, uint32_t i, const struct qn_error *e)
{
	(void)e;
	struct qn_settle_lane *l = &settle_of(op)->lanes[i];
	l->lease_released = l->has_more = l->needs_dead_letter = false;
	l->committed = -1;
	for (uint32_t k = 0; k < l->item_count; k++) {
		l->items[k].outcome = QN_OUT_REJECTED;
		l->items[k].reason = QN_ACK_STORAGE;
	}
}

static const struct qn_pg_bundle settle_bundle = {QN_PG_STMT_SETTLE, lane_count, encode_settle, decode_settle,
                                                  fail_settle};

void qn_pg_settle(struct qn_pg_pool *pool, struct qn_settle_op *op)
{
	qn_pg_bundle_submit(pool, &settle_bundle, &op->op);
}

/* ---- dead letters ---------------------------------------------------------------------------------- */

static struct qn_dead_letter_op *letter_of(const struct qn_op *op)
{
	return QN_PG_CONTAINER(op, struct qn_dead_letter_op, op);
}

static uint32_t letter_count(const struct qn_op *op)
{
	return letter_of(op)->count;
}

static void encode_letters(struct qn_pg_params *p, const struct qn_op *op, uint32_t first, uint32_t n)
{
	const struct qn_dead_letter *d = letter_of(op)->items + first;
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &d[i].tenant);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &d[i].partition_id);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].group);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].lease_id);
	QN_PG_EACH(p, QN_PG_INT8S, qn_pg_elem_int8, n, d[i].offset);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)d[i].count);
	QN_PG_EACH(p, QN_PG_UUIDS, qn_pg_elem_uuid, n, &d[i].message_id);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].transaction_id);
	QN_PG_EACH(p, QN_PG_BYTEAS, qn_pg_elem_bytes, n, d[i].payload);
	QN_PG_EACH(p, QN_PG_TEXTS, qn_pg_elem_bytes, n, d[i].error);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, d[i].retry_count);
	QN_PG_EACH(p, QN_PG_INT4S, qn_pg_elem_int4, n, (int32_t)d[i].kind);
}

static void decode_letters(struct qn_pg_rows *r, struct qn_op *op, struct qn_pg_pool *pool, uint32_t first, uint32_t n)
{
	(void)pool;
	for (uint32_t i = 0; i < n; i++) {
		struct qn_dead_letter *d = &letter_of(op)->items[first + i];
		int32_t ord = qn_pg_int4(r, (int)i, 0);
		if (r->bad == NULL && ord != (int32_t)i) {
			qn_pg_rows_reject(r, (int)i, 0, "out of order");
		}
		d->filed = qn_pg_bool(r, (int)i, 1);
		d->has_more = qn_pg_bool(r, (int)i, 2);
		d->queue = qn_pg_bytes(r, (int)i, 3);
		d->partition = qn_pg_bytes(r, (int)i, 4);
	}
}

static void fail_letter(struct qn_op *op, uint32_t i, const struct qn_error *e)
{
	(void)e;
	letter_of(op)->items[i].filed = letter_of(op)->items[i].has_more = false;
}

static const struct qn_pg_bundle letter_bundle = {QN_PG_STMT_DEAD_LETTER, letter_count, encode_letters, decode_letters,
                                                  fail_letter};

void qn_pg_dead_letter(struct qn_pg_pool *pool, struct qn_dead_letter_op *op)
{
	qn_pg_bundle_submit(pool, &letter_bundle, &op->op);
}
