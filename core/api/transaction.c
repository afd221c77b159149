/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/transaction (message-plane 7, decisions 4, 7, 9, 13, 21).
 *
 * Everything of one call is committed or nothing is. A call that is rolled back answers 200 with
 * success false, a sentence and a reason; one that could not be tried answers as every other route.
 * Where the connection broke in the middle of the commit nobody knows, and the sentence says so.
 */
#include "handlers.h"

#include "ack_units.h"
#include "push_build.h"
#include "transaction_parse.h"

#include "../error.h"
#include "../log.h"
#include "../wire/ident.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct txn_call {
	struct qn_txn_job job;
	struct qn_txn_input in;
	struct qn_ack_units units;
	struct qn_uuid id; /* of this call */
};

/* ---- answers --------------------------------------------------------------------------------- */

static void put_head(struct qn_bytes *b, const struct txn_call *t, bool success)
{
	QN_PUT_LIT(b, "{\"transactionId\":");
	qn_json_put_uuid(b, &t->id);
	QN_PUT_LIT(b, ",\"success\":");
	qn_json_put_bool(b, success);
}

static void put_push(struct qn_bytes *b, const struct qn_push_item *item)
{
	QN_PUT_LIT(b, ",\"type\":\"push\",\"success\":true,\"transactionId\":");
	qn_json_put_str(b, item->transaction_id);
	QN_PUT_LIT(b, ",\"messageId\":");
	qn_json_put_uuid(b, &item->message_id);
	QN_PUT_LIT(b, ",\"queueName\":");
	qn_json_put_str(b, item->queue);
	if (item->status == QN_ITEM_DUPLICATE) {
		QN_PUT_LIT(b, ",\"duplicate\":true");
	}
}

static void put_ack(struct qn_bytes *b, const struct qn_ack_input *in, const struct qn_ack_place *p)
{
	QN_PUT_LIT(b, ",\"type\":\"ack\",\"success\":true,\"transactionId\":");
	qn_json_put_str(b, in->transaction_id);
	QN_PUT_LIT(b, ",\"error\":null,\"dlq\":");
	qn_json_put_bool(b, p->unit->dead_lettered && p->unit->lane.poison_item == p->index);
}

static void reply_committed(struct qn_call *c, const struct txn_call *t)
{
	struct qn_bytes b = {0};

	put_head(&b, t, true);
	QN_PUT_LIT(&b, ",\"results\":[");
	for (uint32_t i = 0; i < t->in.slot_count; i++) {
		const struct qn_txn_slot *s = &t->in.slots[i];

		if (i > 0) {
			QN_PUT_LIT(&b, ",");
		}
		QN_PUT_LIT(&b, "{\"index\":");
		qn_json_put_i64(&b, i);
		if (s->is_push) {
			put_push(&b, &t->job.push.items[s->index]);
		} else {
			put_ack(&b, &t->in.acks[s->index], &t->units.places[s->index]);
		}
		QN_PUT_LIT(&b, "}");
	}
	QN_PUT_LIT(&b, "]}");
	qn_call_reply(c, 200, &b);
}

/** The envelope of a transaction that changed nothing. text: [take] */
static void reply_refused(struct qn_call *c, int status, const struct txn_call *t, const char *reason,
                          struct qn_bytes *text)
{
	struct qn_bytes b = {0};

	put_head(&b, t, false);
	QN_PUT_LIT(&b, ",\"error\":");
	qn_json_put_str(&b, (struct qn_span){text->p, text->n});
	QN_PUT_LIT(&b, ",\"reason\":");
	qn_json_put_cstr(&b, reason);
	QN_PUT_LIT(&b, ",\"results\":[]}");
	b.failed = b.failed || text->failed;
	qn_bytes_fini(text);
	qn_call_reply(c, status, &b);
}

static void put_text(struct qn_bytes *b, const char *s)
{
	qn_bytes_put(b, s, strlen(s));
}

