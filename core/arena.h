/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bump allocator for memory that lives as long as one request, job or operation.
 *
 * One thread at a time; ownership of an arena may move between threads with the job that holds it.
 * Blocks of 8 KiB, larger requests get their own. With -Darena_debug=true every allocation is its
 * own malloc, so that the sanitizers see overruns.
 */
#ifndef QN_CORE_ARENA_H
#define QN_CORE_ARENA_H

#include <qn/base.h>

struct qn_arena;

struct qn_arena *qn_arena_create(void);
/** 16-byte aligned, not zeroed; aborts when out of memory. */
void *qn_arena_alloc(struct qn_arena *a, size_t n) __attribute__((returns_nonnull));
/** Zeroed. */
void *qn_arena_zalloc(struct qn_arena *a, size_t n) __attribute__((returns_nonnull));
/** NULL when out of memory: for sizes that input decides. */
void *qn_arena_try_alloc(struct qn_arena *a, size_t n);
/** A copy of the bytes, with a NUL behind it that n does not count. */
struct qn_span qn_arena_dup(struct qn_arena *a, struct qn_span s);
/** Runs fn(arg) at destroy, last registered first. */
void qn_arena_defer(struct qn_arena *a, void (*fn)(void *arg), void *arg);
/** Bytes handed out so far. */
size_t qn_arena_bytes(const struct qn_arena *a);
/** Accepts NULL. */
void qn_arena_destroy(struct qn_arena *a);

#endif
