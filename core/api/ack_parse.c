/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ack bodies. Known keys are typed (string or null), unknown ones ignored, a repeated known key is an
 * error. Spans are copied into the arena: the engine reads them after the body may be gone.
 */
#include "ack_parse.h"

#include "../wire/ident.h"

#include <string.h>

enum field { F_TXN, F_PARTITION, F_STATUS, F_GROUP, F_LEASE, F_ERROR, F_COUNT };

static const char *const names[F_COUNT] = {"transactionId", "partitionId", "status",
                                           "consumerGroup", "leaseId",     "error"};

struct fields {
	struct qn_span value[F_COUNT];
	bool seen[F_COUNT], set[F_COUNT];
};

struct parse {
	struct qn_call *c;
	struct qn_json j;
	struct fields *items;
	uint32_t count, cap;
	struct fields top;
};

static bool read_field(struct parse *p, struct fields *f, enum field k)
{
	if (f->seen[k]) {
		return qn_json_fail(&p->j, "duplicate field");
	}
	f->seen[k] = true;
	switch (qn_json_peek(&p->j)) {
	case QN_JSON_NULL:
		return qn_json_null(&p->j);
	case QN_JSON_STRING:
		f->set[k] = true;
		return qn_json_string(&p->j, p->c->arena, &f->value[k]);
	case QN_JSON_ERROR:
	case QN_JSON_BOOL:
	case QN_JSON_NUMBER:
	case QN_JSON_ARRAY:
	case QN_JSON_OBJECT:
		break;
	}
	return qn_json_fail(&p->j, "invalid type: expected a string or null");
}

static enum field field_of(struct qn_span key)
{
	int k;

	for (k = 0; k < F_COUNT; k++) {
		if (qn_span_eq(key, (struct qn_span){names[k], strlen(names[k])})) {
			break;
		}
	}
	return (enum field)k;
}

static bool parse_ack(struct parse *p, struct fields *f)
{
	struct qn_span key, ignored;

	if (qn_json_peek(&p->j) != QN_JSON_OBJECT) {
		return qn_json_fail(&p->j, "invalid type: an acknowledgment must be an object");
	}
	if (!qn_json_enter_object(&p->j)) {
		return false;
	}
	while (qn_json_next_key(&p->j, p->c->arena, &key)) {
		enum field k = field_of(key);
		bool ok = k == F_COUNT ? qn_json_skip(&p->j, &ignored) : read_field(p, f, k);

		if (!ok) {
			return false;
		}
	}
	return p->j.error == NULL;
}

static bool parse_list(struct parse *p)
{
	if (qn_json_peek(&p->j) != QN_JSON_ARRAY) {
		return qn_json_fail(&p->j, "invalid type: `acknowledgments` must be an array");
	}
	if (!qn_json_enter_array(&p->j)) {
		return false;
	}
	while (qn_json_next_item(&p->j)) {
		struct fields *f = qn_arena_push(p->c->arena, (void **)&p->items, &p->count, &p->cap, sizeof(*f));

		if (!parse_ack(p, f)) {
			return false;
		}
	}
	return p->j.error == NULL;
}

static bool parse_batch(struct parse *p)
{
	struct qn_span key, ignored;
	bool has_list = false;

	if (qn_json_peek(&p->j) != QN_JSON_OBJECT) {
		return qn_json_fail(&p->j, "invalid type: expected an object");
	}
	if (!qn_json_enter_object(&p->j)) {
		return false;
	}
	while (qn_json_next_key(&p->j, p->c->arena, &key)) {
		bool ok;

		if (field_of(key) == F_GROUP) {
			ok = read_field(p, &p->top, F_GROUP);
		} else if (qn_span_eq(key, QN_SPAN_LIT("acknowledgments"))) {
			ok = has_list ? qn_json_fail(&p->j, "duplicate field `acknowledgments`") : parse_list(p);
			has_list = true;
		} else {
			ok = qn_json_skip(&p->j, &ignored);
		}
		if (!ok) {
			return false;
		}
	}
	return p->j.error == NULL;
}

