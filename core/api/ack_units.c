/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grouping of acknowledgments. One pass finds each item's unit by a hash table and counts, a second
 * one fills the units' arrays.
 */
#include "ack_units.h"

#include "../broker/map.h"
#include "../wire/ident.h"

#include <string.h>

struct grouping {
	struct qn_arena *arena;
	const struct qn_ack_input *inputs;
	uint32_t count;
	bool by_lease;
	struct qn_ack_units out;
	uint32_t *slots; /* index + 1 of the unit */
	size_t mask;
};

static bool same_unit(const struct grouping *g, const struct qn_settle_lane *l, const struct qn_ack_input *in,
                      const struct qn_uuid *id)
{
	return memcmp(&l->partition_id, id, sizeof(*id)) == 0 && qn_span_eq(l->group, in->group) &&
	       (!g->by_lease || qn_span_eq(l->lease_id, in->lease_id));
}

static uint64_t unit_hash(const struct grouping *g, const struct qn_ack_input *in, const struct qn_uuid *id)
{
	const struct qn_span parts[] = {{id->b, sizeof(id->b)}, in->group, in->lease_id};

	return qn_key_hash(parts, g->by_lease ? 3 : 2);
}

static struct qn_ack_unit *unit_of(struct grouping *g, const struct qn_ack_input *in, const struct qn_uuid *id)
{
	size_t i;
	struct qn_settle_lane *l;

	for (i = unit_hash(g, in, id) & g->mask; g->slots[i] != 0; i = (i + 1) & g->mask) {
		l = &g->out.units[g->slots[i] - 1].lane;
		if (same_unit(g, l, in, id)) {
			if (l->lease_id.n == 0) {
				l->lease_id = in->lease_id;
			}
			return &g->out.units[g->slots[i] - 1];
		}
	}
	l = &g->out.units[g->out.unit_count].lane;
	l->partition_id = *id;
	l->group = in->group;
	l->lease_id = in->lease_id;
	g->out.unit_count++;
	g->slots[i] = g->out.unit_count;
	return &g->out.units[g->out.unit_count - 1];
}

static void assign(struct grouping *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct qn_uuid id;

		if (qn_uuid_parse(g->inputs[i].partition_id, &id)) {
			struct qn_ack_unit *u = unit_of(g, &g->inputs[i], &id);

			g->out.places[i] = (struct qn_ack_place){u, u->lane.item_count};
			u->lane.item_count++;
		}
	}
}

static void fill(struct grouping *g, const struct qn_uuid *tenant)
{
	for (uint32_t i = 0; i < g->out.unit_count; i++) {
		struct qn_ack_unit *u = &g->out.units[i];
		uint32_t n = u->lane.item_count;

		u->lane.tenant = *tenant;
		u->lane.items = qn_arena_zalloc(g->arena, n * sizeof(*u->lane.items));
		u->item_txns = qn_arena_zalloc(g->arena, n * sizeof(*u->item_txns));
		u->item_errors = qn_arena_zalloc(g->arena, n * sizeof(*u->item_errors));
	}
	for (uint32_t i = 0; i < g->count; i++) {
		const struct qn_ack_place *p = &g->out.places[i];

		if (p->unit != NULL) {
			struct qn_ack_item *item = &p->unit->lane.items[p->index];

			qn_hash128(g->inputs[i].transaction_id, item->hash);
			item->status = g->inputs[i].status;
			p->unit->item_txns[p->index] = g->inputs[i].transaction_id;
			p->unit->item_errors[p->index] = g->inputs[i].error;
		}
	}
}

struct qn_ack_units qn_ack_group(struct qn_arena *a, const struct qn_uuid *tenant, const struct qn_ack_input *inputs,
                                 uint32_t count, bool by_lease)
{
	struct grouping g = {.arena = a, .inputs = inputs, .count = count, .by_lease = by_lease};
	size_t size = 4;

	while (size < (size_t)count * 2) {
		size *= 2;
	}
	g.slots = qn_arena_zalloc(a, size * sizeof(uint32_t));
	g.mask = size - 1;
	g.out.places = qn_arena_zalloc(a, (count + 1) * sizeof(*g.out.places));
	g.out.units = qn_arena_zalloc(a, (count + 1) * sizeof(*g.out.units));
	assign(&g);
	fill(&g, tenant);
	return g.out;
}
