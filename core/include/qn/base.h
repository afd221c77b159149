/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Vocabulary every header of the module ABI shares: byte ranges, identifiers, result codes, errors.
 *
 * Nothing here does I/O. Functions that may fail return 0 or a negative enum qn_code and take a
 * struct qn_error last; the first setter fills it.
 */
#ifndef QN_BASE_H
#define QN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_EXPORT    __attribute__((visibility("default")))
#define QN_MUST      __attribute__((warn_unused_result))
#define QN_FMT(a, b) __attribute__((format(printf, a, b)))

/** Bytes somebody else owns: valid for the call, or for as long as the owner documents. */
struct qn_span {
	const void *p;
	size_t n;
};

/** Bytes that change owner. The receiver calls free(p, ctx) once when free is not NULL. */
struct qn_buf {
	void *p;
	size_t n;
	void (*free)(void *p, void *ctx);
	void *ctx;
};

/** A UUID as its 16 bytes, most significant first. All zero is the nil UUID. */
struct qn_uuid {
	uint8_t b[16];
};

#define QN_SPAN_LIT(text) ((struct qn_span){(text), sizeof(text) - 1})

/** Result codes and the HTTP status the edge answers by default. One table, no synonyms. */
#define QN_CODES(X)          \
	X(OK, 0, 200)        \
	X(INVALID, -1, 400)  \
	X(DENIED, -2, 403)   \
	X(MISSING, -3, 404)  \
	X(CONFLICT, -4, 409) \
	X(TOO_BIG, -5, 413)  \
	X(LIMIT, -6, 429)    \
	X(TIMEOUT, -7, 504)  \
	X(CANCELED, -8, 499) \
	X(UNAVAIL, -9, 503)  \
	X(NOMEM, -10, 503)   \
	X(ABI, -11, 500)     \
	X(INTERNAL, -12, 500)

enum qn_code {
#define X(name, value, http) QN_##name = value,
	QN_CODES(X)
#undef X
};

/** What went wrong. Zeroed means no error. Text is one line without secrets or payload bytes. */
struct qn_error {
	int code;         /* enum qn_code */
	int sys;          /* errno or negative libuv code, 0 if none */
	char sqlstate[6]; /* "" if not from PostgreSQL */
	bool retryable;   /* the same call may succeed later; nothing is known to be stored */
	const char *file; /* static: __FILE__ of the first setter */
	int line;
	char msg[256];
};

#ifdef __cplusplus
}
#endif
#endif
