/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bump allocator: blocks of 8 KiB, larger requests in blocks of their own, cleanups in reverse order.
 *
 * The first block is part of the arena, so a small request costs one malloc. Memory is never given
 * back before destroy. Cleanup records live in the arena too. With QN_ARENA_DEBUG every allocation
 * gets a block of exactly its size, so that the sanitizers see each overrun.
 */
#include "arena.h"

#include "error.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN      16
#define BLOCK_SIZE 8192
#define BLOCK_MAX  (SIZE_MAX / 4)

struct block {
	alignas(ALIGN) struct block *next;
};

struct cleanup {
	struct cleanup *next;
	void (*fn)(void *arg);
	void *arg;
};

struct qn_arena {
	struct block *blocks;
	struct cleanup *cleanups;
	uint8_t *at;
	size_t left, bytes;
};

static void *block_add(struct qn_arena *a, size_t n)
{
	struct block *b = n > BLOCK_MAX ? NULL : malloc(sizeof(*b) + n);

	if (b == NULL) {
		return NULL;
	}
	b->next = a->blocks;
	a->blocks = b;
	return b + 1;
}

#ifdef QN_ARENA_DEBUG
struct qn_arena *qn_arena_create(void)
{
	struct qn_arena *a = calloc(1, sizeof(*a));

	QN_ASSERT(a != NULL);
	return a;
}

void *qn_arena_try_alloc(struct qn_arena *a, size_t n)
{
	void *p = block_add(a, n);

	a->bytes += p != NULL ? n : 0;
	return p;
}
#else
#define ARENA_HEAD ((sizeof(struct qn_arena) + ALIGN - 1) / ALIGN * ALIGN)

struct qn_arena *qn_arena_create(void)
{
	struct qn_arena *a = malloc(BLOCK_SIZE);

	QN_ASSERT(a != NULL);
	memset(a, 0, sizeof(*a));
	a->at = (uint8_t *)a + ARENA_HEAD;
	a->left = BLOCK_SIZE - ARENA_HEAD;
	return a;
}

void *qn_arena_try_alloc(struct qn_arena *a, size_t n)
{
	size_t need = n > BLOCK_MAX ? n : (n + ALIGN - 1) / ALIGN * ALIGN;
	uint8_t *p;

	if (need > a->left) {
		bool own = need > (BLOCK_SIZE - sizeof(struct block)) / 4;

		p = block_add(a, own ? need : BLOCK_SIZE - sizeof(struct block));
		if (p == NULL) {
			return NULL;
		}
		if (own) {
			a->bytes += n;
			return p;
		}
		a->at = p;
		a->left = BLOCK_SIZE - sizeof(struct block);
	}
	p = a->at;
	a->at += need;
	a->left -= need;
	a->bytes += n;
	return p;
}
#endif

void *qn_arena_alloc(struct qn_arena *a, size_t n)
{
	void *p = qn_arena_try_alloc(a, n);

	QN_ASSERT(p != NULL);
	return p;
}

void *qn_arena_zalloc(struct qn_arena *a, size_t n)
{
	return memset(qn_arena_alloc(a, n), 0, n);
}

struct qn_span qn_arena_dup(struct qn_arena *a, struct qn_span s)
{
	char *p = qn_arena_alloc(a, s.n + 1);

	if (s.n > 0) {
		memcpy(p, s.p, s.n);
	}
	p[s.n] = '\0';
	return (struct qn_span){p, s.n};
}

void qn_arena_defer(struct qn_arena *a, void (*fn)(void *arg), void *arg)
{
	struct cleanup *c = qn_arena_alloc(a, sizeof(*c));

	c->fn = fn;
	c->arg = arg;
	c->next = a->cleanups;
	a->cleanups = c;
}

size_t qn_arena_bytes(const struct qn_arena *a)
{
	return a->bytes;
}

void qn_arena_destroy(struct qn_arena *a)
{
	if (a == NULL) {
		return;
	}
	/* A cleanup may register another one. */
	while (a->cleanups != NULL) {
		struct cleanup *c = a->cleanups;

		a->cleanups = c->next;
		c->fn(c->arg);
	}
	while (a->blocks != NULL) {
		struct block *b = a->blocks;

		a->blocks = b->next;
		free(b);
	}
	free(a);
}
