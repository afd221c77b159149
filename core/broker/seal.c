/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encrypting the payloads of push items, on the crew: before they enter their lanes when their queue
 * is known to want it, or when the storage has refused their lane. Such a lane stays in flight until
 * its items are sealed, and they go again before all others, so that order is kept.
 *
 * An item's frame is read, its payload sealed, and a new frame with QN_FRAME_SEALED takes the old
 * one's place. All items of one call are sealed or none; nothing of them is touched before the call
 * is back on the engine, and the new frames are freed with the items' verdicts (qn_seal_drop).
 */
#include "flush.h"

#include "../error.h"
#include "../log.h"
#include "../wire/frame.h"

#include <stdlib.h>
#include <string.h>

struct seal {
	uv_work_t work;
	struct qn_broker *broker;
	struct qn_push_item **items;
	struct qn_span *frames;
	uint32_t count;
	struct qn_arena *arena;
	struct qn_error error;
	qn_sealed_fn *done;
	void *arg;
};

static int seal_one(struct seal *s, struct qn_arena *scratch, uint32_t i)
{
	const struct qn_app *app = s->broker->app;
	struct qn_frame f;
	size_t at = 0;
	uint8_t *bytes;
	int rc;

	if (!qn_frame_read(s->items[i]->frame, &at, &f)) {
		return QN_FAIL(&s->error, QN_INTERNAL, "a frame made here cannot be read");
	}
	rc = app->encryption.vt->seal(app->encryption.self, scratch, f.payload, &f.payload, &s->error);
	if (rc != QN_OK) {
		return rc;
	}
	f.flags |= QN_FRAME_SEALED;
	s->frames[i].n = qn_frame_size(&f);
	bytes = malloc(s->frames[i].n);
	if (bytes == NULL) {
		return QN_FAIL(&s->error, QN_NOMEM, "out of memory while sealing %zu bytes", s->frames[i].n);
	}
	qn_frame_write(&f, bytes);
	s->frames[i].p = bytes;
	return QN_OK;
}

static void work(uv_work_t *w)
{
	struct seal *s = QN_CONTAINER(w, struct seal, work);

	for (uint32_t i = 0; i < s->count && s->error.code == 0; i++) {
		struct qn_arena *scratch = qn_arena_create();

		(void)!seal_one(s, scratch, i);
		qn_arena_destroy(scratch);
	}
}

static void finish(struct seal *s)
{
	bool ok = s->error.code == 0;

	for (uint32_t i = 0; i < s->count; i++) {
		if (!ok) {
			free((void *)(uintptr_t)s->frames[i].p);
			continue;
		}
		s->items[i]->frame = s->frames[i];
		s->items[i]->sealed = true;
	}
	s->done(s->broker, s->arg, ok ? NULL : &s->error);
	qn_arena_destroy(s->arena);
}

static void after_work(uv_work_t *w, int status)
{
	(void)status; /* never canceled */
	finish(QN_CONTAINER(w, struct seal, work));
}

void qn_seal_items(struct qn_broker *b, struct qn_push_item *const *items, uint32_t count, qn_sealed_fn *done,
                   void *arg)
{
	struct qn_arena *a = qn_arena_create();
	struct seal *s = qn_arena_zalloc(a, sizeof(*s));

	s->broker = b;
	s->arena = a;
	s->done = done;
	s->arg = arg;
	s->items = qn_arena_alloc(a, count * sizeof(struct qn_push_item *));
	s->frames = qn_arena_zalloc(a, count * sizeof(*s->frames));
	for (uint32_t i = 0; i < count; i++) {
		if (!items[i]->sealed) {
			s->items[s->count] = items[i];
			s->count++;
		}
	}
	if (uv_queue_work(qn_thread_loop(b->app->engine), &s->work, work, after_work) != 0) {
		(void)QN_FAIL(&s->error, QN_INTERNAL, "the crew takes no work");
		finish(s);
	}
}

void qn_seal_drop(struct qn_push_item *item)
{
	if (item->sealed) {
		free((void *)(uintptr_t)item->frame.p);
		item->frame = (struct qn_span){NULL, 0};
		item->sealed = false;
	}
}

/* ---- before the lane ------------------------------------------------------------------------- */

/** Back from the crew: what could not be sealed fails, the rest of the request does not. */
static void sealed_first(struct qn_broker *b, void *arg, const struct qn_error *e)
{
	struct qn_push_job *job = arg;
	struct qn_push_group *groups = job->groups;
	uint32_t count = job->group_count;

	if (e != NULL) {
		qn_log(QN_WARN, "push.unsealed", QN_S("error", e->msg));
	}
	/* The last verdict ends the job: failures come last, so that nothing of it is needed afterwards. */
	for (uint32_t i = 0; i < count; i++) {
		if (!b->stopping && (e == NULL || !groups[i].sealing)) {
			qn_lane_enter(b, &groups[i]);
			groups[i].first = NULL;
		}
	}
	job->pending++;
	for (uint32_t i = 0; i < count; i++) {
		qn_push_fail(b, groups[i].first);
	}
	qn_push_conclude(b, job);
}

bool qn_seal_first(struct qn_broker *b, struct qn_push_job *job)
{
	struct qn_push_item **items = qn_arena_alloc(job->job.arena, job->item_count * sizeof(struct qn_push_item *));
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->group_count; i++) {
		struct qn_push_group *g = &job->groups[i];

		g->sealing = qn_facts_encrypts(b, &g->tenant, g->queue);
		for (struct qn_push_item *item = g->sealing ? g->first : NULL; item != NULL; item = item->next) {
			items[n] = item;
			n++;
		}
	}
	if (n > 0) {
		qn_seal_items(b, items, n, sealed_first, job);
	}
	return n > 0;
}

/* ---- after a refusal ------------------------------------------------------------------------- */

/** Items of a lane on the crew. */
struct reseal {
	struct qn_push_queue *lane;
	uint32_t count;
	struct qn_push_item *items[];
};

static void resealed(struct qn_broker *b, void *arg, const struct qn_error *e)
{
	struct reseal *r = arg;
	struct qn_push_queue *l = r->lane;

	for (uint32_t i = 0; i < r->count; i++) {
		r->items[i]->next = i + 1 < r->count ? r->items[i + 1] : NULL;
	}
	if (e != NULL || b->stopping) {
		qn_log(QN_WARN, "push.unsealed", QN_SP("queue", l->queue), QN_S("error", e == NULL ? "" : e->msg));
		qn_push_fail(b, r->items[0]);
	} else {
		qn_lane_prepend(l, r->items[0], r->items[r->count - 1]);
	}
	free(r);
	l->in_flight = false;
	qn_lane_settle(b, l);
}

void qn_seal_again(struct qn_broker *b, const struct qn_lane_flush *lf)
{
	struct reseal *r = calloc(1, sizeof(*r) + lf->count * sizeof(struct qn_push_item *));

	QN_ASSERT(r != NULL);
	r->lane = lf->lane;
	r->count = lf->count;
	memcpy(r->items, lf->items, lf->count * sizeof(struct qn_push_item *));
	qn_facts_set_encrypts(b, &lf->lane->tenant, lf->lane->queue, true);
	qn_seal_items(b, r->items, r->count, resealed, r);
}
