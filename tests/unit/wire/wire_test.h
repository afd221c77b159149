/* SPDX-License-Identifier: Apache-2.0 */
/** What every test of the wire layer starts with. */
#ifndef QN_TEST_WIRE_TEST_H
#define QN_TEST_WIRE_TEST_H

#include <qn/base.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct qn_span text(const char *s)
{
	return (struct qn_span){s, strlen(s)};
}

/** A copy of exactly its size, so that a sanitizer sees a read beyond it. Freed with free(). */
static inline struct qn_span exact(const void *p, size_t n)
{
	void *copy = malloc(n == 0 ? 1 : n);

	assert_non_null(copy);
	if (n > 0) {
		memcpy(copy, p, n);
	}
	return (struct qn_span){copy, n};
}

static inline void free_span(struct qn_span s)
{
	union {
		const void *in;
		void *out;
	} u = {.in = s.p};

	free(u.out);
}

#define ASSERT_SPAN(s, lit)                                        \
	do {                                                       \
		struct qn_span got_ = (s);                         \
		assert_int_equal(got_.n, sizeof(lit) - 1);         \
		assert_memory_equal(got_.p, lit, sizeof(lit) - 1); \
	} while (0)

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

#endif
