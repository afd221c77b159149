/* SPDX-License-Identifier: Apache-2.0 */
/** Names, UTF-8, request paths and query strings: bytes in, verdict out. */
#ifndef QN_WIRE_TEXT_H
#define QN_WIRE_TEXT_H

#include <qn/base.h>

struct qn_arena;

/** True for valid UTF-8: no overlongs, no surrogates, at most U+10FFFF. *chars (may be NULL): code points. */
bool qn_utf8_valid(struct qn_span s, size_t *chars);

/** Length of the well-formed sequence of two or more bytes at p, of which n >= 1 are there; 0: none. */
size_t qn_utf8_sequence(const uint8_t *p, size_t n);

/** What is wrong with a name (decisions 7), or NULL: a phrase such as "longer than 255 characters". */
const char *qn_name_queue(struct qn_span s);       /* 0..255 characters */
const char *qn_name_partition(struct qn_span s);   /* 0..2048 bytes */
const char *qn_name_group(struct qn_span s);       /* 1..255 characters */
const char *qn_name_label(struct qn_span s);       /* namespace, task: 0..255 characters */
const char *qn_name_transaction(struct qn_span s); /* 0..65535 bytes */

#define QN_PATH_SEGMENTS 12

/** A raw path split on '/', each segment decoded once. "/a//b" has three segments: "a", "", "b". */
struct qn_path {
	struct qn_span seg[QN_PATH_SEGMENTS];
	unsigned count; /* more than QN_PATH_SEGMENTS: count is QN_PATH_SEGMENTS + 1 and matches no route */
};

/**
 * False for a malformed escape, %00 or bytes that are not UTF-8; *why says which. '+' stays a plus,
 * "." and ".." are plain names.
 */
bool qn_path_split(struct qn_span raw, struct qn_arena *a, struct qn_path *out, const char **why) QN_MUST;

struct qn_param {
	struct qn_span name, value;
};

/** Splits a query string: form decoding ('+' is a space, %XX); same errors as qn_path_split. */
bool qn_query_split(struct qn_span raw, struct qn_arena *a, struct qn_param **out, unsigned *count,
                    const char **why) QN_MUST;

/** Whole decimal numbers with an optional sign and nothing else. */
bool qn_parse_i64(struct qn_span s, int64_t *out) QN_MUST;
bool qn_parse_u64(struct qn_span s, uint64_t *out) QN_MUST;

static inline bool qn_span_eq(struct qn_span a, struct qn_span b)
{
	return a.n == b.n && (a.n == 0 || __builtin_memcmp(a.p, b.p, a.n) == 0);
}

#endif
