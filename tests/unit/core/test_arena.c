/* SPDX-License-Identifier: Apache-2.0 */
/* Arena: alignment, sizes around the block border, cleanups in reverse order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"

#include <string.h>

static int order[8];
static size_t order_n;

static void note(void *arg)
{
	order[order_n++] = *(const int *)arg;
}

static void allocations_are_apart(void **state)
{
	static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 2040, 2048, 4096, 8176, 8192, 8193, 100000, 3};
	struct qn_arena *a = qn_arena_create();
	uint8_t *p[sizeof(sizes) / sizeof(sizes[0])];
	size_t total = 0;

	(void)state;
	for (size_t round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			p[i] = qn_arena_alloc(a, sizes[i]);
			assert_int_equal((uintptr_t)p[i] % 16, 0);
			memset(p[i], (int)i + 1, sizes[i]);
			total += sizes[i];
		}
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			for (size_t j = 0; j < sizes[i]; j++) {
				assert_int_equal(p[i][j], i + 1);
			}
		}
	}
	assert_int_equal(qn_arena_bytes(a), total);
	qn_arena_destroy(a);
}

static void zalloc_and_dup(void **state)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_span s;

	(void)state;
	memset(qn_arena_alloc(a, 64), 0xff, 64);
	for (size_t i = 0; i < 3000; i++) {
		assert_int_equal(*(const uint8_t *)qn_arena_zalloc(a, 1), 0);
	}
	s = qn_arena_dup(a, (struct qn_span){"ab\0c", 4});
	assert_int_equal(s.n, 4);
	assert_memory_equal(s.p, "ab\0c", 5);
	s = qn_arena_dup(a, (struct qn_span){NULL, 0});
	assert_int_equal(s.n, 0);
	assert_string_equal(s.p, "");
	qn_arena_destroy(a);
}

static void impossible_size(void **state)
{
	struct qn_arena *a = qn_arena_create();

	(void)state;
	assert_null(qn_arena_try_alloc(a, SIZE_MAX));
	assert_null(qn_arena_try_alloc(a, SIZE_MAX - 15));
	assert_null(qn_arena_try_alloc(a, SIZE_MAX / 2));
	assert_int_equal(qn_arena_bytes(a), 0);
	assert_non_null(qn_arena_try_alloc(a, 1));
	qn_arena_destroy(a);
}

static void cleanups_run_backwards(void **state)
{
	static const int numbers[] = {1, 2, 3};
	struct qn_arena *a = qn_arena_create();

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		qn_arena_defer(a, note, (void *)(uintptr_t)&numbers[i]);
	}
	assert_int_equal(order_n, 0);
	qn_arena_destroy(a);
	assert_int_equal(order_n, 3);
	assert_int_equal(order[0], 3);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 1);
	qn_arena_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_are_apart),
		cmocka_unit_test(zalloc_and_dup),
		cmocka_unit_test(impossible_size),
		cmocka_unit_test(cleanups_run_backwards),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
