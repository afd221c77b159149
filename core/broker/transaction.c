/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transactions: pushes and acks of one request in one storage call.
 *
 * The storage decides everything; what it cannot do alone, it refuses without a trace, and the call
 * goes again with what was missing, a few times at most: repeats inside the call removed or kept as
 * the queue's window says, payloads encrypted, a message to be dead-lettered read from its segment.
 *
 * A transaction does not pass through the lanes of push.c and ack.c: it meets other calls about the
 * same lane or cursor in the database, which puts one after the other. It takes slots of class
 * settle, but leaves one to acks where there are two. All of its memory is its job's.
 */
#include "flush.h"

#include "../error.h"
#include "../log.h"

#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 6

/** One group of the push job: what is stored of it. */
struct segment {
	struct qn_push_item **items;
	uint32_t count;
	struct qn_bytes blob;
};

struct letter {
	struct qn_txn_letter *out;
	struct qn_bytes store;
	bool readable;
};

struct txn {
	struct qn_list link; /* in broker->txns */
	struct qn_txn_op op;
	struct qn_broker *broker;
	struct qn_txn_job *job;
	struct segment *segments;
	enum qn_txn_repeats *repeats;  /* of op */
	struct qn_push_item **leaders; /* per item: the one it repeats, NULL for an item that is stored */
	struct letter *letters;        /* of this try */
	uint32_t letter_count;
	unsigned tries;
	uv_work_t work;
	struct qn_error error;
};

/* ---- the end --------------------------------------------------------------------------------- */

static void drop_letters(struct txn *t)
{
	for (uint32_t i = 0; i < t->letter_count; i++) {
		qn_bytes_fini(&t->letters[i].store);
	}
	t->letter_count = 0;
	t->op.letter_count = 0;
}

static void finish(struct txn *t, const struct qn_error *e)
{
	struct qn_broker *b = t->broker;
	struct qn_txn_job *job = t->job;

	for (uint32_t i = 0; i < job->push.item_count; i++) {
		qn_seal_drop(&job->push.items[i]);
	}
	for (uint32_t i = 0; i < job->push.group_count; i++) {
		qn_bytes_fini(&t->segments[i].blob);
	}
	drop_letters(t);
	b->push_bytes -= job->push.bytes;
	job->verdict = t->op.verdict;
	job->refused = t->op.refused;
	qn_broker_finish(b, &job->push.job, e);
}

static void cancel(struct txn *t)
{
	const struct qn_error e = {.code = QN_CANCELED, .msg = "the broker stops"};

	finish(t, &e);
}

