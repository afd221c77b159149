/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push: from accepted items to stored segments.
 *
 * Fire on idle: a lane without a
 * flush in flight goes with the next free slot, so batches grow only because the pipe is busy; there
 * is no timer. At most one flush is in flight per lane: that, with items taken in arrival order, is
 * what keeps a lane's order.
 *
 * Repeats of a hash inside one flush wait for the first one's verdict as its followers. Whether they
 * are duplicates is the queue's dedup window's business: with the window off they are stored after
 * all (decisions 13). While the window is not known to be on, a flush ends before the first repeat.
 *
 * Items of a queue that is known to encrypt are sealed before they enter their lanes. A lane that the
 * storage refuses as unsealed stays in flight until its items are sealed, and they go again first.
 */
#include "internal.h"

#include "flush.h"

#include "../error.h"
#include "../log.h"

#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES_MAX ((size_t)8 << 20)

bool qn_push_admit(struct qn_broker *b, struct qn_push_job *job)
{
	const size_t limit = (size_t)b->app->options.push_memory_bytes;

	if (b->push_bytes > 0 && b->push_bytes + job->bytes > limit) {
		struct qn_error e = {0};

		(void)QN_FAIL(&e, QN_LIMIT, "too many bytes wait to be stored");
		qn_broker_finish(b, &job->job, &e);
		return false;
	}
	b->push_bytes += job->bytes;
	return true;
}

void qn_push_accept(struct qn_broker *b, struct qn_push_job *job)
{
	if (!qn_push_admit(b, job)) {
		return;
	}
	job->pending = job->item_count;
	if (b->encrypting > 0 && qn_seal_first(b, job)) {
		return;
	}
	for (uint32_t i = 0; i < job->group_count; i++) {
		qn_lane_enter(b, &job->groups[i]);
	}
}

void qn_push_conclude(struct qn_broker *b, struct qn_push_job *job)
{
	job->pending--;
	if (job->pending == 0) {
		b->push_bytes -= job->bytes;
		qn_broker_finish(b, &job->job, NULL);
	}
}

static void item_done(struct qn_broker *b, struct qn_push_item *item, enum qn_item_status status)
{
	struct qn_push_job *job = item->job;

	item->status = status;
	qn_seal_drop(item);
	qn_push_conclude(b, job);
}

void qn_push_resolve(struct qn_broker *b, struct qn_push_item *item, enum qn_item_status status)
{
	struct qn_push_item *f = item->followers;

	while (f != NULL) {
		struct qn_push_item *next = f->next;

		f->message_id = item->message_id;
		item_done(b, f, status == QN_ITEM_FAILED ? QN_ITEM_FAILED : QN_ITEM_DUPLICATE);
		f = next;
	}
	item_done(b, item, status);
}

void qn_push_fail(struct qn_broker *b, struct qn_push_item *item)
{
	while (item != NULL) {
		struct qn_push_item *next = item->next;

		qn_push_resolve(b, item, QN_ITEM_FAILED);
		item = next;
	}
}

