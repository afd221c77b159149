/* SPDX-License-Identifier: Apache-2.0 */
/** A host for the cache alone: a clock the test moves, and an allocator that counts what malloc really takes. */
#ifndef QN_DC_TEST_HOST_H
#define QN_DC_TEST_HOST_H

#include "cache.h"

#include <malloc.h>
#include <stdlib.h>

static uint64_t th_mono_ms = 1000000;
static size_t th_bytes, th_most;

static uint64_t th_mono(void)
{
	return th_mono_ms;
}

static void *th_alloc(size_t n)
{
	void *p = malloc(n);

	th_bytes += p == NULL ? 0 : malloc_usable_size(p) + sizeof(size_t);
	th_most = th_bytes > th_most ? th_bytes : th_most;
	return p;
}

static void th_free(void *p)
{
	th_bytes -= p == NULL ? 0 : malloc_usable_size(p) + sizeof(size_t);
	free(p);
}

static int th_error(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...)
{
	(void)file, (void)line, (void)fmt;
	e->code = code;
	return code;
}

static const struct qn_host th_host = {.try_alloc = th_alloc, .free = th_free, .mono_ms = th_mono, .error = th_error};

/** Hash number n; spread as a real one. */
static inline void th_hash(uint64_t n, uint8_t out[QN_HASH_BYTES])
{
	for (int half = 0; half < 2; half++) {
		uint64_t x = (n * 2 + (uint64_t)half) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x1234567);

		x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
		x ^= x >> 31;
		__builtin_memcpy(out + half * 8, &x, sizeof(x));
	}
}

/** Id of lane n. */
static inline struct qn_uuid th_lane(uint64_t n)
{
	struct qn_uuid id = {{0}};

	th_hash(n + (UINT64_C(1) << 50), id.b);
	return id;
}

#endif
