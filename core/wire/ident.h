/* SPDX-License-Identifier: Apache-2.0 */
/** Identifiers: UUIDs, hashes of transaction ids, base64, timestamps. */
#ifndef QN_WIRE_IDENT_H
#define QN_WIRE_IDENT_H

#include <qn/base.h>

#define QN_UUID_TEXT 36

/* uuid7.c */
/** Ids of one thread sort in the order they were made, also within one millisecond; threads never collide. */
void qn_uuid7(struct qn_uuid *out);
/** Lower case, 36 bytes, no NUL. */
void qn_uuid_format(const struct qn_uuid *u, char out[QN_UUID_TEXT]);
/** Exactly 8-4-4-4-12 hex digits, any case. */
bool qn_uuid_parse(struct qn_span text, struct qn_uuid *out) QN_MUST;
/** As a trace id: dashes are ignored, any case, 32 hex digits. */
bool qn_uuid_parse_loose(struct qn_span text, struct qn_uuid *out) QN_MUST;
bool qn_uuid_is_nil(const struct qn_uuid *u);

/* hash128.c */
/** XXH3 128-bit, canonical big-endian. */
void qn_hash128(struct qn_span bytes, uint8_t out[16]);

/* base64.c */
size_t qn_base64_size(size_t n);
void qn_base64_encode(struct qn_span in, char *out);
/** Standard alphabet, padding required; *n is the decoded size. */
bool qn_base64_decode(struct qn_span in, uint8_t *out, size_t *n) QN_MUST;

/* time.c */
/** "YYYY-MM-DDTHH:MM:SS.ffffffZ" for digits 6, .mmm for 3; returns the length. out holds >= 40 bytes. */
size_t qn_time_format(int64_t at_us, int digits, char *out);
/**
 * ISO 8601 / RFC 3339: date, 'T' or space, time with optional seconds and fraction, optional Z or
 * +hh[:mm] (none: UTC); a bare date is midnight UTC; a bare number of 10..16 digits is epoch seconds,
 * milliseconds or microseconds by its length (<= 11, <= 14, else). Year 1..9999.
 */
bool qn_time_parse(struct qn_span text, int64_t *at_us) QN_MUST;

#endif
