/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transaction bodies. They are typed loosely: a value of another type counts as absent, of a repeated
 * key the last one counts. The whole body is checked to be JSON before anything in it is looked at.
 *
 * An object is read as the raw bytes of its known values, since what they mean depends on `type`,
 * which may come last. A payload is the slice of the body between its first and last byte.
 */
#include "transaction_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum key {
	K_TYPE,
	K_ITEMS,
	K_QUEUE,
	K_PARTITION,
	K_PAYLOAD,
	K_DATA,
	K_TXN,
	K_TRACE,
	K_PARTITION_ID,
	K_GROUP,
	K_STATUS,
	K_LEASE,
	K_ERROR,
	K_COUNT
};

static const char *const op_keys[K_COUNT] = {"type",   "items",         "queue",   "partition",   "payload",
                                             "data",   "transactionId", "traceId", "partitionId", "consumerGroup",
                                             "status", "leaseId",       "error"};

enum top { T_OPERATIONS, T_LEASES, T_KV, T_TIMERS, T_COUNT };

static const char *const top_keys[T_COUNT] = {"operations", "requiredLeases", "kv", "timers"};

struct parse {
	struct qn_arena *arena;
	struct qn_span body;
	struct qn_txn_input *out;
	struct qn_txn_fault *fault;
	uint32_t push_cap, ack_cap, slot_cap, lease_cap;
};

static bool fail(struct parse *p, const char *fmt, ...) QN_FMT(2, 3);

