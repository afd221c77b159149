/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoder of binary parameters.
 *
 * One growing buffer holds all values of a statement; offsets are turned into pointers only at the
 * end because growing moves it. An array is: int32 dimensions (0 or 1), int32 has-nulls, oid of the
 * element, int32 size, int32 lower bound, then each element as int32 length (-1 = NULL) and bytes.
 * It does not send anything and knows no statement.
 */
#include "params.h"

#include <limits.h>
#include <string.h>

static void store32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static uint8_t *grow(struct qn_pg_params *b, size_t n)
{
	if (b->failed || n > QN_PG_PARAMS_MAX - b->n) {
		b->failed = true;
		return NULL;
	}
	if (b->n + n > b->cap) {
		size_t cap = b->cap * 2 > b->n + n ? b->cap * 2 : b->n + n;
		uint8_t *p = b->host->try_alloc(cap);
		if (p == NULL) {
			b->failed = true;
			return NULL;
		}
		if (b->n > 0) {
			memcpy(p, b->p, b->n);
		}
		b->host->free(b->p);
		b->p = p;
		b->cap = cap;
	}
	b->n += n;
	return b->p + b->n - n;
}

static void put(struct qn_pg_params *b, const void *p, size_t n)
{
	uint8_t *to = grow(b, n);
	if (to != NULL && n > 0) {
		memcpy(to, p, n);
	}
}

static void put32(struct qn_pg_params *b, uint32_t v)
{
	uint8_t *to = grow(b, 4);
	if (to != NULL) {
		store32(to, v);
	}
}

static void put64(struct qn_pg_params *b, uint64_t v)
{
	put32(b, (uint32_t)(v >> 32));
	put32(b, (uint32_t)v);
}

static void start(struct qn_pg_params *b, enum qn_pg_oid type, bool is_null)
{
	if (b->count == QN_PG_PARAM_COUNT || b->array_left > 0) {
		b->failed = true;
		return;
	}
	b->types[b->count] = type;
	b->formats[b->count] = 1;
	b->offsets[b->count] = is_null ? SIZE_MAX : b->n;
	b->count++;
}

static enum qn_pg_oid element_type(enum qn_pg_oid array_type)
{
	switch (array_type) {
	case QN_PG_BOOLS:
		return QN_PG_BOOL;
	case QN_PG_BYTEAS:
		return QN_PG_BYTEA;
	case QN_PG_INT4S:
		return QN_PG_INT4;
	case QN_PG_INT8S:
		return QN_PG_INT8;
	case QN_PG_UUIDS:
		return QN_PG_UUID;
	default:
		return QN_PG_TEXT;
	}
}

static void element(struct qn_pg_params *b, uint32_t length)
{
	if (b->array_left == 0) {
		b->failed = true;
		return;
	}
	b->array_left--;
	put32(b, length);
}

void qn_pg_params_init(struct qn_pg_params *b, const struct qn_host *host)
{
	memset(b, 0, sizeof(*b));
	b->host = host;
	b->cap = 512;
	b->p = host->alloc(b->cap);
}

void qn_pg_params_fini(struct qn_pg_params *b)
{
	if (b->host != NULL) {
		b->host->free(b->p);
	}
	b->p = NULL;
	b->n = b->cap = 0;
}

int qn_pg_params_finish(struct qn_pg_params *b, struct qn_error *e)
{
	if (b->failed || b->array_left > 0) {
		return QN_ERR(b->host, e, QN_TOO_BIG, "statement parameters exceed %zu bytes or memory",
		              QN_PG_PARAMS_MAX);
	}
	for (int i = 0; i < b->count; i++) {
		size_t end = b->n;
		for (int k = i + 1; k < b->count; k++) {
			if (b->offsets[k] != SIZE_MAX) {
				end = b->offsets[k];
				break;
			}
		}
		bool is_null = b->offsets[i] == SIZE_MAX;
		b->values[i] = is_null ? NULL : (const char *)b->p + b->offsets[i];
		b->lengths[i] = is_null ? 0 : (int)(end - b->offsets[i]);
	}
	return QN_OK;
}

void qn_pg_put_null(struct qn_pg_params *b, enum qn_pg_oid type)
{
	start(b, type, true);
}

void qn_pg_put_bool(struct qn_pg_params *b, bool v)
{
	start(b, QN_PG_BOOL, false);
	put(b, &(uint8_t){v}, 1);
}

void qn_pg_put_int4(struct qn_pg_params *b, int32_t v)
{
	start(b, QN_PG_INT4, false);
	put32(b, (uint32_t)v);
}

void qn_pg_put_int8(struct qn_pg_params *b, int64_t v)
{
	start(b, QN_PG_INT8, false);
	put64(b, (uint64_t)v);
}

void qn_pg_put_uuid(struct qn_pg_params *b, const struct qn_uuid *v)
{
	start(b, QN_PG_UUID, false);
	put(b, v->b, 16);
}

void qn_pg_put_text(struct qn_pg_params *b, struct qn_span v)
{
	start(b, QN_PG_TEXT, false);
	put(b, v.p, v.n);
}

void qn_pg_put_bytea(struct qn_pg_params *b, struct qn_span v)
{
	start(b, QN_PG_BYTEA, false);
	put(b, v.p, v.n);
}

void qn_pg_more(struct qn_pg_params *b, const void *p, size_t n)
{
	put(b, p, n);
}

void qn_pg_array(struct qn_pg_params *b, enum qn_pg_oid array_type, uint32_t n)
{
	start(b, array_type, false);
	put32(b, n > 0 ? 1 : 0);
	put32(b, 0);
	b->array_at = b->n - 4;
	put32(b, element_type(array_type));
	if (n > 0) {
		put32(b, n);
		put32(b, 1);
	}
	if (n > INT_MAX) {
		b->failed = true;
	}
	b->array_left = n;
}

void qn_pg_elem_null(struct qn_pg_params *b)
{
	element(b, UINT32_MAX);
	if (!b->failed) {
		store32(b->p + b->array_at, 1);
	}
}

void qn_pg_elem_bool(struct qn_pg_params *b, bool v)
{
	element(b, 1);
	put(b, &(uint8_t){v}, 1);
}

void qn_pg_elem_int4(struct qn_pg_params *b, int32_t v)
{
	element(b, 4);
	put32(b, (uint32_t)v);
}

void qn_pg_elem_int8(struct qn_pg_params *b, int64_t v)
{
	element(b, 8);
	put64(b, (uint64_t)v);
}

void qn_pg_elem_uuid(struct qn_pg_params *b, const struct qn_uuid *v)
{
	static const struct qn_uuid nil;
	if (memcmp(v->b, nil.b, 16) == 0) {
		qn_pg_elem_null(b);
		return;
	}
	element(b, 16);
	put(b, v->b, 16);
}

void qn_pg_elem_bytes(struct qn_pg_params *b, struct qn_span v)
{
	if (v.n > QN_PG_PARAMS_MAX) {
		b->failed = true;
		return;
	}
	element(b, (uint32_t)v.n);
	put(b, v.p, v.n);
}
