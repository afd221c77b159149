/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lanes a lease was granted on, for those this broker granted: extending one then looks at
 * these lanes instead of at every cursor there is.
 *
 * A lease id is granted once and its lanes never change, so an entry is never wrong; a lease that is
 * not here, because another broker granted it or memory ran out, costs the search. Whether a lease
 * still lives is the storage's to judge. Bounded in bytes: what has been acknowledged goes first,
 * then what was granted longest ago.
 */
#include "internal.h"

#include "../error.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define LEASES_MAX_BYTES (32u << 20)

struct lease {
	struct qn_map_node node;
	struct qn_list link; /* in b->leases_by_age */
	struct qn_uuid tenant;
	struct qn_span id, group;
	size_t bytes;
	uint32_t live; /* lanes not yet acknowledged */
	uint32_t count;
	struct qn_uuid lanes[];
};

struct lease_key {
	const struct qn_uuid *tenant;
	struct qn_span id;
};

static uint64_t key_hash(const struct lease_key *k)
{
	const struct qn_span parts[] = {{k->tenant->b, sizeof(k->tenant->b)}, k->id};

	return qn_key_hash(parts, 2);
}

static bool key_eq(const struct qn_map_node *node, const void *key)
{
	const struct lease *l = QN_CONTAINER(node, const struct lease, node);
	const struct lease_key *k = key;

	return qn_span_eq(l->id, k->id) && memcmp(&l->tenant, k->tenant, sizeof(l->tenant)) == 0;
}

static struct lease *find(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span id)
{
	const struct lease_key k = {tenant, id};
	struct qn_map_node *node = qn_map_find(&b->leases, key_hash(&k), key_eq, &k);

	return node == NULL ? NULL : QN_CONTAINER(node, struct lease, node);
}

static void drop(struct qn_broker *b, struct lease *l)
{
	b->lease_bytes -= l->bytes;
	qn_list_remove(&l->link);
	qn_map_remove(&b->leases, &l->node);
	free(l);
}

void qn_lease_granted(struct qn_broker *b, const struct qn_claim_pop *pop)
{
	const struct lease_key k = {&pop->tenant, pop->lease_id};
	size_t bytes = sizeof(struct lease) + pop->lane_count * sizeof(struct qn_uuid) + pop->lease_id.n + pop->group.n;
	struct lease *l;
	char *at;

	if (pop->lease_id.n == 0) {
		return;
	}
	l = malloc(bytes);
	QN_ASSERT(l != NULL);
	*l = (struct lease){.tenant = pop->tenant, .bytes = bytes, .live = pop->lane_count, .count = pop->lane_count};
	for (uint32_t i = 0; i < pop->lane_count; i++) {
		l->lanes[i] = pop->lanes[i].partition_id;
	}
	at = (char *)&l->lanes[l->count];
	l->id = qn_key_copy(&at, pop->lease_id);
	l->group = qn_key_copy(&at, pop->group);
	qn_map_insert(&b->leases, &l->node, key_hash(&k));
	qn_list_push_back(&b->leases_by_age, &l->link);
	b->lease_bytes += bytes;
	while (b->lease_bytes > LEASES_MAX_BYTES) {
		drop(b, QN_CONTAINER(b->leases_by_age.next, struct lease, link));
	}
}

void qn_lease_lane_ended(struct qn_broker *b, const struct qn_settle_lane *lane)
{
	struct lease *l = lane->lease_id.n == 0 ? NULL : find(b, &lane->tenant, lane->lease_id);

	if (l != NULL && l->live > 0) {
		l->live--;
		if (l->live == 0) {
			qn_list_remove(&l->link);
			qn_list_push_front(&b->leases_by_age, &l->link);
		}
	}
}

void qn_lease_recall(const struct qn_broker *b, struct qn_extend_op *op)
{
	const struct lease *l = find(b, &op->tenant, op->lease_id);
	struct qn_span lanes;

	if (l == NULL) {
		return;
	}
	lanes = qn_arena_dup(op->op.arena, (struct qn_span){l->lanes, l->count * sizeof(l->lanes[0])});
	op->partition_ids = (const struct qn_uuid *)(const void *)lanes.p;
	op->count = l->count;
	op->group = qn_arena_dup(op->op.arena, l->group);
}

void qn_leases_stop(struct qn_broker *b)
{
	while (!qn_list_empty(&b->leases_by_age)) {
		drop(b, QN_CONTAINER(b->leases_by_age.next, struct lease, link));
	}
	qn_map_fini(&b->leases);
}
