/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads hashes back for the dedup module: after a restart, a gap or a widened window.
 *
 * Work for quiet moments: at most two reads at once, none while other queries wait, and one slot of
 * the class is left to them where there is more than one. Pushes go on meanwhile.
 */
#include "internal.h"

#include "../log.h"

#define READS_MAX 2

struct read {
	struct qn_hashes_op hashes;
	struct qn_query query;
	struct qn_broker *broker;
	struct qn_dedup_read wanted;
};

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->hashes(app->storage.self, QN_CONTAINER(op, struct qn_hashes_op, op));
}

static void read_done(struct qn_op *op, const struct qn_error *e)
{
	struct read *r = QN_CONTAINER(op, struct read, hashes.op);
	struct qn_broker *b = r->broker;

	b->rehashing--;
	qn_query_done(b);
	if (e != NULL) {
		qn_log(QN_INFO, "rehash.failed", QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	}
	b->app->dedup.vt->read_page(b->app->dedup.self, &r->wanted, e == NULL ? &r->hashes : NULL);
	qn_arena_destroy(op->arena);
}

static void begin(struct qn_broker *b, const struct qn_dedup_read *wanted)
{
	struct qn_arena *a = qn_arena_create();
	struct read *r = qn_arena_zalloc(a, sizeof(*r));

	r->broker = b;
	r->wanted = *wanted;
	r->hashes.partition_id = wanted->partition_id;
	r->hashes.after_offset = wanted->after_offset;
	r->hashes.byte_limit = wanted->byte_limit;
	r->hashes.op.arena = a;
	r->hashes.op.done = read_done;
	r->query.start = start;
	r->query.op = &r->hashes.op;
	b->rehashing++;
	qn_query_submit(b, &r->query);
	qn_query_pump(b);
}

void qn_rehash_pump(struct qn_broker *b)
{
	const uint32_t slots = b->slots.query > 1 ? b->slots.query - 1 : 1;
	struct qn_dedup_read wanted;

	while (b->rehashing < READS_MAX && b->busy.query < slots && !b->draining && qn_list_empty(&b->queries) &&
	       b->app->dedup.vt->read_due(b->app->dedup.self, &wanted)) {
		begin(b, &wanted);
	}
}
