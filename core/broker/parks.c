/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked pops and what wakes them.
 *
 * A gate stands for what a pop waits for: a queue, one lane of it, or (discovery) anything of a
 * tenant. It exists while pops are tied to it and keeps an epoch that grows with every mark, so that
 * work which appears while a pop's claim is on its way is not missed. In a gate, waiters of one
 * group stand in line; a mark wakes one of each group. Discovery groups may be woken by work that is
 * not theirs: they have one waiter looking at a time, and the one that found something sends the next.
 */
#include "internal.h"

#include "../error.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define ANY_NUMBER UINT32_MAX

struct qn_gate {
	struct qn_map_node node;
	enum qn_claim_from from;
	struct qn_uuid tenant;
	struct qn_span queue, partition;
	uint64_t epoch;
	unsigned refs; /* pops tied to it */
	struct qn_list groups;
	char names[];
};

struct qn_gate_group {
	struct qn_list link;
	struct qn_span name_space, task, group;
	unsigned refs;
	struct qn_list parked;    /* of struct qn_pop_job, first come first */
	struct qn_pop_job *scout; /* discovery: the waiter that was woken and is looking */
	char names[];
};

struct gate_key {
	enum qn_claim_from from;
	const struct qn_uuid *tenant;
	struct qn_span queue, partition;
};

static struct gate_key key_of(const struct qn_claim_pop *w)
{
	struct gate_key k = {.from = w->from, .tenant = &w->tenant};

	if (w->from != QN_CLAIM_LABELS) {
		k.queue = w->queue;
	}
	if (w->from == QN_CLAIM_LANE) {
		k.partition = w->partition;
	}
	return k;
}

static uint64_t key_hash(const struct gate_key *k)
{
	const struct qn_span parts[] = {{k->tenant->b, sizeof(k->tenant->b)}, k->queue, k->partition};

	return qn_key_hash(parts, 3) + k->from;
}

static bool key_eq(const struct qn_map_node *node, const void *key)
{
	const struct qn_gate *g = QN_CONTAINER(node, const struct qn_gate, node);
	const struct gate_key *k = key;

	return g->from == k->from && qn_span_eq(g->queue, k->queue) && qn_span_eq(g->partition, k->partition) &&
	       memcmp(&g->tenant, k->tenant, sizeof(g->tenant)) == 0;
}

static struct qn_gate *find(struct qn_broker *b, const struct gate_key *k)
{
	struct qn_map_node *node = qn_map_find(&b->gates, key_hash(k), key_eq, k);

	return node == NULL ? NULL : QN_CONTAINER(node, struct qn_gate, node);
}

static struct qn_gate *gate_create(struct qn_broker *b, const struct gate_key *k)
{
	struct qn_gate *g = calloc(1, sizeof(*g) + k->queue.n + k->partition.n);
	char *at;

	QN_ASSERT(g != NULL);
	g->from = k->from;
	g->tenant = *k->tenant;
	at = g->names;
	g->queue = qn_key_copy(&at, k->queue);
	g->partition = qn_key_copy(&at, k->partition);
	qn_list_init(&g->groups);
	qn_map_insert(&b->gates, &g->node, key_hash(k));
	return g;
}

static bool same_group(const struct qn_gate_group *g, const struct qn_claim_pop *w)
{
	return qn_span_eq(g->group, w->group) && qn_span_eq(g->name_space, w->name_space) &&
	       qn_span_eq(g->task, w->task);
}

static struct qn_gate_group *group_get(struct qn_gate *gate, const struct qn_claim_pop *w)
{
	struct qn_gate_group *g;
	char *at;

	for (struct qn_list *node = gate->groups.next; node != &gate->groups; node = node->next) {
		g = QN_CONTAINER(node, struct qn_gate_group, link);
		if (same_group(g, w)) {
			return g;
		}
	}
	g = calloc(1, sizeof(*g) + w->group.n + w->name_space.n + w->task.n);
	QN_ASSERT(g != NULL);
	at = g->names;
	g->group = qn_key_copy(&at, w->group);
	g->name_space = qn_key_copy(&at, w->name_space);
	g->task = qn_key_copy(&at, w->task);
	qn_list_init(&g->parked);
	qn_list_push_back(&gate->groups, &g->link);
	return g;
}

void qn_gate_enter(struct qn_broker *b, struct qn_pop_job *pop)
{
	const struct gate_key k = key_of(&pop->want);

	pop->gate = find(b, &k);
	if (pop->gate == NULL) {
		pop->gate = gate_create(b, &k);
	}
	pop->gate->refs++;
	pop->group = group_get(pop->gate, &pop->want);
	pop->group->refs++;
}

void qn_gate_leave(struct qn_broker *b, struct qn_pop_job *pop)
{
	struct qn_gate *gate = pop->gate;
	struct qn_gate_group *group = pop->group;

	if (gate == NULL) {
		return;
	}
	pop->gate = NULL;
	pop->group = NULL;
	if (group->scout == pop) {
		group->scout = NULL;
	}
	group->refs--;
	if (group->refs == 0) {
		qn_list_remove(&group->link);
		free(group);
	}
	gate->refs--;
	if (gate->refs == 0) {
		qn_map_remove(&b->gates, &gate->node);
		free(gate);
	}
}

uint64_t qn_gate_epoch(const struct qn_pop_job *pop)
{
	return pop->gate->epoch;
}

void qn_park(struct qn_broker *b, struct qn_pop_job *pop, uint64_t due_ms)
{
	if (pop->group->scout == pop) {
		pop->group->scout = NULL;
	}
	pop->state = QN_POP_PARKED;
	pop->was_parked = true;
	qn_list_push_back(&pop->group->parked, &pop->link);
	qn_heap_set(&b->dues, &pop->due, due_ms);
}

