/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage operations of class query: one line, first come first served, as many at once as the
 * storage has slots. Configuration, listings, lease extension and release come as jobs; other files
 * of the broker submit their own (registrations, look-ups).
 */
#include "internal.h"

#include "../log.h"

void qn_query_submit(struct qn_broker *b, struct qn_query *q)
{
	qn_list_push_back(&b->queries, &q->link);
}

void qn_query_done(struct qn_broker *b)
{
	b->busy.query--;
}

void qn_query_pump(struct qn_broker *b)
{
	while (b->busy.query < b->slots.query && !qn_list_empty(&b->queries)) {
		struct qn_query *q = QN_CONTAINER(qn_list_pop_front(&b->queries), struct qn_query, link);

		b->busy.query++;
		q->op->deadline_ms = q->limit_ms == 0 ? qn_broker_deadline(b) : qn_mono_ms() + q->limit_ms;
		q->start(b->app, q->op);
	}
}

static void job_done(struct qn_op *op, const struct qn_error *e)
{
	struct qn_query_job *job = op->user;
	struct qn_broker *b = qn_app->broker;

	qn_query_done(b);
	if (e != NULL) {
		qn_log(QN_WARN, "query.failed", QN_S("error", e->msg), QN_S("sqlstate", e->sqlstate));
	} else if (job->applied != NULL) {
		job->applied(b, job);
	}
	qn_broker_finish(b, &job->job, e);
}

void qn_query_accept(struct qn_broker *b, struct qn_query_job *job)
{
	job->query.op->done = job_done;
	job->query.op->user = job;
	job->query.op->arena = job->job.arena;
	qn_query_submit(b, &job->query);
}

void qn_query_stop(struct qn_broker *b)
{
	const struct qn_error e = {.code = QN_CANCELED, .msg = "the broker stops"};

	for (struct qn_list *node = qn_list_pop_front(&b->queries); node != NULL;
	     node = qn_list_pop_front(&b->queries)) {
		struct qn_query *q = QN_CONTAINER(node, struct qn_query, link);

		b->busy.query++;
		q->op->done(q->op, &e);
	}
}

void qn_broker_lane_free(struct qn_broker *b, const struct qn_settle_lane *lane)
{
	const struct qn_group_key g = {lane->tenant, lane->queue, lane->group};

	qn_lease_lane_ended(b, lane);
	b->app->hotlist.vt->promote(b->app->hotlist.self, &g, &lane->partition_id, true, qn_mono_ms());
	qn_gate_mark_group(b, lane);
}

void qn_broker_forget_queue(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	b->app->hotlist.vt->forget_queue(b->app->hotlist.self, tenant, queue);
	qn_group_forget_queue(b, tenant, queue);
	qn_facts_forget(b, tenant, queue);
	qn_lane_ids_forget(b, tenant, queue);
}
