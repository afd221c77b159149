/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendering claimed segments: open, walk the frames, write one JSON object around each payload's
 * bytes, which are copied as they are, or opened first when the frame says that they are sealed. The
 * frame alone decides: a payload that only looks like an envelope is a client's own (decisions 9).
 *
 * What cannot be read becomes dead letters (pop_letters.c). A broker without any key is no reason for
 * that: another one may have the key, so a leased batch is given back and the pop answers 500.
 */
#include "pop_render.h"

#include "../error.h"
#include "../log.h"
#include "../wire/frame.h"
#include "../wire/ident.h"

#include <string.h>

#define OPEN_MAX ((size_t)256 << 20)

struct render {
	struct qn_call *c;
	const struct qn_pop_job *pop;
	struct qn_bytes out;
	uint32_t messages;
	struct qn_pop_letters letters;
	uint32_t behind;        /* letters there were at the lane's last message; QN_POP_NOTHING */
	struct qn_error no_key; /* set: the pop fails */
	/* pieces that repeat in every message of a lane */
	struct qn_bytes tail;
};

/** A job without a call: freed when it comes back. */
static void discard(struct qn_job *job)
{
	qn_arena_destroy(job->arena);
}

static struct qn_query_job *detached(const struct qn_call *c)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_query_job *q = qn_arena_zalloc(a, sizeof(*q));

	q->job.kind = QN_JOB_RELEASE;
	q->job.io = c->http->thread;
	q->job.arena = a;
	q->job.answer = discard;
	return q;
}

static void start_release(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->release(app->storage.self, QN_CONTAINER(op, struct qn_release_op, op));
}

/** The lanes are free again: whoever waits for them should look. */
static void released(struct qn_broker *b, struct qn_query_job *q)
{
	const struct qn_settle_lane *lanes = q->context;
	const struct qn_release_op *op = QN_CONTAINER(q->query.op, struct qn_release_op, op);

	for (uint32_t i = 0; i < op->count; i++) {
		qn_broker_lane_free(b, &lanes[i]);
	}
}

void qn_pop_give_back(const struct qn_call *c, const struct qn_pop_job *pop)
{
	struct qn_query_job *q;
	struct qn_release_op *op;
	struct qn_uuid *ids;
	struct qn_settle_lane *lanes;

	if (pop->want.lease_id.n == 0) {
		return;
	}
	q = detached(c);
	op = qn_arena_zalloc(q->job.arena, sizeof(*op));
	ids = qn_arena_alloc(q->job.arena, pop->lane_count * sizeof(*ids));
	lanes = qn_arena_zalloc(q->job.arena, pop->lane_count * sizeof(*lanes));
	op->tenant = c->tenant;
	op->group = qn_arena_dup(q->job.arena, pop->want.group);
	op->lease_id = qn_arena_dup(q->job.arena, pop->want.lease_id);
	for (uint32_t i = 0; i < pop->lane_count; i++) {
		ids[i] = pop->lanes[i].partition_id;
		lanes[i].tenant = c->tenant;
		lanes[i].partition_id = ids[i];
		lanes[i].group = op->group;
		lanes[i].lease_id = op->lease_id;
		lanes[i].queue = qn_arena_dup(q->job.arena, pop->lanes[i].queue);
		lanes[i].partition = qn_arena_dup(q->job.arena, pop->lanes[i].partition);
	}
	op->partition_ids = ids;
	op->count = pop->lane_count;
	q->query.start = start_release;
	q->query.op = &op->op;
	q->applied = released;
	q->context = lanes;
	qn_job_send(&q->job);
}

static void put_lane_tail(struct render *r, const struct qn_claimed *lane)
{
	struct qn_bytes *b = &r->tail;

	b->n = 0;
	QN_PUT_LIT(b, ",\"partitionId\":");
	qn_json_put_uuid(b, &lane->partition_id);
	QN_PUT_LIT(b, ",\"partition\":");
	qn_json_put_str(b, lane->partition);
	QN_PUT_LIT(b, ",\"leaseId\":");
	qn_json_put_str(b, r->pop->want.lease_id);
	QN_PUT_LIT(b, ",\"consumerGroup\":");
	qn_json_put_str(b, r->pop->want.group);
	QN_PUT_LIT(b, ",\"queue\":");
	qn_json_put_str(b, lane->queue);
	QN_PUT_LIT(b, ",\"deliveryAttempt\":");
	qn_json_put_i64(b, lane->attempt);
	QN_PUT_LIT(b, ",\"leaseExpiresAt\":");
	if (lane->lease_expires_at_us == 0) {
		QN_PUT_LIT(b, "null");
	} else {
		qn_json_put_time_us(b, lane->lease_expires_at_us);
	}
	QN_PUT_LIT(b, ",\"offset\":");
}

