/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The head of an HTTP/1 request, read strictly: pure functions over bytes, no sockets.
 *
 * What two readers of one stream could understand differently is refused: two Content-Length or Host
 * headers, Content-Length beside Transfer-Encoding, bare LF, folded lines, space before the colon.
 */
#ifndef HTTP_H2O_H1_HEAD_H
#define HTTP_H2O_H1_HEAD_H

#include <qn/base.h>

/** Largest head in bytes, and the most header lines. Beyond either: 431. */
#define H1_HEAD_MAX    65536u
#define H1_HEADERS_MAX 100u

struct h1_header {
	struct qn_span name;  /* lower case */
	struct qn_span value; /* without white space around it */
};

struct h1_head {
	struct qn_span method;
	struct qn_span path; /* raw, starts with '/' */
	struct qn_span query;
	struct qn_span settings; /* value of HTTP2-Settings */
	uint64_t content_length;
	uint32_t header_count;
	uint16_t version; /* 0x100 or 0x101 */
	bool has_length, is_chunked;
	bool keep_alive;           /* what the client asked for, the version's default applied */
	bool wants_continue;       /* Expect: 100-continue */
	bool wants_h2c;            /* a complete and acceptable upgrade offer */
	struct h1_header *headers; /* [borrow] room for as many lines as h1_head_find() counted */
};

/**
 * Finds the end of the head that starts at p.
 * Returns its length, 0 when more bytes are needed, or a negative HTTP status with *why set (static).
 * *lines is the number of header lines of a complete head. from is where a former call stopped.
 */
int h1_head_find(const char *p, size_t n, size_t from, uint32_t *lines, const char **why);

/**
 * Reads a complete head, lower-casing header names in place; h->headers must be set. Spans of h point
 * into p. Returns 0, or a negative HTTP status (-400, -417, -431, -505) with *why set (static).
 */
int h1_head_parse(char *p, size_t n, struct h1_head *h, const char **why);

/** First header of that lower-case name, or NULL. */
const struct h1_header *h1_head_header(const struct h1_head *h, struct qn_span name);

#endif
