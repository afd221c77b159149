/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk: a page of a queue's lanes by ascending id, and which of them hold messages for a group. Lanes
 * are kept by hash, so every page sorts the ids above its key.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
	const struct qn_mem_lane *const *x = a, *const *y = b;

	return memcmp(&(*x)->id, &(*y)->id, sizeof((*x)->id));
}

static bool has_work(struct qn_mem *m, const struct qn_mem_lane *l, const struct qn_walk_op *op)
{
	const struct qn_mem_cursor *c = qn_mem_cursor_find(m, l, op->group);

	return l->newest_at_us >= op->written_since_us - QN_MEM_SECOND_US &&
	       l->last_offset > (c == NULL ? -1 : c->committed);
}

void qn_mem_walk(struct qn_mem *m, struct qn_walk_op *op)
{
	struct qn_mem_queue *q = qn_mem_queue_find(m, &op->tenant, op->queue);
	struct qn_mem_lane **lanes;
	size_t n = 0, page;

	op->lane_count = 0;
	op->lanes = NULL;
	op->next_id = (struct qn_uuid){{0}};
	op->last = true;
	if (q == NULL || q->lanes.count == 0) {
		return;
	}
	lanes = m->host->arena_alloc(op->op.arena, q->lanes.count * sizeof(struct qn_mem_lane *));
	for (struct qn_mem_node *node = qn_mem_table_next(&q->lanes, NULL); node != NULL;
	     node = qn_mem_table_next(&q->lanes, node)) {
		lanes[n] = QN_MEM_OF(node, struct qn_mem_lane, by_name);
		n += memcmp(&lanes[n]->id, &op->after_id, sizeof(op->after_id)) > 0 ? 1 : 0;
	}
	qsort(lanes, n, sizeof(lanes[0]), by_id);
	page = n < op->limit ? n : op->limit;
	op->last = n < op->limit;
	op->lanes = m->host->arena_alloc(op->op.arena, (page + 1) * sizeof(*op->lanes));
	for (size_t i = 0; i < page; i++) {
		op->next_id = lanes[i]->id;
		if (has_work(m, lanes[i], op)) {
			op->lanes[op->lane_count] = lanes[i]->id;
			op->lane_count++;
		}
	}
}
