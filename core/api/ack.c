/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/ack and /ack/batch (message-plane 5, decisions 3, 7, 14b, 15-17).
 *
 * Items are grouped by (partitionId, group, leaseId) into units; each unit is decided by itself. A
 * body that parses answers 200 with one result per item in request order, whatever became of them.
 */
#include "handlers.h"

#include "ack_parse.h"

#include "../broker/map.h"
#include "../wire/ident.h"

#include <string.h>

/** Where an item's result is: no unit for an item whose partitionId cannot be one. */
struct place {
	struct qn_ack_unit *unit;
	uint32_t index;
};

struct ack_call {
	struct qn_ack_job job;
	const struct qn_ack_input *inputs;
	struct place *places;
	uint32_t count;
};

struct unit_table {
	uint32_t *slots; /* index + 1 of the unit */
	size_t mask;
};

static bool same_unit(const struct qn_settle_lane *l, const struct qn_ack_input *in, const struct qn_uuid *id)
{
	return memcmp(&l->partition_id, id, sizeof(*id)) == 0 && qn_span_eq(l->group, in->group) &&
	       qn_span_eq(l->lease_id, in->lease_id);
}

static uint64_t unit_hash(const struct qn_ack_input *in, const struct qn_uuid *id)
{
	const struct qn_span parts[] = {{id->b, sizeof(id->b)}, in->group, in->lease_id};

	return qn_key_hash(parts, 3);
}

static uint32_t unit_of(struct ack_call *a, struct unit_table *t, const struct qn_ack_input *in,
                        const struct qn_uuid *id)
{
	size_t i;
	struct qn_settle_lane *l;

	for (i = unit_hash(in, id) & t->mask; t->slots[i] != 0; i = (i + 1) & t->mask) {
		if (same_unit(&a->job.units[t->slots[i] - 1].lane, in, id)) {
			return t->slots[i] - 1;
		}
	}
	l = &a->job.units[a->job.unit_count].lane;
	l->partition_id = *id;
	l->group = in->group;
	l->lease_id = in->lease_id;
	a->job.unit_count++;
	t->slots[i] = a->job.unit_count;
	return a->job.unit_count - 1;
}

static void assign_units(struct ack_call *a, struct qn_arena *arena)
{
	struct unit_table t;
	size_t size = 4;

	while (size < (size_t)a->count * 2) {
		size *= 2;
	}
	t.slots = qn_arena_zalloc(arena, size * sizeof(uint32_t));
	t.mask = size - 1;
	for (uint32_t i = 0; i < a->count; i++) {
		struct qn_uuid id;

		if (qn_uuid_parse(a->inputs[i].partition_id, &id)) {
			struct qn_ack_unit *u = &a->job.units[unit_of(a, &t, &a->inputs[i], &id)];

			a->places[i] = (struct place){u, u->lane.item_count};
			u->lane.item_count++;
		}
	}
}

static void fill_units(struct ack_call *a, struct qn_arena *arena)
{
	for (uint32_t i = 0; i < a->job.unit_count; i++) {
		struct qn_ack_unit *u = &a->job.units[i];
		uint32_t n = u->lane.item_count;

		u->job = &a->job;
		u->lane.items = qn_arena_zalloc(arena, n * sizeof(*u->lane.items));
		u->item_txns = qn_arena_zalloc(arena, n * sizeof(*u->item_txns));
		u->item_errors = qn_arena_zalloc(arena, n * sizeof(*u->item_errors));
	}
	for (uint32_t i = 0; i < a->count; i++) {
		const struct place *p = &a->places[i];

		if (p->unit != NULL) {
			struct qn_ack_item *item = &p->unit->lane.items[p->index];

			qn_hash128(a->inputs[i].transaction_id, item->hash);
			item->status = a->inputs[i].status;
			p->unit->item_txns[p->index] = a->inputs[i].transaction_id;
			p->unit->item_errors[p->index] = a->inputs[i].error;
		}
	}
}

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

static void put_result(struct qn_bytes *b, uint32_t index, const struct qn_ack_input *in, const struct place *p)
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

	if (!qn_ack_parse(c, batch, &a->inputs, &a->count)) {
		return;
	}
	a->places = qn_arena_zalloc(c->arena, (a->count + 1) * sizeof(*a->places));
	a->job.units = qn_arena_zalloc(c->arena, (a->count + 1) * sizeof(*a->job.units));
	assign_units(a, c->arena);
	for (uint32_t i = 0; i < a->job.unit_count; i++) {
		a->job.units[i].lane.tenant = c->tenant;
	}
	fill_units(a, c->arena);
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
