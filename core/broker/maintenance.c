/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maintenance: deletes what the retention policy calls old, in passes.
 *
 * A pass begins when the storage gives this broker the turn. It goes through the queues page by page
 * and, for each page, through the kinds of sweep; a kind is swept in bounded steps, one in flight at
 * most, that each renew the turn. A kind that has deleted for STEPS_MAX steps makes room for the
 * next, and the pass is then followed by another at once. A kind whose lanes mostly give nothing (a
 * slow group, a backlog nobody reads) rests nine times as long as looking at them took.
 * Whatever fails ends the pass: the next one begins where the data stands.
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"
#include "../wire/ident.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_MAX        256
#define STEPS_MAX       64
#define REST_FACTOR     9
#define RARE_FACTOR     12 /* intervals between looks for lanes and history: a minute by default */
#define LEASE_MIN_MS    5000
#define LEASE_MAX_MS    60000
#define KIND_COUNT      (QN_SWEEP_BOOKS + 1)
#define RARE_KIND(kind) ((kind) == QN_SWEEP_LANES || (kind) == QN_SWEEP_BOOKS)

/* What a kind cost and gave in this pass. */
struct effort {
	uint64_t took_ms, lanes, deleted;
	uint64_t rest_until_ms; /* from earlier passes */
};

struct qn_maintenance {
	struct qn_broker *broker;
	uv_timer_t timer;
	char holder[QN_UUID_TEXT];
	int64_t fence; /* 0: not this broker's turn */
	bool running;  /* an operation is in flight */
	bool again;    /* something is known to be left for another pass */
	bool rare;     /* this pass also looks for lanes and history */
	uint64_t rare_due_ms;
	/* the page */
	struct qn_arena *page; /* rules live here */
	struct qn_uuid after;
	bool last_page;
	struct qn_sweep_rule *rules[KIND_COUNT];
	uint32_t rule_count[KIND_COUNT];
	/* the sweep */
	unsigned kind;
	uint32_t steps; /* that deleted something */
	uint64_t step_began_ms;
	struct effort efforts[KIND_COUNT];
	union {
		struct qn_maintain_op turn;
		struct qn_sweep_op sweep;
	} op;
};

static void next(struct qn_maintenance *m);

static int32_t interval_ms(const struct qn_maintenance *m)
{
	return (int32_t)m->broker->app->options.retention_interval_ms;
}

static int32_t lease_ms(const struct qn_maintenance *m)
{
	int64_t ms = 2 * (int64_t)interval_ms(m);

	return ms < LEASE_MIN_MS ? LEASE_MIN_MS : ms > LEASE_MAX_MS ? LEASE_MAX_MS : (int32_t)ms;
}

static void on_timer(uv_timer_t *timer);

/* No operation is in flight; the next pass begins in wait_ms, or an interval if that is sooner. */
static void rest(struct qn_maintenance *m, int64_t wait_ms)
{
	int64_t most_ms = interval_ms(m);

	m->fence = 0;
	qn_arena_destroy(m->page);
	m->page = NULL;
	if (!m->broker->draining) {
		(void)uv_timer_start(&m->timer, on_timer, (uint64_t)(wait_ms < most_ms ? wait_ms : most_ms), 0);
	}
}