static void put_id(struct qn_bytes *b, const struct qn_uuid *id)
{
	char text[QN_UUID_TEXT];

	qn_uuid_format(id, text);
	qn_bytes_put(b, text, sizeof(text));
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const struct qn_push_group *refused_group(const struct txn_call *t)
{
	return &t->job.push.groups[t->job.refused];
}

static const struct qn_settle_lane *refused_lane(const struct txn_call *t)
{
	return &t->job.units[t->job.refused].lane;
}

static void duplicate_text(struct qn_bytes *b, const struct qn_push_group *g)
{
	put_text(b, "QDUP duplicate messages in queue \"");
	qn_bytes_put_span(b, g->queue);
	put_text(b, "\" partition \"");
	qn_bytes_put_span(b, g->partition);
	put_text(b, "\"; transaction rolled back");
}

static void ack_text(struct qn_bytes *b, const struct qn_settle_lane *l, const char *why)
{
	put_text(b, "QTXN ack failed for partition ");
	put_id(b, &l->partition_id);
	put_text(b, " group \"");
	qn_bytes_put_span(b, l->group);
	put_text(b, "\": ");
	put_text(b, why);
	put_text(b, "; transaction rolled back");
}

static void reply_verdict(struct qn_call *c, const struct txn_call *t)
{
	const struct qn_txn_job *job = &t->job;
	const char *reason = "ack_rejected";
	struct qn_bytes b = {0};

	switch (job->verdict) {
	case QN_TXN_DUPLICATE:
		reason = "duplicate";
		duplicate_text(&b, refused_group(t));
		break;
	case QN_TXN_UNSEALED:
		reason = "db_error";
		put_text(&b, "queue \"");
		qn_bytes_put_span(&b, refused_group(t)->queue);
		put_text(&b, "\" wants encrypted payloads and they cannot be encrypted; transaction rolled back");
		break;
	case QN_TXN_FENCE:
		put_text(&b, "QTXN required lease ");
		qn_bytes_put_span(&b, job->fences[job->refused]);
		put_text(&b, " is not held or has expired; transaction rolled back");
		break;
	case QN_TXN_NOT_OWNED:
		put_text(&b, "QTXN ack references partition ");
		put_id(&b, &refused_lane(t)->partition_id);
		put_text(&b, " not owned by this tenant; transaction rolled back");
		break;
	case QN_TXN_UNKNOWN:
		put_text(&b, "QTXN ack references unknown transactionId; transaction rolled back");
		break;
	case QN_TXN_NO_CONSUMER:
		ack_text(&b, refused_lane(t), "consumer not found");
		break;
	case QN_TXN_BAD_LEASE:
		ack_text(&b, refused_lane(t), "invalid or expired lease");
		break;
	case QN_TXN_NO_BATCH:
		ack_text(&b, refused_lane(t), "no leased batch");
		break;
	case QN_TXN_POISONED:
		ack_text(&b, refused_lane(t), "dlq rejected");
		break;
	case QN_TXN_COMMITTED:
	case QN_TXN_WINDOW:
		break;
	}
	reply_refused(c, 200, t, reason, &b);
}

/** The database or this broker failed; retryable means that nothing was stored. */
static void reply_failed(struct qn_call *c, const struct txn_call *t, const struct qn_error *e)
{
	bool in_doubt = e->code == QN_UNAVAIL || e->code == QN_TIMEOUT;
	const char *reason = "db_error";
	struct qn_bytes b = {0};
	char id[QN_UUID_TEXT + 1] = {0};

	if (e->retryable || e->code == QN_CANCELED) {
		qn_call_failed(c, e, "transaction failed");
		return;
	}
	if (e->code == QN_TOO_BIG || strcmp(e->sqlstate, "22001") == 0) {
		reason = "payload_too_large";
	} else if (strcmp(e->sqlstate, "22023") == 0) {
		reason = "bad_request";
	}
	qn_uuid_format(&t->id, id);
	qn_log(QN_WARN, "transaction.failed", QN_S("transaction", id), QN_S("code", qn_code_name(e->code)),
	       QN_S("sqlstate", e->sqlstate), QN_S("error", e->msg));
	put_text(&b, in_doubt ? "the connection to the database was lost during the commit; the transaction may or "
	                        "may not have been applied"
	                      : "the database did not accept the transaction; transaction rolled back");
	reply_refused(c, 200, t, reason, &b);
}

static void decided(struct qn_job *job)
{
	struct txn_call *t = QN_CONTAINER(job, struct txn_call, job.push.job);
	struct qn_call *c = qn_call_of(job);

	if (job->error.code == QN_LIMIT) {
		qn_call_busy(c);
	} else if (job->error.code != 0) {
		reply_failed(c, t, &job->error);
	} else if (t->job.verdict == QN_TXN_COMMITTED) {
		reply_committed(c, t);
	} else {
		reply_verdict(c, t);
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

/** What can be refused without asking the storage; true when it was. */
static bool refuse_early(struct qn_call *c, const struct txn_call *t)
{
	struct qn_bytes b = {0};
	char text[96];

	if (t->in.nameless > 0) {
		(void)snprintf(
			text, sizeof(text),
			"QTXN resolved %u of %u pushes (empty or unknown queue/partition); transaction rolled back",
			t->in.push_count - t->in.nameless, t->in.push_count);
		put_text(&b, text);
		reply_refused(c, 200, t, "ack_rejected", &b);
		return true;
	}
	for (uint32_t i = 0; i < t->in.ack_count; i++) {
		if (t->units.places[i].unit == NULL) {
			put_text(&b, "QTXN ack references a partition whose id is not a UUID; transaction rolled back");
			reply_refused(c, 200, t, "ack_rejected", &b);
			return true;
		}
	}
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct qn_span *x = a, *y = b;

	return memcmp(x->p, y->p, QN_UUID_TEXT);
}

/** Sorts leases in their canonical form and drops repetitions; returns how many are left. */
static uint32_t distinct(struct qn_span *leases, uint32_t count)
{
	uint32_t n = 0;

	qsort(leases, count, sizeof(*leases), compare);
	for (uint32_t i = 0; i < count; i++) {
		if (n == 0 || !qn_span_eq(leases[n - 1], leases[i])) {
			leases[n] = leases[i];
			n++;
		}
	}
	return n;
}

/** message-plane 7.1: any lease named in the call makes acks without one borrow; a single one is their hint. */
static void set_leases(struct qn_arena *a, struct txn_call *t)
{
	struct qn_txn_job *job = &t->job;
	uint32_t n = 0;
	struct qn_span *all;

	job->fences = t->in.leases;
	job->fence_count = t->in.lease_count == 0 ? 0 : distinct(t->in.leases, t->in.lease_count);
	all = qn_arena_alloc(a, (job->fence_count + t->in.ack_count + 1) * sizeof(*all));
	for (uint32_t i = 0; i < job->fence_count; i++) {
		all[n] = job->fences[i];
		n++;
	}
	for (uint32_t i = 0; i < t->in.ack_count; i++) {
		if (t->in.acks[i].lease_id.n > 0) {
			all[n] = t->in.acks[i].lease_id;
			n++;
		}
	}
	job->borrow = n > 0;
	job->hint = n > 0 && distinct(all, n) == 1 ? all[0] : QN_SPAN_LIT("");
}

void qn_api_transaction(struct qn_call *c)
{
	struct txn_call *t = qn_arena_zalloc(c->arena, sizeof(*t));
	struct qn_txn_fault fault;

	qn_uuid7(&t->id);
	if (!qn_txn_parse(c->arena, c->http->body, &t->in, &fault)) {
		struct qn_bytes b = {0};

		if (fault.is_body) {
			qn_call_error(c, 400, "%s", fault.text);
			return;
		}
		put_text(&b, fault.text);
		reply_refused(c, 400, t, "bad_request", &b);
		return;
	}
	t->units = qn_ack_group(c->arena, &c->tenant, t->in.acks, t->in.ack_count, false);
	if (refuse_early(c, t)) {
		return;
	}
	t->job.tenant = c->tenant;
	t->job.units = t->units.units;
	t->job.unit_count = t->units.unit_count;
	qn_push_build(&t->job.push, c->arena, &c->tenant, t->in.pushes, t->in.push_count);
	set_leases(c->arena, t);
	if (t->in.slot_count == 0 && t->job.fence_count == 0) {
		reply_committed(c, t);
		return;
	}
	qn_call_send(c, &t->job.push.job, QN_JOB_TRANSACTION, decided);
}
