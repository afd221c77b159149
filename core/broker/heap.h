/* SPDX-License-Identifier: Apache-2.0 */
/** Binary min-heap of due times; nodes are owned by the caller and know their place. One thread. */
#ifndef QN_BROKER_HEAP_H
#define QN_BROKER_HEAP_H

#include <qn/base.h>

struct qn_heap_node {
	uint64_t due_ms;
	size_t place; /* index + 1; 0: in no heap */
};

/** Zeroed is a valid empty heap. */
struct qn_heap {
	struct qn_heap_node **nodes;
	size_t count, cap;
};

/** Inserts, or moves a node that is in the heap already. */
void qn_heap_set(struct qn_heap *h, struct qn_heap_node *node, uint64_t due_ms);
/** Accepts a node that is in no heap. */
void qn_heap_remove(struct qn_heap *h, struct qn_heap_node *node);
/** The earliest, or NULL. */
struct qn_heap_node *qn_heap_first(const struct qn_heap *h);
void qn_heap_fini(struct qn_heap *h);

#endif
