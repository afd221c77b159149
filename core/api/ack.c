/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/ack and /ack/batch (message-plane 5, decisions 3, 7, 14b, 15-17).
 *
 * Items are grouped by (partitionId, group, leaseId) into units; each unit is decided by itself. A
 * body that parses answers 200 with one result per item in request order, whatever became of them.
 */
#include "handlers.h"

#include "ack_units.h"

struct ack_call {
	struct qn_ack_job job;
	const struct qn_ack_input *inputs;
	struct qn_ack_place *places;
	uint32_t count;
};

static const char *outcome_name(enum qn_ack_outcome o)
{
	static const char *const names[] = {
		[QN_OUT_COMPLETED] = "completed",
		[QN_OUT_NOOP] = "noop",
		[QN_OUT_RETRIED] = "retried",
		[QN_OUT_FAILED] = "failed",
		[QN_OUT_DEAD_LETTERED] = "dead_lettered",
		[QN_OUT_DROPPED] = "dropped",
		[QN_OUT_REDELIVERED] = "redelivered",
		[QN_OUT_REJECTED] = "rejected",
	};

	return names[o];
}

static const char unresolvable[] = "unresolvable: transaction not in the ack window (hash purged or never "
				   "pushed); if leased, the message redelivers";

static const char *reason_text(enum qn_ack_reason r)
{
	static const char *const texts[] = {
		[QN_ACK_BAD_LEASE] = "invalid or expired lease",
		[QN_ACK_NO_CONSUMER] = "consumer not found",
		[QN_ACK_UNRESOLVABLE] = unresolvable,
		[QN_ACK_COMMITTED] = "already committed: the cursor moved past this message before this ack",
		[QN_ACK_NO_BATCH] = "no leased batch",
		[QN_ACK_STORAGE] = "ack flush failed; lease will expire and redeliver",
		[QN_ACK_DLQ_REJECTED] = "dlq rejected",
	};

	return texts[r];
}

static void put_result(struct qn_bytes *b, uint32_t index, const struct qn_ack_input *in, const struct qn_ack_place *p)
{
	const struct qn_ack_item *item = p->unit == NULL ? NULL : &p->unit->lane.items[p->index];
	bool success = item != NULL && item->reason == QN_ACK_OK;
	bool noop = success && item->outcome == QN_OUT_NOOP;
	bool dead = success && p->unit->dead_lettered && p->unit->lane.poison_item == p->index;

	QN_PUT_LIT(b, "{\"index\":");
	qn_json_put_i64(b, index);
	QN_PUT_LIT(b, ",\"transactionId\":");
	qn_json_put_str(b, in->transaction_id);
	QN_PUT_LIT(b, ",\"success\":");
	qn_json_put_bool(b, success);
	QN_PUT_LIT(b, ",\"error\":");
	if (success) {
		QN_PUT_LIT(b, "null");
	} else {
		qn_json_put_cstr(b, item == NULL ? "invalid partitionId: not a UUID" : reason_text(item->reason));
	}
	QN_PUT_LIT(b, ",\"leaseReleased\":");
	qn_json_put_bool(b, success && !noop && p->unit->lane.lease_released);
	QN_PUT_LIT(b, ",\"dlq\":");
	qn_json_put_bool(b, dead);
	QN_PUT_LIT(b, ",\"noop\":");
	qn_json_put_bool(b, noop);
	QN_PUT_LIT(b, ",\"outcome\":");
	qn_json_put_cstr(b, item == NULL ? "rejected" : outcome_name(item->outcome));
	QN_PUT_LIT(b, "}");
}

static void answer(struct qn_call *c, const struct ack_call *a)
{
	struct qn_bytes b = {0};

	QN_PUT_LIT(&b, "[");
	for (uint32_t i = 0; i < a->count; i++) {
		if (i > 0) {
			QN_PUT_LIT(&b, ",");
		}
		put_result(&b, i, &a->inputs[i], &a->places[i]);
	}
	QN_PUT_LIT(&b, "]");
	qn_call_reply(c, 200, &b);
}

static void acked(struct qn_job *job)
{
	struct ack_call *a = QN_CONTAINER(job, struct ack_call, job.job);

	answer(qn_call_of(job), a);
}

static void ack(struct qn_call *c, bool batch)
{
	struct ack_call *a = qn_arena_zalloc(c->arena, sizeof(*a));
	struct qn_ack_units units;

	if (!qn_ack_parse(c, batch, &a->inputs, &a->count)) {
		return;
	}
	units = qn_ack_group(c->arena, &c->tenant, a->inputs, a->count, true);
	a->places = units.places;
	a->job.units = units.units;
	a->job.unit_count = units.unit_count;
	for (uint32_t i = 0; i < a->job.unit_count; i++) {
		a->job.units[i].job = &a->job;
	}
	if (a->job.unit_count == 0) {
		answer(c, a);
		return;
	}
	qn_call_send(c, &a->job.job, QN_JOB_ACK, acked);
}

void qn_api_ack(struct qn_call *c)
{
	ack(c, false);
}

void qn_api_ack_batch(struct qn_call *c)
{
	ack(c, true);
}
