/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Just enough of HTTP/1.1 to read a broker's answers: Content-Length, chunked, 204, Connection: close.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void header_line(struct h1_parse *h, const char *line, size_t n)
{
	if (n > 15 && strncasecmp(line, "content-length:", 15) == 0) {
		h->content_length = strtoul(line + 15, NULL, 10);
	} else if (n > 18 && strncasecmp(line, "transfer-encoding:", 18) == 0) {
		h->chunked = true;
	} else if (n > 11 && strncasecmp(line, "connection:", 11) == 0) {
		h->close = memmem(line, n, "close", 5) != NULL;
	}
}

static int read_head(struct h1_parse *h, const struct buffer *in)
{
	const char *end = in->n < 4 ? NULL : memmem(in->p, in->n, "\r\n\r\n", 4);
	const char *line;

	if (end == NULL) {
		return 0;
	}
	if (strncmp(in->p, "HTTP/1.1 ", 9) != 0) {
		return -1;
	}
	h->status = (int)strtol(in->p + 9, NULL, 10);
	for (line = in->p; line < end;) {
		const char *eol = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);

		header_line(h, line, (size_t)(eol - line));
		line = eol + 2;
	}
	h->head_bytes = (size_t)(end + 4 - in->p);
	return 1;
}

static int read_chunks(const struct h1_parse *h, const struct buffer *in, struct buffer *out)
{
	const char *p = in->p + h->head_bytes, *end = in->p + in->n;

	out->n = 0;
	for (;;) {
		char *after;
		const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);
		size_t n;

		if (eol == NULL) {
			return 0;
		}
		n = strtoul(p, &after, 16);
		if (after == p) {
			return -1;
		}
		if ((size_t)(end - eol) < 2 + n + 2) {
			return 0;
		}
		if (n == 0) {
			return 1;
		}
		buffer_put(out, eol + 2, n);
		p = eol + 2 + n + 2;
	}
}

int h1_feed(struct h1_parse *h, const struct buffer *in, struct buffer *out)
{
	if (h->head_bytes == 0) {
		int r = read_head(h, in);

		if (r <= 0) {
			return r;
		}
	}
	if (h->chunked) {
		return read_chunks(h, in, out);
	}
	if (in->n - h->head_bytes < h->content_length) {
		return 0;
	}
	out->n = 0;
	buffer_put(out, in->p + h->head_bytes, h->content_length);
	return 1;
}
