/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Strict JSON pull scanner over bytes in place: no tree, no copies but of escaped strings.
 *
 * Validates everything it passes over: grammar of RFC 8259, UTF-8 (no overlongs, no surrogate
 * bytes), no raw control bytes in strings, no trailing text. Lone surrogate escapes (\ud83d) are
 * legal JSON text and pass inside skipped values. Nesting is bounded only by QN_JSON_DEPTH_MAX and
 * needs no recursion.
 *
 * On the first error `error` is set to a short text and `at` to the offset; every call after it
 * returns false. Messages are stable: qn_json_error() prints "<text> at line L column C".
 */
#ifndef QN_WIRE_JSON_SCAN_H
#define QN_WIRE_JSON_SCAN_H

#include <qn/base.h>

#define QN_JSON_DEPTH_MAX 100000

struct qn_arena;

enum qn_json_type {
	QN_JSON_ERROR, /* also: end of input where a value must stand */
	QN_JSON_NULL,
	QN_JSON_BOOL,
	QN_JSON_NUMBER,
	QN_JSON_STRING,
	QN_JSON_ARRAY,
	QN_JSON_OBJECT,
};

struct qn_json {
	const uint8_t *start, *p, *end;
	const char *error;
	size_t at;
	bool first; /* no element of the innermost container was read yet */
};

void qn_json_init(struct qn_json *j, struct qn_span text);
/** Type of the value that comes next, white space skipped; consumes nothing else. */
enum qn_json_type qn_json_peek(struct qn_json *j);
/** Validates and passes over one whole value; *raw is its exact bytes, without surrounding space. */
bool qn_json_skip(struct qn_json *j, struct qn_span *raw) QN_MUST;
/**
 * One string, unescaped: a slice of the text, or a copy in the arena when it holds escapes. A lone
 * surrogate escape is an error here, since the result must be UTF-8.
 */
bool qn_json_string(struct qn_json *j, struct qn_arena *a, struct qn_span *out) QN_MUST;
bool qn_json_bool(struct qn_json *j, bool *out) QN_MUST;
bool qn_json_null(struct qn_json *j) QN_MUST;
/** A number that is a whole int64 in plain notation; else an error "integer expected". */
bool qn_json_i64(struct qn_json *j, int64_t *out) QN_MUST;

/**
 * Object: enter, then while (next) read exactly one value per key. next returns false at the end or
 * on error: check j->error. Keys are unescaped as qn_json_string.
 */
bool qn_json_enter_object(struct qn_json *j) QN_MUST;
bool qn_json_next_key(struct qn_json *j, struct qn_arena *a, struct qn_span *key) QN_MUST;
/** Array: enter, then while (next) read exactly one value. */
bool qn_json_enter_array(struct qn_json *j) QN_MUST;
bool qn_json_next_item(struct qn_json *j) QN_MUST;
/** True when only white space is left and there was no error. */
bool qn_json_end(struct qn_json *j) QN_MUST;

/**
 * Passes over one string: *p is at its opening quote, then behind its closing one. Returns NULL, or
 * what is wrong at *p. *escaped: it holds escapes. The lexer below the functions above.
 */
const char *qn_json_lex_string(const uint8_t **p, const uint8_t *end, bool *escaped);
/** Likewise for a number or one of the words true, false, null. */
const char *qn_json_lex_scalar(const uint8_t **p, const uint8_t *end);

/** Sets a caller's own error at the current position unless one is set; returns false. */
bool qn_json_fail(struct qn_json *j, const char *text);
/** "<text> at line L column C"; returns out. */
const char *qn_json_error(const struct qn_json *j, char *out, size_t n);

#endif
