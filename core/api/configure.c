/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /api/v1/configure (message-plane 8, decisions 2, 11, 23): a full replace.
 *
 * Options come in `options`, or, when that is no object, at the top level. A value of the wrong type
 * or out of range is a 400 and changes nothing. Numbers may be given as text ("120"), booleans as 0, 1
 * or in PostgreSQL's spellings, as existing callers do.
 */
#include "handlers.h"

#include "queue_json.h"

#include "../wire/ident.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct configure {
	struct qn_query_job q;
	struct qn_configure_op op;
};

/** What is wrong, "" while nothing is. */
struct problem {
	char text[160];
};

static void complain(struct problem *p, const char *option, const char *why)
{
	if (p->text[0] == '\0') {
		(void)snprintf(p->text, sizeof(p->text), "invalid %s: %s", option, why);
	}
}

static bool whole_number(const json_t *v, int64_t *out)
{
	if (json_is_integer(v)) {
		*out = json_integer_value(v);
		return true;
	}
	if (json_is_string(v)) {
		return qn_parse_i64((struct qn_span){json_string_value(v), json_string_length(v)}, out);
	}
	return false;
}

static bool truth(const json_t *v, bool *out)
{
	static const char *const yes[] = {"true", "t", "yes", "y", "on", "1"};
	static const char *const no[] = {"false", "f", "no", "n", "off", "0"};

	if (json_is_boolean(v)) {
		*out = json_is_true(v);
		return true;
	}
	if (json_is_integer(v)) {
		*out = json_integer_value(v) == 1;
		return json_integer_value(v) == 0 || json_integer_value(v) == 1;
	}
	for (size_t i = 0; json_is_string(v) && i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcasecmp(json_string_value(v), yes[i]) == 0) {
			*out = true;
			return true;
		}
		if (strcasecmp(json_string_value(v), no[i]) == 0) {
			*out = false;
			return true;
		}
	}
	return false;
}

struct bounds {
	int64_t lo, hi;
};

static int32_t read_int(const json_t *bag, const char *name, int32_t def, struct bounds in, struct problem *p)
{
	const json_t *v = json_object_get(bag, name);
	int64_t n = def;
	char why[80];

	if (v == NULL || json_is_null(v)) {
		return def;
	}
	if (!whole_number(v, &n)) {
		complain(p, name, "expected a whole number");
		return def;
	}
	/* Two options are clamped instead of refused (decisions 11). */
	if (strcmp(name, "minPopWaitTime") == 0) {
		n = n < in.lo ? in.lo : n > in.hi ? in.hi : n;
	}
	if (strcmp(name, "dedupWindowSeconds") == 0 && n < 0) {
		n = 0;
	}
	if (n < in.lo || n > in.hi) {
		(void)snprintf(why, sizeof(why), "must be from %lld to %lld", (long long)in.lo, (long long)in.hi);
		complain(p, name, why);
		return def;
	}
	return (int32_t)n;
}

static bool read_bool(const json_t *bag, const char *name, bool def, struct problem *p)
{
	const json_t *v = json_object_get(bag, name);
	bool out = def;

	if (v != NULL && !json_is_null(v) && !truth(v, &out)) {
		complain(p, name, "expected true or false");
	}
	return out;
}

static struct qn_span read_label(struct qn_call *c, const json_t *bag, const json_t *body, const char *name,
                                 struct problem *p)
{
	const json_t *v = json_object_get(bag, name);
	struct qn_span s = {"", 0};
	const char *why;

	if (v == NULL) {
		v = json_object_get(body, name);
		if (!json_is_string(v)) {
			return s;
		}
	}
	if (json_is_null(v)) {
		return s;
	}
	if (!json_is_string(v)) {
		complain(p, name, "expected a string");
		return s;
	}
	s = qn_arena_dup(c->arena, (struct qn_span){json_string_value(v), json_string_length(v)});
	why = qn_name_label(s);
	if (why != NULL) {
		complain(p, name, why);
	}
	return s;
}

static void read_options(struct qn_call *c, const json_t *body, struct qn_queue_options *o, struct problem *p)
{
	const json_t *bag = json_object_get(body, "options");

	if (!json_is_object(bag)) {
		bag = body;
	}
	o->name_space = read_label(c, bag, body, "namespace", p);
	o->task = read_label(c, bag, body, "task", p);
#define X(field, json, column, def, lo, hi) o->field = read_int(bag, json, def, (struct bounds){lo, hi}, p);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) o->field = read_bool(bag, json, def, p);
	QN_QUEUE_BOOLS(X)
#undef X
	if (o->encryption_enabled && !qn_app->encryption.vt->ready(qn_app->encryption.self)) {
		complain(p, "encryptionEnabled", "no encryption key is set");
	}
}

static void configured(struct qn_job *job)
{
	struct configure *x = QN_CONTAINER(job, struct configure, q.job);
	struct qn_call *c = qn_call_of(job);
	struct qn_bytes b = {0};

	if (job->error.code != 0) {
		qn_call_failed(c, &job->error, "configure failed");
		return;
	}
	QN_PUT_LIT(&b, "{\"configured\":true,\"queueId\":");
	qn_json_put_uuid(&b, &x->op.queue_id);
	QN_PUT_LIT(&b, ",\"partitionId\":null,\"queue\":");
	qn_json_put_str(&b, x->op.queue);
	QN_PUT_LIT(&b, ",\"namespace\":");
	qn_json_put_str(&b, x->op.options.name_space);
	QN_PUT_LIT(&b, ",\"task\":");
	qn_json_put_str(&b, x->op.options.task);
	QN_PUT_LIT(&b, ",\"storage\":\"segments\",\"options\":");
	qn_queue_options_put(&b, &x->op.options);
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, 200, &b);
}

static void start(const struct qn_app *app, struct qn_op *op)
{
	app->storage.vt->configure(app->storage.self, QN_CONTAINER(op, struct qn_configure_op, op));
}

static void applied(struct qn_broker *b, struct qn_query_job *q)
{
	const struct qn_configure_op *op = QN_CONTAINER(q->query.op, struct qn_configure_op, op);

	/* Labels, window and delays may have changed. */
	qn_broker_forget_queue(b, &op->tenant, op->queue);
}

static void configure(struct qn_call *c, const json_t *body)
{
	struct configure *x = qn_arena_zalloc(c->arena, sizeof(*x));
	const json_t *queue = json_object_get(body, "queue");
	struct problem p = {{0}};
	const char *why;

	if (!json_is_string(queue)) {
		qn_call_error(c, 400, "queue is required");
		return;
	}
	x->op.tenant = c->tenant;
	x->op.queue = qn_arena_dup(c->arena, (struct qn_span){json_string_value(queue), json_string_length(queue)});
	why = qn_name_queue(x->op.queue);
	if (why != NULL) {
		complain(&p, "queue", why);
	}
	read_options(c, body, &x->op.options, &p);
	if (p.text[0] != '\0') {
		qn_call_error(c, 400, "%s", p.text);
		return;
	}
	x->q.query.start = start;
	x->q.query.op = &x->op.op;
	x->q.applied = applied;
	qn_call_send(c, &x->q.job, QN_JOB_QUERY, configured);
}

void qn_api_configure(struct qn_call *c)
{
	const struct qn_span text = c->http->body;
	json_error_t e;
	json_t *body = json_loadb(text.n == 0 ? "" : text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

	if (body == NULL) {
		qn_call_error(c, 400, "bad body: %s at line %d column %d", e.text, e.line, e.column);
		return;
	}
	configure(c, body);
	json_decref(body);
}
