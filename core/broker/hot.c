/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driving the hot list: its correctness walks and its clock.
 *
 * A walk is a loop of pages: the module says which page it wants, the storage reads it, the module
 * gets it, whoever waits for the group's lanes is woken when the page named some. Walks are looked
 * for where a group shows interest (a pop took candidates, or waits), so idle groups cost nothing. Lanes that
 * become ready by themselves wake the waiters of their group.
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"
#include "../wire/text.h"

struct walk {
	struct qn_walk_op op;
	struct qn_query query;
	struct qn_broker *broker;
	struct qn_group_key key;
	uint64_t ticket;
};

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->walk(app->storage.self, QN_CONTAINER(op, struct qn_walk_op, op));
}

static void walked(struct qn_op *op, const struct qn_error *e)
{
	struct walk *w = QN_CONTAINER(op, struct walk, op.op);
	struct qn_broker *b = w->broker;
	const struct qn_walk_page page = {w->op.lanes, w->op.lane_count, w->op.after, w->op.last, w->ticket};

	qn_query_done(b);
	if (e != NULL) {
		qn_log(QN_WARN, "hotlist.walk_failed", QN_SP("queue", w->key.queue), QN_SP("group", w->key.group),
		       QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	}
	b->app->hotlist.vt->walk_page(b->app->hotlist.self, &w->key, e == NULL ? &page : NULL, qn_mono_ms());
	if (e == NULL && page.count > 0) {
		qn_gate_ready(b, &w->key);
	}
	if (!b->stopping) {
		qn_hot_walk(b, &w->key);
	}
	qn_arena_destroy(w->op.op.arena);
}

void qn_hot_walk(struct qn_broker *b, const struct qn_group_key *g)
{
	struct qn_walk want;
	struct qn_arena *a;
	struct walk *w;

	if (!b->app->hotlist.vt->walk_due(b->app->hotlist.self, g, &want, qn_mono_ms())) {
		return;
	}
	a = qn_arena_create();
	w = qn_arena_zalloc(a, sizeof(*w));
	w->broker = b;
	w->key = (struct qn_group_key){g->tenant, qn_arena_dup(a, g->queue), qn_arena_dup(a, g->group)};
	w->ticket = want.ticket;
	w->op.op.arena = a;
	w->op.op.done = walked;
	w->op.tenant = w->key.tenant;
	w->op.queue = w->key.queue;
	w->op.group = w->key.group;
	w->op.after = want.after;
	w->op.limit = want.limit;
	w->op.written_within_s = want.written_within_s;
	w->query.start = start;
	w->query.op = &w->op.op;
	qn_query_submit(b, &w->query);
}

void qn_hot_tick(struct qn_broker *b)
{
	struct qn_group_key g;

	while (b->app->hotlist.vt->due(b->app->hotlist.self, &g, qn_mono_ms())) {
		qn_gate_ready(b, &g);
	}
}