static void committed(struct txn *t)
{
	struct qn_broker *b = t->broker;
	struct qn_push_job *push = &t->job->push;

	for (uint32_t i = 0; i < push->item_count; i++) {
		const struct qn_push_item *leader = t->leaders[i];

		push->items[i].status = leader == NULL ? QN_ITEM_QUEUED : QN_ITEM_DUPLICATE;
		if (leader != NULL) {
			push->items[i].message_id = leader->message_id;
		}
	}
	for (uint32_t i = 0; i < push->group_count; i++) {
		qn_push_learn(b, &t->op.pushes[i], t->repeats[i] != QN_TXN_NO_REPEATS);
		qn_push_stored(b, &t->op.pushes[i]);
	}
	for (uint32_t i = 0; i < t->job->unit_count; i++) {
		struct qn_ack_unit *unit = &t->job->units[i];

		unit->lane = t->op.acks[i];
		unit->dead_lettered = unit->lane.items[unit->lane.poison_item].outcome == QN_OUT_DEAD_LETTERED;
		qn_ack_wake(b, &unit->lane);
	}
	finish(t, NULL);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void line_up(struct txn *t)
{
	if (t->broker->stopping) {
		cancel(t);
		return;
	}
	qn_list_push_back(&t->broker->txns, &t->link);
	qn_txn_pump(t->broker);
}

/** On the crew or the engine; touches nothing but the segments and the frames. */
static void pack_all(struct txn *t)
{
	int level = (int)t->broker->app->options.zstd_level;

	for (uint32_t i = 0; i < t->op.push_count && t->error.code == 0; i++) {
		struct segment *s = &t->segments[i];

		qn_bytes_fini(&s->blob);
		s->blob = (struct qn_bytes){0};
		(void)!qn_segment_pack(s->items, s->count, level, &s->blob, &t->error);
		t->op.pushes[i].blob = (struct qn_span){s->blob.p, s->blob.n};
	}
}

static void packed(struct txn *t)
{
	if (t->error.code != 0) {
		finish(t, &t->error);
		return;
	}
	line_up(t);
}

static void pack_work(uv_work_t *w)
{
	pack_all(QN_CONTAINER(w, struct txn, work));
}

static void pack_done(uv_work_t *w, int status)
{
	(void)status; /* never canceled */
	packed(QN_CONTAINER(w, struct txn, work));
}

static uint32_t count_items(const struct qn_push_group *g)
{
	uint32_t n = 0;

	for (const struct qn_push_item *item = g->first; item != NULL; item = item->next) {
		n++;
	}
	return n;
}

/** Sorts a group's items into those that are stored and those that repeat one of them. */
static void choose_items(struct txn *t, uint32_t at)
{
	const struct qn_push_group *g = &t->job->push.groups[at];
	struct segment *s = &t->segments[at];
	bool keep = qn_facts_window(t->broker, &g->tenant, g->queue) == 0;
	uint32_t size = count_items(g);
	struct qn_seen seen;

	qn_seen_init(&seen, t->op.op.arena, size);
	s->items = qn_arena_alloc(t->op.op.arena, size * sizeof(struct qn_push_item *));
	t->repeats[at] = QN_TXN_NO_REPEATS;
	s->count = 0;
	for (struct qn_push_item *item = g->first; item != NULL; item = item->next) {
		struct qn_push_item **slot = qn_seen_slot(&seen, item);

		t->leaders[item - t->job->push.items] = keep ? NULL : *slot;
		if (*slot != NULL) {
			t->repeats[at] = keep ? QN_TXN_REPEATS_KEPT : QN_TXN_REPEATS_REMOVED;
		}
		if (*slot == NULL || keep) {
			s->items[s->count] = item;
			s->count++;
		}
		if (*slot == NULL) {
			*slot = item;
		}
	}
}

static void build(struct txn *t)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < t->op.push_count; i++) {
		const struct qn_push_group *g = &t->job->push.groups[i];
		struct qn_push_lane *out = &t->op.pushes[i];
		struct segment *s = &t->segments[i];

		choose_items(t, i);
		*out = (struct qn_push_lane){.tenant = g->tenant, .queue = g->queue, .partition = g->partition};
		out->partition_id = qn_lane_id_get(t->broker, qn_lane_hash(&g->tenant, g->queue, g->partition));
		bytes += qn_segment_describe(t->broker, t->op.op.arena, s->items, s->count, out);
	}
	if (bytes <= QN_CREW_BYTES ||
	    uv_queue_work(qn_thread_loop(t->broker->app->engine), &t->work, pack_work, pack_done) != 0) {
		pack_all(t);
		packed(t);
	}
}

/* ---- encryption ------------------------------------------------------------------------------ */

static void encrypted(struct qn_broker *b, void *arg, const struct qn_error *e)
{
	struct txn *t = arg;

	(void)b;
	if (e != NULL) {
		qn_log(QN_WARN, "transaction.unsealed", QN_S("error", e->msg));
		t->op.verdict = QN_TXN_UNSEALED;
		finish(t, NULL);
		return;
	}
	build(t);
}

