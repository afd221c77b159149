/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/lease/:leaseId/extend (message-plane 6). The body never makes it a 400: whatever is
 * not a whole number of 32 bits under "seconds" means 60.
 */
#include "handlers.h"

#include "../wire/ident.h"

#include <string.h>

#define EXTEND_DEFAULT_S 60
#define EXTEND_MAX_S     604800

struct extend {
	struct qn_query_job q;
	struct qn_extend_op op;
	struct qn_span echo;
};

static int32_t read_seconds(struct qn_call *c)
{
	struct qn_json j;
	struct qn_span key, ignored;
	int64_t seconds = EXTEND_DEFAULT_S;

	qn_json_init(&j, c->http->body);
	if (qn_json_peek(&j) != QN_JSON_OBJECT || !qn_json_enter_object(&j)) {
		return EXTEND_DEFAULT_S;
	}
	while (qn_json_next_key(&j, c->arena, &key)) {
		bool ok = qn_span_eq(key, QN_SPAN_LIT("seconds")) ? qn_json_i64(&j, &seconds)
		                                                  : qn_json_skip(&j, &ignored);

		if (!ok) {
			return EXTEND_DEFAULT_S;
		}
	}
	if (!qn_json_end(&j) || seconds < INT32_MIN || seconds > INT32_MAX) {
		return EXTEND_DEFAULT_S;
	}
	seconds = seconds < 1 ? 1 : seconds;
	return (int32_t)(seconds > EXTEND_MAX_S ? EXTEND_MAX_S : seconds);
}

static void put_expiry(struct qn_bytes *b, int64_t at_us)
{
	if (at_us == 0) {
		QN_PUT_LIT(b, "null");
	} else {
		qn_json_put_time_us(b, at_us);
	}
}

static void answer(struct qn_call *c, const struct extend *x)
{
	struct qn_bytes b = {0};

	QN_PUT_LIT(&b, "{\"leaseId\":");
	qn_json_put_str(&b, x->echo);
	QN_PUT_LIT(&b, ",\"success\":");
	qn_json_put_bool(&b, x->op.renewed > 0);
	QN_PUT_LIT(&b, ",\"renewed\":");
	qn_json_put_i64(&b, x->op.renewed);
	QN_PUT_LIT(&b, ",\"newExpiresAt\":");
	put_expiry(&b, x->op.expires_at_us);
	QN_PUT_LIT(&b, ",\"expiresAt\":");
	put_expiry(&b, x->op.expires_at_us);
	QN_PUT_LIT(&b, ",\"lease_expires_at\":");
	put_expiry(&b, x->op.expires_at_us);
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, 200, &b);
}

static void extended(struct qn_job *job)
{
	struct extend *x = QN_CONTAINER(job, struct extend, q.job);
	struct qn_call *c = qn_call_of(job);

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "renew failed");
		return;
	}
	answer(c, x);
}

static void start(const struct qn_app *app, struct qn_op *op)
{
	struct qn_extend_op *extend = QN_CONTAINER(op, struct qn_extend_op, op);

	qn_lease_recall(app->broker, extend);
	app->storage.vt->extend(app->storage.self, extend);
}

void qn_api_lease_extend(struct qn_call *c)
{
	struct extend *x = qn_arena_zalloc(c->arena, sizeof(*x));
	struct qn_uuid id;
	char *text = qn_arena_alloc(c->arena, QN_UUID_TEXT);

	x->echo = c->path.seg[3];
	if (!qn_uuid_parse(x->echo, &id)) {
		answer(c, x);
		return;
	}
	qn_uuid_format(&id, text);
	x->op.tenant = c->tenant;
	x->op.lease_id = (struct qn_span){text, QN_UUID_TEXT};
	x->op.seconds = read_seconds(c);
	x->q.query.start = start;
	x->q.query.op = &x->op.op;
	qn_call_send(c, &x->q.job, QN_JOB_QUERY, extended);
}
