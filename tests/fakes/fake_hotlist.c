/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hot list as one linked list of (queue, group, lane), for testing its contract suite: the plainest
 * one that answers with lanes. A group it meets for the first time lets the storage scan until it has
 * been walked; groups are walked again and again, in small pages.
 *
 * FAKE_FORGETS_MARKS, FAKE_IGNORES_BUDGET, FAKE_LOSES_LEASED, FAKE_DROPS_PAGES and FAKE_KEEPS_QUIET each
 * break one rule on purpose.
 */
#include <qn/abi.h>
#include <qn/hotlist.h>
#include <string.h>

#define PAGE      3
#define REWALK_MS 1000

enum state { IDLE, READY, WAITING, OUT };

/* A group that was met. */
struct met {
	struct met *next;
	struct qn_uuid tenant;
	struct qn_walk_place after;
	struct qn_span queue, group;
	bool walked, asked, running;
	uint64_t again_ms;
	char text[];
};

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
static struct met *groups;

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

static struct met *find(const struct qn_group_key *g)
{
	struct met *m = groups;

	while (m != NULL && !(memcmp(&m->tenant, &g->tenant, sizeof(m->tenant)) == 0 && m->queue.n == g->queue.n &&
	                      memcmp(m->queue.p, g->queue.p, g->queue.n) == 0 && m->group.n == g->group.n &&
	                      memcmp(m->group.p, g->group.p, g->group.n) == 0)) {
		m = m->next;
	}
	return m;
}

static void meet(const struct qn_group_key *g)
{
	struct met *m = find(g);

	if (m != NULL) {
		return;
	}
	m = host->alloc(sizeof(*m) + g->queue.n + g->group.n);
	*m = (struct met){.next = groups, .tenant = g->tenant};
	memcpy(m->text, g->queue.p, g->queue.n);
	memcpy(m->text + g->queue.n, g->group.p, g->group.n);
	m->queue = (struct qn_span){m->text, g->queue.n};
	m->group = (struct qn_span){m->text + g->queue.n, g->group.n};
	groups = m;
}

static void mark(void *self, const struct qn_lane_mark *k, uint64_t now_tick_ms)
{
	(void)self, (void)now_tick_ms;
	for (struct met *m = groups; m != NULL; m = m->next) {
		const struct qn_group_key g = {k->tenant, k->queue, m->group};

		if (find(&g) == m) {
			mark_entry(get(&g, &k->partition_id), k->messages);
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
	meet(g);
	if (!find(g)->walked) {
		return QN_TAKE_SCAN;
	}
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
		} else if (kind == QN_LANE_LATER && verdicts[i].until_us <= now_us) {
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
	if (e->state == OUT) {
		e->marked_while_out = e->marked_while_out || has_more;
	} else if (has_more) {
		e->state = READY;
	}
}

static bool walk_due(void *self, const struct qn_group_key *g, struct qn_walk *w, uint64_t now_tick_ms)
{
	struct met *m = find(g);

	(void)self;
	if (m == NULL || m->asked || (!m->running && m->walked && now_tick_ms < m->again_ms)) {
		return false;
	}
	m->running = true;
	m->asked = true;
	*w = (struct qn_walk){.after = m->after, .limit = PAGE};
	return true;
}

static void walk_page(void *self, const struct qn_group_key *g, const struct qn_walk_page *page, uint64_t now_tick_ms)
{
	struct met *m = find(g);

	(void)self;
	if (m == NULL || !m->asked) {
		return;
	}
	m->asked = false;
	if (page == NULL) {
		return;
	}
	m->after = page->next;
	if (page->last) {
		m->after = (struct qn_walk_place){0};
		m->walked = true;
		m->running = false;
		m->again_ms = now_tick_ms + REWALK_MS;
	}
#ifndef FAKE_DROPS_PAGES
	for (uint32_t i = 0; i < page->count; i++) {
		mark_entry(get(g, &page->lanes[i]), 1);
	}
#endif
}

static void forget(const struct qn_group_key *g, bool any_group)
{
	for (struct met **at = &groups; *at != NULL;) {
		struct met *m = *at;
		const struct qn_group_key k = {g->tenant, g->queue, any_group ? m->group : g->group};

		if (find(&k) == m) {
			*at = m->next;
			host->free(m);
		} else {
			at = &m->next;
		}
	}
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

static bool due(void *self, struct qn_group_key *g, uint64_t now_tick_ms)
{
	(void)self, (void)g;
	for (struct entry *e = first; e != NULL; e = e->next) {
		if (e->state == WAITING && e->due_ms <= now_tick_ms) {
			e->state = READY;
#ifndef FAKE_KEEPS_QUIET
			*g = (struct qn_group_key){e->tenant, e->queue, e->group};
			return true;
#endif
		}
	}
	return false;
}

static bool keeps_window(void *self, const struct qn_group_key *g)
{
	(void)self, (void)g;
	return false;
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
	while (groups != NULL) {
		struct met *next = groups->next;

		host->free(groups);
		groups = next;
	}
}

static const struct qn_module module = {
	QN_MODULE_HEAD,        .name = "fake_hotlist", .version = QN_VERSION, .kind = "hotlist",
	.doc = "test subject", .load = load,           .unload = unload,
};
QN_MODULE(module);