/** Encrypts what is known to need it, then builds the segments. */
static void encrypt(struct txn *t)
{
	struct qn_push_job *push = &t->job->push;
	struct qn_push_item **items =
		qn_arena_alloc(t->op.op.arena, (push->item_count + 1) * sizeof(struct qn_push_item *));
	uint32_t n = 0;

	for (uint32_t i = 0; t->broker->encrypting > 0 && i < push->group_count; i++) {
		const struct qn_push_group *g = &push->groups[i];
		bool wanted = qn_facts_encrypts(t->broker, &g->tenant, g->queue);

		for (struct qn_push_item *item = wanted ? g->first : NULL; item != NULL; item = item->next) {
			if (!item->sealed) {
				t->op.refused = n == 0 ? i : t->op.refused;
				items[n] = item;
				n++;
			}
		}
	}
	if (n == 0) {
		build(t);
		return;
	}
	qn_seal_items(t->broker, items, n, encrypted, t);
}

/* ---- dead letters ---------------------------------------------------------------------------- */

static void read_letters(uv_work_t *w)
{
	struct txn *t = QN_CONTAINER(w, struct txn, work);

	for (uint32_t i = 0; i < t->letter_count; i++) {
		struct letter *l = &t->letters[i];
		struct qn_frame frame;

		l->readable = qn_dead_letter_read(&t->op.acks[l->out->lane], &l->store, &frame);
		if (l->readable) {
			l->out->message_id = frame.message_id;
			l->out->transaction_id = frame.transaction_id;
			l->out->payload = frame.payload;
		}
	}
}

static void letters_read(uv_work_t *w, int status)
{
	struct txn *t = QN_CONTAINER(w, struct txn, work);

	(void)status; /* never canceled */
	for (uint32_t i = 0; i < t->letter_count; i++) {
		uint32_t lane = t->letters[i].out->lane;

		if (!t->letters[i].readable) {
			qn_log(QN_WARN, "dead_letter.unreadable", QN_SP("queue", t->op.acks[lane].queue),
			       QN_SP("partition", t->op.acks[lane].partition),
			       QN_I("offset", t->op.acks[lane].poison_offset));
			t->op.refused = lane;
			finish(t, NULL);
			return;
		}
	}
	t->op.letter_count = t->letter_count;
	line_up(t);
}

static void prepare_letters(struct txn *t)
{
	struct qn_txn_letter *out = qn_arena_zalloc(t->op.op.arena, t->op.ack_count * sizeof(*out));

	drop_letters(t);
	t->letters = qn_arena_zalloc(t->op.op.arena, t->op.ack_count * sizeof(*t->letters));
	for (uint32_t i = 0; i < t->op.ack_count; i++) {
		struct qn_ack_unit *unit = &t->job->units[i];

		if (!t->op.acks[i].needs_dead_letter) {
			continue;
		}
		unit->lane = t->op.acks[i];
		out[t->letter_count].lane = i;
		out[t->letter_count].offset = unit->lane.poison_offset;
		out[t->letter_count].error = qn_dead_letter_error(unit);
		t->letters[t->letter_count].out = &out[t->letter_count];
		t->letter_count++;
	}
	t->op.letters = out;
	if (uv_queue_work(qn_thread_loop(t->broker->app->engine), &t->work, read_letters, letters_read) != 0) {
		finish(t, NULL);
	}
}

/* ---- tries ----------------------------------------------------------------------------------- */

static void fetch_missing(struct txn *t)
{
	struct qn_error e = {0};

	t->tries++;
	if (t->tries >= TRIES_MAX) {
		(void)QN_FAIL(&e, QN_INTERNAL, "what the transaction is about kept changing");
		finish(t, &e);
		return;
	}
	if (t->op.verdict == QN_TXN_POISONED) {
		prepare_letters(t);
		return;
	}
	for (uint32_t i = 0; i < t->op.push_count; i++) {
		const struct qn_push_lane *l = &t->op.pushes[i];

		qn_push_learn(t->broker, l, t->op.verdict == QN_TXN_WINDOW && t->repeats[i] != QN_TXN_NO_REPEATS);
		if (l->status == QN_PUSH_UNSEALED) {
			qn_facts_set_encrypts(t->broker, &l->tenant, l->queue, true);
		}
	}
	encrypt(t);
}

