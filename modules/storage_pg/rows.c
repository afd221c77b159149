/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoder of binary results.
 *
 * Invariant: no byte is read outside [value, value + length) whatever the server sent. The first
 * deviation is kept with its place, later reads give zeroes, so that callers can read a whole result
 * straight through and judge once. It knows nothing of statements.
 */
#include "rows.h"

#include "params.h"

#include <string.h>

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t load64(const uint8_t *p)
{
	return (uint64_t)load32(p) << 32 | load32(p + 4);
}

/* Points at the value; NULL (with *n = 0) for SQL NULL and after a deviation. */
static const uint8_t *value(struct qn_pg_rows *r, int row, int column, size_t *n)
{
	*n = 0;
	if (r->bad != NULL || row < 0 || row >= r->n || column < 0 || column >= r->columns ||
	    PQgetisnull(r->res, row, column)) {
		return NULL;
	}
	*n = (size_t)PQgetlength(r->res, row, column);
	return (const uint8_t *)PQgetvalue(r->res, row, column);
}

static const uint8_t *fixed(struct qn_pg_rows *r, int row, int column, unsigned oid, size_t size)
{
	size_t n;
	const uint8_t *p = value(r, row, column, &n);
	if (r->bad != NULL) {
		return NULL;
	}
	if (PQftype(r->res, column) != oid) {
		qn_pg_rows_reject(r, row, column, "another type");
		return NULL;
	}
	if (p != NULL && n != size) {
		qn_pg_rows_reject(r, row, column, "another size");
		return NULL;
	}
	return p;
}

void qn_pg_rows_reject(struct qn_pg_rows *r, int row, int column, const char *why)
{
	if (r->bad == NULL) {
		r->bad = why;
		r->bad_row = row;
		r->bad_column = column;
	}
}

void qn_pg_rows_init(struct qn_pg_rows *r, PGresult *res, int columns)
{
	*r = (struct qn_pg_rows){.res = res, .n = PQntuples(res), .columns = PQnfields(res)};
	if (r->columns < columns) {
		qn_pg_rows_reject(r, 0, r->columns, "too few columns");
		return;
	}
	for (int i = 0; i < columns; i++) {
		if (PQfformat(res, i) != 1) {
			qn_pg_rows_reject(r, 0, i, "text format");
		}
	}
}

int qn_pg_rows_check(const struct qn_pg_rows *r, const struct qn_host *h, const char *statement, struct qn_error *e)
{
	if (r->bad == NULL) {
		return QN_OK;
	}
	return QN_ERR(h, e, QN_INTERNAL, "%s: unexpected result, row %d column %d: %s", statement, r->bad_row,
	              r->bad_column, r->bad);
}

bool qn_pg_is_null(struct qn_pg_rows *r, int row, int column)
{
	size_t n;
	return value(r, row, column, &n) == NULL;
}

bool qn_pg_bool(struct qn_pg_rows *r, int row, int column)
{
	const uint8_t *p = fixed(r, row, column, QN_PG_BOOL, 1);
	return p != NULL && *p != 0;
}

int32_t qn_pg_int4_or(struct qn_pg_rows *r, int row, int column, int32_t otherwise)
{
	const uint8_t *p = fixed(r, row, column, QN_PG_INT4, 4);
	return p != NULL ? (int32_t)load32(p) : otherwise;
}

int64_t qn_pg_int8_or(struct qn_pg_rows *r, int row, int column, int64_t otherwise)
{
	const uint8_t *p = fixed(r, row, column, QN_PG_INT8, 8);
	return p != NULL ? (int64_t)load64(p) : otherwise;
}

int32_t qn_pg_int4(struct qn_pg_rows *r, int row, int column)
{
	if (r->bad == NULL && qn_pg_is_null(r, row, column)) {
		qn_pg_rows_reject(r, row, column, "unexpected null");
	}
	return qn_pg_int4_or(r, row, column, 0);
}

int64_t qn_pg_int8(struct qn_pg_rows *r, int row, int column)
{
	if (r->bad == NULL && qn_pg_is_null(r, row, column)) {
		qn_pg_rows_reject(r, row, column, "unexpected null");
	}
	return qn_pg_int8_or(r, row, column, 0);
}

struct qn_uuid qn_pg_uuid(struct qn_pg_rows *r, int row, int column)
{
	struct qn_uuid u = {{0}};
	const uint8_t *p = fixed(r, row, column, QN_PG_UUID, 16);
	if (p != NULL) {
		memcpy(u.b, p, 16);
	}
	return u;
}

struct qn_span qn_pg_bytes(struct qn_pg_rows *r, int row, int column)
{
	size_t n;
	const uint8_t *p = value(r, row, column, &n);
	return (struct qn_span){p, n};
}

struct qn_pg_list qn_pg_list_of(struct qn_pg_rows *r, int row, int column, unsigned element_oid)
{
	struct qn_pg_list l = {0};
	size_t n;
	const uint8_t *p = value(r, row, column, &n);
	if (p == NULL) {
		return l;
	}
	uint32_t dims = n >= 12 ? load32(p) : UINT32_MAX;
	if (dims > 1 || load32(p + 8) != element_oid || n < (dims == 1 ? 20u : 12u)) {
		qn_pg_rows_reject(r, row, column, "not the array it should be");
		return l;
	}
	if (dims == 0) {
		return l;
	}
	l.n = load32(p + 12);
	l.p = p + 20;
	l.left = n - 20;
	if (l.n > l.left / 4) {
		qn_pg_rows_reject(r, row, column, "array shorter than it says");
		l.n = 0;
	}
	return l;
}

bool qn_pg_list_next(struct qn_pg_list *l, struct qn_span *out)
{
	if (l->left < 4) {
		return false;
	}
	uint32_t length = load32(l->p);
	l->p += 4;
	l->left -= 4;
	if (length == UINT32_MAX) {
		*out = (struct qn_span){NULL, 0};
		return true;
	}
	if (length > l->left) {
		l->left = 0;
		return false;
	}
	*out = (struct qn_span){l->p, length};
	l->p += length;
	l->left -= length;
	return true;
}

int32_t qn_pg_span_int4(struct qn_span s)
{
	return s.n == 4 ? (int32_t)load32(s.p) : 0;
}

int64_t qn_pg_span_int8(struct qn_span s)
{
	return s.n == 8 ? (int64_t)load64(s.p) : 0;
}
