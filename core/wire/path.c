/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request targets: a path is split on '/' before anything is decoded and each segment decoded once,
 * so an encoded slash is part of a name; a query string is split on '&' and decoded as a form.
 */
#include "text.h"

#include "../arena.h"

#include <string.h>

static int hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/** NULL, or what is wrong. Text without escapes is returned in place. */
static const char *decode(struct qn_span in, bool form, struct qn_arena *a, struct qn_span *out)
{
	const uint8_t *p = in.p;
	uint8_t *to, *start;

	*out = in;
	if (in.n > 0 && (memchr(p, '%', in.n) != NULL || (form && memchr(p, '+', in.n) != NULL))) {
		start = qn_arena_alloc(a, in.n);
		to = start;
		for (size_t i = 0; i < in.n; i++) {
			if (p[i] == '%') {
				int hi = i + 2 < in.n ? hex_value(p[i + 1]) : -1;
				int lo = i + 2 < in.n ? hex_value(p[i + 2]) : -1;

				if (hi < 0 || lo < 0) {
					return "malformed percent escape";
				}
				*to++ = (uint8_t)(hi << 4 | lo);
				i += 2;
			} else {
				*to++ = form && p[i] == '+' ? ' ' : p[i];
			}
		}
		*out = (struct qn_span){start, (size_t)(to - start)};
	}
	if (out->n > 0 && memchr(out->p, '\0', out->n) != NULL) {
		return "NUL is not allowed";
	}
	return qn_utf8_valid(*out, NULL) ? NULL : "not valid UTF-8";
}

bool qn_path_split(struct qn_span raw, struct qn_arena *a, struct qn_path *out, const char **why)
{
	const char *p = raw.n == 0 ? "" : raw.p, *end = p + raw.n;

	out->count = 0;
	if (p < end && *p == '/') {
		p++;
	}
	for (;;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		const char *stop = slash == NULL ? end : slash;

		if (out->count == QN_PATH_SEGMENTS) {
			out->count++;
			return true;
		}
		*why = decode((struct qn_span){p, (size_t)(stop - p)}, false, a, &out->seg[out->count]);
		if (*why != NULL) {
			return false;
		}
		out->count++;
		if (slash == NULL) {
			return true;
		}
		p = slash + 1;
	}
}

static const char *parameter(struct qn_span piece, struct qn_arena *a, struct qn_param *out)
{
	const char *eq = memchr(piece.p, '=', piece.n);
	size_t n = eq == NULL ? piece.n : (size_t)(eq - (const char *)piece.p);
	const char *why = decode((struct qn_span){piece.p, n}, true, a, &out->name);

	out->value = (struct qn_span){"", 0};
	if (why == NULL && eq != NULL) {
		why = decode((struct qn_span){eq + 1, piece.n - n - 1}, true, a, &out->value);
	}
	return why;
}

bool qn_query_split(struct qn_span raw, struct qn_arena *a, struct qn_param **out, unsigned *count, const char **why)
{
	const char *p = raw.n == 0 ? "" : raw.p, *end = p + raw.n;
	size_t pieces = 1;

	*count = 0;
	*out = NULL;
	if (raw.n == 0) {
		return true;
	}
	for (const char *c = p; c < end; c++) {
		pieces += *c == '&' ? 1 : 0;
	}
	*out = qn_arena_alloc(a, pieces * sizeof(**out));
	while (p < end) {
		const char *amp = memchr(p, '&', (size_t)(end - p));
		const char *stop = amp == NULL ? end : amp;

		if (stop > p) {
			*why = parameter((struct qn_span){p, (size_t)(stop - p)}, a, &(*out)[*count]);
			if (*why != NULL) {
				return false;
			}
			(*count)++;
		}
		p = stop + 1;
	}
	return true;
}
