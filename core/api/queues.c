/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue resources: list, one queue with its lanes, delete (admin-plane R4-R6, decisions 27).
 * Counts are the storage's arithmetic on offsets; nothing is counted here.
 */
#include "handlers.h"
#include "params.h"
#include "queue_json.h"

struct list {
	struct qn_query_job q;
	struct qn_list_op op;
};

struct del {
	struct qn_query_job q;
	struct qn_delete_op op;
};

static void put_key_i64(struct qn_bytes *b, const char *key, int64_t v)
{
	QN_PUT_LIT(b, ",");
	qn_json_put_cstr(b, key);
	QN_PUT_LIT(b, ":");
	qn_json_put_i64(b, v);
}

static void put_time_or_null(struct qn_bytes *b, const char *key, int64_t at_us)
{
	QN_PUT_LIT(b, ",");
	qn_json_put_cstr(b, key);
	QN_PUT_LIT(b, ":");
	if (at_us == 0) {
		QN_PUT_LIT(b, "null");
	} else {
		qn_json_put_time_ms(b, at_us);
	}
}

/** {"id","name","namespace","task","createdAt" — left open. */
static void put_queue_head(struct qn_bytes *b, const struct qn_queue_row *r)
{
	QN_PUT_LIT(b, "{\"id\":");
	qn_json_put_uuid(b, &r->id);
	QN_PUT_LIT(b, ",\"name\":");
	qn_json_put_str(b, r->name);
	QN_PUT_LIT(b, ",\"namespace\":");
	qn_json_put_str(b, r->options.name_space);
	QN_PUT_LIT(b, ",\"task\":");
	qn_json_put_str(b, r->options.task);
	QN_PUT_LIT(b, ",\"createdAt\":");
	qn_json_put_time_ms(b, r->created_at_us);
}

static void put_sizes(struct qn_bytes *b, const struct qn_queue_row *r)
{
	put_key_i64(b, "retainedBytes", r->retained_bytes);
	QN_PUT_LIT(b, ",\"segments\":{\"segments\":");
	qn_json_put_i64(b, r->segments);
	put_key_i64(b, "messages", r->messages);
	QN_PUT_LIT(b, "}");
}

static void put_list_row(struct qn_bytes *b, const struct qn_queue_row *r)
{
	put_queue_head(b, r);
	put_key_i64(b, "partitions", r->partitions);
	put_sizes(b, r);
	QN_PUT_LIT(b, ",\"messages\":{\"total\":");
	qn_json_put_i64(b, r->messages);
	/* Here, unlike in the statistics of one queue, what is leased is not pending (admin-plane R4). */
	put_key_i64(b, "pending", r->pending - r->processing);
	put_key_i64(b, "processing", r->processing);
	QN_PUT_LIT(b, "}}");
}

static void start_list(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->list(app->storage.self, QN_CONTAINER(op, struct qn_list_op, op));
}

static void listed(struct qn_job *job)
{
	struct list *x = QN_CONTAINER(job, struct list, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "list failed");
		return;
	}
	QN_PUT_LIT(&b, "{\"queues\":[");
	for (uint32_t i = 0; i < x->op.row_count; i++) {
		if (i > 0) {
			QN_PUT_LIT(&b, ",");
		}
		put_list_row(&b, &x->op.rows[i]);
	}
	QN_PUT_LIT(&b, "]}");
	qn_call_reply(c, 200, &b);
}

static void send_list(struct qn_call *c, struct list *x, void (*answer)(struct qn_job *job))
{
	x->op.tenant = c->tenant;
	x->q.query.start = start_list;
	x->q.query.op = &x->op.op;
	qn_call_send(c, &x->q.job, QN_JOB_QUERY, answer);
}

void qn_api_queue_list(struct qn_call *c)
{
	struct list *x = qn_arena_zalloc(c->arena, sizeof(*x));
	struct qn_params p;
	int32_t limit = -1, offset = 0;

	/* A query string that cannot be split leaves its reason in p.why. */
	(void)!qn_params_read(c, &p);
	qn_params_str(&p, "namespace", &x->op.name_space);
	qn_params_str(&p, "task", &x->op.task);
	qn_params_str(&p, "search", &x->op.search);
	qn_params_i32(&p, "limit", &limit);
	qn_params_i32(&p, "offset", &offset);
	if (offset < 0) {
		qn_params_fail(&p, "offset", "must not be negative");
	}
	if (p.why[0] != '\0') {
		qn_call_error(c, 400, "%s", p.why);
		return;
	}
	x->op.limit = limit;
	x->op.offset = offset;
	send_list(c, x, listed);
}

