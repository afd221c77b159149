/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Binary statement parameters, built in one buffer per statement.
 *
 * Add scalars with the _one_ functions and arrays with begin / elements / end. Errors stick: the
 * buffer stays failed (out of memory, too many parameters, or above QN_PG_PARAMS_MAX) and is
 * checked once by qn_pg_params_finish().
 */
#ifndef QN_PG_PARAMS_H
#define QN_PG_PARAMS_H

#include <qn/base.h>
#include <qn/host.h>

#define QN_PG_PARAM_COUNT 32
/** PostgreSQL refuses messages of 1 GiB; a statement of this module never needs a quarter of it. */
#define QN_PG_PARAMS_MAX ((size_t)256 << 20)

enum qn_pg_oid {
	QN_PG_BOOL = 16,
	QN_PG_BYTEA = 17,
	QN_PG_INT8 = 20,
	QN_PG_INT4 = 23,
	QN_PG_TEXT = 25,
	QN_PG_UUID = 2950,
	QN_PG_BOOLS = 1000,
	QN_PG_BYTEAS = 1001,
	QN_PG_INT4S = 1007,
	QN_PG_TEXTS = 1009,
	QN_PG_INT8S = 1016,
	QN_PG_UUIDS = 2951,
};

struct qn_pg_params {
	const struct qn_host *host;
	uint8_t *p;
	size_t n, cap;
	bool failed;
	int count;
	size_t array_at;     /* offset of the open array's dimension size */
	uint32_t array_left; /* elements still expected by the open array */
	unsigned types[QN_PG_PARAM_COUNT];
	size_t offsets[QN_PG_PARAM_COUNT]; /* SIZE_MAX: NULL */
	const char *values[QN_PG_PARAM_COUNT];
	int lengths[QN_PG_PARAM_COUNT];
	int formats[QN_PG_PARAM_COUNT];
};

void qn_pg_params_init(struct qn_pg_params *b, const struct qn_host *host);
void qn_pg_params_fini(struct qn_pg_params *b);
/** Fixes addresses and lengths; nothing may be added afterwards. TOO_BIG or NOMEM. */
int qn_pg_params_finish(struct qn_pg_params *b, struct qn_error *e) QN_MUST;

void qn_pg_put_null(struct qn_pg_params *b, enum qn_pg_oid type);
void qn_pg_put_bool(struct qn_pg_params *b, bool v);
void qn_pg_put_int4(struct qn_pg_params *b, int32_t v);
void qn_pg_put_int8(struct qn_pg_params *b, int64_t v);
void qn_pg_put_uuid(struct qn_pg_params *b, const struct qn_uuid *v);
void qn_pg_put_text(struct qn_pg_params *b, struct qn_span v);
void qn_pg_put_bytea(struct qn_pg_params *b, struct qn_span v);
/** Appends to the text or bytea put last. */
void qn_pg_more(struct qn_pg_params *b, const void *p, size_t n);

/** Opens a one-dimensional array of exactly n elements, which must follow. */
void qn_pg_array(struct qn_pg_params *b, enum qn_pg_oid array_type, uint32_t n);
void qn_pg_elem_null(struct qn_pg_params *b);
void qn_pg_elem_bool(struct qn_pg_params *b, bool v);
void qn_pg_elem_int4(struct qn_pg_params *b, int32_t v);
void qn_pg_elem_int8(struct qn_pg_params *b, int64_t v);
/** The nil UUID is sent as NULL. */
void qn_pg_elem_uuid(struct qn_pg_params *b, const struct qn_uuid *v);
/** For text[] and bytea[]. */
void qn_pg_elem_bytes(struct qn_pg_params *b, struct qn_span v);

#endif
