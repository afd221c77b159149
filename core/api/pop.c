/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three pops (message-plane 4, decisions 14, 14a, 18, 19): query in, pop job out; what comes
 * back is rendered by pop_render.c, or given back to the storage when nobody waits for it any more.
 */
#include "handlers.h"
#include "params.h"
#include "pop_render.h"

#include "../wire/ident.h"

#include <stdatomic.h>

#define BATCH_DEFAULT  200
#define TIMEOUT_MAX_MS 600000
#define LEASE_MAX_S    604800

/** message-plane 2.4: `new` and `new-only`; everything else is `all`. */
static enum qn_start start_mode(struct qn_span mode)
{
	if (mode.p == NULL) {
		return qn_app->options.default_subscription == 0 ? QN_START_NEW : QN_START_ALL;
	}
	return qn_span_eq(mode, QN_SPAN_LIT("new")) || qn_span_eq(mode, QN_SPAN_LIT("new-only")) ? QN_START_NEW
	                                                                                         : QN_START_ALL;
}

static void read_start(struct qn_params *p, struct qn_claim_pop *w)
{
	struct qn_span mode = {NULL, 0}, from = {NULL, 0};

	qn_params_str(p, "subscriptionMode", &mode);
	qn_params_str(p, "subscriptionFrom", &from);
	w->start.mode = start_mode(mode);
	if (qn_span_eq(from, QN_SPAN_LIT("now"))) {
		w->start.mode = QN_START_NEW;
	} else if (from.n > 0) {
		w->start.mode = QN_START_TIME;
		if (!qn_time_parse(from, &w->start.from_us)) {
			qn_params_fail(p, "subscriptionFrom", "expected `now` or a timestamp");
		}
	}
}

static void check(struct qn_params *p, const char *key, const char *why)
{
	if (why != NULL) {
		qn_params_fail(p, key, why);
	}
}

static void read_group(struct qn_params *p, struct qn_claim_pop *w)
{
	struct qn_span group = {NULL, 0};

	qn_params_str(p, "consumerGroup", &group);
	if (group.n == 0) {
		/* Queue mode always starts at the oldest message (decisions 1, 7). */
		w->group = QN_SPAN_LIT(QN_QUEUE_MODE);
		w->start = (struct qn_subscription){.mode = QN_START_ALL};
		return;
	}
	check(p, "consumerGroup", qn_name_group(group));
	w->group = group;
	if (qn_span_eq(group, QN_SPAN_LIT(QN_QUEUE_MODE))) {
		w->start = (struct qn_subscription){.mode = QN_START_ALL};
	}
}

static void read_limits(struct qn_params *p, struct qn_pop_job *pop)
{
	struct qn_claim_pop *w = &pop->want;
	uint64_t timeout_ms = (uint64_t)qn_app->options.pop_timeout_ms;
	bool auto_ack = false;
	struct qn_uuid lease;

	w->budget = BATCH_DEFAULT;
	w->max_lanes = 1;
	w->budget_bytes = qn_app->options.pop_max_bytes;
	qn_params_i32(p, "batch", &w->budget);
	qn_params_i32(p, "partitions", &w->max_lanes);
	qn_params_i32(p, "leaseSeconds", &w->lease_s);
	qn_params_bool(p, "autoAck", &auto_ack);
	qn_params_bool(p, "wait", &pop->wait);
	qn_params_u64(p, "timeout", &timeout_ms);
	w->budget = w->budget < 1 ? 1 : w->budget;
	w->lease_s = w->lease_s > LEASE_MAX_S ? LEASE_MAX_S : w->lease_s;
	timeout_ms = timeout_ms > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS : timeout_ms;
	pop->deadline_ms = qn_mono_ms() + timeout_ms;
	if (!auto_ack) {
		qn_uuid7(&lease);
		qn_uuid_format(&lease, pop->lease_text);
		w->lease_id = (struct qn_span){pop->lease_text, sizeof(pop->lease_text)};
	}
}

static void popped(struct qn_job *job)
{
	struct qn_pop_job *pop = QN_CONTAINER(job, struct qn_pop_job, job);
	struct qn_call *c = qn_call_of(job);
	struct qn_claim_result *result = pop->result;

	if (pop->lane_count > 0 && (c->gone || c->http->vt->peer_gone(c->http))) {
		qn_pop_give_back(c, pop);
		qn_call_reply(c, 499, NULL);
	} else if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "pop failed");
	} else {
		qn_pop_render(c, pop);
	}
	qn_claim_result_unref(result);
}

static void pop_common(struct qn_call *c, struct qn_pop_job *pop, struct qn_params *p)
{
	struct qn_claim_pop *w = &pop->want;

	w->tenant = c->tenant;
	read_start(p, w);
	read_group(p, w);
	read_limits(p, pop);
	check(p, "queue", qn_name_queue(w->queue));
	check(p, "partition", qn_name_partition(w->partition));
	check(p, "namespace", qn_name_label(w->name_space));
	check(p, "task", qn_name_label(w->task));
	if (p->why[0] != '\0') {
		qn_call_error(c, 400, "%s", p->why);
		return;
	}
	if (w->from == QN_CLAIM_LABELS && w->name_space.n == 0 && w->task.n == 0) {
		struct qn_bytes b = {0};

		QN_PUT_LIT(&b, "{\"success\":false,\"error\":\"namespace or task is required\",\"messages\":[]}");
		qn_call_reply(c, 400, &b);
		return;
	}
	qn_call_send(c, &pop->job, QN_JOB_POP, popped);
}

static struct qn_pop_job *begin(struct qn_call *c, struct qn_params *p, enum qn_claim_from from)
{
	struct qn_pop_job *pop = qn_arena_zalloc(c->arena, sizeof(*pop));

	pop->want.from = from;
	/* A query string that cannot be split leaves its reason in p->why. */
	(void)!qn_params_read(c, p);
	return pop;
}

void qn_api_pop_queue(struct qn_call *c)
{
	struct qn_params p;
	struct qn_pop_job *pop = begin(c, &p, QN_CLAIM_QUEUE);

	pop->want.queue = c->path.seg[4];
	pop_common(c, pop, &p);
}

void qn_api_pop_lane(struct qn_call *c)
{
	struct qn_params p;
	struct qn_pop_job *pop = begin(c, &p, QN_CLAIM_LANE);

	pop->want.queue = c->path.seg[4];
	pop->want.partition = c->path.seg[6];
	pop_common(c, pop, &p);
}

void qn_api_pop_discovery(struct qn_call *c)
{
	struct qn_params p;
	struct qn_pop_job *pop = begin(c, &p, QN_CLAIM_LABELS);

	qn_params_str(&p, "namespace", &pop->want.name_space);
	qn_params_str(&p, "task", &pop->want.task);
	pop_common(c, pop, &p);
}