static void failed(struct qn_maintenance *m, const struct qn_error *e)
{
	if (e->code != QN_CANCELED) {
		qn_log(QN_WARN, "maintenance.failed", QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	}
	rest(m, interval_ms(m));
}

/* ---- the rules of a page --------------------------------------------------------------------- */

static void add_rule(struct qn_maintenance *m, enum qn_sweep_kind kind, const struct qn_uuid *queue_id,
                     int64_t oldest_us, int64_t cutoff_us)
{
	if (oldest_us < cutoff_us && qn_mono_ms() >= m->efforts[kind].rest_until_ms) {
		m->rules[kind][m->rule_count[kind]++] =
			(struct qn_sweep_rule){.queue_id = *queue_id, .cutoff_us = cutoff_us};
	}
}

static void plan_queue(struct qn_maintenance *m, const struct qn_due_queue *q, int64_t now_us)
{
	const struct qn_app *app = m->broker->app;
	int64_t idle_us = now_us - app->options.partition_cleanup_ms * 1000;
	struct qn_cutoffs cut = {QN_KEEP_ALL, QN_KEEP_ALL, QN_KEEP_ALL, QN_KEEP_ALL};

	app->retention.vt->plan(app->retention.self, &q->options, now_us, &cut);
	add_rule(m, QN_SWEEP_RETENTION, &q->id, q->live_us, cut.all_us);
	add_rule(m, QN_SWEEP_COMPLETED, &q->id, q->live_us, cut.completed_us);
	add_rule(m, QN_SWEEP_MAX_WAIT, &q->id, q->live_us, cut.max_wait_us);
	add_rule(m, QN_SWEEP_HASHES, &q->id, q->hashes_us, cut.hashes_us);
	if (m->rare && app->options.partition_cleanup) {
		/* A lane that hashes would still be kept for is not quiet, whoever deleted them. */
		add_rule(m, QN_SWEEP_LANES, &q->id, q->idle_us, cut.hashes_us < idle_us ? cut.hashes_us : idle_us);
	}
}

static void plan_page(struct qn_maintenance *m)
{
	const struct qn_maintain_op *op = &m->op.turn;
	static const struct qn_uuid none;

	m->page = qn_arena_create();
	for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
		m->rules[kind] = qn_arena_alloc(m->page, (op->queue_count + 1) * sizeof(struct qn_sweep_rule));
		m->rule_count[kind] = 0;
	}
	for (uint32_t i = 0; i < op->queue_count; i++) {
		plan_queue(m, &op->queues[i], op->now_us);
		m->after = op->queues[i].id;
	}
	m->last_page = op->queue_count < op->limit;
	if (m->last_page && m->rare) {
		add_rule(m, QN_SWEEP_BOOKS, &none, QN_KEEP_ALL,
		         op->now_us - m->broker->app->options.metrics_retention_ms * 1000);
	}
	m->kind = 0;
	m->steps = 0;
}

/* ---- the turn -------------------------------------------------------------------------------- */

static void turn_done(struct qn_op *op, const struct qn_error *e)
{
	struct qn_maintenance *m = op->user;
	struct qn_arena *arena = op->arena; /* the next operation takes the op's place */
	bool has_ended = m->op.turn.end;

	m->running = false;
	m->fence = m->op.turn.fence;
	if (e != NULL) {
		failed(m, e);
	} else if (!m->op.turn.held) {
		/* Never at once: the storage may not know when the other's step will be over. */
		rest(m, m->op.turn.wait_ms + interval_ms(m) / 10 + 1);
	} else if (has_ended) {
		rest(m, m->op.turn.wait_ms);
	} else {
		plan_page(m);
		next(m);
	}
	qn_arena_destroy(arena);
}

static void ask_turn(struct qn_maintenance *m, bool end)
{
	const struct qn_app *app = m->broker->app;
	int64_t batch = app->options.retention_batch;

	m->op.turn = (struct qn_maintain_op){.op = {.done = turn_done,
	                                            .arena = qn_arena_create(),
	                                            .deadline_ms = qn_broker_deadline(m->broker),
	                                            .user = m},
	                                     .holder = {m->holder, sizeof(m->holder)},
	                                     .fence = m->fence,
	                                     .end = end,
	                                     .period_ms = interval_ms(m),
	                                     .lease_ms = lease_ms(m),
	                                     .after = m->after,
	                                     .limit = batch < PAGE_MAX ? (uint32_t)batch : PAGE_MAX};
	m->running = true;
	app->storage.vt->maintain(app->storage.self, &m->op.turn);
}

static void begin_pass(struct qn_maintenance *m)
{
	m->after = (struct qn_uuid){{0}};
	m->again = false;
	m->rare = qn_mono_ms() >= m->rare_due_ms;
	for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
		m->efforts[kind] = (struct effort){.rest_until_ms = m->efforts[kind].rest_until_ms};
	}
	ask_turn(m, false);
}