/** False, with the reason, when a sealed payload cannot be opened. */
static bool read_payload(const struct render *r, const struct qn_frame *f, struct qn_span *out, struct qn_error *e)
{
	*out = f->payload;
	if ((f->flags & QN_FRAME_SEALED) != 0 &&
	    qn_app->encryption.vt->open(qn_app->encryption.self, r->c->arena, f->payload, out, e) != QN_OK) {
		return false;
	}
	if (out->n == 0) {
		*out = QN_SPAN_LIT("null");
	}
	return true;
}

static struct qn_span reason(const struct render *r, const struct qn_error *e)
{
	return qn_arena_dup(r->c->arena, (struct qn_span){e->msg, strlen(e->msg)});
}

static void file_message(struct render *r, const struct qn_claimed *lane, const struct qn_frame *f, int64_t offset,
                         struct qn_error *e)
{
	struct qn_dead_letter *d = qn_pop_letter(r->c, r->pop, &r->letters, lane);

	qn_error_prefix(e, "undecryptable payload");
	qn_log(QN_ERROR, "payload.undecryptable", QN_SP("queue", lane->queue), QN_SP("partition", lane->partition),
	       QN_I("offset", offset), QN_S("error", e->msg));
	d->offset = offset;
	d->message_id = f->message_id;
	d->transaction_id = qn_arena_dup(r->c->arena, f->transaction_id);
	d->payload = qn_arena_dup(r->c->arena, f->payload);
	d->error = reason(r, e);
}

static void put_message(struct render *r, const struct qn_frame *f, struct qn_span payload, const struct qn_slice *s,
                        int64_t offset)
{
	struct qn_bytes *b = &r->out;

	if (r->messages > 0) {
		QN_PUT_LIT(b, ",");
	}
	QN_PUT_LIT(b, "{\"id\":");
	qn_json_put_uuid(b, &f->message_id);
	QN_PUT_LIT(b, ",\"transactionId\":");
	qn_json_put_str(b, f->transaction_id);
	QN_PUT_LIT(b, ",\"traceId\":");
	if ((f->flags & QN_FRAME_TRACE) != 0) {
		qn_json_put_uuid(b, &f->trace_id);
	} else {
		QN_PUT_LIT(b, "null");
	}
	QN_PUT_LIT(b, ",\"data\":");
	qn_bytes_put_span(b, payload);
	QN_PUT_LIT(b, ",\"producerSub\":");
	if ((f->flags & QN_FRAME_SUB) != 0) {
		qn_json_put_str(b, f->producer_sub);
	} else {
		QN_PUT_LIT(b, "null");
	}
	QN_PUT_LIT(b, ",\"createdAt\":");
	qn_json_put_time_us(b, s->created_at_us);
	qn_bytes_put(b, r->tail.p, r->tail.n);
	qn_json_put_i64(b, offset);
	QN_PUT_LIT(b, "}");
	r->messages++;
	r->behind = r->letters.count;
}

static bool walk(struct render *r, const struct qn_claimed *lane, const struct qn_slice *s, struct qn_span raw,
                 struct qn_error *e)
{
	size_t at = 0;

	for (uint32_t i = 0; i < s->first; i++) {
		if (!qn_frame_skip(raw, &at)) {
			(void)QN_FAIL(e, QN_INTERNAL, "segment ends before frame %u", s->first);
			return false;
		}
	}
	for (uint32_t i = 0; i < s->take; i++) {
		int64_t offset = s->base_offset + s->first + i;
		struct qn_error sealed = {0};
		struct qn_span payload;
		struct qn_frame f;

		if (!qn_frame_read(raw, &at, &f)) {
			(void)QN_FAIL(e, QN_INTERNAL, "frame %u is damaged", s->first + i);
			return false;
		}
		if (read_payload(r, &f, &payload, &sealed)) {
			put_message(r, &f, payload, s, offset);
		} else if (sealed.code == QN_UNAVAIL && r->pop->want.lease_id.n > 0) {
			r->no_key = sealed;
		} else {
			file_message(r, lane, &f, offset, &sealed);
		}
	}
	return true;
}

