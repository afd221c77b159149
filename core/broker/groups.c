/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact of consumer groups.
 *
 * A queue-wide or discovery pop of a group the broker has not met is held until the storage has
 * registered the group (which creates the queue of a queue-wide pop, writes the durable marker and
 * seeds the cursors). Pops that arrive meanwhile wait for the same registration. What is known is
 * believed for 30 s: registering again costs one look-up and heals what another broker deleted.
 * Single-lane pops register nothing (message-plane 2.4).
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define BELIEVED_MS  30000
#define REGISTRY_MAX 100000

struct registration {
	struct qn_map_node node;
	struct qn_uuid tenant;
	enum qn_claim_from from;
	struct qn_span queue, name_space, task, group;
	uint64_t until_ms; /* known until; 0 while in progress */
	bool forgotten;    /* its queue was deleted meanwhile */
	struct qn_list waiting;
	struct qn_broker *broker;
	struct qn_query query;
	struct qn_register_op op;
	char names[];
};

static uint64_t pop_hash(const struct qn_claim_pop *w)
{
	const struct qn_span parts[] = {{w->tenant.b, sizeof(w->tenant.b)}, w->queue, w->name_space, w->task, w->group};

	return qn_key_hash(parts, 5) + w->from;
}

static bool pop_eq(const struct qn_map_node *node, const void *key)
{
	const struct registration *r = QN_CONTAINER(node, const struct registration, node);
	const struct qn_claim_pop *w = key;

	return r->from == w->from && qn_span_eq(r->group, w->group) && qn_span_eq(r->queue, w->queue) &&
	       qn_span_eq(r->name_space, w->name_space) && qn_span_eq(r->task, w->task) &&
	       memcmp(&r->tenant, &w->tenant, sizeof(r->tenant)) == 0;
}

static struct registration *create(struct qn_broker *b, const struct qn_claim_pop *w)
{
	struct registration *r = calloc(1, sizeof(*r) + w->queue.n + w->name_space.n + w->task.n + w->group.n);
	char *at;

	QN_ASSERT(r != NULL);
	at = r->names;
	r->broker = b;
	r->tenant = w->tenant;
	r->from = w->from;
	r->queue = qn_key_copy(&at, w->queue);
	r->name_space = qn_key_copy(&at, w->name_space);
	r->task = qn_key_copy(&at, w->task);
	r->group = qn_key_copy(&at, w->group);
	qn_list_init(&r->waiting);
	return r;
}

static void destroy(struct registration *r)
{
	qn_map_remove(&r->broker->groups, &r->node);
	qn_arena_destroy(r->op.op.arena);
	free(r);
}

static void registered(struct qn_op *op, const struct qn_error *e)
{
	struct registration *r = QN_CONTAINER(op, struct registration, op.op);
	struct qn_broker *b = r->broker;

	qn_query_done(b);
	if (e != NULL) {
		qn_log(QN_WARN, "group.register_failed", QN_SP("queue", r->queue), QN_SP("group", r->group),
		       QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	}
	/* Before the pops go on: they ask again whether their group is known. */
	r->until_ms = e == NULL ? qn_mono_ms() + BELIEVED_MS : 0;
	for (struct qn_list *node = qn_list_pop_front(&r->waiting); node != NULL;
	     node = qn_list_pop_front(&r->waiting)) {
		struct qn_pop_job *pop = QN_CONTAINER(node, struct qn_pop_job, link);

		if (e != NULL) {
			qn_pop_failed(b, pop, e);
		} else {
			qn_pop_ready(b, pop);
		}
	}
	qn_arena_destroy(r->op.op.arena);
	r->op.op.arena = NULL;
	if (e != NULL || r->forgotten || b->stopping) {
		destroy(r);
	}
}

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->register_group(app->storage.self, QN_CONTAINER(op, struct qn_register_op, op));
}

static void begin(struct registration *r, const struct qn_subscription *start_at)
{
	r->until_ms = 0;
	r->op.op.arena = qn_arena_create();
	r->op.op.done = registered;
	r->op.tenant = r->tenant;
	r->op.by_labels = r->from == QN_CLAIM_LABELS;
	r->op.queue = r->queue;
	r->op.name_space = r->name_space;
	r->op.task = r->task;
	r->op.group = r->group;
	r->op.start = *start_at;
	r->query.start = start;
	r->query.op = &r->op.op;
	qn_query_submit(r->broker, &r->query);
}

static void drop_stale(struct qn_map_node *node, void *arg)
{
	struct registration *r = QN_CONTAINER(node, struct registration, node);
	const uint64_t *now = arg;

	if (r->until_ms != 0 && r->until_ms < *now) {
		destroy(r);
	}
}

bool qn_group_known(struct qn_broker *b, struct qn_pop_job *pop)
{
	const struct qn_claim_pop *w = &pop->want;
	uint64_t now = qn_mono_ms();
	uint64_t hash = pop_hash(w);
	struct qn_map_node *node = qn_map_find(&b->groups, hash, pop_eq, w);
	struct registration *r;

	if (node == NULL) {
		if (b->groups.count >= REGISTRY_MAX) {
			qn_map_each(&b->groups, drop_stale, &now);
		}
		r = create(b, w);
		qn_map_insert(&b->groups, &r->node, hash);
		begin(r, &w->start);
	} else {
		r = QN_CONTAINER(node, struct registration, node);
		if (r->until_ms >= now) {
			return true;
		}
		if (r->until_ms != 0) {
			begin(r, &w->start);
		}
	}
	qn_list_push_back(&r->waiting, &pop->link);
	return false;
}

struct forget {
	const struct qn_uuid *tenant;
	struct qn_span queue;
};

static void forget_one(struct qn_map_node *node, void *arg)
{
	struct registration *r = QN_CONTAINER(node, struct registration, node);
	const struct forget *f = arg;

	/* A discovery registration may have covered the queue. */
	if (memcmp(&r->tenant, f->tenant, sizeof(r->tenant)) != 0 ||
	    (r->from == QN_CLAIM_QUEUE && !qn_span_eq(r->queue, f->queue))) {
		return;
	}
	if (r->until_ms == 0) {
		r->forgotten = true;
	} else {
		destroy(r);
	}
}

void qn_group_forget_queue(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	struct forget f = {tenant, queue};

	qn_map_each(&b->groups, forget_one, &f);
}

static void drop_any(struct qn_map_node *node, void *arg)
{
	(void)arg;
	destroy(QN_CONTAINER(node, struct registration, node));
}

void qn_group_stop(struct qn_broker *b)
{
	qn_map_each(&b->groups, drop_any, NULL);
	qn_map_fini(&b->groups);
}
