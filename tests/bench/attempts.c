/* SPDX-License-Identifier: Apache-2.0 */
/* The book of transactions: one byte of marks for each, which only ever get more. */
#include "attempts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct attempts *a, size_t n)
{
	if (n <= a->cap) {
		return;
	}
	a->cap = n * 2 + 1024;
	a->marks = realloc(a->marks, a->cap);
	if (a->marks == NULL) {
		perror("realloc");
		exit(1);
	}
}

uint64_t attempts_add(struct attempts *a)
{
	reserve(a, a->n + 1);
	a->marks[a->n] = 0;
	return a->n++;
}

void attempts_mark(struct attempts *a, uint64_t attempt, enum attempt_mark mark)
{
	if (attempt >= a->n) {
		attempt = attempts_add(a);
		a->marks[attempt] = ATTEMPT_ROLLED_BACK;
	}
	a->marks[attempt] |= (uint8_t)mark;
}

uint64_t attempts_count(const struct attempts *a, enum attempt_mark mark)
{
	uint64_t n = 0;

	for (size_t i = 0; i < a->n; i++) {
		n += (a->marks[i] & mark) != 0;
	}
	return n;
}

uint64_t attempts_phantoms(const struct attempts *a)
{
	const uint8_t both = ATTEMPT_ROLLED_BACK | ATTEMPT_SEEN;
	uint64_t n = 0;

	for (size_t i = 0; i < a->n; i++) {
		n += (a->marks[i] & both) == both;
	}
	return n;
}

uint64_t attempts_missing(const struct attempts *a)
{
	uint64_t n = 0;

	for (size_t i = 0; i < a->n; i++) {
		n += (a->marks[i] & ATTEMPT_COMMITTED) != 0 && (a->marks[i] & ATTEMPT_SEEN) == 0;
	}
	return n;
}

void attempts_fini(struct attempts *a)
{
	free(a->marks);
	*a = (struct attempts){0};
}
