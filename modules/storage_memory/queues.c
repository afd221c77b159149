/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configure and delete: a queue's whole option set at once, and a queue with all below it.
 *
 * Options act at once on what is stored; leases that are out keep their expiry.
 */
#include "memory.h"

void qn_mem_configure(struct qn_mem *m, struct qn_configure_op *op)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &op->tenant, op->queue);

	if (q == NULL) {
		q = qn_mem_queue_create(m, &op->tenant, op->queue);
	}
	qn_mem_queue_set(m, q, &op->options);
	op->queue_id = q->id;
}

void qn_mem_delete(struct qn_mem *m, struct qn_delete_op *op)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &op->tenant, op->queue);

	op->existed = q != NULL;
	if (q != NULL) {
		qn_mem_queue_destroy(m, q);
	}
}