static void fail_lane(struct qn_broker *b, struct qn_lane_flush *lf, const struct qn_error *e)
{
	qn_log(QN_WARN, "push.failed", QN_SP("queue", lf->lane->queue), QN_SP("partition", lf->lane->partition),
	       QN_U("messages", lf->count), QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	for (uint32_t i = 0; i < lf->count; i++) {
		qn_push_resolve(b, lf->items[i], QN_ITEM_FAILED);
	}
}

/** The window is off: repeats held back are messages of their own. They go next, in order. */
static void release_followers(struct qn_lane_flush *lf)
{
	struct qn_push_item *first = NULL, *last = NULL;

	for (uint32_t i = 0; i < lf->count; i++) {
		struct qn_push_item *f = lf->items[i]->followers;

		lf->items[i]->followers = NULL;
		while (f != NULL) {
			struct qn_push_item *next = f->next;

			f->next = NULL;
			if (first == NULL) {
				first = f;
			} else {
				last->next = f;
			}
			last = f;
			f = next;
		}
	}
	if (first != NULL) {
		qn_lane_prepend(lf->lane, first, last);
	}
}

void qn_push_stored(struct qn_broker *b, const struct qn_push_lane *r)
{
	const struct qn_app *app = b->app;

	app->dedup.vt->learn(app->dedup.self, &r->lane_id, r->base_offset, r->hashes, r->created_at_us,
	                     r->dedup_window_s);
	app->hotlist.vt->mark(app->hotlist.self,
	                      &(struct qn_lane_mark){.tenant = r->tenant,
	                                             .queue = r->queue,
	                                             .partition_id = r->lane_id,
	                                             .messages = r->count,
	                                             .last_offset = r->base_offset + r->count - 1,
	                                             .delay_s = r->delayed_processing_s,
	                                             .window_s = r->window_buffer_s},
	                      qn_mono_ms());
	qn_gate_mark(b, &r->tenant, r->queue, r->partition, r->count);
}

static void lane_stored(struct qn_broker *b, struct qn_lane_flush *lf, const struct qn_push_lane *r)
{
	if (r->dedup_window_s == 0) {
		release_followers(lf);
	}
	qn_push_stored(b, r);
	for (uint32_t i = 0; i < lf->count; i++) {
		qn_push_resolve(b, lf->items[i], QN_ITEM_QUEUED);
	}
}

/** Nothing was stored: the duplicates get their originals' ids, the survivors go again first. */
static void lane_duplicates(struct qn_broker *b, struct qn_lane_flush *lf, const struct qn_push_lane *r)
{
	struct qn_push_dup_item *dups = calloc(r->dup_count, sizeof(*dups));
	struct qn_push_item *first = NULL, *last = NULL;
	uint32_t d = 0;

	QN_ASSERT(dups != NULL);
	for (uint32_t i = 0; i < lf->count; i++) {
		struct qn_push_item *item = lf->items[i];

		if (d < r->dup_count && r->dups[d].index == i) {
			dups[d].item = item;
			dups[d].offset = r->dups[d].offset;
			d++;
			continue;
		}
		item->next = NULL;
		if (first == NULL) {
			first = item;
		} else {
			last->next = item;
		}
		last = item;
	}
	if (first != NULL) {
		qn_lane_prepend(lf->lane, first, last);
	}
	qn_push_lookup(b, &lf->lane->tenant, &r->lane_id, dups, d);
	free(dups);
}

/** The lane's id as the storage says; what was remembered under another one is of a lane that is gone. */
static void learn_id(struct qn_broker *b, const struct qn_push_lane *r)
{
	static const struct qn_uuid nil;
	const struct qn_app *app = b->app;

	if (memcmp(&r->partition_id, &nil, sizeof(nil)) != 0 &&
	    memcmp(&r->partition_id, &r->lane_id, sizeof(nil)) != 0) {
		app->dedup.vt->forget(app->dedup.self, &r->partition_id);
	}
	qn_lane_id_set(b, qn_lane_hash(&r->tenant, r->queue, r->partition), &r->tenant, r->queue, &r->lane_id);
}

void qn_push_learn(struct qn_broker *b, const struct qn_push_lane *r, bool has_repeats)
{
	learn_id(b, r);
	if (has_repeats) {
		qn_facts_set_window(b, &r->tenant, r->queue, r->dedup_window_s);
	}
	if (r->sealed && !r->encryption_enabled) {
		qn_facts_set_encrypts(b, &r->tenant, r->queue, false);
	}
}

/** Decides the items' fate and frees the lane for its next flush. */
static void lane_verdict(struct qn_broker *b, struct qn_lane_flush *lf, const struct qn_push_lane *r)
{
	struct qn_error e = {0};

	if (r->status == QN_PUSH_QUEUED || r->status == QN_PUSH_DUPLICATE) {
		qn_push_learn(b, r, lf->has_repeats);
	}
	switch (r->status) {
	case QN_PUSH_QUEUED:
		lf->lane->id = r->lane_id;
		lane_stored(b, lf, r);
		break;
	case QN_PUSH_DUPLICATE:
		if (r->dup_count == 0) {
			(void)QN_FAIL(&e, QN_INTERNAL, "storage named no duplicate");
			fail_lane(b, lf, &e);
			break;
		}
		lf->lane->id = r->lane_id;
		lane_duplicates(b, lf, r);
		break;
	case QN_PUSH_UNSEALED:
		lf->lane->id = r->lane_id;
		qn_seal_again(b, lf);
		return;
	case QN_PUSH_FAILED:
		lf->lane->id = (struct qn_uuid){{0}};
		fail_lane(b, lf, &r->error);
		break;
	}
	lf->lane->in_flight = false;
	qn_lane_settle(b, lf->lane);
}

/** A lane's time may be later than the clock (ST-1), the least of them hardly is. */
static void learn_time(struct qn_broker *b, const struct qn_flush *f)
{
	int64_t least_us = INT64_MAX;

	for (uint32_t i = 0; i < f->lane_count; i++) {
		const struct qn_push_lane *r = &f->push.lanes[i];

		if (r->status == QN_PUSH_QUEUED && r->created_at_us < least_us) {
			least_us = r->created_at_us;
		}
	}
	if (least_us != INT64_MAX) {
		qn_db_time_seen(b, least_us, f->sent_ms);
	}
}

static void flush_done(struct qn_op *op, const struct qn_error *e)
{
	struct qn_flush *f = QN_CONTAINER(op, struct qn_flush, push.op);
	struct qn_broker *b = f->broker;

	b->busy.push--;
	if (e == NULL) {
		learn_time(b, f);
	}
	for (uint32_t i = 0; i < f->lane_count; i++) {
		struct qn_lane_flush *lf = &f->lanes[i];

		if (e != NULL) {
			f->push.lanes[i].status = QN_PUSH_FAILED;
			f->push.lanes[i].error = *e;
		}
		lane_verdict(b, lf, &f->push.lanes[i]);
	}
	qn_flush_destroy(f);
}

/** The flush's segments are sealed: off to the storage. */
static void flush_sealed(struct qn_flush *f, const struct qn_error *e)
{
	struct qn_broker *b = f->broker;

	if (e != NULL) {
		flush_done(&f->push.op, e);
		return;
	}
	f->push.op.done = flush_done;
	f->push.op.deadline_ms = qn_broker_deadline(b);
	f->sent_ms = qn_mono_ms();
	b->app->storage.vt->push(b->app->storage.self, &f->push);
}

void qn_push_pump(struct qn_broker *b)
{
	const uint32_t lanes_max = (uint32_t)b->app->options.push_lanes_max;

	while (b->busy.push < b->slots.push && !qn_list_empty(&b->push_ready)) {
		struct qn_flush *f = qn_flush_create(b, qn_list_count(&b->push_ready, lanes_max));
		size_t bytes = 0;

		while (f->lane_count < f->lane_max && bytes < FLUSH_BYTES_MAX && !qn_list_empty(&b->push_ready)) {
			struct qn_list *node = qn_list_pop_front(&b->push_ready);
			struct qn_push_queue *l = QN_CONTAINER(node, struct qn_push_queue, link);

			bytes += qn_flush_add(f, l);
			l->in_flight = true;
		}
		b->busy.push++;
		qn_flush_seal(f, flush_sealed);
	}
}

/** Fails what waits; a lane in flight goes when its flush comes back. */
static void drop_lane(struct qn_map_node *node, void *arg)
{
	struct qn_broker *b = arg;
	struct qn_push_queue *l = QN_CONTAINER(node, struct qn_push_queue, node);
	struct qn_push_item *item = l->first;

	l->first = NULL;
	qn_push_fail(b, item);
	qn_list_remove(&l->link);
	qn_lane_settle(b, l);
}

void qn_push_stop(struct qn_broker *b)
{
	qn_map_each(&b->push_lanes, drop_lane, b);
}
