/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growable buffer behind every rendered answer. Growth doubles; a failed growth, or one beyond
 * the maximum, makes the buffer inert instead of making every caller check.
 */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 512

static bool make_room(struct qn_bytes *b, size_t n)
{
	size_t cap = b->cap == 0 ? FIRST_CAP : b->cap;
	uint8_t *p;

	if (b->failed || n > SIZE_MAX / 4 - b->n || (b->max > 0 && b->n + n > b->max)) {
		b->failed = true;
		return false;
	}
	if (b->n + n <= b->cap && b->cap > 0) {
		return true;
	}
	while (cap < b->n + n) {
		cap *= 2;
	}
	if (b->max > 0 && cap > b->max) {
		cap = b->max;
	}
	p = realloc(b->p, cap);
	if (p == NULL) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void qn_bytes_put(struct qn_bytes *b, const void *p, size_t n)
{
	if (n > 0 && make_room(b, n)) {
		memcpy(b->p + b->n, p, n);
		b->n += n;
	}
}

void *qn_bytes_grow(struct qn_bytes *b, size_t n)
{
	void *at;

	if (!make_room(b, n)) {
		return NULL;
	}
	at = b->p + b->n;
	b->n += n;
	return at;
}

void qn_bytes_reserve(struct qn_bytes *b, size_t n)
{
	(void)make_room(b, n);
}

void qn_bytes_fini(struct qn_bytes *b)
{
	free(b->p);
	*b = (struct qn_bytes){.max = b->max};
}

static void free_bytes(void *p, void *ctx)
{
	(void)ctx;
	free(p);
}

struct qn_buf qn_bytes_take(struct qn_bytes *b)
{
	struct qn_buf out = {b->p, b->n, free_bytes, NULL};

	*b = (struct qn_bytes){.max = b->max};
	return out;
}
