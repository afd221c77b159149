/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a claim brought and no answer can hold: a segment that is damaged, a payload that no key opens.
 * It must not stall its lane and is never left out silently (decisions 18): it is filed as dead letters
 * with the reason, as stored, before the pop is answered. Letters of a batch of which something is
 * delivered stand beside it; where nothing is, the last one moves the cursor past all of them. Behind
 * the last delivered message of a lease the batch is cut short: it is done when that is acknowledged, and
 * they are the head of the next one.
 */
#include "pop_render.h"

#include "../log.h"

#include <stdatomic.h>

struct filing {
	struct qn_query_job q;
	struct qn_dead_letter_op op;
	struct qn_pop_job *pop;
	struct qn_bytes answer;
};

struct qn_dead_letter *qn_pop_letter(struct qn_call *c, const struct qn_pop_job *pop, struct qn_pop_letters *l,
                                     const struct qn_claimed *lane)
{
	struct qn_dead_letter *d = qn_arena_push(c->arena, (void **)&l->items, &l->count, &l->cap, sizeof(*d));

	d->kind = QN_LETTER_BESIDE;
	d->tenant = c->tenant;
	d->partition_id = lane->partition_id;
	d->group = pop->want.group;
	d->lease_id = pop->want.lease_id;
	d->count = 1;
	d->payload = QN_SPAN_LIT("null");
	return d;
}

void qn_pop_letters_of_lane(struct qn_pop_letters *l, const struct qn_pop_job *pop, uint32_t first, uint32_t behind)
{
	bool delivered = behind != QN_POP_NOTHING;

	if (l->count == first || pop->want.lease_id.n == 0) {
		return;
	}
	if (delivered && behind < l->count) {
		l->items[behind].kind = QN_LETTER_DEFER;
		l->count = behind + 1;
	} else if (!delivered) {
		l->items[l->count - 1].kind = QN_LETTER_HEAD;
	}
}

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->dead_letter(app->storage.self, QN_CONTAINER(op, struct qn_dead_letter_op, op));
}

/** Lanes whose lease has ended with their letters are free for whoever waits. */
static void applied(struct qn_broker *b, struct qn_query_job *q)
{
	const struct filing *f = QN_CONTAINER(q, struct filing, q);

	for (uint32_t i = 0; i < f->op.count; i++) {
		const struct qn_dead_letter *d = &f->op.items[i];

		if (d->kind == QN_LETTER_HEAD && d->filed && d->has_more) {
			qn_broker_lane_free(b, &(struct qn_settle_lane){.tenant = d->tenant,
			                                                .partition_id = d->partition_id,
			                                                .group = d->group,
			                                                .queue = d->queue,
			                                                .partition = d->partition});
		}
	}
}

/** An item the database refused by itself is as bad as a call that failed. */
static bool is_lost(const struct filing *f)
{
	for (uint32_t i = 0; i < f->op.count; i++) {
		if (f->op.items[i].kind == QN_LETTER_BESIDE && !f->op.items[i].filed) {
			return true;
		}
	}
	return false;
}

static void filed(struct qn_job *job)
{
	struct filing *f = QN_CONTAINER(job, struct filing, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_claim_result *result = f->pop->result;

	if (job->error.code == 0 && is_lost(f)) {
		job->error = (struct qn_error){.code = QN_INTERNAL, .msg = "dead letters were not filed"};
	}
	if (job->error.code != 0 || c->gone || c->http->vt->peer_gone(c->http)) {
		qn_pop_give_back(c, f->pop);
		qn_bytes_fini(&f->answer);
		qn_claim_result_unref(result);
		if (job->error.code != 0) {
			qn_call_failed(c, &job->error, "pop failed");
		} else {
			qn_call_reply(c, 499, NULL);
		}
		return;
	}
	qn_claim_result_unref(result);
	qn_call_reply(c, f->answer.n == 0 ? 204 : 200, &f->answer);
}

void qn_pop_file(struct qn_call *c, struct qn_pop_job *pop, const struct qn_pop_letters *l, struct qn_bytes *answer)
{
	struct filing *f = qn_arena_zalloc(c->arena, sizeof(*f));

	f->pop = pop;
	f->answer = *answer;
	*answer = (struct qn_bytes){0};
	atomic_fetch_add_explicit(&pop->result->refs, 1, memory_order_relaxed);
	f->op.items = l->items;
	f->op.count = l->count;
	f->q.query.start = start;
	f->q.query.op = &f->op.op;
	f->q.applied = applied;
	qn_call_send(c, &f->q.job, QN_JOB_QUERY, filed);
}
