/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotlist_ring: the hot list of the engine, as rules HL-1 to HL-8 want it. Here is what each call
 * means for the slots; ring.c moves them. All functions run on the engine thread.
 *
 * Lanes of a delayed queue wait from their mark on; lanes of a queue with a windowBuffer wait for the
 * window after their first mark, or until window_batch messages are marked (seed: windowBuffer).
 * A leased lane waits for the lease's end, but looks every ten seconds whether it was given back at
 * another broker, unless nothing was left in it.
 */
#include "ring.h"

#include <qn/abi.h>

#define GONE_MAX 1024

static uint64_t later(uint64_t now_ms, int64_t ms)
{
	return now_ms + (uint64_t)(ms > 0 ? ms : 0);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void mark_slot(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, const struct qn_lane_mark *m,
                      uint64_t now_ms)
{
	struct qn_ring_slot *s = qn_ring_slot(r, g, lane);
	uint32_t messages;
	bool is_batch;

	if (s == NULL) {
		return;
	}
	messages = s->messages + m->messages;
	s->messages = messages < UINT16_MAX ? (uint16_t)messages : UINT16_MAX;
	is_batch = s->messages >= r->options->window_batch;
	if (s->state == QN_SLOT_OUT) {
		s->flags |= QN_SLOT_MARKED;
	} else if (s->state == QN_SLOT_WAITING && (s->flags & QN_SLOT_WINDOW) == 0) {
		qn_ring_noticed(r, g, lane, now_ms);
	} else if (s->state == QN_SLOT_WAITING && is_batch) {
		s->flags = 0;
		qn_ring_ready(r, g, lane);
	} else if (s->state == QN_SLOT_IDLE && m->delay_s > 0) {
		qn_ring_wait(r, g, lane, later(now_ms, (int64_t)m->delay_s * 1000));
	} else if (s->state == QN_SLOT_IDLE && m->window_s > 0 && !is_batch) {
		s->flags = QN_SLOT_WINDOW;
		qn_ring_wait(r, g, lane, later(now_ms, (int64_t)m->window_s * 1000));
	} else if (s->state == QN_SLOT_IDLE) {
		qn_ring_ready(r, g, lane);
	}
}

static void mark(void *self, const struct qn_lane_mark *m, uint64_t now_ms)
{
	struct qn_ring *r = self;
	struct qn_ring_queue *q = qn_ring_queue_find(r, &m->tenant, m->queue);
	uint32_t lane;

	if (q == NULL) {
		return;
	}
	qn_ring_advance(r, now_ms);
	q->window_s = m->window_s;
	lane = qn_ring_lane_get(&q->lanes, r->host, &m->partition_id);
	for (struct qn_ring_group *g = q->groups; g != NULL; g = g->next) {
		mark_slot(r, g, lane, m, now_ms);
	}
}

/* ---- claims ---------------------------------------------------------------------------------- */

static enum qn_take take(void *self, const struct qn_group_key *k, uint32_t max_lanes, uint32_t budget,
                         struct qn_uuid *out, uint32_t *count, uint64_t now_ms)
{
	struct qn_ring *r = self;
	struct qn_ring_group *g;
	uint64_t messages = 0;

	*count = 0;
	qn_ring_advance(r, now_ms);
	qn_ring_sweep(r, now_ms);
	g = qn_ring_group_get(r, k, now_ms);
	if (g == NULL) {
		return QN_TAKE_SCAN;
	}
	g->used = true;
	if (!g->walked) {
		return QN_TAKE_SCAN;
	}
	while (*count < max_lanes && messages < budget) {
		uint32_t lane = qn_ring_pop(r, g);

		if (lane == QN_RING_NONE) {
			break;
		}
		messages += g->slots[lane].messages;
		g->slots[lane].messages = 0;
		out[*count] = g->queue->lanes.ids[lane];
		++*count;
	}
	return *count > 0 ? QN_TAKE_LANES : QN_TAKE_EMPTY;
}

/** When a lane that is leased until then is looked at. */
static uint64_t revisit(const struct qn_ring_slot *s, int64_t in_ms, uint64_t now_ms)
{
	bool drained = (s->flags & (QN_SLOT_DRAINED | QN_SLOT_MARKED)) == QN_SLOT_DRAINED;

	return later(now_ms, drained || in_ms < QN_RING_REVISIT_MS ? in_ms : QN_RING_REVISIT_MS);
}

/** What was marked while the lane was out: held from now on when its queue has a window. */
static void marked_meanwhile(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, uint64_t now_ms)
{
	struct qn_ring_slot *s = &g->slots[lane];

	if (g->queue->window_s > 0 && s->messages < r->options->window_batch) {
		s->flags = QN_SLOT_WINDOW;
		qn_ring_wait(r, g, lane, later(now_ms, (int64_t)g->queue->window_s * 1000));
	} else {
		qn_ring_ready(r, g, lane);
	}
}

static void took(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, const struct qn_verdict *v, int64_t in_ms,
                 uint64_t now_ms)
{
	struct qn_ring_slot *s = &g->slots[lane];
	int64_t left = v->last_offset - v->batch_end;

	if (left > s->messages) {
		s->messages = left < UINT16_MAX ? (uint16_t)left : UINT16_MAX;
	}
	s->flags |= left <= 0 ? QN_SLOT_DRAINED : 0;
	if (in_ms > 0) {
		s->flags |= QN_SLOT_LEASED;
		qn_ring_wait(r, g, lane, revisit(s, in_ms, now_ms));
	} else if (left > 0) {
		qn_ring_ready(r, g, lane);
	} else if ((s->flags & QN_SLOT_MARKED) != 0) {
		marked_meanwhile(r, g, lane, now_ms);
	} else {
		qn_ring_idle(r, s);
	}
}

static void settle_slot(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, const struct qn_verdict *v,
                        int64_t now_us, uint64_t now_ms)
{
	struct qn_ring_slot *s = &g->slots[lane];
	int64_t in_ms = v->until_us > now_us ? (v->until_us - now_us + 999) / 1000 : 0;

	switch (v->kind) {
	case QN_TOOK:
		took(r, g, lane, v, in_ms, now_ms);
		break;
	case QN_LANE_EMPTY:
		if ((s->flags & QN_SLOT_MARKED) != 0) {
			marked_meanwhile(r, g, lane, now_ms);
		} else {
			qn_ring_idle(r, s);
		}
		break;
	case QN_LANE_LEASED:
		s->flags |= QN_SLOT_LEASED;
		qn_ring_wait(r, g, lane, (s->flags & QN_SLOT_FREED) != 0 ? now_ms : revisit(s, in_ms, now_ms));
		break;
	case QN_LANE_LATER:
		qn_ring_wait(r, g, lane, later(now_ms, in_ms));
		break;
	case QN_LANE_BUSY:
		s->messages += s->messages == 0 ? 1 : 0;
		qn_ring_ready(r, g, lane);
		break;
	case QN_LANE_GONE:
		qn_ring_idle(r, s);
		qn_ring_lane_remove(&g->queue->lanes, lane);
		break;
	}
}

static void settle(void *self, const struct qn_group_key *k, const struct qn_verdict *verdicts, uint32_t count,
                   int64_t now_us, uint64_t now_ms)
{
	struct qn_ring *r = self;
	struct qn_ring_group *g = qn_ring_group_find(r, k);

	if (g == NULL) {
		return;
	}
	qn_ring_advance(r, now_ms);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t lane = qn_ring_lane_find(&g->queue->lanes, &verdicts[i].partition_id);

		/* Another group's claim may have found the lane gone, or the group was dropped and begun anew
		 * meanwhile: what two claims say of a lane then both counts. */
		g->out -= g->out > 0 ? 1 : 0;
		if (lane != QN_RING_NONE && lane < g->cap &&
		    (g->slots[lane].state == QN_SLOT_OUT || g->slots[lane].state == QN_SLOT_IDLE)) {
			settle_slot(r, g, lane, &verdicts[i], now_us, now_ms);
		}
	}
	if (g->queue->lanes.gone > GONE_MAX && g->queue->lanes.gone > g->queue->lanes.count / 2) {
		qn_ring_queue_drop(r, g->queue);
	}
}

