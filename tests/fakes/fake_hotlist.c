/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hot list as one linked list of (queue, group, lane), for testing its contract suite: the plainest
 * one that answers with lanes. It never walks: a group that is first seen after a mark has missed it,
 * so a queue's marks are kept under the empty group, from which a new group is filled.
 *
 * FAKE_FORGETS_MARKS, FAKE_IGNORES_BUDGET and FAKE_LOSES_LEASED each break one rule on purpose.
 */
#include <qn/abi.h>
#include <qn/hotlist.h>
#include <string.h>

enum state { IDLE, READY, WAITING, OUT };

struct entry {
	struct entry *next;
	struct qn_uuid tenant, lane;
	struct qn_span queue, group;
	enum state state;
	bool marked_while_out;
	uint32_t messages;
	uint64_t due_ms; /* WAITING */
	char text[];
};

static const struct qn_host *host;
static struct entry *first;

static bool is_of(const struct entry *e, const struct qn_group_key *g)
{
	return memcmp(&e->tenant, &g->tenant, sizeof(e->tenant)) == 0 && e->queue.n == g->queue.n &&
	       memcmp(e->queue.p, g->queue.p, g->queue.n) == 0 && e->group.n == g->group.n &&
	       memcmp(e->group.p, g->group.p, g->group.n) == 0;
}

static struct entry *get(const struct qn_group_key *g, const struct qn_uuid *lane)
{
	struct entry *e = first;

	while (e != NULL && !(is_of(e, g) && memcmp(&e->lane, lane, sizeof(*lane)) == 0)) {
		e = e->next;
	}
	if (e == NULL) {
		e = host->alloc(sizeof(*e) + g->queue.n + g->group.n);
		memcpy(e->text, g->queue.p, g->queue.n);
		memcpy(e->text + g->queue.n, g->group.p, g->group.n);
		e->tenant = g->tenant;
		e->lane = *lane;
		e->queue = (struct qn_span){e->text, g->queue.n};
		e->group = (struct qn_span){e->text + g->queue.n, g->group.n};
		e->next = first;
		first = e;
	}
	return e;
}

static void mark_entry(struct entry *e, uint32_t messages)
{
	e->messages += messages;
	if (e->state == OUT) {
#ifndef FAKE_FORGETS_MARKS
		e->marked_while_out = true;
#endif
	} else if (e->state == IDLE) {
		e->state = READY;
	}
}

static void mark(void *self, const struct qn_lane_mark *m, uint64_t now_tick_ms)
{
	const struct qn_group_key all = {m->tenant, m->queue, {"", 0}};

	(void)self, (void)now_tick_ms;
	mark_entry(get(&all, &m->partition_id), m->messages);
	for (struct entry *e = first; e != NULL; e = e->next) {
		const struct qn_group_key same = {m->tenant, m->queue, e->group};

		if (e->group.n > 0 && is_of(e, &same) && memcmp(&e->lane, &m->partition_id, sizeof(e->lane)) == 0) {
			mark_entry(e, m->messages);
		}
	}
}

/* Entries for every lane of the queue that the group does not have yet. */
static void fill(const struct qn_group_key *g)
{
	const struct qn_group_key all = {g->tenant, g->queue, {"", 0}};

	for (struct entry *e = first; e != NULL; e = e->next) {
		if (is_of(e, &all)) {
			struct entry *mine = get(g, &e->lane);

			if (mine->state == IDLE && mine->messages == 0) {
				mark_entry(mine, e->messages);
			}
		}
	}
}

static enum qn_take take(void *self, const struct qn_group_key *g, uint32_t max_lanes, uint32_t budget,
                         struct qn_uuid *out, uint32_t *count, uint64_t now_tick_ms)
{
	uint32_t messages = 0;

