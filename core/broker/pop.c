/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pop: from an accepted request to a leased batch, an empty answer, or a park.
 *
 * A pop goes: its group registered (groups.c) -> in line for a claim -> claim, several pops of
 * different requests in one storage call, fire on idle -> lanes: done; nothing and waiting allowed:
 * parked (parks.c) until a mark, its next look or its deadline. While nothing wakes it a parked pop
 * looks again after pop_wait_initial_ms, growing to pop_wait_max_ms, or when the storage said a
 * lease or a delay ends. Before every further claim the client must still be there.
 *
 * A waiting pop whose batch is not full may be told to hold (minPopWaitTime): it parks until marks
 * have made the batch full, or the time, which its own deadline bounds, is over; then it takes what
 * is there.
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"

#include <stdatomic.h>

#define POPS_PER_CLAIM 16
#define CANDIDATES_MIN 16
#define CANDIDATES_MAX 256
#define MISSES_MAX     8
#define DUE_PAD_MS     2

struct claim {
	struct qn_claim_op op;
	struct qn_broker *broker;
	struct qn_claim_result *result;
	struct qn_pop_job *jobs[POPS_PER_CLAIM];
	bool from_ring[POPS_PER_CLAIM];
};

static bool client_gone(struct qn_pop_job *pop)
{
	struct qn_job *job = &pop->job;

	/* Acquire pairs with the release in qn_job_abandon(). */
	return atomic_load_explicit(&job->gone, memory_order_acquire) ||
	       (pop->was_parked && job->call->vt->peer_gone(job->call));
}

void qn_pop_finish(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_error *e)
{
	if (pop->lane_count > 0) {
		qn_gate_cascade(b, pop);
	}
	qn_gate_leave(b, pop);
	pop->state = QN_POP_IDLE;
	qn_broker_finish(b, &pop->job, e);
}

void qn_pop_ready(struct qn_broker *b, struct qn_pop_job *pop)
{
	if (b->stopping) {
		qn_pop_finish(b, pop, NULL);
		return;
	}
	pop->state = QN_POP_REGISTERING;
	if (pop->want.from != QN_CLAIM_LANE && !qn_group_known(b, pop)) {
		return;
	}
	pop->state = QN_POP_READY;
	qn_list_push_back(&b->claim_ready, &pop->link);
}

void qn_pop_accept(struct qn_broker *b, struct qn_pop_job *pop)
{
	qn_gate_enter(b, pop);
	qn_pop_ready(b, pop);
}

void qn_pop_cancel(struct qn_broker *b, struct qn_pop_job *pop)
{
	const struct qn_error e = {.code = QN_CANCELED, .msg = "the client is gone"};

	if (pop->state == QN_POP_PARKED) {
		qn_unpark(b, pop);
		qn_pop_finish(b, pop, &e);
	}
}

/** When a pop that found nothing looks again; due_in_us: something becomes claimable, 0 when unknown. */
static uint64_t next_look(const struct qn_broker *b, const struct qn_pop_job *pop, int64_t due_in_us)
{
	const struct qn_core_options *o = &b->app->options;
	uint64_t now = qn_mono_ms();
	double wait = (double)o->pop_wait_initial_ms;
	uint64_t due;

	if (pop->attempts > (uint64_t)o->pop_wait_threshold) {
		wait = wait * pop->attempts * o->pop_wait_multiplier;
	}
	if (wait > (double)o->pop_wait_max_ms) {
		wait = (double)o->pop_wait_max_ms;
	}
	due = now + (uint64_t)wait;
	if (due_in_us > 0 && now + (uint64_t)due_in_us / 1000 + DUE_PAD_MS < due) {
		due = now + (uint64_t)due_in_us / 1000 + DUE_PAD_MS;
	}
	return due < pop->deadline_ms ? due : pop->deadline_ms;
}

/** r NULL: the storage was not asked, or failed with e. */
static void found_nothing(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_claim_pop *r, int64_t now_us,
                          const struct qn_error *e)
{
	bool may_wait = pop->wait && !b->draining && qn_mono_ms() < pop->deadline_ms;

	pop->attempts++;
	pop->misses = 0;
	pop->hold_until_ms = 0;
	pop->failure = (struct qn_error){0};
	if (e != NULL) {
		pop->failure = *e;
	}
	if (e != NULL && (!e->retryable || !may_wait)) {
		qn_pop_finish(b, pop, e);
		return;
	}
	if (r != NULL && (pop->epoch != qn_gate_epoch(pop) || (r->contended && pop->attempts < 4))) {
		/* Work appeared, or was locked, while we looked. */
		if (may_wait || r->contended) {
			qn_pop_ready(b, pop);
			return;
		}
	}
	if (!may_wait) {
		qn_pop_finish(b, pop, NULL);
		return;
	}
	qn_park(b, pop, next_look(b, pop, r == NULL || r->next_due_us == 0 ? 0 : r->next_due_us - now_us));
}

