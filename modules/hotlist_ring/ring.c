/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots and their moves. A slot is in exactly one place: the ready line of its group (READY), the
 * wheel (WAITING; the node that carries its tick), a claim (OUT), or nowhere (IDLE).
 */
#include "ring.h"

struct qn_ring_slot *qn_ring_slot(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane)
{
	if (lane == QN_RING_NONE || !qn_ring_grow(r->host, (void **)&g->slots, &g->cap, lane + 1, sizeof(*g->slots))) {
		return NULL;
	}
	return &g->slots[lane];
}

void qn_ring_noticed(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, uint64_t now_ms)
{
	struct qn_ring_slot *s = &g->slots[lane];
	uint32_t at = qn_wheel_tick(&r->wheel, now_ms + QN_RING_REVISIT_MS);

	if ((s->flags & (QN_SLOT_LEASED | QN_SLOT_MARKED)) == QN_SLOT_LEASED &&
	    s->link - r->wheel.now > at - r->wheel.now) {
		qn_ring_wait(r, g, lane, now_ms + QN_RING_REVISIT_MS);
	}
	s->flags |= QN_SLOT_MARKED;
}

void qn_ring_idle(struct qn_ring *r, struct qn_ring_slot *s)
{
	r->waiting -= s->state == QN_SLOT_WAITING ? 1 : 0;
	s->state = QN_SLOT_IDLE;
	s->flags = 0;
	s->messages = 0;
}

void qn_ring_ready(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane)
{
	struct qn_ring_slot *s = &g->slots[lane];

	if (s->state == QN_SLOT_READY) {
		return;
	}
	r->waiting -= s->state == QN_SLOT_WAITING ? 1 : 0;
	s->state = QN_SLOT_READY;
	s->link = QN_RING_NONE;
	if (g->head == QN_RING_NONE) {
		g->head = lane;
	} else {
		g->slots[g->tail].link = lane;
	}
	g->tail = lane;
}

void qn_ring_wait(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, uint64_t at_ms)
{
	struct qn_ring_slot *s = &g->slots[lane];
	uint32_t tick = qn_wheel_tick(&r->wheel, at_ms);

	/* Without memory for an appointment the lane is looked at too early instead of never. */
	if (tick == r->wheel.now || !qn_wheel_add(&r->wheel, g->number, lane, tick)) {
		qn_ring_ready(r, g, lane);
		return;
	}
	r->waiting += s->state == QN_SLOT_WAITING ? 0 : 1;
	s->state = QN_SLOT_WAITING;
	s->link = tick;
}

uint32_t qn_ring_pop(struct qn_ring *r, struct qn_ring_group *g)
{
	static const struct qn_uuid nil;

	while (g->head != QN_RING_NONE) {
		uint32_t lane = g->head;
		struct qn_ring_slot *s = &g->slots[lane];

		g->head = s->link;
		if (__builtin_memcmp(&g->queue->lanes.ids[lane], &nil, sizeof(nil)) == 0) {
			qn_ring_idle(r, s);
			continue;
		}
		s->state = QN_SLOT_OUT;
		s->flags = 0;
		g->out++;
		return lane;
	}
	return QN_RING_NONE;
}

bool qn_ring_waits(void *ring, const struct qn_wheel_node *n)
{
	const struct qn_ring *r = ring;
	const struct qn_ring_group *g = n->group < r->group_cap ? r->groups[n->group] : NULL;
	const struct qn_ring_slot *s = g != NULL && n->slot < g->cap ? &g->slots[n->slot] : NULL;

	return s != NULL && s->state == QN_SLOT_WAITING && s->link == n->due;
}

void qn_ring_advance(struct qn_ring *r, uint64_t now_ms)
{
	struct qn_wheel_node n;

	while (qn_wheel_next(&r->wheel, now_ms, &n)) {
		struct qn_ring_group *g;

		if (!qn_ring_waits(r, &n)) {
			continue;
		}
		g = r->groups[n.group];
		qn_ring_ready(r, g, n.slot);
		if (!g->fired) {
			g->fired = true;
			g->fired_next = r->fired;
			r->fired = g;
		}
	}
}
