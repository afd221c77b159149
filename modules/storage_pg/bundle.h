/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Calls about several lanes of different clients, where a lane that the database refuses must not
 * take the others with it: the bundle is tried whole, then lane by lane.
 */
#ifndef QN_PG_BUNDLE_H
#define QN_PG_BUNDLE_H

#include "pool.h"

struct qn_pg_bundle {
	enum qn_pg_statement_id statement;
	uint32_t (*count)(const struct qn_op *op);
	/** Parameters for lanes [first, first + n). */
	void (*encode)(struct qn_pg_params *p, const struct qn_op *op, uint32_t first, uint32_t n);
	/** The rows of those lanes. */
	void (*decode)(struct qn_pg_rows *r, struct qn_op *op, struct qn_pg_pool *pool, uint32_t first, uint32_t n);
	/** Lane i fails alone. */
	void (*fail)(struct qn_op *op, uint32_t i, const struct qn_error *e);
};

void qn_pg_bundle_submit(struct qn_pg_pool *pool, const struct qn_pg_bundle *b, struct qn_op *op);

#endif
