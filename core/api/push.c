/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/push (message-plane 3, decisions 7-10, 13, 20).
 *
 * The body is scanned in place: a payload is the slice of the body between its first and last byte,
 * copied once, into its frame (push_build.c). Everything that can be wrong is found before anything is sent, so a
 * refused body stores nothing. Items are grouped by lane; the answer waits for all groups.
 */
#include "handlers.h"

#include "push_build.h"

#include "../error.h"

#include <string.h>

struct parse {
	struct qn_call *c;
	struct qn_json j;
	struct qn_push_input *items;
	uint32_t count, cap;
	const char *name; /* the item's name being read, for its error */
};

static bool once(struct parse *p, bool *seen, const char *message)
{
	if (*seen) {
		return qn_json_fail(&p->j, message);
	}
	*seen = true;
	return true;
}

/** A name of the last item; p->name stays set when it is not well-formed. */
static bool name_string(struct parse *p, const char *name, struct qn_span *out)
{
	p->name = name;
	if (!qn_json_string(&p->j, p->c->arena, out)) {
		return false;
	}
	p->name = NULL;
	return true;
}

/** A name or null; *is_set stays false for null. */
static bool optional_name(struct parse *p, const char *name, struct qn_span *out, bool *is_set)
{
	*is_set = false;
	if (qn_json_peek(&p->j) == QN_JSON_NULL) {
		return qn_json_null(&p->j);
	}
	if (qn_json_peek(&p->j) != QN_JSON_STRING) {
		return qn_json_fail(&p->j, "invalid type: expected a string or null");
	}
	*is_set = true;
	return name_string(p, name, out);
}

static bool trace_id(struct parse *p, struct qn_push_input *it)
{
	struct qn_span ignored;

	/* Anything that is not a UUID is ignored (decisions 14). */
	if (qn_json_peek(&p->j) == QN_JSON_STRING) {
		struct qn_span raw;

		if (!qn_json_skip(&p->j, &raw)) {
			return false;
		}
		qn_push_set_trace(it, (struct qn_span){(const char *)raw.p + 1, raw.n - 2});
		return true;
	}
	return qn_json_skip(&p->j, &ignored);
}

static bool key_is(struct qn_span key, const char *name)
{
	return qn_span_eq(key, (struct qn_span){name, strlen(name)});
}

static bool item_field(struct parse *p, struct qn_push_input *it, struct qn_span key, bool *partition_seen,
                       bool *transaction_seen)
{
	struct qn_span ignored;

	if (key_is(key, "queue")) {
		if (!once(p, &it->has_queue, "duplicate field `queue`")) {
			return false;
		}
		if (qn_json_peek(&p->j) != QN_JSON_STRING) {
			return qn_json_fail(&p->j, "invalid type: `queue` must be a string");
		}
		return name_string(p, "queue", &it->queue);
	}
	if (key_is(key, "partition")) {
		return once(p, partition_seen, "duplicate field `partition`") &&
		       optional_name(p, "partition", &it->partition, &it->has_partition);
	}
	if (key_is(key, "transactionId")) {
		return once(p, transaction_seen, "duplicate field `transactionId`") &&
		       optional_name(p, "transactionId", &it->transaction_id, &it->has_transaction);
	}
	if (key_is(key, "payload")) {
		return once(p, &it->has_payload, "duplicate field `payload`") && qn_json_skip(&p->j, &it->payload);
	}
	if (key_is(key, "traceId")) {
		return once(p, &it->has_trace_key, "duplicate field `traceId`") && trace_id(p, it);
	}
	return qn_json_skip(&p->j, &ignored);
}

static bool parse_item(struct parse *p)
{
	struct qn_push_input *it = qn_arena_push(p->c->arena, (void **)&p->items, &p->count, &p->cap, sizeof(*it));
	struct qn_span key;
	bool partition_seen = false, transaction_seen = false;

	if (qn_json_peek(&p->j) != QN_JSON_OBJECT) {
		return qn_json_fail(&p->j, "invalid type: an item must be an object");
	}
	if (!qn_json_enter_object(&p->j)) {
		return false;
	}
	while (qn_json_next_key(&p->j, p->c->arena, &key)) {
		if (!item_field(p, it, key, &partition_seen, &transaction_seen)) {
			return false;
		}
	}
	if (p->j.error != NULL) {
		return false;
	}
	if (!it->has_queue) {
		return qn_json_fail(&p->j, "missing field `queue`");
	}
	if (!it->has_payload) {
		return qn_json_fail(&p->j, "missing field `payload`");
	}
	return true;
}