static void file_segment(struct render *r, const struct qn_claimed *lane, const struct qn_slice *s, struct qn_error *e)
{
	struct qn_dead_letter *d = qn_pop_letter(r->c, r->pop, &r->letters, lane);

	qn_error_prefix(e, "undecodable segment");
	qn_log(QN_ERROR, "segment.undecodable", QN_SP("queue", lane->queue), QN_SP("partition", lane->partition),
	       QN_I("base_offset", s->base_offset), QN_U("messages", s->take), QN_S("error", e->msg));
	d->offset = s->base_offset + s->first;
	d->count = s->take;
	d->error = reason(r, e);
}

static void put_slice(struct render *r, const struct qn_claimed *lane, const struct qn_slice *s)
{
	const size_t length = r->out.n;
	const uint32_t messages = r->messages, letters = r->letters.count, behind = r->behind;
	struct qn_bytes store = {0};
	struct qn_span raw;
	struct qn_error e = {0};

	if (qn_segment_open(s->blob, OPEN_MAX, &store, &raw, &e) != QN_OK || !walk(r, lane, s, raw, &e)) {
		r->out.n = length;
		r->messages = messages;
		r->letters.count = letters;
		r->behind = behind;
		file_segment(r, lane, s, &e);
	}
	qn_bytes_fini(&store);
}

/** True when at least one message of the lane was rendered. */
static bool put_lane(struct render *r, const struct qn_claimed *lane)
{
	uint32_t letters = r->letters.count;

	put_lane_tail(r, lane);
	r->behind = QN_POP_NOTHING;
	for (uint32_t i = 0; i < lane->slice_count; i++) {
		put_slice(r, lane, &lane->slices[i]);
	}
	qn_pop_letters_of_lane(&r->letters, r->pop, letters, r->behind);
	return r->behind != QN_POP_NOTHING;
}

static void put_head(struct render *r, const struct qn_claimed *first)
{
	struct qn_bytes *b = &r->out;
	const struct qn_claim_pop *w = &r->pop->want;

	QN_PUT_LIT(b, "{\"success\":true,\"queue\":");
	qn_json_put_str(b, w->from == QN_CLAIM_LABELS ? QN_SPAN_LIT("") : w->queue);
	QN_PUT_LIT(b, ",\"partition\":");
	qn_json_put_str(b, first->partition);
	QN_PUT_LIT(b, ",\"partitionId\":");
	qn_json_put_uuid(b, &first->partition_id);
	QN_PUT_LIT(b, ",\"leaseId\":");
	qn_json_put_str(b, w->lease_id);
	QN_PUT_LIT(b, ",\"consumerGroup\":");
	qn_json_put_str(b, w->group);
	QN_PUT_LIT(b, ",\"messages\":[");
}

/** Clients take UNAVAIL for a database that is away; this one is. */
static void cannot_open(struct qn_call *c, const struct qn_error *e)
{
	struct qn_error own = *e;

	own.code = QN_INTERNAL;
	qn_log(QN_ERROR, "pop.no_key", QN_S("error", e->msg));
	qn_call_failed(c, &own, "payloads are encrypted and this broker has no encryption key");
}

void qn_pop_render(struct qn_call *c, struct qn_pop_job *pop)
{
	struct render r = {.c = c, .pop = pop};
	int64_t lanes = 0;

	if (pop->lane_count == 0) {
		qn_call_reply(c, 204, NULL);
		return;
	}
	put_head(&r, &pop->lanes[0]);
	for (uint32_t i = 0; i < pop->lane_count; i++) {
		lanes += put_lane(&r, &pop->lanes[i]) ? 1 : 0;
	}
	qn_bytes_fini(&r.tail);
	if (r.no_key.code != 0) {
		qn_bytes_fini(&r.out);
		qn_pop_give_back(c, pop);
		cannot_open(c, &r.no_key);
		return;
	}
	if (r.out.failed) {
		qn_pop_give_back(c, pop);
	}
	if (r.messages == 0) {
		qn_bytes_fini(&r.out);
	} else {
		QN_PUT_LIT(&r.out, "],\"partitionsClaimed\":");
		qn_json_put_i64(&r.out, lanes);
		QN_PUT_LIT(&r.out, "}");
	}
	if (r.letters.count > 0) {
		qn_pop_file(c, pop, &r.letters, &r.out);
		return;
	}
	qn_call_reply(c, r.messages == 0 ? 204 : 200, &r.out);
}
