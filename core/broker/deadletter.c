/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters of acks. settle has moved the cursor to the message before the poison and kept the
 * lease; here the poison's frame is read from its segment (on the crew) and filed with its payload
 * bytes as they were stored, which moves the cursor past it and releases the lease.
 *
 * A poison whose segment is gone or unreadable is not filed: every item answers `dlq rejected`, the
 * cursor stays (message-plane 5.6). A lane whose lease was lost meanwhile answers as for any stale
 * lease.
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"
#include "../wire/text.h"

#include <string.h>

#define OPEN_MAX ((size_t)256 << 20)

struct letter {
	struct qn_list link; /* in broker->dead_letters */
	struct qn_dead_letter_op op;
	struct qn_dead_letter item;
	struct qn_broker *broker;
	struct qn_ack_unit *unit;
	struct qn_bytes store;
	bool readable;
	uv_work_t work;
};

bool qn_dead_letter_read(const struct qn_settle_lane *lane, struct qn_bytes *store, struct qn_frame *out)
{
	struct qn_span raw;
	size_t at = 0;
	bool ok = lane->poison.found && qn_segment_open(lane->poison.blob, OPEN_MAX, store, &raw, NULL) == QN_OK;

	for (int64_t o = lane->poison.base_offset; ok && o < lane->poison_offset; o++) {
		ok = qn_frame_skip(raw, &at);
	}
	return ok && qn_frame_read(raw, &at, out);
}

static void read_frame(uv_work_t *w)
{
	struct letter *l = QN_CONTAINER(w, struct letter, work);
	struct qn_frame frame;

	l->readable = qn_dead_letter_read(&l->unit->lane, &l->store, &frame);
	if (l->readable) {
		l->item.message_id = frame.message_id;
		l->item.transaction_id = frame.transaction_id;
		l->item.payload = frame.payload;
	}
}

static void letter_end(struct letter *l)
{
	struct qn_ack_unit *unit = l->unit;
	struct qn_broker *b = l->broker;

	qn_bytes_fini(&l->store);
	qn_arena_destroy(l->op.op.arena);
	qn_ack_finish_unit(b, unit);
}

static void reject(struct letter *l, enum qn_ack_reason reason)
{
	struct qn_settle_lane *lane = &l->unit->lane;

	for (uint32_t i = 0; i < lane->item_count; i++) {
		lane->items[i].outcome = QN_OUT_REJECTED;
		lane->items[i].reason = reason;
	}
	lane->lease_released = false;
	lane->has_more = false;
	letter_end(l);
}

/** message-plane 2.6: the poison's own text, else the first of a signal in the call, else a constant. */
struct qn_span qn_dead_letter_error(const struct qn_ack_unit *unit)
{
	const struct qn_settle_lane *lane = &unit->lane;
	struct qn_span txn = unit->item_txns[lane->poison_item];
	struct qn_span first = {NULL, 0};

	for (uint32_t i = 0; i < lane->item_count; i++) {
		if (lane->items[i].status == QN_ACK_COMPLETED || unit->item_errors[i].n == 0) {
			continue;
		}
		if (qn_span_eq(unit->item_txns[i], txn)) {
			return unit->item_errors[i];
		}
		if (first.n == 0) {
			first = unit->item_errors[i];
		}
	}
	return first.n > 0 ? first : QN_SPAN_LIT("Retries exhausted");
}

static void filed(struct qn_op *op, const struct qn_error *e)
{
	struct letter *l = QN_CONTAINER(op, struct letter, op.op);
	struct qn_settle_lane *lane = &l->unit->lane;

	l->broker->busy.settle--;
	if (e != NULL) {
		qn_log(QN_WARN, "dead_letter.failed", QN_SP("queue", lane->queue), QN_S("error", e->msg),
		       QN_S("sqlstate", e->sqlstate));
		reject(l, QN_ACK_STORAGE);
		return;
	}
	if (!l->item.filed) {
		reject(l, QN_ACK_BAD_LEASE);
		return;
	}
	l->unit->dead_lettered = true;
	lane->lease_released = true;
	lane->committed = lane->poison_offset;
	lane->has_more = l->item.has_more;
	letter_end(l);
}

static void after_read(uv_work_t *w, int status)
{
	struct letter *l = QN_CONTAINER(w, struct letter, work);

	(void)status; /* never canceled */
	if (!l->readable) {
		qn_log(QN_WARN, "dead_letter.unreadable", QN_SP("queue", l->unit->lane.queue),
		       QN_SP("partition", l->unit->lane.partition), QN_I("offset", l->unit->lane.poison_offset));
		reject(l, QN_ACK_DLQ_REJECTED);
		return;
	}
	qn_list_push_back(&l->broker->dead_letters, &l->link);
	qn_dead_letter_pump(l->broker);
}

void qn_dead_letter_begin(struct qn_broker *b, struct qn_ack_unit *unit)
{
	struct qn_arena *a = qn_arena_create();
	struct letter *l = qn_arena_zalloc(a, sizeof(*l));
	struct qn_settle_lane *lane = &unit->lane;

	l->broker = b;
	l->unit = unit;
	l->op.op.arena = a;
	/* The settle call's memory goes when its done() returns. */
	lane->poison.blob = qn_arena_dup(a, lane->poison.found ? lane->poison.blob : (struct qn_span){NULL, 0});
	lane->queue = qn_arena_dup(unit->job->job.arena, lane->queue);
	lane->partition = qn_arena_dup(unit->job->job.arena, lane->partition);
	l->item.tenant = lane->tenant;
	l->item.partition_id = lane->partition_id;
	l->item.group = lane->group;
	l->item.lease_id = lane->lease_id;
	l->item.offset = lane->poison_offset;
	l->item.count = 1;
	l->item.retry_count = lane->retry_count;
	l->item.error = qn_dead_letter_error(unit);
	if (!lane->poison.found ||
	    uv_queue_work(qn_thread_loop(b->app->engine), &l->work, read_frame, after_read) != 0) {
		reject(l, QN_ACK_DLQ_REJECTED);
	}
}

void qn_dead_letter_pump(struct qn_broker *b)
{
	while (!b->stopping && b->busy.settle < b->slots.settle && !qn_list_empty(&b->dead_letters)) {
		struct letter *l = QN_CONTAINER(qn_list_pop_front(&b->dead_letters), struct letter, link);

		b->busy.settle++;
		l->op.items = &l->item;
		l->op.count = 1;
		l->op.op.done = filed;
		l->op.op.deadline_ms = qn_broker_deadline(b);
		b->app->storage.vt->dead_letter(b->app->storage.self, &l->op);
	}
}
