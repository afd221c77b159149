/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ack: units of items for one (lane, group, lease) become lanes of bundled settle calls.
 *
 * The storage decides under the cursor's lock; the broker keeps order and company: at most one unit
 * of a (lane, group) is in flight, units of one lane go in arrival order, units of different
 * requests share a call (fire on idle). A unit whose decision is a dead letter stays in flight until
 * the message is filed (deadletter.c).
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define LANES_PER_SETTLE 500

/** Units that wait for one (lane, group). Exists while it has any or one is in flight. */
struct ack_lane {
	struct qn_map_node node;
	struct qn_list link; /* in ack_ready */
	struct qn_uuid partition_id;
	struct qn_list units;
	bool in_flight;
	struct qn_span group;
	char name[];
};

struct settle {
	struct qn_settle_op op;
	struct qn_broker *broker;
	struct qn_ack_unit **units;
};

static uint64_t lane_hash(const struct qn_settle_lane *k)
{
	const struct qn_span parts[] = {{k->partition_id.b, sizeof(k->partition_id.b)}, k->group};

	return qn_key_hash(parts, 2);
}

static bool lane_eq(const struct qn_map_node *node, const void *key)
{
	const struct ack_lane *l = QN_CONTAINER(node, const struct ack_lane, node);
	const struct qn_settle_lane *k = key;

	return memcmp(&l->partition_id, &k->partition_id, sizeof(l->partition_id)) == 0 &&
	       qn_span_eq(l->group, k->group);
}

static struct ack_lane *lane_find(struct qn_broker *b, const struct qn_settle_lane *k)
{
	struct qn_map_node *node = qn_map_find(&b->ack_lanes, lane_hash(k), lane_eq, k);

	return node == NULL ? NULL : QN_CONTAINER(node, struct ack_lane, node);
}

static struct ack_lane *lane_get(struct qn_broker *b, const struct qn_settle_lane *k)
{
	struct ack_lane *l = lane_find(b, k);

	if (l != NULL) {
		return l;
	}
	l = calloc(1, sizeof(*l) + k->group.n);
	QN_ASSERT(l != NULL);
	l->partition_id = k->partition_id;
	memcpy(l->name, k->group.p, k->group.n);
	l->group = (struct qn_span){l->name, k->group.n};
	qn_list_init(&l->units);
	qn_map_insert(&b->ack_lanes, &l->node, lane_hash(k));
	return l;
}

static void lane_settle(struct qn_broker *b, struct ack_lane *l)
{
	if (l->in_flight) {
		return;
	}
	if (!qn_list_empty(&l->units)) {
		if (!qn_list_linked(&l->link)) {
			qn_list_push_back(&b->ack_ready, &l->link);
		}
		return;
	}
	qn_list_remove(&l->link);
	qn_map_remove(&b->ack_lanes, &l->node);
	free(l);
}

static void unit_done(struct qn_broker *b, struct qn_ack_unit *unit)
{
	struct qn_ack_job *job = unit->job;

	job->pending--;
	if (job->pending == 0) {
		qn_broker_finish(b, &job->job, NULL);
	}
}

void qn_ack_accept(struct qn_broker *b, struct qn_ack_job *job)
{
	job->pending = job->unit_count;
	for (uint32_t i = 0; i < job->unit_count; i++) {
		struct ack_lane *l = lane_get(b, &job->units[i].lane);

		qn_list_push_back(&l->units, &job->units[i].link);
		lane_settle(b, l);
	}
}

void qn_ack_wake(struct qn_broker *b, const struct qn_settle_lane *lane)
{
	const struct qn_group_key g = {lane->tenant, lane->queue, lane->group};

	if (!lane->lease_released) {
		return;
	}
	qn_lease_lane_ended(b, lane);
	b->app->hotlist.vt->promote(b->app->hotlist.self, &g, &lane->partition_id, lane->has_more, qn_mono_ms());
	if (lane->has_more) {
		qn_gate_mark_group(b, lane);
	}
}

void qn_ack_finish_unit(struct qn_broker *b, struct qn_ack_unit *unit)
{
	struct ack_lane *l = lane_find(b, &unit->lane);

	qn_ack_wake(b, &unit->lane);
	l->in_flight = false;
	unit_done(b, unit);
	lane_settle(b, l);
}

static void reject(struct qn_ack_unit *unit, enum qn_ack_reason reason)
{
	for (uint32_t i = 0; i < unit->lane.item_count; i++) {
		unit->lane.items[i].outcome = QN_OUT_REJECTED;
		unit->lane.items[i].reason = reason;
	}
	unit->lane.lease_released = false;
	unit->lane.has_more = false;
}

static void settle_done(struct qn_op *op, const struct qn_error *e)
{
	struct settle *s = QN_CONTAINER(op, struct settle, op.op);
	struct qn_broker *b = s->broker;

	b->busy.settle--;
	if (e != NULL) {
		qn_log(QN_WARN, "ack.failed", QN_U("lanes", s->op.lane_count), QN_S("error", e->msg),
		       QN_S("sqlstate", e->sqlstate));
	}
	for (uint32_t i = 0; i < s->op.lane_count; i++) {
		struct qn_ack_unit *unit = s->units[i];

		unit->lane = s->op.lanes[i];
		if (e != NULL) {
			reject(unit, QN_ACK_STORAGE);
		} else if (unit->lane.needs_dead_letter) {
			qn_dead_letter_begin(b, unit);
			continue;
		}
		qn_ack_finish_unit(b, unit);
	}
	qn_arena_destroy(op->arena);
}

static void settle_some(struct qn_broker *b)
{
	uint32_t n = qn_list_count(&b->ack_ready, LANES_PER_SETTLE);
	struct qn_arena *a = qn_arena_create();
	struct settle *s = qn_arena_zalloc(a, sizeof(*s));

	s->broker = b;
	s->units = qn_arena_alloc(a, n * sizeof(struct qn_ack_unit *));
	s->op.lanes = qn_arena_zalloc(a, n * sizeof(*s->op.lanes));
	s->op.lane_count = n;
	for (uint32_t i = 0; i < n; i++) {
		struct ack_lane *l = QN_CONTAINER(qn_list_pop_front(&b->ack_ready), struct ack_lane, link);
		struct qn_list *node = qn_list_pop_front(&l->units);

		l->in_flight = true;
		s->units[i] = QN_CONTAINER(node, struct qn_ack_unit, link);
		s->op.lanes[i] = s->units[i]->lane;
	}
	b->busy.settle++;
	s->op.op.arena = a;
	s->op.op.done = settle_done;
	s->op.op.deadline_ms = qn_broker_deadline(b);
	b->app->storage.vt->settle(b->app->storage.self, &s->op);
}

void qn_ack_pump(struct qn_broker *b)
{
	qn_dead_letter_pump(b);
	while (b->busy.settle < b->slots.settle && !qn_list_empty(&b->ack_ready)) {
		settle_some(b);
	}
}

static void drop_lane(struct qn_map_node *node, void *arg)
{
	struct qn_broker *b = arg;
	struct ack_lane *l = QN_CONTAINER(node, struct ack_lane, node);

	for (struct qn_list *u = qn_list_pop_front(&l->units); u != NULL; u = qn_list_pop_front(&l->units)) {
		struct qn_ack_unit *unit = QN_CONTAINER(u, struct qn_ack_unit, link);

		reject(unit, QN_ACK_STORAGE);
		unit_done(b, unit);
	}
	lane_settle(b, l);
}

void qn_ack_stop(struct qn_broker *b)
{
	qn_map_each(&b->ack_lanes, drop_lane, b);
}