void qn_pop_failed(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_error *e)
{
	found_nothing(b, pop, NULL, 0, e);
}

/** The batch is not full and its queue would rather wait. */
static void hold(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_claim_pop *r)
{
	uint64_t now = qn_mono_ms();

	if (b->draining) {
		qn_pop_finish(b, pop, NULL);
		return;
	}
	if (pop->hold_until_ms == 0) {
		pop->hold_until_ms = now + (uint64_t)r->hold_ms;
		if (pop->hold_until_ms > pop->deadline_ms) {
			pop->hold_until_ms = pop->deadline_ms;
		}
	}
	pop->ready = r->ready;
	if (pop->epoch != qn_gate_epoch(pop) || now >= pop->hold_until_ms) {
		qn_pop_ready(b, pop);
		return;
	}
	qn_park(b, pop, pop->hold_until_ms);
}

/** Whether the claim may say that it is too early to take a part of the batch. */
static bool may_hold(const struct qn_pop_job *pop)
{
	uint64_t until = pop->hold_until_ms == 0 ? pop->deadline_ms : pop->hold_until_ms;

	return pop->wait && pop->want.budget > 1 && qn_mono_ms() < until;
}

/** Tells the hot list what became of a pop's candidates; those that are free again are somebody else's to try. */
static void settle_candidates(const struct claim *c, const struct qn_claim_pop *r)
{
	struct qn_broker *b = c->broker;
	const struct qn_group_key g = {r->tenant, r->queue, r->group};
	bool some_free = false;

	b->app->hotlist.vt->settle(b->app->hotlist.self, &g, r->verdicts, r->verdict_count, c->op.now_us, qn_mono_ms());
	for (uint32_t i = 0; i < r->verdict_count; i++) {
		some_free = some_free || r->verdicts[i].kind == QN_LANE_BUSY;
	}
	if (some_free && r->lane_count > 0) {
		qn_gate_ready(b, &g);
	}
}

static void claimed(struct claim *c, uint32_t i)
{
	struct qn_pop_job *pop = c->jobs[i];
	const struct qn_claim_pop *r = &c->op.pops[i];
	struct qn_broker *b = c->broker;

	if (c->from_ring[i]) {
		settle_candidates(c, r);
	}
	if (r->hold_ms > 0) {
		hold(b, pop, r);
		return;
	}
	if (c->from_ring[i] && r->lane_count == 0 && pop->misses < MISSES_MAX) {
		/* The list may have other lanes. */
		pop->misses++;
		qn_pop_ready(b, pop);
		return;
	}
	if (r->lane_count == 0) {
		found_nothing(b, pop, r, c->op.now_us, NULL);
		return;
	}
	qn_lease_granted(b, r);
	pop->lanes = r->lanes;
	pop->lane_count = r->lane_count;
	pop->result = c->result;
	atomic_fetch_add_explicit(&c->result->refs, 1, memory_order_relaxed);
	qn_pop_finish(b, pop, NULL);
}

static void claim_failed(struct claim *c, uint32_t i, const struct qn_error *e)
{
	struct qn_broker *b = c->broker;
	const struct qn_claim_pop *r = &c->op.pops[i];

	if (c->from_ring[i]) {
		const struct qn_group_key g = {r->tenant, r->queue, r->group};

		/* Nothing is known of these lanes: they stay candidates. */
		for (uint32_t k = 0; k < r->candidate_count; k++) {
			const struct qn_verdict busy = {.partition_id = r->candidates[k], .kind = QN_LANE_BUSY};

			b->app->hotlist.vt->settle(b->app->hotlist.self, &g, &busy, 1, 0, qn_mono_ms());
		}
	}
	qn_pop_failed(b, c->jobs[i], e);
}

static void claim_done(struct qn_op *op, const struct qn_error *e)
{
	struct claim *c = QN_CONTAINER(op, struct claim, op.op);

	c->broker->busy.claim--;
	if (e != NULL) {
		qn_log(QN_WARN, "claim.failed", QN_U("pops", c->op.pop_count), QN_S("error", e->msg),
		       QN_S("sqlstate", e->sqlstate));
	}
	for (uint32_t i = 0; i < c->op.pop_count; i++) {
		if (e != NULL) {
			claim_failed(c, i, e);
		} else {
			claimed(c, i);
		}
	}
	qn_claim_result_unref(c->result); /* frees c when no pop took lanes */
}

