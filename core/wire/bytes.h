/* SPDX-License-Identifier: Apache-2.0 */
/** A growable byte buffer with a hard maximum, and the JSON pieces written into it. */
#ifndef QN_WIRE_BYTES_H
#define QN_WIRE_BYTES_H

#include <qn/base.h>

/** Zeroed is a valid empty buffer without a maximum. When a write would exceed max, or memory runs
 * out, `failed` is set and every later write does nothing: check once at the end. */
struct qn_bytes {
	uint8_t *p;
	size_t n, cap, max;
	bool failed;
};

void qn_bytes_put(struct qn_bytes *b, const void *p, size_t n);
/** n uninitialised bytes at the end, to be filled by the caller; NULL when failed. */
void *qn_bytes_grow(struct qn_bytes *b, size_t n);
void qn_bytes_reserve(struct qn_bytes *b, size_t n);
void qn_bytes_fini(struct qn_bytes *b);
/** Moves the bytes out as an owned buffer (freed with free()); b is empty afterwards. */
struct qn_buf qn_bytes_take(struct qn_bytes *b);

#define QN_PUT_LIT(b, text) qn_bytes_put((b), (text), sizeof(text) - 1)
static inline void qn_bytes_put_span(struct qn_bytes *b, struct qn_span s)
{
	qn_bytes_put(b, s.p, s.n);
}

/* json_write.c */
/** A JSON string with quotes; bytes must be valid UTF-8. Escapes only what JSON requires. */
void qn_json_put_str(struct qn_bytes *b, struct qn_span s);
void qn_json_put_cstr(struct qn_bytes *b, const char *s);
void qn_json_put_i64(struct qn_bytes *b, int64_t v);
void qn_json_put_bool(struct qn_bytes *b, bool v);
/** "xxxxxxxx-xxxx-..." with quotes. */
void qn_json_put_uuid(struct qn_bytes *b, const struct qn_uuid *u);
/** "YYYY-MM-DDTHH:MM:SS.ffffffZ" (6 digits) or .mmm (3 digits), with quotes. */
void qn_json_put_time_us(struct qn_bytes *b, int64_t at_us);
void qn_json_put_time_ms(struct qn_bytes *b, int64_t at_us);

#endif