static void put_counts(struct qn_bytes *b, const struct qn_lane_row *l)
{
	QN_PUT_LIT(b, "{\"total\":");
	qn_json_put_i64(b, l->total);
	put_key_i64(b, "pending", l->pending);
	put_key_i64(b, "processing", l->processing);
	put_key_i64(b, "completed", l->completed);
	QN_PUT_LIT(b, ",\"failed\":null");
	put_key_i64(b, "deadLetter", l->dead_letter);
	QN_PUT_LIT(b, "}");
}

static void put_lane(struct qn_bytes *b, const struct qn_lane_row *l)
{
	QN_PUT_LIT(b, "{\"id\":");
	qn_json_put_uuid(b, &l->id);
	QN_PUT_LIT(b, ",\"name\":");
	qn_json_put_str(b, l->name);
	QN_PUT_LIT(b, ",\"createdAt\":");
	qn_json_put_time_ms(b, l->created_at_us);
	QN_PUT_LIT(b, ",\"stats\":");
	put_counts(b, l);
	put_time_or_null(b, "oldestMessage", l->oldest_pending_at_us);
	put_time_or_null(b, "newestMessage", l->newest_at_us);
	QN_PUT_LIT(b, "}");
}

static void put_lanes(struct qn_bytes *b, const struct qn_list_op *op)
{
	struct qn_lane_row sum = {0};

	QN_PUT_LIT(b, ",\"partitions\":[");
	for (uint32_t i = 0; i < op->lane_count; i++) {
		const struct qn_lane_row *l = &op->lanes[i];

		if (i > 0) {
			QN_PUT_LIT(b, ",");
		}
		put_lane(b, l);
		sum.total += l->total;
		sum.pending += l->pending;
		sum.processing += l->processing;
		sum.completed += l->completed;
		sum.dead_letter += l->dead_letter;
	}
	QN_PUT_LIT(b, "],\"totals\":");
	put_counts(b, &sum);
}

static void got(struct qn_job *job)
{
	struct list *x = QN_CONTAINER(job, struct list, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "get failed");
		return;
	}
	if (x->op.row_count == 0) {
		qn_call_error(c, 404, "Queue not found");
		return;
	}
	put_queue_head(&b, &x->op.rows[0]);
	put_lanes(&b, &x->op);
	put_sizes(&b, &x->op.rows[0]);
	QN_PUT_LIT(&b, ",\"options\":");
	qn_queue_options_put(&b, &x->op.rows[0].options);
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, 200, &b);
}

/** Answers 400 and returns false when the path's queue name breaks the rules. */
static bool check_name(struct qn_call *c)
{
	const char *why = qn_name_queue(c->path.seg[4]);

	if (why != NULL) {
		qn_call_error(c, 400, "invalid queue: %s", why);
	}
	return why == NULL;
}

void qn_api_queue_get(struct qn_call *c)
{
	struct list *x;

	if (!check_name(c)) {
		return;
	}
	x = qn_arena_zalloc(c->arena, sizeof(*x));
	x->op.one = true;
	x->op.queue = c->path.seg[4];
	x->op.limit = 1;
	send_list(c, x, got);
}

static void start_delete(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->delete_queue(app->storage.self, QN_CONTAINER(op, struct qn_delete_op, op));
}

static void applied(struct qn_broker *b, struct qn_query_job *q)
{
	const struct qn_delete_op *op = QN_CONTAINER(q->query.op, struct qn_delete_op, op);

	qn_broker_forget_queue(b, &op->tenant, op->queue);
}

static void deleted(struct qn_job *job)
{
	struct del *x = QN_CONTAINER(job, struct del, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "delete failed");
		return;
	}
	QN_PUT_LIT(&b, "{\"deleted\":");
	qn_json_put_bool(&b, x->op.existed);
	QN_PUT_LIT(&b, ",\"queue\":");
	qn_json_put_str(&b, x->op.queue);
	QN_PUT_LIT(&b, ",\"existed\":");
	qn_json_put_bool(&b, x->op.existed);
	if (!x->op.existed) {
		QN_PUT_LIT(&b, ",\"message\":\"Queue not found, nothing was deleted\"");
	}
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, 200, &b);
}

void qn_api_queue_delete(struct qn_call *c)
{
	struct del *x;

	if (!check_name(c)) {
		return;
	}
	x = qn_arena_zalloc(c->arena, sizeof(*x));
	x->op.tenant = c->tenant;
	x->op.queue = c->path.seg[4];
	x->q.query.start = start_delete;
	x->q.query.op = &x->op.op;
	x->q.applied = applied;
	qn_call_send(c, &x->q.job, QN_JOB_QUERY, deleted);
}