/**
 * One lane for a pop of one lane, else twice as many as it may have, since some may turn out to be
 * leased; doubled after each miss, up to the seed's bound. Not that bound at once: a lane that is a
 * candidate of one pop is hidden from all others of its group meanwhile.
 */
static uint32_t candidates_wanted(const struct qn_pop_job *pop)
{
	bool widest = pop->want.max_lanes <= 0 || pop->want.max_lanes > CANDIDATES_MAX;
	uint64_t lanes = widest ? CANDIDATES_MAX : (uint64_t)pop->want.max_lanes;
	uint64_t most = lanes * 8 < CANDIDATES_MIN ? CANDIDATES_MIN : lanes * 8;
	uint64_t n = (lanes == 1 ? 1 : lanes * 2) << pop->misses;

	most = most > CANDIDATES_MAX ? CANDIDATES_MAX : most;
	return (uint32_t)(n < most ? n : most);
}

/** Asks the hot list for candidates; false when it knows there is nothing. */
static bool take_candidates(struct claim *c, uint32_t i, const struct qn_pop_job *pop)
{
	struct qn_broker *b = c->broker;
	struct qn_claim_pop *w = &c->op.pops[i];
	const struct qn_group_key g = {w->tenant, w->queue, w->group};
	uint32_t n = candidates_wanted(pop);
	struct qn_uuid *out;
	enum qn_take take;

	if (w->from != QN_CLAIM_QUEUE) {
		return true;
	}
	out = qn_arena_alloc(c->op.op.arena, n * sizeof(*out));
	take = b->app->hotlist.vt->take(b->app->hotlist.self, &g, n, (uint32_t)w->budget, out, &n, qn_mono_ms());
	if (take == QN_TAKE_LANES && n > 0) {
		w->candidates = out;
		w->candidate_count = n;
		w->window_kept = b->app->hotlist.vt->keeps_window(b->app->hotlist.self, &g);
		c->from_ring[i] = true;
	}
	qn_hot_walk(b, &g);
	return take != QN_TAKE_EMPTY;
}

static void add(struct claim *c, struct qn_pop_job *pop)
{
	struct qn_broker *b = c->broker;
	uint32_t i = c->op.pop_count;
	const struct qn_error gone = {.code = QN_CANCELED, .msg = "the client is gone"};

	if (client_gone(pop)) {
		qn_pop_finish(b, pop, &gone);
		return;
	}
	pop->epoch = qn_gate_epoch(pop);
	c->op.pops[i] = pop->want;
	c->op.pops[i].may_hold = may_hold(pop);
	c->from_ring[i] = false;
	if (!take_candidates(c, i, pop)) {
		found_nothing(b, pop, NULL, 0, NULL);
		return;
	}
	pop->state = QN_POP_CLAIMING;
	c->jobs[i] = pop;
	c->op.pop_count++;
}

static struct claim *claim_create(struct qn_broker *b)
{
	struct qn_arena *a = qn_arena_create();
	struct claim *c = qn_arena_zalloc(a, sizeof(*c));

	c->broker = b;
	c->result = qn_arena_zalloc(a, sizeof(*c->result));
	c->result->arena = a;
	atomic_init(&c->result->refs, 1);
	c->op.op.arena = a;
	c->op.op.done = claim_done;
	c->op.pops = qn_arena_zalloc(a, POPS_PER_CLAIM * sizeof(*c->op.pops));
	return c;
}

void qn_pop_pump(struct qn_broker *b)
{
	while (b->busy.claim < b->slots.claim && !qn_list_empty(&b->claim_ready)) {
		struct claim *c = claim_create(b);

		while (c->op.pop_count < POPS_PER_CLAIM && !qn_list_empty(&b->claim_ready)) {
			struct qn_list *node = qn_list_pop_front(&b->claim_ready);

			add(c, QN_CONTAINER(node, struct qn_pop_job, link));
		}
		if (c->op.pop_count == 0) {
			qn_claim_result_unref(c->result);
			continue;
		}
		b->busy.claim++;
		c->op.op.deadline_ms = qn_broker_deadline(b);
		b->app->storage.vt->claim(b->app->storage.self, &c->op);
	}
}

void qn_pop_stop(struct qn_broker *b)
{
	const struct qn_error e = {.code = QN_CANCELED, .msg = "the broker stops"};

	for (struct qn_list *node = qn_list_pop_front(&b->claim_ready); node != NULL;
	     node = qn_list_pop_front(&b->claim_ready)) {
		qn_pop_finish(b, QN_CONTAINER(node, struct qn_pop_job, link), &e);
	}
}