static bool parse_single(struct parse *p)
{
	struct fields *f = qn_arena_push(p->c->arena, (void **)&p->items, &p->count, &p->cap, sizeof(*f));

	return parse_ack(p, f);
}

/** decisions 3: a typo must not ack. */
enum qn_ack_status qn_ack_status_of(struct qn_span s)
{
	if (qn_span_eq(s, QN_SPAN_LIT("completed")) || qn_span_eq(s, QN_SPAN_LIT("success")) ||
	    qn_span_eq(s, QN_SPAN_LIT("acked")) || qn_span_eq(s, QN_SPAN_LIT("ok"))) {
		return QN_ACK_COMPLETED;
	}
	if (qn_span_eq(s, QN_SPAN_LIT("retry"))) {
		return QN_ACK_RETRY;
	}
	return qn_span_eq(s, QN_SPAN_LIT("dlq")) ? QN_ACK_DLQ : QN_ACK_FAILED;
}

struct qn_span qn_ack_lease_of(struct qn_arena *a, struct qn_span text)
{
	struct qn_uuid id = {{0}};
	char *out;

	if (text.n == 0) {
		return text;
	}
	(void)!qn_uuid_parse(text, &id);
	out = qn_arena_alloc(a, QN_UUID_TEXT);
	qn_uuid_format(&id, out);
	return (struct qn_span){out, QN_UUID_TEXT};
}

struct qn_span qn_ack_error_of(struct qn_arena *a, struct qn_span text)
{
	struct qn_span copy = qn_arena_dup(a, text);
	char *p = (char *)(uintptr_t)copy.p;

	for (size_t i = 0; i < copy.n; i++) {
		if (p[i] == '\0') {
			p[i] = ' ';
		}
	}
	return copy;
}

static bool build(struct parse *p, uint32_t i, struct qn_ack_input *out)
{
	const struct fields *f = &p->items[i];
	struct qn_arena *a = p->c->arena;
	struct qn_span group = f->set[F_GROUP] ? f->value[F_GROUP] : p->top.value[F_GROUP];
	const char *why = qn_name_transaction(f->value[F_TXN]);
	const char *field = "transactionId";

	if (why == NULL && group.n > 0) {
		why = qn_name_group(group);
		field = "consumerGroup";
	}
	if (why != NULL) {
		qn_call_error(p->c, 400, "bad body: %s of item %u: %s", field, i, why);
		return false;
	}
	out->transaction_id = qn_arena_dup(a, f->value[F_TXN]);
	out->partition_id = qn_arena_dup(a, f->value[F_PARTITION]);
	out->group = group.n == 0 ? QN_SPAN_LIT(QN_QUEUE_MODE) : qn_arena_dup(a, group);
	out->lease_id = qn_ack_lease_of(a, f->value[F_LEASE]);
	out->error = qn_ack_error_of(a, f->value[F_ERROR]);
	out->status = f->set[F_STATUS] ? qn_ack_status_of(f->value[F_STATUS]) : QN_ACK_COMPLETED;
	return true;
}

bool qn_ack_parse(struct qn_call *c, bool batch, const struct qn_ack_input **out, uint32_t *count)
{
	struct parse p = {.c = c};
	struct qn_ack_input *inputs;

	qn_json_init(&p.j, c->http->body);
	if (!(batch ? parse_batch(&p) : parse_single(&p)) || !qn_json_end(&p.j)) {
		qn_call_bad_body(c, &p.j);
		return false;
	}
	if (p.top.value[F_GROUP].n > 0) {
		const char *why = qn_name_group(p.top.value[F_GROUP]);

		if (why != NULL) {
			qn_call_error(c, 400, "bad body: consumerGroup: %s", why);
			return false;
		}
	}
	inputs = qn_arena_zalloc(c->arena, (p.count + 1) * sizeof(*inputs));
	for (uint32_t i = 0; i < p.count; i++) {
		if (!build(&p, i, &inputs[i])) {
			return false;
		}
	}
	*out = inputs;
	*count = p.count;
	return true;
}
