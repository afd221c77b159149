/* SPDX-License-Identifier: Apache-2.0 */
/** Chained hash table of nodes that live inside the objects they index. Zeroed is a valid empty table. */
#ifndef QN_MEM_TABLE_H
#define QN_MEM_TABLE_H

#include <qn/host.h>

struct qn_mem_node {
	struct qn_mem_node *next;
	uint64_t hash;
};

struct qn_mem_table {
	struct qn_mem_node **buckets;
	size_t bucket_count; /* power of two, or 0 */
	size_t count;
	size_t first; /* buckets below it are empty */
};

typedef bool qn_mem_eq_fn(const struct qn_mem_node *node, const void *key);

#define QN_MEM_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct qn_mem_node *qn_mem_table_find(const struct qn_mem_table *t, uint64_t hash, qn_mem_eq_fn *eq, const void *key);
/** The node must not be in a table. */
void qn_mem_table_insert(struct qn_mem_table *t, const struct qn_host *h, struct qn_mem_node *node, uint64_t hash);
void qn_mem_table_remove(struct qn_mem_table *t, struct qn_mem_node *node);
/** Any order; NULL begins and ends the walk. The table must not change during it. */
struct qn_mem_node *qn_mem_table_next(const struct qn_mem_table *t, const struct qn_mem_node *node);
/** Takes out some node, or NULL when empty: for emptying a table. */
struct qn_mem_node *qn_mem_table_pop(struct qn_mem_table *t);
/** Frees the buckets, not the nodes. */
void qn_mem_table_fini(struct qn_mem_table *t, const struct qn_host *h);

#endif
