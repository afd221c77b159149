/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call's life on its I/O thread. It is made by the router and ends with exactly one reply; its
 * arena, which also holds its job, goes with it. When the client vanishes first, the job is told and
 * the reply, when it comes, sends nothing.
 */
#include "call.h"

#include "api.h"

#include "../error.h"
#include "../log.h"
#include "../wire/ident.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct qn_uuid qn_default_tenant = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

static _Atomic unsigned open_calls;

unsigned qn_api_open_calls(void)
{
	return atomic_load(&open_calls);
}

static void on_gone(struct qn_http_call *http)
{
	struct qn_call *c = http->user;

	c->gone = true;
	if (c->job != NULL) {
		qn_job_abandon(c->job);
	}
}

struct qn_call *qn_call_create(struct qn_http_call *http)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_call *c = qn_arena_zalloc(a, sizeof(*c));

	atomic_fetch_add(&open_calls, 1);
	c->http = http;
	c->arena = a;
	c->tenant = qn_default_tenant;
	http->user = c;
	http->on_gone = on_gone;
	return c;
}

void *qn_arena_push(struct qn_arena *a, void **p, uint32_t *n, uint32_t *cap, size_t size)
{
	if (*n == *cap) {
		uint32_t bigger = *cap == 0 ? 16 : *cap * 2;
		void *grown = qn_arena_alloc(a, bigger * size);

		if (*n > 0) {
			memcpy(grown, *p, *n * size);
		}
		*p = grown;
		*cap = bigger;
	}
	(*n)++;
	return memset((char *)*p + (*n - 1) * size, 0, size);
}

void qn_call_send(struct qn_call *c, struct qn_job *job, enum qn_job_kind kind, void (*answer)(struct qn_job *job))
{
	job->kind = kind;
	job->io = c->http->thread;
	job->arena = c->arena;
	job->answer = answer;
	job->call = c->http;
	c->job = job;
	qn_job_send(job);
}

struct qn_call *qn_call_of(struct qn_job *job)
{
	struct qn_call *c = job->call->user;

	c->job = NULL;
	return c;
}

static void free_body(void *p, void *ctx)
{
	(void)ctx;
	free(p);
}

void qn_call_reply_headers(struct qn_call *c, int status, struct qn_bytes *body, const struct qn_http_header *headers,
                           uint32_t count)
{
	struct qn_http_reply r = {.status = status, .headers = headers, .header_count = count};
	struct qn_arena *a = c->arena;

	if (body != NULL && body->failed) {
		qn_bytes_fini(body);
		qn_call_error(c, 500, "the answer does not fit into memory");
		return;
	}
	if (body != NULL && body->n > 0) {
		r.content_type = QN_SPAN_LIT("application/json");
		r.body = qn_bytes_take(body);
		r.body.free = free_body;
	}
	c->http->vt->reply(c->http, &r);
	atomic_fetch_sub(&open_calls, 1);
	qn_arena_destroy(a);
}

void qn_call_reply(struct qn_call *c, int status, struct qn_bytes *body)
{
	qn_call_reply_headers(c, status, body, NULL, 0);
}

static void error_body(struct qn_bytes *b, struct qn_span text)
{
	QN_PUT_LIT(b, "{\"error\":");
	qn_json_put_str(b, text);
}

void qn_call_error(struct qn_call *c, int status, const char *fmt, ...)
{
	struct qn_bytes b = {0};
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text)) {
		n = (int)strnlen(text, sizeof(text) - 1);
	}
	/* A cut name must not leave half a character behind. */
	while (n > 0 && !qn_utf8_valid((struct qn_span){text, (size_t)n}, NULL)) {
		n--;
	}
	error_body(&b, (struct qn_span){text, (size_t)n});
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, status, &b);
}

void qn_call_busy(struct qn_call *c)
{
	const struct qn_http_header retry = {QN_SPAN_LIT("retry-after"), QN_SPAN_LIT("1")};
	struct qn_bytes b = {0};

	QN_PUT_LIT(&b, "{\"error\":\"too many pushes wait to be stored, try again\"}");
	qn_call_reply_headers(c, 429, &b, &retry, 1);
}

void qn_call_bad_body(struct qn_call *c, const struct qn_json *j)
{
	char text[256];

	qn_call_error(c, 400, "bad body: %s", qn_json_error(j, text, sizeof(text)));
}

void qn_call_failed(struct qn_call *c, const struct qn_error *e, const char *what)
{
	struct qn_bytes b = {0};
	struct qn_uuid id;
	char text[QN_UUID_TEXT + 1] = {0};
	struct qn_span sentence = {what, strlen(what)};

	if (e->code == QN_CANCELED && (c->gone || c->http->vt->peer_gone(c->http))) {
		qn_call_reply(c, 499, NULL);
		return;
	}
	if (e->code == QN_UNAVAIL) {
		sentence = QN_SPAN_LIT("pool");
	}
	qn_uuid7(&id);
	qn_uuid_format(&id, text);
	qn_log(QN_WARN, "request.failed", QN_S("req", text), QN_S("what", what), QN_S("code", qn_code_name(e->code)),
	       QN_S("sqlstate", e->sqlstate), QN_S("error", e->msg));
	error_body(&b, sentence);
	QN_PUT_LIT(&b, ",\"requestId\":");
	qn_json_put_cstr(&b, text);
	QN_PUT_LIT(&b, "}");
	qn_call_reply(c, 500, &b);
}