void qn_unpark(struct qn_broker *b, struct qn_pop_job *pop)
{
	qn_list_remove(&pop->link);
	qn_heap_remove(&b->dues, &pop->due);
	pop->state = QN_POP_IDLE;
}

/** messages: how many the mark stands for; ANY_NUMBER when that is not known. */
static void wake_first(struct qn_broker *b, struct qn_gate_group *g, uint32_t messages)
{
	struct qn_pop_job *pop;

	if (qn_list_empty(&g->parked)) {
		return;
	}
	pop = QN_CONTAINER(g->parked.next, struct qn_pop_job, link);
	if (pop->hold_until_ms != 0 && messages != ANY_NUMBER) {
		pop->ready += messages;
		if (pop->ready < pop->want.budget) {
			return;
		}
	}
	qn_unpark(b, pop);
	pop->attempts = 0;
	if (pop->want.from == QN_CLAIM_LABELS) {
		g->scout = pop;
	}
	qn_pop_ready(b, pop);
}

/** only.n = 0: every group. */
static void mark_gate(struct qn_broker *b, const struct gate_key *k, struct qn_span only, uint32_t messages)
{
	struct qn_gate *gate = find(b, k);

	if (gate == NULL) {
		return;
	}
	gate->epoch++;
	for (struct qn_list *node = gate->groups.next; node != &gate->groups; node = node->next) {
		struct qn_gate_group *g = QN_CONTAINER(node, struct qn_gate_group, link);

		if ((only.n == 0 || qn_span_eq(g->group, only)) && g->scout == NULL) {
			wake_first(b, g, messages);
		}
	}
}

static void mark(struct qn_broker *b, const struct qn_settle_lane *lane, struct qn_span only, uint32_t messages)
{
	struct gate_key k = {.from = QN_CLAIM_LABELS, .tenant = &lane->tenant};

	mark_gate(b, &k, only, messages);
	k.from = QN_CLAIM_QUEUE;
	k.queue = lane->queue;
	mark_gate(b, &k, only, messages);
	k.from = QN_CLAIM_LANE;
	k.partition = lane->partition;
	mark_gate(b, &k, only, messages);
}

void qn_gate_mark(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, struct qn_span partition,
                  uint32_t messages)
{
	const struct qn_settle_lane lane = {.tenant = *tenant, .queue = queue, .partition = partition};

	mark(b, &lane, (struct qn_span){NULL, 0}, messages);
}

void qn_gate_ready(struct qn_broker *b, const struct qn_group_key *g)
{
	const struct gate_key k = {.from = QN_CLAIM_QUEUE, .tenant = &g->tenant, .queue = g->queue};

	mark_gate(b, &k, g->group, ANY_NUMBER);
}

void qn_gate_mark_group(struct qn_broker *b, const struct qn_settle_lane *lane)
{
	mark(b, lane, lane->group, ANY_NUMBER);
}

void qn_gate_cascade(struct qn_broker *b, struct qn_pop_job *pop)
{
	struct qn_gate_group *g = pop->group;

	if (pop->want.from != QN_CLAIM_LABELS) {
		return;
	}
	if (g->scout == pop) {
		g->scout = NULL;
	}
	if (g->scout == NULL) {
		wake_first(b, g, ANY_NUMBER);
	}
}

static void on_due(uv_timer_t *timer)
{
	struct qn_broker *b = timer->data;
	uint64_t now = qn_mono_ms();

	for (struct qn_heap_node *n = qn_heap_first(&b->dues); n != NULL && n->due_ms <= now;
	     n = qn_heap_first(&b->dues)) {
		struct qn_pop_job *pop = QN_CONTAINER(n, struct qn_pop_job, due);

		qn_unpark(b, pop);
		if (now >= pop->deadline_ms && pop->hold_until_ms == 0) {
			qn_pop_finish(b, pop, pop->failure.code == 0 ? NULL : &pop->failure);
		} else {
			qn_pop_ready(b, pop);
		}
	}
	qn_hot_tick(b);
	qn_pop_pump(b);
	qn_query_pump(b);
	qn_parks_arm(b);
}

static void walk_gate(struct qn_map_node *node, void *arg)
{
	struct qn_gate *gate = QN_CONTAINER(node, struct qn_gate, node);

	for (struct qn_list *at = gate->groups.next; gate->from == QN_CLAIM_QUEUE && at != &gate->groups;
	     at = at->next) {
		const struct qn_gate_group *g = QN_CONTAINER(at, const struct qn_gate_group, link);
		const struct qn_group_key k = {gate->tenant, gate->queue, g->group};

		qn_hot_walk(arg, &k);
	}
}

void qn_parks_walk(struct qn_broker *b)
{
	qn_map_each(&b->gates, walk_gate, b);
}

void qn_parks_arm(struct qn_broker *b)
{
	struct qn_heap_node *n = qn_heap_first(&b->dues);
	uint64_t due = b->app->hotlist.vt->next_due_ms(b->app->hotlist.self);
	uint64_t now = qn_mono_ms();

	if (n != NULL && n->due_ms < due) {
		due = n->due_ms;
	}
	if (due == UINT64_MAX) {
		(void)uv_timer_stop(&b->timer);
		return;
	}
	uv_update_time(b->timer.loop);
	(void)uv_timer_start(&b->timer, on_due, due > now ? due - now : 0, 0);
}

void qn_parks_drain(struct qn_broker *b)
{
	for (struct qn_heap_node *n = qn_heap_first(&b->dues); n != NULL; n = qn_heap_first(&b->dues)) {
		struct qn_pop_job *pop = QN_CONTAINER(n, struct qn_pop_job, due);

		qn_unpark(b, pop);
		qn_pop_finish(b, pop, NULL);
	}
}
