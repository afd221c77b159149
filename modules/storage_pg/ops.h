/* SPDX-License-Identifier: Apache-2.0 */
/** The operations of kind storage: each encodes its statement, reads its rows. Engine thread. */
#ifndef QN_PG_OPS_H
#define QN_PG_OPS_H

#include "pool.h"

#include <qn/storage.h>

/* op_push.c */
void qn_pg_push(struct qn_pg_pool *pool, struct qn_push_op *op);
/* op_hashes.c */
void qn_pg_hashes(struct qn_pg_pool *pool, struct qn_hashes_op *op);
/* op_claim.c */
void qn_pg_claim(struct qn_pg_pool *pool, struct qn_claim_op *op);
/* op_walk.c */
void qn_pg_walk(struct qn_pg_pool *pool, struct qn_walk_op *op);
/* op_settle.c */
void qn_pg_settle(struct qn_pg_pool *pool, struct qn_settle_op *op);
void qn_pg_dead_letter(struct qn_pg_pool *pool, struct qn_dead_letter_op *op);
/* op_transaction.c */
void qn_pg_transaction(struct qn_pg_pool *pool, struct qn_txn_op *op);
/* op_lease.c */
void qn_pg_fetch(struct qn_pg_pool *pool, struct qn_fetch_op *op);
void qn_pg_register(struct qn_pg_pool *pool, struct qn_register_op *op);
void qn_pg_extend(struct qn_pg_pool *pool, struct qn_extend_op *op);
void qn_pg_release(struct qn_pg_pool *pool, struct qn_release_op *op);
void qn_pg_ping(struct qn_pg_pool *pool, struct qn_ping_op *op);
/* op_queue.c */
void qn_pg_configure(struct qn_pg_pool *pool, struct qn_configure_op *op);
void qn_pg_delete(struct qn_pg_pool *pool, struct qn_delete_op *op);
void qn_pg_list(struct qn_pg_pool *pool, struct qn_list_op *op);
/* op_maintain.c */
void qn_pg_maintain(struct qn_pg_pool *pool, struct qn_maintain_op *op);
void qn_pg_sweep(struct qn_pg_pool *pool, struct qn_sweep_op *op);

/** An array parameter of n elements; `value` is an expression over the index i. */
#define QN_PG_EACH(p, type, elem, n, value)          \
	do {                                         \
		qn_pg_array((p), (type), (n));       \
		for (uint32_t i = 0; i < (n); i++) { \
			elem((p), (value));          \
		}                                    \
	} while (0)

#define QN_PG_CONTAINER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#endif
