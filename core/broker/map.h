/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Intrusive hash map: chained buckets that double, nodes owned by the caller. One thread.
 *
 * Keys are whatever the caller's equality says; hashes come from qn_key_hash(), which is seeded per
 * process so that clients cannot choose collisions.
 */
#ifndef QN_BROKER_MAP_H
#define QN_BROKER_MAP_H

#include <qn/base.h>

struct qn_map_node {
	struct qn_map_node *next;
	uint64_t hash;
};

/** Zeroed is a valid empty map. */
struct qn_map {
	struct qn_map_node **buckets;
	size_t mask, count;
};

typedef bool qn_map_eq_fn(const struct qn_map_node *node, const void *key);

struct qn_map_node *qn_map_find(const struct qn_map *m, uint64_t hash, qn_map_eq_fn *eq, const void *key);
/** The node must not be in the map. */
void qn_map_insert(struct qn_map *m, struct qn_map_node *node, uint64_t hash);
void qn_map_remove(struct qn_map *m, struct qn_map_node *node);
/** Calls fn for every node; fn may remove (and free) the node it is given. */
void qn_map_each(struct qn_map *m, void (*fn)(struct qn_map_node *node, void *arg), void *arg);
/** Frees the buckets, not the nodes. */
void qn_map_fini(struct qn_map *m);

/** Hash over several parts; where one part ends is part of the key. */
uint64_t qn_key_hash(const struct qn_span *parts, size_t count);
/** Copies a part to *at, which moves behind it; the span returned is the copy. */
struct qn_span qn_key_copy(char **at, struct qn_span s);

#endif
