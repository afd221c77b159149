/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table everything in this module is found by.
 *
 * Buckets double when there are more nodes than buckets, and start at four, since most tables (the
 * cursors of one lane) stay tiny. Nodes are never copied or freed here.
 */
#include "table.h"

#include <string.h>

#define BUCKETS_MIN 4

struct qn_mem_node *qn_mem_table_find(const struct qn_mem_table *t, uint64_t hash, qn_mem_eq_fn *eq, const void *key)
{
	struct qn_mem_node *node;

	if (t->count == 0) {
		return NULL;
	}
	node = t->buckets[hash & (t->bucket_count - 1)];
	while (node != NULL && (node->hash != hash || !eq(node, key))) {
		node = node->next;
	}
	return node;
}

static void link_node(struct qn_mem_table *t, struct qn_mem_node *node)
{
	size_t at = node->hash & (t->bucket_count - 1);

	node->next = t->buckets[at];
	t->buckets[at] = node;
	t->first = at < t->first ? at : t->first;
}

static void grow(struct qn_mem_table *t, const struct qn_host *h)
{
	struct qn_mem_table old = *t;

	t->bucket_count = old.bucket_count == 0 ? BUCKETS_MIN : old.bucket_count * 2;
	t->buckets = h->alloc(t->bucket_count * sizeof(struct qn_mem_node *));
	t->first = t->bucket_count;
	for (size_t i = 0; i < old.bucket_count; i++) {
		while (old.buckets[i] != NULL) {
			struct qn_mem_node *node = old.buckets[i];

			old.buckets[i] = node->next;
			link_node(t, node);
		}
	}
	h->free(old.buckets);
}

void qn_mem_table_insert(struct qn_mem_table *t, const struct qn_host *h, struct qn_mem_node *node, uint64_t hash)
{
	if (t->count >= t->bucket_count) {
		grow(t, h);
	}
	node->hash = hash;
	link_node(t, node);
	t->count++;
}

void qn_mem_table_remove(struct qn_mem_table *t, struct qn_mem_node *node)
{
	struct qn_mem_node **at = &t->buckets[node->hash & (t->bucket_count - 1)];

	while (*at != node) {
		at = &(*at)->next;
	}
	*at = node->next;
	t->count--;
}

static struct qn_mem_node *first_from(const struct qn_mem_table *t, size_t bucket)
{
	while (bucket < t->bucket_count && t->buckets[bucket] == NULL) {
		bucket++;
	}
	return bucket < t->bucket_count ? t->buckets[bucket] : NULL;
}

struct qn_mem_node *qn_mem_table_next(const struct qn_mem_table *t, const struct qn_mem_node *node)
{
	if (node == NULL) {
		return first_from(t, t->first);
	}
	return node->next != NULL ? node->next : first_from(t, (node->hash & (t->bucket_count - 1)) + 1);
}

struct qn_mem_node *qn_mem_table_pop(struct qn_mem_table *t)
{
	struct qn_mem_node *node = first_from(t, t->first);

	if (node != NULL) {
		/* Emptying a table visits each bucket once. */
		t->first = node->hash & (t->bucket_count - 1);
		qn_mem_table_remove(t, node);
	}
	return node;
}

void qn_mem_table_fini(struct qn_mem_table *t, const struct qn_host *h)
{
	h->free(t->buckets);
	*t = (struct qn_mem_table){0};
}