static void promote(void *self, const struct qn_group_key *k, const struct qn_uuid *partition_id, bool has_more,
                    uint64_t now_ms)
{
	struct qn_ring *r = self;
	struct qn_ring_group *g = qn_ring_group_find(r, k);
	uint32_t lane;
	struct qn_ring_slot *s;

	if (g == NULL) {
		return;
	}
	qn_ring_advance(r, now_ms);
	lane = has_more ? qn_ring_lane_get(&g->queue->lanes, r->host, partition_id)
	                : qn_ring_lane_find(&g->queue->lanes, partition_id);
	s = qn_ring_slot(r, g, lane);
	if (s == NULL) {
		return;
	}
	if (s->state == QN_SLOT_OUT) {
		s->flags |= has_more ? QN_SLOT_MARKED | QN_SLOT_FREED : 0;
	} else if (has_more || (s->flags & QN_SLOT_MARKED) != 0) {
		s->messages += s->messages == 0 ? 1 : 0;
		qn_ring_ready(r, g, lane);
	} else if (s->state == QN_SLOT_WAITING && (s->flags & QN_SLOT_LEASED) != 0) {
		qn_ring_idle(r, s);
	}
}

/* ---- walks, the clock, forgetting --------------------------------------------------------------- */

static bool walk_due(void *self, const struct qn_group_key *k, struct qn_walk *w, uint64_t now_ms)
{
	struct qn_ring_group *g = qn_ring_group_find(self, k);

	return g != NULL && qn_ring_walk_due(self, g, w, now_ms);
}

