/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reading binary results with full bounds checks.
 *
 * A reader remembers the first thing that was not as the contract says (column count, type size,
 * unexpected NULL) and returns zero values from then on; check qn_pg_rows_check() once per result.
 * Spans point into the result; who keeps the arena keeps the result (qn_pg_rows_keep).
 */
#ifndef QN_PG_ROWS_H
#define QN_PG_ROWS_H

#include <libpq-fe.h>
#include <qn/base.h>
#include <qn/host.h>

struct qn_pg_rows {
	PGresult *res; /* [borrow] */
	int n, columns;
	const char *bad; /* NULL: all well */
	int bad_row, bad_column;
};

/** A one-dimensional array value: elements are read in order. */
struct qn_pg_list {
	const uint8_t *p;
	size_t left;
	uint32_t n; /* elements in all */
};

void qn_pg_rows_init(struct qn_pg_rows *r, PGresult *res, int columns);
/** INTERNAL with what was wrong. */
int qn_pg_rows_check(const struct qn_pg_rows *r, const struct qn_host *h, const char *statement,
                     struct qn_error *e) QN_MUST;
/** Marks the result as not as promised: for rules the caller checks itself. */
void qn_pg_rows_reject(struct qn_pg_rows *r, int row, int column, const char *why);

bool qn_pg_is_null(struct qn_pg_rows *r, int row, int column);
bool qn_pg_bool(struct qn_pg_rows *r, int row, int column);
int32_t qn_pg_int4(struct qn_pg_rows *r, int row, int column);
int64_t qn_pg_int8(struct qn_pg_rows *r, int row, int column);
/** `otherwise` for NULL. */
int32_t qn_pg_int4_or(struct qn_pg_rows *r, int row, int column, int32_t otherwise);
int64_t qn_pg_int8_or(struct qn_pg_rows *r, int row, int column, int64_t otherwise);
/** NULL reads as the nil UUID. */
struct qn_uuid qn_pg_uuid(struct qn_pg_rows *r, int row, int column);
/** text and bytea; NULL reads as an empty span. */
struct qn_span qn_pg_bytes(struct qn_pg_rows *r, int row, int column);
/** element_bytes: exact size of each element, 0 = any. NULL reads as an empty list. */
struct qn_pg_list qn_pg_list_of(struct qn_pg_rows *r, int row, int column, unsigned element_oid);
/** Next element; false at the end or when the bytes are not an array of n elements. */
bool qn_pg_list_next(struct qn_pg_list *l, struct qn_span *out) QN_MUST;
int32_t qn_pg_span_int4(struct qn_span s);
int64_t qn_pg_span_int8(struct qn_span s);

#endif