static void on_timer(uv_timer_t *timer)
{
	begin_pass(timer->data);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

/* Keeps the rules whose walks go on. */
static void drop_ended(struct qn_maintenance *m)
{
	struct qn_sweep_rule *rules = m->rules[m->kind];
	uint32_t left = 0;

	for (uint32_t i = 0; i < m->rule_count[m->kind]; i++) {
		if (!rules[i].ended) {
			rules[left++] = rules[i];
		}
	}
	m->rule_count[m->kind] = left;
}

static void sweep_done(struct qn_op *op, const struct qn_error *e)
{
	struct qn_maintenance *m = op->user;
	struct effort *effort = &m->efforts[m->kind];
	uint64_t deleted = 0;

	qn_arena_destroy(op->arena);
	m->running = false;
	if (e != NULL) {
		failed(m, e);
		return;
	}
	if (!m->op.sweep.held) {
		qn_log(QN_INFO, "maintenance.lost", QN_I("fence", m->fence));
		rest(m, interval_ms(m));
		return;
	}
	for (uint32_t i = 0; i < m->op.sweep.rule_count; i++) {
		deleted += m->op.sweep.rules[i].deleted;
		effort->lanes += m->op.sweep.rules[i].lanes;
	}
	effort->deleted += deleted;
	effort->took_ms += qn_mono_ms() - m->step_began_ms;
	m->steps += deleted > 0 ? 1 : 0;
	drop_ended(m);
	next(m);
}

static void start_step(struct qn_maintenance *m)
{
	const struct qn_app *app = m->broker->app;

	m->op.sweep = (struct qn_sweep_op){.op = {.done = sweep_done,
	                                          .arena = qn_arena_create(),
	                                          .deadline_ms = qn_broker_deadline(m->broker),
	                                          .user = m},
	                                   .fence = m->fence,
	                                   .lease_ms = lease_ms(m),
	                                   .kind = (enum qn_sweep_kind)m->kind,
	                                   .batch = (uint32_t)app->options.retention_batch,
	                                   .rules = m->rules[m->kind],
	                                   .rule_count = m->rule_count[m->kind]};
	m->step_began_ms = qn_mono_ms();
	m->running = true;
	app->storage.vt->sweep(app->storage.self, &m->op.sweep);
}

static void end_pass(struct qn_maintenance *m)
{
	uint64_t now_ms = qn_mono_ms();

	for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
		struct effort *effort = &m->efforts[kind];

		if (effort->deleted < effort->lanes / 2) {
			effort->rest_until_ms = now_ms + REST_FACTOR * effort->took_ms;
		}
	}
	if (m->rare) {
		m->rare_due_ms = now_ms + (uint64_t)RARE_FACTOR * (uint64_t)interval_ms(m);
	}
	if (m->again && !m->broker->draining) {
		begin_pass(m);
	} else {
		ask_turn(m, true);
	}
}

static void next(struct qn_maintenance *m)
{
	if (m->broker->draining) {
		ask_turn(m, true);
		return;
	}
	while (m->kind < KIND_COUNT && (m->rule_count[m->kind] == 0 || m->steps >= STEPS_MAX)) {
		m->again = m->again || m->rule_count[m->kind] > 0;
		m->kind++;
		m->steps = 0;
	}
	if (m->kind < KIND_COUNT) {
		start_step(m);
		return;
	}
	qn_arena_destroy(m->page);
	m->page = NULL;
	if (m->last_page) {
		end_pass(m);
	} else {
		ask_turn(m, false);
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

int qn_maintenance_start(struct qn_broker *b, struct qn_error *e)
{
	struct qn_maintenance *m = calloc(1, sizeof(*m));
	struct qn_uuid id;

	if (m == NULL) {
		return QN_FAIL(e, QN_NOMEM, "out of memory");
	}
	m->broker = b;
	b->maintenance = m;
	qn_uuid7(&id);
	qn_uuid_format(&id, m->holder);
	m->timer.data = m;
	(void)uv_timer_init(qn_thread_loop(b->app->engine), &m->timer);
	(void)uv_timer_start(&m->timer, on_timer, 0, 0);
	return QN_OK;
}

void qn_maintenance_drain(struct qn_broker *b)
{
	(void)uv_timer_stop(&b->maintenance->timer);
}

bool qn_maintenance_idle(const struct qn_broker *b)
{
	return !b->maintenance->running;
}

void qn_maintenance_stop(struct qn_broker *b)
{
	uv_close((uv_handle_t *)&b->maintenance->timer, NULL);
}

void qn_maintenance_destroy(struct qn_broker *b)
{
	free(b->maintenance);
}
