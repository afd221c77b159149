/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer for requests and responses of the load generator. */
#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct buffer *b, size_t n)
{
	if (b->n + n + 1 > b->cap) {
		b->cap = (b->n + n + 1) * 2;
		b->p = realloc(b->p, b->cap);
		if (b->p == NULL) {
			perror("realloc");
			exit(1);
		}
	}
}

void buffer_put(struct buffer *b, const void *p, size_t n)
{
	reserve(b, n);
	memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
}

void buffer_fmt(struct buffer *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	reserve(b, 256);
	va_start(ap, fmt);
	n = vsnprintf(b->p + b->n, b->cap - b->n, fmt, ap);
	va_end(ap);
	if ((size_t)n >= b->cap - b->n) {
		reserve(b, (size_t)n);
		va_start(ap, fmt);
		n = vsnprintf(b->p + b->n, b->cap - b->n, fmt, ap);
		va_end(ap);
	}
	b->n += (size_t)n;
}

void buffer_fini(struct buffer *b)
{
	free(b->p);
	*b = (struct buffer){0};
}
