/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The original ids of duplicates: fetch the segments that hold them, open those on the crew, read
 * the frames at the offsets. An original that retention took, or that cannot be read, answers with
 * the nil UUID (message-plane 3.1).
 */
#include "internal.h"

#include "../error.h"
#include "../wire/frame.h"

#include <string.h>

#define OPEN_MAX ((size_t)256 << 20)

struct lookup {
	struct qn_fetch_op fetch;
	struct qn_query query;
	struct qn_broker *broker;
	struct qn_push_dup_item *items;
	struct qn_uuid *ids;
	uint32_t count;
	uv_work_t work;
};

static void read_id(const struct qn_fetch *f, struct qn_uuid *id)
{
	struct qn_bytes store = {0};
	struct qn_span raw;
	struct qn_frame frame;
	size_t at = 0;

	if (f->found && qn_segment_open(f->blob, OPEN_MAX, &store, &raw, NULL) == QN_OK) {
		bool ok = true;

		for (int64_t o = f->base_offset; ok && o < f->offset; o++) {
			ok = qn_frame_skip(raw, &at);
		}
		if (ok && qn_frame_read(raw, &at, &frame)) {
			*id = frame.message_id;
		}
	}
	qn_bytes_fini(&store);
}

static void work(uv_work_t *w)
{
	struct lookup *l = QN_CONTAINER(w, struct lookup, work);

	for (uint32_t i = 0; i < l->count; i++) {
		read_id(&l->fetch.items[i], &l->ids[i]);
	}
}

static void finish(struct lookup *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		l->items[i].item->message_id = l->ids[i];
		qn_push_resolve(l->broker, l->items[i].item, QN_ITEM_DUPLICATE);
	}
	qn_arena_destroy(l->fetch.op.arena);
}

static void after_work(uv_work_t *w, int status)
{
	(void)status; /* never canceled */
	finish(QN_CONTAINER(w, struct lookup, work));
}

static void fetch_done(struct qn_op *op, const struct qn_error *e)
{
	struct lookup *l = QN_CONTAINER(op, struct lookup, fetch.op);
	uv_loop_t *loop = qn_thread_loop(l->broker->app->engine);

	qn_query_done(l->broker);
	/* A failed look-up still is a duplicate: the storage said so. Its id stays nil. */
	if (e != NULL || uv_queue_work(loop, &l->work, work, after_work) != 0) {
		finish(l);
	}
}

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->fetch(app->storage.self, QN_CONTAINER(op, struct qn_fetch_op, op));
}

void qn_push_lookup(struct qn_broker *b, const struct qn_uuid *tenant, const struct qn_uuid *partition_id,
                    const struct qn_push_dup_item *items, uint32_t count)
{
	struct qn_arena *a = qn_arena_create();
	struct lookup *l = qn_arena_zalloc(a, sizeof(*l));

	l->broker = b;
	l->count = count;
	l->items = qn_arena_alloc(a, count * sizeof(*items));
	memcpy(l->items, items, count * sizeof(*items));
	l->ids = qn_arena_zalloc(a, count * sizeof(*l->ids));
	l->fetch.items = qn_arena_zalloc(a, count * sizeof(*l->fetch.items));
	for (uint32_t i = 0; i < count; i++) {
		l->fetch.items[i].partition_id = *partition_id;
		l->fetch.items[i].offset = items[i].offset;
	}
	l->fetch.tenant = *tenant;
	l->fetch.count = count;
	l->fetch.op.arena = a;
	l->fetch.op.done = fetch_done;
	l->query.start = start;
	l->query.op = &l->fetch.op;
	qn_query_submit(b, &l->query);
}
