/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces and tasks: the list of queues summed up by one of their labels (admin-plane R2, R3;
 * decisions 27). Queues without the label are left out; labels come in byte order.
 */
#include "handlers.h"

#include <stdlib.h>
#include <string.h>

struct listing {
	struct qn_query_job q;
	struct qn_list_op op;
	bool by_task;
};

struct sum {
	struct qn_span label;
	int64_t queues, partitions, messages, pending;
};

static struct qn_span label_of(const struct listing *x, const struct qn_queue_row *r)
{
	return x->by_task ? r->options.task : r->options.name_space;
}

static int by_label(const void *a, const void *b)
{
	struct qn_span x = ((const struct sum *)a)->label, y = ((const struct sum *)b)->label;
	int diff = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

	return diff != 0 ? diff : (x.n > y.n) - (x.n < y.n);
}

/** One sum per queue that has the label, then one per label; returns how many. */
static uint32_t sum_up(const struct listing *x, struct sum *sums)
{
	uint32_t n = 0, labels = 0;

	for (uint32_t i = 0; i < x->op.row_count; i++) {
		const struct qn_queue_row *r = &x->op.rows[i];

		if (label_of(x, r).n > 0) {
			sums[n] =
				(struct sum){label_of(x, r), 1, r->partitions, r->messages, r->pending - r->processing};
			n++;
		}
	}
	qsort(sums, n, sizeof(*sums), by_label);
	for (uint32_t i = 0; i < n; i++) {
		if (labels > 0 && by_label(&sums[labels - 1], &sums[i]) == 0) {
			sums[labels - 1].queues++;
			sums[labels - 1].partitions += sums[i].partitions;
			sums[labels - 1].messages += sums[i].messages;
			sums[labels - 1].pending += sums[i].pending;
		} else {
			sums[labels] = sums[i];
			labels++;
		}
	}
	return labels;
}

static void put_sum(struct qn_bytes *b, const char *key, const struct sum *s)
{
	QN_PUT_LIT(b, "{");
	qn_json_put_cstr(b, key);
	QN_PUT_LIT(b, ":");
	qn_json_put_str(b, s->label);
	QN_PUT_LIT(b, ",\"queues\":");
	qn_json_put_i64(b, s->queues);
	QN_PUT_LIT(b, ",\"partitions\":");
	qn_json_put_i64(b, s->partitions);
	QN_PUT_LIT(b, ",\"messages\":{\"total\":");
	qn_json_put_i64(b, s->messages);
	QN_PUT_LIT(b, ",\"pending\":");
	qn_json_put_i64(b, s->pending);
	QN_PUT_LIT(b, "}}");
}

static void listed(struct qn_job *job)
{
	struct listing *x = QN_CONTAINER(job, struct listing, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};
	struct sum *sums;
	uint32_t n;

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, x->by_task ? "tasks failed" : "namespaces failed");
		return;
	}
	sums = qn_arena_alloc(c->arena, (x->op.row_count + 1) * sizeof(*sums));
	n = sum_up(x, sums);
	QN_PUT_LIT(&b, "{");
	qn_json_put_cstr(&b, x->by_task ? "tasks" : "namespaces");
	QN_PUT_LIT(&b, ":[");
	for (uint32_t i = 0; i < n; i++) {
		if (i > 0) {
			QN_PUT_LIT(&b, ",");
		}
		put_sum(&b, x->by_task ? "task" : "namespace", &sums[i]);
	}
	QN_PUT_LIT(&b, "]}");
	qn_call_reply(c, 200, &b);
}

static void start_list(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->list(app->storage.self, QN_CONTAINER(op, struct qn_list_op, op));
}

static void list(struct qn_call *c, bool by_task)
{
	struct listing *x = qn_arena_zalloc(c->arena, sizeof(*x));

	x->by_task = by_task;
	x->op.tenant = c->tenant;
	x->op.limit = -1;
	x->op.without_sizes = true;
	x->q.query.start = start_list;
	x->q.query.op = &x->op.op;
	qn_call_send(c, &x->q.job, QN_JOB_QUERY, listed);
}

void qn_api_namespaces(struct qn_call *c)
{
	list(c, false);
}

void qn_api_tasks(struct qn_call *c)
{
	list(c, true);
}
