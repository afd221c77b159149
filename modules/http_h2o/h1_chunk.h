/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Decoder of the chunked transfer coding, byte for byte strict: a pure state machine.
 */
#ifndef HTTP_H2O_H1_CHUNK_H
#define HTTP_H2O_H1_CHUNK_H

#include <qn/base.h>

/** Longest size line with its extension, and all trailer lines together, in bytes. */
#define H1_CHUNK_LINE_MAX 4096u

struct h1_chunk {
	int state; /* 0 at the start of a body */
	uint32_t line_bytes;
	uint32_t digits;
	uint64_t left; /* data bytes of the current chunk still to come */
	bool is_done;
};

/**
 * Eats bytes from p until it can hand over one piece of data, the body ends or n is used up.
 * Returns the bytes eaten (*data points into p, n = 0 when none), or -1 for bad framing. Never eats
 * a byte behind the end of the body.
 */
long h1_chunk_step(struct h1_chunk *c, const char *p, size_t n, struct qn_span *data);

#endif
