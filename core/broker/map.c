/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's hash map. Buckets double when the map holds more nodes than buckets and never
 * shrink; nodes stay where the caller put them. No iteration order is promised.
 */
#include "map.h"

#include "../error.h"
#include "../thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define FIRST_BUCKETS 64

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed;

static void make_seed(void)
{
	qn_random(&seed, sizeof(seed));
}

struct qn_map_node *qn_map_find(const struct qn_map *m, uint64_t hash, qn_map_eq_fn *eq, const void *key)
{
	if (m->buckets == NULL) {
		return NULL;
	}
	for (struct qn_map_node *n = m->buckets[hash & m->mask]; n != NULL; n = n->next) {
		if (n->hash == hash && eq(n, key)) {
			return n;
		}
	}
	return NULL;
}

static void rehash(struct qn_map *m, size_t buckets)
{
	struct qn_map_node **fresh = calloc(buckets, sizeof(struct qn_map_node *));

	QN_ASSERT(fresh != NULL);
	for (size_t i = 0; m->buckets != NULL && i <= m->mask; i++) {
		struct qn_map_node *n = m->buckets[i];

		while (n != NULL) {
			struct qn_map_node *next = n->next;
			struct qn_map_node **slot = &fresh[n->hash & (buckets - 1)];

			n->next = *slot;
			*slot = n;
			n = next;
		}
	}
	free(m->buckets);
	m->buckets = fresh;
	m->mask = buckets - 1;
}

void qn_map_insert(struct qn_map *m, struct qn_map_node *node, uint64_t hash)
{
	if (m->buckets == NULL) {
		rehash(m, FIRST_BUCKETS);
	} else if (m->count > m->mask) {
		rehash(m, (m->mask + 1) * 2);
	}
	node->hash = hash;
	node->next = m->buckets[hash & m->mask];
	m->buckets[hash & m->mask] = node;
	m->count++;
}

void qn_map_remove(struct qn_map *m, struct qn_map_node *node)
{
	struct qn_map_node **at = &m->buckets[node->hash & m->mask];

	while (*at != node) {
		QN_ASSERT(*at != NULL);
		at = &(*at)->next;
	}
	*at = node->next;
	node->next = NULL;
	m->count--;
}

void qn_map_each(struct qn_map *m, void (*fn)(struct qn_map_node *node, void *arg), void *arg)
{
	for (size_t i = 0; m->buckets != NULL && i <= m->mask; i++) {
		struct qn_map_node *n = m->buckets[i];

		while (n != NULL) {
			struct qn_map_node *next = n->next;

			fn(n, arg);
			n = next;
		}
	}
}

void qn_map_fini(struct qn_map *m)
{
	free(m->buckets);
	*m = (struct qn_map){0};
}

uint64_t qn_key_hash(const struct qn_span *parts, size_t count)
{
	uint64_t h;

	pthread_once(&seed_once, make_seed);
	h = seed;
	for (size_t i = 0; i < count; i++) {
		h = XXH3_64bits_withSeed(parts[i].p, parts[i].n, h + parts[i].n);
	}
	return h;
}

struct qn_span qn_key_copy(char **at, struct qn_span s)
{
	struct qn_span out = {*at, s.n};

	if (s.n > 0) {
		memcpy(*at, s.p, s.n);
	}
	*at += s.n;
	return out;
}