static bool fail(struct parse *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->fault->text, sizeof(p->fault->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool fail_body(struct parse *p, const struct qn_json *j)
{
	char text[256];

	p->fault->is_body = true;
	return fail(p, "bad body: %s", qn_json_error(j, text, sizeof(text)));
}

/* ---- raw values ------------------------------------------------------------------------------ */

/** A scanner over a value that was passed over before; its errors tell the place in the body. */
static struct qn_json within(const struct parse *p, struct qn_span raw)
{
	struct qn_json j;

	qn_json_init(&j, raw);
	j.start = p->body.p;
	return j;
}

static bool begins(struct qn_span raw, char c)
{
	return raw.n > 0 && *(const char *)raw.p == c;
}

static bool is_null(struct qn_span raw)
{
	return begins(raw, 'n');
}

/** The raw values of the known keys; none when it is no object. */
static bool read_object(struct parse *p, struct qn_json *j, const char *const *keys, unsigned count,
                        struct qn_span *values)
{
	struct qn_span key, raw;

	memset(values, 0, count * sizeof(*values));
	if (qn_json_peek(j) != QN_JSON_OBJECT) {
		return qn_json_skip(j, &raw) || fail_body(p, j);
	}
	if (!qn_json_enter_object(j)) {
		return fail_body(p, j);
	}
	while (qn_json_next_key(j, p->arena, &key)) {
		if (!qn_json_skip(j, &raw)) {
			break;
		}
		for (unsigned k = 0; k < count; k++) {
			if (qn_span_eq(key, (struct qn_span){keys[k], strlen(keys[k])})) {
				values[k] = raw;
			}
		}
	}
	return j->error == NULL || fail_body(p, j);
}

/** A string's text; *out stays empty and *is_set false for every other type. */
static bool read_text(struct parse *p, struct qn_span raw, struct qn_span *out, bool *is_set)
{
	struct qn_json j = within(p, raw);

	*out = QN_SPAN_LIT("");
	*is_set = begins(raw, '"');
	return !*is_set || qn_json_string(&j, p->arena, out) || fail_body(p, &j);
}

/** As read_text, of the item begun last; a string that cannot be text is told like any bad name (decisions 7). */
static bool read_field(struct parse *p, const struct qn_span *values, enum key key, struct qn_span *out, bool *is_set)
{
	struct qn_json j = within(p, values[key]);
	char why[128];

	*out = QN_SPAN_LIT("");
	*is_set = begins(values[key], '"');
	return !*is_set || qn_json_string(&j, p->arena, out) ||
	       fail(p, "%s of item %u: %s", op_keys[key], p->out->slot_count - 1, qn_json_error(&j, why, sizeof(why)));
}

static bool read_copy(struct parse *p, const struct qn_span *values, enum key key, struct qn_span *out)
{
	bool is_set;

	if (!read_field(p, values, key, out, &is_set)) {
		return false;
	}
	*out = qn_arena_dup(p->arena, *out);
	return true;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void add_slot(struct parse *p, bool is_push, uint32_t index)
{
	struct qn_txn_input *t = p->out;
	struct qn_txn_slot *s = qn_arena_push(p->arena, (void **)&t->slots, &t->slot_count, &p->slot_cap, sizeof(*s));

	*s = (struct qn_txn_slot){is_push, index};
}

static bool add_push(struct parse *p, const struct qn_span *v)
{
	struct qn_txn_input *t = p->out;
	struct qn_push_input *in =
		qn_arena_push(p->arena, (void **)&t->pushes, &t->push_count, &p->push_cap, sizeof(*in));
	char text[QN_PUSH_FAULT];

	add_slot(p, true, t->push_count - 1);
	if (!read_field(p, v, K_QUEUE, &in->queue, &in->has_queue) ||
	    !read_field(p, v, K_PARTITION, &in->partition, &in->has_partition) ||
	    !read_field(p, v, K_TXN, &in->transaction_id, &in->has_transaction)) {
		return false;
	}
	in->has_transaction = in->transaction_id.n > 0;
	in->payload = v[K_PAYLOAD].n > 0 ? v[K_PAYLOAD] : v[K_DATA].n > 0 ? v[K_DATA] : QN_SPAN_LIT("{}");
	if (begins(v[K_TRACE], '"')) {
		qn_push_set_trace(in, (struct qn_span){(const char *)v[K_TRACE].p + 1, v[K_TRACE].n - 2});
	}
	t->nameless += !in->has_queue;
	return qn_push_names_ok(in, t->slot_count - 1, text) || fail(p, "%s", text);
}

static bool add_pushes(struct parse *p, struct qn_span items)
{
	struct qn_span values[K_COUNT];
	struct qn_json j = within(p, items);

	if (!qn_json_enter_array(&j)) {
		return fail_body(p, &j);
	}
	while (qn_json_next_item(&j)) {
		if (!read_object(p, &j, op_keys, K_COUNT, values) || !add_push(p, values)) {
			return false;
		}
	}
	return j.error == NULL || fail_body(p, &j);
}

static bool read_status(struct parse *p, struct qn_span raw, enum qn_ack_status *out)
{
	struct qn_span word;
	bool is_set;

	if (!read_text(p, raw, &word, &is_set)) {
		return false;
	}
	*out = raw.n == 0 || is_null(raw) ? QN_ACK_COMPLETED : qn_ack_status_of(word);
	return true;
}

static bool add_ack(struct parse *p, const struct qn_span *v)
{
	struct qn_txn_input *t = p->out;
	struct qn_ack_input *in = qn_arena_push(p->arena, (void **)&t->acks, &t->ack_count, &p->ack_cap, sizeof(*in));
	const char *why, *field = "transactionId";

	add_slot(p, false, t->ack_count - 1);
	if (!read_copy(p, v, K_TXN, &in->transaction_id) || !read_copy(p, v, K_PARTITION_ID, &in->partition_id) ||
	    !read_copy(p, v, K_GROUP, &in->group) || !read_copy(p, v, K_LEASE, &in->lease_id) ||
	    !read_copy(p, v, K_ERROR, &in->error) || !read_status(p, v[K_STATUS], &in->status)) {
		return false;
	}
	in->lease_id = qn_ack_lease_of(p->arena, in->lease_id);
	in->error = qn_ack_error_of(p->arena, in->error);
	in->group = in->group.n == 0 ? QN_SPAN_LIT(QN_QUEUE_MODE) : in->group;
	why = qn_name_transaction(in->transaction_id);
	if (why == NULL) {
		field = "consumerGroup";
		why = qn_name_group(in->group);
	}
	return why == NULL || fail(p, "%s of item %u: %s", field, t->slot_count - 1, why);
}

static bool wrong_type(struct parse *p, struct qn_span type, bool is_set)
{
	if (!is_set) {
		return fail(p, "every transaction operation needs a `type` of push or ack");
	}
	/* At most 64 bytes of it, and no half character at the end. */
	type.n = type.n > 64 ? 64 : type.n;
	while (type.n > 0 && !qn_utf8_valid(type, NULL)) {
		type.n--;
	}
	return fail(p, "segments transaction supports only push and ack operations, got `%.*s`", (int)type.n,
	            (const char *)type.p);
}

static bool add_operation(struct parse *p, const struct qn_span *v)
{
	struct qn_span type;
	bool is_set;

	if (!read_text(p, v[K_TYPE], &type, &is_set)) {
		return false;
	}
	if (qn_span_eq(type, QN_SPAN_LIT("ack"))) {
		return add_ack(p, v);
	}
	if (!qn_span_eq(type, QN_SPAN_LIT("push"))) {
		return wrong_type(p, type, is_set);
	}
	return begins(v[K_ITEMS], '[') ? add_pushes(p, v[K_ITEMS]) : add_push(p, v);
}

static bool read_operations(struct parse *p, struct qn_span raw)
{
	struct qn_span values[K_COUNT];
	struct qn_json j = within(p, raw);

	if (!begins(raw, '[')) {
		return fail(p, "transaction requires an operations array");
	}
	if (!qn_json_enter_array(&j)) {
		return fail_body(p, &j);
	}
	while (qn_json_next_item(&j)) {
		if (!read_object(p, &j, op_keys, K_COUNT, values) || !add_operation(p, values)) {
			return false;
		}
	}
	return j.error == NULL || fail_body(p, &j);
}

static bool read_leases(struct parse *p, struct qn_span raw)
{
	struct qn_txn_input *t = p->out;
	struct qn_json j = within(p, raw);
	struct qn_span value, text, *lease;
	bool is_set;

	if (!begins(raw, '[')) {
		return true;
	}
	if (!qn_json_enter_array(&j)) {
		return fail_body(p, &j);
	}
	while (qn_json_next_item(&j)) {
		if (!qn_json_skip(&j, &value)) {
			break;
		}
		if (!read_text(p, value, &text, &is_set)) {
			return false;
		}
		if (text.n > 0) {
			lease = qn_arena_push(p->arena, (void **)&t->leases, &t->lease_count, &p->lease_cap,
			                      sizeof(*lease));
			*lease = qn_ack_lease_of(p->arena, text);
		}
	}
	return j.error == NULL || fail_body(p, &j);
}

/** Riders of later versions would be part of the transaction: to ignore them would be to break it. */
static bool has_riders(const struct parse *p, struct qn_span raw)
{
	struct qn_json j = within(p, raw);

	return begins(raw, '[') && qn_json_enter_array(&j) && qn_json_next_item(&j);
}

bool qn_txn_parse(struct qn_arena *a, struct qn_span body, struct qn_txn_input *out, struct qn_txn_fault *fault)
{
	struct parse p = {.arena = a, .body = body, .out = out, .fault = fault};
	struct qn_span top[T_COUNT];
	struct qn_json j;

	*out = (struct qn_txn_input){0};
	*fault = (struct qn_txn_fault){0};
	qn_json_init(&j, body);
	if (!read_object(&p, &j, top_keys, T_COUNT, top)) {
		return false;
	}
	if (!qn_json_end(&j)) {
		return fail_body(&p, &j);
	}
	if (has_riders(&p, top[T_KV]) || has_riders(&p, top[T_TIMERS])) {
		return fail(&p, "transactions with kv or timers are not supported");
	}
	return read_operations(&p, top[T_OPERATIONS]) && read_leases(&p, top[T_LEASES]);
}