static void txn_done(struct qn_op *op, const struct qn_error *e)
{
	struct txn *t = QN_CONTAINER(op, struct txn, op.op);

	t->broker->busy.settle--;
	t->broker->txns_running--;
	if (e != NULL) {
		struct qn_error failed = *e;

		/* A full storage is no reason to try again soon, as a full broker is. */
		failed.code = e->code == QN_LIMIT ? QN_INTERNAL : e->code;
		finish(t, &failed);
		return;
	}
	switch (t->op.verdict) {
	case QN_TXN_COMMITTED:
		committed(t);
		break;
	case QN_TXN_WINDOW:
	case QN_TXN_UNSEALED:
	case QN_TXN_POISONED:
		fetch_missing(t);
		break;
	case QN_TXN_DUPLICATE:
	case QN_TXN_FENCE:
	case QN_TXN_NOT_OWNED:
	case QN_TXN_NO_CONSUMER:
	case QN_TXN_BAD_LEASE:
	case QN_TXN_UNKNOWN:
	case QN_TXN_NO_BATCH:
		finish(t, NULL);
		break;
	}
}

static void start(struct txn *t)
{
	struct qn_broker *b = t->broker;

	b->busy.settle++;
	b->txns_running++;
	for (uint32_t i = 0; i < t->op.ack_count; i++) {
		t->op.acks[i] = t->job->units[i].lane;
	}
	t->op.op.done = txn_done;
	t->op.op.deadline_ms = qn_broker_deadline(b);
	b->app->storage.vt->transaction(b->app->storage.self, &t->op);
}

void qn_txn_pump(struct qn_broker *b)
{
	uint32_t most = b->slots.settle > 1 ? b->slots.settle - 1 : 1;

	while (!b->stopping && b->busy.settle < b->slots.settle && b->txns_running < most && !qn_list_empty(&b->txns)) {
		start(QN_CONTAINER(qn_list_pop_front(&b->txns), struct txn, link));
	}
}

void qn_txn_accept(struct qn_broker *b, struct qn_txn_job *job)
{
	struct qn_push_job *push = &job->push;
	struct qn_arena *a = push->job.arena;
	struct txn *t;

	if (!qn_push_admit(b, push)) {
		return;
	}
	t = qn_arena_zalloc(a, sizeof(*t));
	t->broker = b;
	t->job = job;
	t->segments = qn_arena_zalloc(a, (push->group_count + 1) * sizeof(*t->segments));
	t->repeats = qn_arena_zalloc(a, (push->group_count + 1) * sizeof(*t->repeats));
	t->leaders = qn_arena_zalloc(a, (push->item_count + 1) * sizeof(struct qn_push_item *));
	t->op.op.arena = a;
	t->op.tenant = job->tenant;
	t->op.pushes = qn_arena_zalloc(a, (push->group_count + 1) * sizeof(*t->op.pushes));
	t->op.repeats = t->repeats;
	t->op.push_count = push->group_count;
	t->op.acks = qn_arena_zalloc(a, (job->unit_count + 1) * sizeof(*t->op.acks));
	t->op.ack_count = job->unit_count;
	t->op.fences = job->fences;
	t->op.fence_count = job->fence_count;
	t->op.borrow = job->borrow;
	t->op.hint = job->hint;
	encrypt(t);
}

void qn_txn_stop(struct qn_broker *b)
{
	for (struct qn_list *node = qn_list_pop_front(&b->txns); node != NULL; node = qn_list_pop_front(&b->txns)) {
		cancel(QN_CONTAINER(node, struct txn, link));
	}
}
