/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's map and heap, against plain models of what they must hold. */
#include "../../../core/broker/heap.h"
#include "../../../core/broker/list.h"
#include "../../../core/broker/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 5000

struct entry {
	struct qn_map_node node;
	struct qn_heap_node due;
	uint32_t key;
};

static bool eq(const struct qn_map_node *node, const void *key)
{
	return QN_CONTAINER(node, const struct entry, node)->key == *(const uint32_t *)key;
}

static uint64_t hash(const uint32_t *key)
{
	const struct qn_span part = {key, sizeof(*key)};

	return qn_key_hash(&part, 1);
}

static void map_finds_what_is_in_it(void **state)
{
	static struct entry e[NODES];
	struct qn_map m = {0};

	(void)state;
	for (uint32_t i = 0; i < NODES; i++) {
		e[i].key = i;
		assert_null(qn_map_find(&m, hash(&i), eq, &i));
		qn_map_insert(&m, &e[i].node, hash(&i));
	}
	for (uint32_t i = 0; i < NODES; i += 2) {
		qn_map_remove(&m, &e[i].node);
	}
	assert_int_equal(m.count, NODES / 2);
	for (uint32_t i = 0; i < NODES; i++) {
		assert_ptr_equal(qn_map_find(&m, hash(&i), eq, &i), i % 2 == 0 ? NULL : &e[i].node);
	}
	qn_map_fini(&m);
}

static void remove_it(struct qn_map_node *node, void *arg)
{
	qn_map_remove(arg, node);
}

static void map_may_be_emptied_while_walked(void **state)
{
	static struct entry e[100];
	struct qn_map m = {0};

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		e[i].key = i;
		qn_map_insert(&m, &e[i].node, hash(&i));
	}
	qn_map_each(&m, remove_it, &m);
	assert_int_equal(m.count, 0);
	qn_map_fini(&m);
}

static void part_borders_are_part_of_the_key(void **state)
{
	const struct qn_span a[] = {{"ab", 2}, {"c", 1}}, b[] = {{"a", 1}, {"bc", 2}};

	(void)state;
	assert_int_not_equal(qn_key_hash(a, 2), qn_key_hash(b, 2));
}

static void heap_gives_the_earliest(void **state)
{
	static struct entry e[NODES];
	struct qn_heap h = {0};
	uint64_t last = 0;
	size_t seen = 0;

	(void)state;
	srand(7);
	for (uint32_t i = 0; i < NODES; i++) {
		qn_heap_set(&h, &e[i].due, (uint64_t)rand() % 1000);
	}
	for (uint32_t i = 0; i < NODES; i += 3) {
		qn_heap_remove(&h, &e[i].due);
		qn_heap_remove(&h, &e[i].due);
	}
	for (uint32_t i = 1; i < NODES; i += 3) {
		qn_heap_set(&h, &e[i].due, (uint64_t)rand() % 1000);
	}
	for (struct qn_heap_node *n = qn_heap_first(&h); n != NULL; n = qn_heap_first(&h)) {
		assert_true(n->due_ms >= last);
		last = n->due_ms;
		qn_heap_remove(&h, n);
		assert_int_equal(n->place, 0);
		seen++;
	}
	assert_int_equal(seen, NODES - (NODES + 2) / 3);
	qn_heap_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_finds_what_is_in_it),
		cmocka_unit_test(map_may_be_emptied_while_walked),
		cmocka_unit_test(part_borders_are_part_of_the_key),
		cmocka_unit_test(heap_gives_the_earliest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
