/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /health asks the database (readiness), GET /status does not (liveness): as a liveness probe
 * /health would kill the broker during the very outage it should sit out.
 */
#include "handlers.h"

#ifndef QN_VERSION
#error "QN_VERSION comes from the build"
#endif

/** A database that does not answer in this time is as good as gone to whoever asks. */
#define PING_MS 3000

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->ping(app->storage.self, QN_CONTAINER(op, struct qn_ping_op, op));
}

static void pinged(struct qn_job *job)
{
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};

	if (job->error.code == 0) {
		QN_PUT_LIT(&b, "{\"status\":\"healthy\",\"database\":\"connected\",");
	} else {
		QN_PUT_LIT(&b, "{\"status\":\"unhealthy\",\"database\":\"disconnected\",");
	}
	QN_PUT_LIT(&b, "\"engine\":\"queend\",\"version\":\"" QN_VERSION "\"}");
	qn_call_reply(c, job->error.code == 0 ? 200 : 503, &b);
}

void qn_api_health(struct qn_call *c)
{
	struct qn_query_job *q = qn_arena_zalloc(c->arena, sizeof(*q));
	struct qn_ping_op *op = qn_arena_zalloc(c->arena, sizeof(*op));

	q->query.start = start;
	q->query.op = &op->op;
	q->query.limit_ms = PING_MS;
	qn_call_send(c, &q->job, QN_JOB_QUERY, pinged);
}

void qn_api_status(struct qn_call *c)
{
	struct qn_bytes b = {0};

	QN_PUT_LIT(&b, "{\"status\":\"ok\",\"engine\":\"queend\"}");
	qn_call_reply(c, 200, &b);
}