static void walk_page(void *self, const struct qn_group_key *k, const struct qn_walk_page *page, uint64_t now_ms)
{
	struct qn_ring_group *g = qn_ring_group_find(self, k);

	if (g != NULL) {
		qn_ring_advance(self, now_ms);
		qn_ring_walk_page(self, g, page, now_ms);
	}
}

static void forget_queue(void *self, const struct qn_uuid *tenant, struct qn_span queue)
{
	struct qn_ring_queue *q = qn_ring_queue_find(self, tenant, queue);

	if (q != NULL) {
		qn_ring_queue_drop(self, q);
	}
}

static void forget_group(void *self, const struct qn_group_key *k)
{
	struct qn_ring_group *g = qn_ring_group_find(self, k);

	if (g != NULL) {
		qn_ring_group_drop(self, g);
	}
}

static uint64_t next_due_ms(void *self)
{
	const struct qn_ring *r = self;

	if (r->fired != NULL) {
		return r->wheel.now_ms;
	}
	return r->waiting == 0 ? UINT64_MAX : qn_wheel_due_ms(&r->wheel);
}

static bool due(void *self, struct qn_group_key *out, uint64_t now_ms)
{
	struct qn_ring *r = self;
	struct qn_ring_group *g;

	qn_ring_advance(r, now_ms);
	qn_ring_sweep(r, now_ms);
	g = r->fired;
	if (g == NULL) {
		return false;
	}
	r->fired = g->fired_next;
	g->fired = false;
	*out = (struct qn_group_key){g->queue->tenant, g->queue->name, g->name};
	return true;
}

static bool keeps_window(void *self, const struct qn_group_key *k)
{
	const struct qn_ring_queue *q = qn_ring_queue_find(self, &k->tenant, k->queue);

	return q != NULL && q->window_s > 0;
}

static const struct qn_hotlist_vt vtable = {
	.head = {sizeof(vtable), QN_HOTLIST_MAJOR, QN_HOTLIST_MINOR},
	.mark = mark,
	.take = take,
	.settle = settle,
	.promote = promote,
	.walk_due = walk_due,
	.walk_page = walk_page,
	.forget_queue = forget_queue,
	.forget_group = forget_group,
	.next_due_ms = next_due_ms,
	.due = due,
	.keeps_window = keeps_window,
};

/* ---- module ---------------------------------------------------------------------------------- */

#define FIELD(member) .offset = offsetof(struct qn_ring_options, member)

static const struct qn_option options[] = {
	{.name = "walk",
         .env = "QUEEN_HOTLIST_RESEED_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "30s",
         .min = 100,
         .max = 3600000,
         FIELD(walk_ms),
         .doc = "how often a group's lately written lanes are looked through for what was missed"},
	{.name = "full_walk",
         .env = "QUEEN_HOTLIST_RESEED_FULL_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "300s",
         .min = 100,
         .max = 86400000,
         FIELD(full_walk_ms),
         .doc = "how often all of them are"},
	{.name = "idle",
         .env = "QUEEN_HOTLIST_IDLE_SWEEP_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "300s",
         .min = 100,
         .max = 86400000,
         FIELD(idle_ms),
         .doc = "a group nobody pops for one to two of these is forgotten"},
	{.name = "window_batch",
         .env = "QUEEN_HOTLIST_WINDOW_BATCH",
         .type = QN_OPT_INT,
         .def = "100",
         .min = 1,
         .max = UINT16_MAX,
         FIELD(window_batch),
         .doc = "messages that end a lane's windowBuffer early"},
	{.name = NULL},
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct qn_ring *r = h->alloc(sizeof(*r));

	r->host = h;
	*self = r;
	return h->provide(m, "hotlist", (struct qn_service){&vtable.head, r}, e);
}

static int start(void *self, const void *opts, struct qn_error *e)
{
	struct qn_ring *r = self;

	(void)e;
	r->options = opts;
	qn_wheel_init(&r->wheel, r->host, r->host->mono_ms(), qn_ring_waits, r);
	r->sweep_ms = r->host->mono_ms() + (uint64_t)r->options->idle_ms;
	return QN_OK;
}

static void stop(void *self)
{
	qn_ring_fini(self);
}

static void unload(void *self)
{
	((struct qn_ring *)self)->host->free(self);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "hotlist_ring",
	.version = QN_VERSION,
	.kind = "hotlist",
	.doc = "which lanes have work, in memory: pops touch the database only when there is something",
	.options = options,
	.options_size = sizeof(struct qn_ring_options),
	.load = load,
	.start = start,
	.stop = stop,
	.unload = unload,
};
QN_MODULE(module);
