/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trivial hot list: it remembers nothing and always answers "let the storage scan". Never wrong,
 * and the baseline every other hot list is measured against. All functions run on the engine thread.
 */
#include <qn/abi.h>
#include <qn/hotlist.h>

static void mark(void *self, const struct qn_lane_mark *m, uint64_t now_tick_ms)
{
	(void)self, (void)m, (void)now_tick_ms;
}

static enum qn_take take(void *self, const struct qn_group_key *g, uint32_t max_lanes, uint32_t budget,
                         struct qn_uuid *out, uint32_t *count, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)max_lanes, (void)budget, (void)out, (void)now_tick_ms;
	*count = 0;
	return QN_TAKE_SCAN;
}

static void settle(void *self, const struct qn_group_key *g, const struct qn_verdict *verdicts, uint32_t count,
                   int64_t now_us, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)verdicts, (void)count, (void)now_us, (void)now_tick_ms;
}

static void promote(void *self, const struct qn_group_key *g, const struct qn_uuid *partition_id, bool has_more,
                    uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)partition_id, (void)has_more, (void)now_tick_ms;
}

static bool walk_due(void *self, const struct qn_group_key *g, struct qn_walk *w, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)w, (void)now_tick_ms;
	return false;
}

static void walk_page(void *self, const struct qn_group_key *g, const struct qn_walk_page *page, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)page, (void)now_tick_ms;
}

static void forget_queue(void *self, const struct qn_uuid *tenant, struct qn_span queue)
{
	(void)self, (void)tenant, (void)queue;
}

static void forget_group(void *self, const struct qn_group_key *g)
{
	(void)self, (void)g;
}

static uint64_t next_due_ms(void *self)
{
	(void)self;
	return UINT64_MAX;
}

static bool due(void *self, struct qn_group_key *g, uint64_t now_tick_ms)
{
	(void)self, (void)g, (void)now_tick_ms;
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
	*self = NULL;
	return h->provide(m, "hotlist", (struct qn_service){&vtable.head, NULL}, e);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "hotlist_scan",
	.version = QN_VERSION,
	.kind = "hotlist",
	.doc = "no memory: every pop lets the storage scan for candidates",
	.load = load,
};
QN_MODULE(module);