	(void)self;
#ifdef FAKE_IGNORES_BUDGET
	budget = UINT32_MAX;
#endif
	*count = 0;
	fill(g);
	for (struct entry *e = first; e != NULL && *count < max_lanes; e = e->next) {
		bool is_ready = e->state == READY || (e->state == WAITING && e->due_ms <= now_tick_ms);

		if (messages >= budget) {
			break;
		}
		if (is_ready && is_of(e, g)) {
			e->state = OUT;
			e->marked_while_out = false;
			messages += e->messages;
			out[(*count)++] = e->lane;
		}
	}
	return *count > 0 ? QN_TAKE_LANES : QN_TAKE_EMPTY;
}

static void settle(void *self, const struct qn_group_key *g, const struct qn_verdict *verdicts, uint32_t count,
                   int64_t now_us, uint64_t now_tick_ms)
{
	(void)self;
#ifdef FAKE_LOSES_LEASED
	now_tick_ms = UINT64_MAX / 2;
#endif
	for (uint32_t i = 0; i < count; i++) {
		struct entry *e = get(g, &verdicts[i].partition_id);
		enum qn_verdict_kind kind = verdicts[i].kind;

		if (e->marked_while_out || kind == QN_LANE_BUSY) {
			e->state = READY;
		} else if (verdicts[i].until_us > now_us) {
			e->due_ms = now_tick_ms + (uint64_t)(verdicts[i].until_us - now_us) / 1000;
			e->state = WAITING;
		} else {
			e->state = kind == QN_TOOK && verdicts[i].batch_end < verdicts[i].last_offset ? READY : IDLE;
		}
		e->marked_while_out = false;
	}
}

static void promote(void *self, const struct qn_group_key *g, const struct qn_uuid *partition_id, bool has_more,
                    uint64_t now_tick_ms)
{
	struct entry *e = get(g, partition_id);

	(void)self, (void)now_tick_ms;
	if (has_more) {
		e->state = READY;
	}
}

static bool walk_due(void *self, const struct qn_group_key *g, struct qn_walk *w, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)w, (void)now_tick_ms;
	return false;
}

static void walk_page(void *self, const struct qn_group_key *g, const struct qn_uuid *lanes, uint32_t count, bool last,
                      uint64_t now_tick_ms)
{
	(void)self, (void)last, (void)now_tick_ms;
	for (uint32_t i = 0; i < count; i++) {
		mark_entry(get(g, &lanes[i]), 1);
	}
}

static void forget(const struct qn_group_key *g, bool any_group)
{
	for (struct entry **at = &first; *at != NULL;) {
		struct entry *e = *at;
		const struct qn_group_key k = {g->tenant, g->queue, any_group ? e->group : g->group};

		if (is_of(e, &k)) {
			*at = e->next;
			host->free(e);
		} else {
			at = &e->next;
		}
	}
}

static void forget_queue(void *self, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct qn_group_key g = {*tenant, queue, {"", 0}};

	(void)self;
	forget(&g, true);
}

static void forget_group(void *self, const struct qn_group_key *g)
{
	(void)self;
	forget(g, false);
}

static uint64_t next_due_ms(void *self)
{
	uint64_t due = UINT64_MAX;

	(void)self;
	for (const struct entry *e = first; e != NULL; e = e->next) {
		if (e->state == WAITING && e->due_ms < due) {
			due = e->due_ms;
		}
	}
	return due;
}

static uint64_t estimate(void *self, const struct qn_group_key *g)
{
	(void)self, (void)g;
	return UINT64_MAX;
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
	.estimate = estimate,
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	host = h;
	*self = NULL;
	return h->provide(m, "hotlist", (struct qn_service){&vtable.head, NULL}, e);
}

static void unload(void *self)
{
	(void)self;
	while (first != NULL) {
		struct entry *next = first->next;

		host->free(first);
		first = next;
	}
}

static const struct qn_module module = {
	QN_MODULE_HEAD,        .name = "fake_hotlist", .version = QN_VERSION, .kind = "hotlist",
	.doc = "test subject", .load = load,           .unload = unload,
};
QN_MODULE(module);
