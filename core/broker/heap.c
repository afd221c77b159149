/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Due times of parked pops. A binary heap over pointers; every node carries its place so that it
 * can be moved or taken out in O(log n) when a wake-up comes first.
 */
#include "heap.h"

#include "../error.h"

#include <stdlib.h>

static void put(struct qn_heap *h, size_t i, struct qn_heap_node *node)
{
	h->nodes[i] = node;
	node->place = i + 1;
}

static void sift_up(struct qn_heap *h, size_t i)
{
	struct qn_heap_node *node = h->nodes[i];

	while (i > 0 && node->due_ms < h->nodes[(i - 1) / 2]->due_ms) {
		put(h, i, h->nodes[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	put(h, i, node);
}

static void sift_down(struct qn_heap *h, size_t i)
{
	struct qn_heap_node *node = h->nodes[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= h->count) {
			break;
		}
		if (child + 1 < h->count && h->nodes[child + 1]->due_ms < h->nodes[child]->due_ms) {
			child++;
		}
		if (h->nodes[child]->due_ms >= node->due_ms) {
			break;
		}
		put(h, i, h->nodes[child]);
		i = child;
	}
	put(h, i, node);
}

void qn_heap_set(struct qn_heap *h, struct qn_heap_node *node, uint64_t due_ms)
{
	qn_heap_remove(h, node);
	if (h->count == h->cap) {
		h->cap = h->cap == 0 ? 64 : h->cap * 2;
		h->nodes = realloc(h->nodes, h->cap * sizeof(struct qn_heap_node *));
		QN_ASSERT(h->nodes != NULL);
	}
	node->due_ms = due_ms;
	h->nodes[h->count] = node;
	h->count++;
	sift_up(h, h->count - 1);
}

void qn_heap_remove(struct qn_heap *h, struct qn_heap_node *node)
{
	size_t i;

	if (node->place == 0) {
		return;
	}
	i = node->place - 1;
	node->place = 0;
	h->count--;
	if (i == h->count) {
		return;
	}
	put(h, i, h->nodes[h->count]);
	if (i > 0 && h->nodes[i]->due_ms < h->nodes[(i - 1) / 2]->due_ms) {
		sift_up(h, i);
	} else {
		sift_down(h, i);
	}
}

struct qn_heap_node *qn_heap_first(const struct qn_heap *h)
{
	return h->count == 0 ? NULL : h->nodes[0];
}

void qn_heap_fini(struct qn_heap *h)
{
	free(h->nodes);
	*h = (struct qn_heap){0};
}
