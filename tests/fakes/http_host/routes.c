/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test routes. /echo tells what arrived, /body returns the body, /big?N sends N bytes, /empty is 204,
 * /status?N answers N, /slow?MS answers after MS, /park waits until the client is gone or 5 s,
 * /stats shows the counters. Replies come inside dispatch() or later, as a core's do.
 */
#include "http_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARK_MS 5000

/* A call that waits on a timer of its thread. The lock covers the lists and each reply, so that the
 * watching thread never asks about a call that has been answered. */
struct parked {
	struct parked *next;
	struct qn_http_call *call;
	uv_timer_t timer;
	bool is_seen; /* peer_gone() was true once */
};

struct counters counters;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void free_body(void *p, void *ctx)
{
	(void)ctx;
	free(p);
	atomic_fetch_add(&counters.bodies_freed, 1);
}

static void reply(struct qn_http_call *call, int status, const char *type, const void *body, size_t n)
{
	static const struct qn_http_header headers[] = {{QN_SPAN_LIT("X-Host"), QN_SPAN_LIT("fake")}};
	struct qn_http_reply r = {.status = status, .headers = headers, .header_count = 1};
	if (type != NULL) {
		r.content_type = (struct qn_span){type, strlen(type)};
	}
	if (body != NULL) {
		void *copy = malloc(n + 1);
		memcpy(copy, body, n);
		r.body = (struct qn_buf){.p = copy, .n = n, .free = free_body};
	}
	call->vt->reply(call, &r);
}

static bool path_is(const struct qn_http_call *call, const char *text)
{
	return call->path.n == strlen(text) && memcmp(call->path.p, text, call->path.n) == 0;
}

static unsigned long number(struct qn_span query)
{
	char text[24] = "";
	memcpy(text, query.p, query.n < sizeof(text) - 1 ? query.n : sizeof(text) - 1);
	return strtoul(text, NULL, 10);
}

static void echo(struct qn_http_call *call)
{
	char *out = malloc(65536 * 2);
	struct qn_span test = {"", 0}, host = {"", 0};
	(void)call->vt->header(call, QN_SPAN_LIT("x-test"), &test);
	(void)call->vt->header(call, QN_SPAN_LIT("host"), &host);
	int n = snprintf(out, 65536 * 2,
	                 "{\"method\":\"%.*s\",\"path\":\"%.*s\",\"query\":\"%.*s\",\"body\":%zu,\"version\":%d,"
	                 "\"tls\":%s,\"test\":\"%.*s\",\"host\":\"%.*s\",\"thread\":%u}",
	                 (int)call->method.n, (const char *)call->method.p, (int)call->path.n,
	                 (const char *)call->path.p, (int)call->query.n, (const char *)call->query.p, call->body.n,
	                 call->version, call->tls ? "true" : "false", (int)test.n, (const char *)test.p, (int)host.n,
	                 (const char *)host.p, call->thread->index);
	reply(call, 200, "application/json", out, (size_t)n);
	free(out);
}

static void big(struct qn_http_call *call)
{
	size_t n = number(call->query);
	char *out = malloc(n + 1);
	memset(out, 'x', n);
	struct qn_http_reply r = {
		.status = 200,
		.content_type = QN_SPAN_LIT("application/octet-stream"),
		.body = {.p = out, .n = n, .free = free_body},
	};
	call->vt->reply(call, &r);
}

static int stats_text(char *out, size_t n, uint32_t connections)
{
	return snprintf(out, n,
	                "{\"calls\":%u,\"parked\":%u,\"gone\":%u,\"peer_gone\":%u,\"freed\":%u,\"connections\":%u}",
	                atomic_load(&counters.calls), atomic_load(&counters.parked), atomic_load(&counters.gone),
	                atomic_load(&counters.peer_gone), atomic_load(&counters.bodies_freed), connections);
}

static void stats(struct qn_http_call *call)
{
	const struct qn_http_vt *vt = call->vt;
	char out[256];
	int n = stats_text(out, sizeof(out), vt->connections(http_service.self, call->thread->tself));
	reply(call, 200, "application/json", out, (size_t)n);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

static void unpark(struct parked *p, int status)
{
	struct qn_http_call *call = p->call;
	struct parked **at = &call->thread->parked;
	(void)pthread_mutex_lock(&lock);
	while (*at != p) {
		at = &(*at)->next;
	}
	*at = p->next;
	atomic_fetch_sub(&counters.parked, 1);
	(void)pthread_mutex_unlock(&lock);
	uv_close((uv_handle_t *)&p->timer, on_timer_closed);
	if (status == 204) {
		reply(call, 204, NULL, NULL, 0);
	} else {
		reply(call, status, "application/json", "{\"waited\":true}", 15);
	}
}

static void on_timer(uv_timer_t *timer)
{
	unpark(timer->data, 200);
}

static void on_gone(struct qn_http_call *call)
{
	atomic_fetch_add(&counters.gone, 1);
	unpark(call->user, 200);
}

static void park(struct qn_http_call *call, uint64_t ms)
{
	struct parked *p = calloc(1, sizeof(*p));
	p->call = call;
	p->timer.data = p;
	call->user = p;
	call->on_gone = on_gone;
	(void)uv_timer_init(&call->thread->loop, &p->timer);
	(void)uv_timer_start(&p->timer, on_timer, ms, 0);
	(void)pthread_mutex_lock(&lock);
	p->next = call->thread->parked;
	call->thread->parked = p;
	atomic_fetch_add(&counters.parked, 1);
	(void)pthread_mutex_unlock(&lock);
}

void routes_drain(struct qn_thread *t)
{
	while (t->parked != NULL) {
		unpark(t->parked, 204);
	}
}

void routes_watch(struct qn_thread *t)
{
	(void)pthread_mutex_lock(&lock);
	for (struct parked *p = t->parked; p != NULL; p = p->next) {
		if (!p->is_seen && p->call->vt->peer_gone(p->call)) {
			p->is_seen = true;
			atomic_fetch_add(&counters.peer_gone, 1);
		}
	}
	(void)pthread_mutex_unlock(&lock);
}

void routes_dispatch(struct qn_http_call *call)
{
	atomic_fetch_add(&counters.calls, 1);
	if (path_is(call, "/echo")) {
		echo(call);
	} else if (path_is(call, "/body")) {
		reply(call, 200, "application/octet-stream", call->body.n > 0 ? call->body.p : "", call->body.n);
	} else if (path_is(call, "/big")) {
		big(call);
	} else if (path_is(call, "/empty")) {
		reply(call, 204, NULL, NULL, 0);
	} else if (path_is(call, "/status")) {
		reply(call, (int)number(call->query), "application/json", "{}", 2);
	} else if (path_is(call, "/slow")) {
		park(call, number(call->query));
	} else if (path_is(call, "/park")) {
		park(call, PARK_MS);
	} else if (path_is(call, "/stats")) {
		stats(call);
	} else {
		reply(call, 404, "application/json", "{\"error\":\"Not Found\"}", 21);
	}
}
