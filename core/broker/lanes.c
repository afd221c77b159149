/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes with something to store: a map by name, and each lane's queue of items.
 *
 * A lane exists here while it has items waiting or is in flight; it is in push_ready while it has
 * items and is not in flight. What is done with the items is push.c's and seal.c's.
 */
#include "flush.h"

#include "../error.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

struct lane_key {
	const struct qn_uuid *tenant;
	struct qn_span queue, partition;
};

uint64_t qn_lane_hash(const struct qn_uuid *tenant, struct qn_span queue, struct qn_span partition)
{
	const struct qn_span parts[] = {{tenant->b, sizeof(tenant->b)}, queue, partition};

	return qn_key_hash(parts, 3);
}

static bool lane_eq(const struct qn_map_node *node, const void *key)
{
	const struct qn_push_queue *l = QN_CONTAINER(node, const struct qn_push_queue, node);
	const struct lane_key *k = key;

	return qn_span_eq(l->partition, k->partition) && qn_span_eq(l->queue, k->queue) &&
	       memcmp(&l->tenant, k->tenant, sizeof(l->tenant)) == 0;
}

static struct qn_push_queue *lane_get(struct qn_broker *b, const struct qn_push_group *g)
{
	const struct lane_key k = {&g->tenant, g->queue, g->partition};
	uint64_t hash = qn_lane_hash(&g->tenant, g->queue, g->partition);
	struct qn_map_node *node = qn_map_find(&b->push_lanes, hash, lane_eq, &k);
	struct qn_push_queue *l;

	if (node != NULL) {
		return QN_CONTAINER(node, struct qn_push_queue, node);
	}
	l = calloc(1, sizeof(*l) + g->queue.n + g->partition.n);
	QN_ASSERT(l != NULL);
	l->tenant = g->tenant;
	l->id = qn_lane_id_get(b, hash);
	memcpy(l->names, g->queue.p, g->queue.n);
	memcpy(l->names + g->queue.n, g->partition.p, g->partition.n);
	l->queue = (struct qn_span){l->names, g->queue.n};
	l->partition = (struct qn_span){l->names + g->queue.n, g->partition.n};
	qn_map_insert(&b->push_lanes, &l->node, hash);
	return l;
}

void qn_lane_settle(struct qn_broker *b, struct qn_push_queue *l)
{
	if (l->in_flight) {
		return;
	}
	if (l->first != NULL) {
		if (!qn_list_linked(&l->link)) {
			qn_list_push_back(&b->push_ready, &l->link);
		}
		return;
	}
	qn_map_remove(&b->push_lanes, &l->node);
	free(l);
}

static void lane_append(struct qn_push_queue *l, struct qn_push_item *first, struct qn_push_item *last)
{
	if (l->first == NULL) {
		l->first = first;
	} else {
		l->last->next = first;
	}
	l->last = last;
}

void qn_lane_prepend(struct qn_push_queue *l, struct qn_push_item *first, struct qn_push_item *last)
{
	last->next = l->first;
	l->first = first;
	if (last->next == NULL) {
		l->last = last;
	}
}

void qn_lane_enter(struct qn_broker *b, const struct qn_push_group *g)
{
	struct qn_push_queue *l = lane_get(b, g);

	lane_append(l, g->first, g->last);
	qn_lane_settle(b, l);
}