static bool parse_items(struct parse *p)
{
	if (qn_json_peek(&p->j) != QN_JSON_ARRAY) {
		return qn_json_fail(&p->j, "invalid type: `items` must be an array");
	}
	if (!qn_json_enter_array(&p->j)) {
		return false;
	}
	while (qn_json_next_item(&p->j)) {
		if (!parse_item(p)) {
			return false;
		}
	}
	return p->j.error == NULL;
}

static bool parse_body(struct parse *p)
{
	struct qn_span key, ignored;
	bool has_items = false;

	if (qn_json_peek(&p->j) != QN_JSON_OBJECT) {
		return qn_json_fail(&p->j, "invalid type: expected an object");
	}
	if (!qn_json_enter_object(&p->j)) {
		return false;
	}
	while (qn_json_next_key(&p->j, p->c->arena, &key)) {
		bool ok = key_is(key, "items") ? once(p, &has_items, "duplicate field `items`") && parse_items(p)
		                               : qn_json_skip(&p->j, &ignored);

		if (!ok) {
			return false;
		}
	}
	if (p->j.error == NULL && !has_items) {
		return qn_json_fail(&p->j, "missing field `items`");
	}
	return qn_json_end(&p->j);
}

static bool check_names(struct parse *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		char text[QN_PUSH_FAULT];

		if (!qn_push_names_ok(&p->items[i], i, text)) {
			qn_call_error(p->c, 400, "bad body: %s", text);
			return false;
		}
	}
	return true;
}

static const char *status_name(enum qn_item_status s)
{
	switch (s) {
	case QN_ITEM_QUEUED:
		return "queued";
	case QN_ITEM_DUPLICATE:
		return "duplicate";
	case QN_ITEM_PENDING:
	case QN_ITEM_FAILED:
		break;
	}
	return "failed";
}

static void put_result(struct qn_bytes *b, uint32_t index, const struct qn_push_item *item, struct qn_span queue)
{
	QN_PUT_LIT(b, "{\"index\":");
	qn_json_put_i64(b, index);
	QN_PUT_LIT(b, ",\"message_id\":");
	qn_json_put_uuid(b, &item->message_id);
	QN_PUT_LIT(b, ",\"transaction_id\":");
	qn_json_put_str(b, item->transaction_id);
	QN_PUT_LIT(b, ",\"queueName\":");
	qn_json_put_str(b, queue);
	QN_PUT_LIT(b, ",\"status\":");
	qn_json_put_cstr(b, status_name(item->status));
	QN_PUT_LIT(b, "}");
}

static void pushed(struct qn_job *j)
{
	struct qn_push_job *job = QN_CONTAINER(j, struct qn_push_job, job);
	struct qn_call *c = qn_call_of(j);
	struct qn_bytes b = {0};

	if (j->error.code == QN_LIMIT) {
		qn_call_busy(c);
		return;
	}
	if (j->error.code != 0) {
		qn_call_failed(c, &j->error, "push failed");
		return;
	}
	QN_PUT_LIT(&b, "[");
	for (uint32_t i = 0; i < job->item_count; i++) {
		if (i > 0) {
			QN_PUT_LIT(&b, ",");
		}
		put_result(&b, i, &job->items[i], job->items[i].queue);
	}
	QN_PUT_LIT(&b, "]");
	qn_call_reply(c, 201, &b);
}

void qn_api_push(struct qn_call *c)
{
	struct parse p = {.c = c};
	struct qn_bytes b = {0};
	struct qn_push_job *job;

	qn_json_init(&p.j, c->http->body);
	if (!parse_body(&p)) {
		if (p.name != NULL) {
			char text[128];

			qn_call_error(c, 400, "bad body: %s of item %u: %s", p.name, p.count - 1,
			              qn_json_error(&p.j, text, sizeof(text)));
		} else {
			qn_call_bad_body(c, &p.j);
		}
		return;
	}
	if (p.count == 0) {
		QN_PUT_LIT(&b, "[]");
		qn_call_reply(c, 201, &b);
		return;
	}
	if (!check_names(&p)) {
		return;
	}
	job = qn_arena_zalloc(c->arena, sizeof(*job));
	qn_push_build(job, c->arena, &c->tenant, p.items, p.count);
	qn_call_send(c, &job->job, QN_JOB_PUSH, pushed);
}
