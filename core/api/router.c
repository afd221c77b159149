/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing on the raw path: split on '/', then each segment decoded once (decisions 24), so that a
 * name may hold any character. ":" in a pattern matches one segment, the empty one too (decisions 7).
 */
#include "api.h"
#include "handlers.h"

#include <string.h>

struct route {
	const char *method;
	const char *pattern;
	void (*handler)(struct qn_call *c);
	bool head; /* GET without side effects: HEAD behaves as GET without a body */
};

static const struct route routes[] = {
	{"POST", "api/v1/push", qn_api_push, false},
	{"GET", "api/v1/pop", qn_api_pop_discovery, false},
	{"GET", "api/v1/pop/queue/:", qn_api_pop_queue, false},
	{"GET", "api/v1/pop/queue/:/partition/:", qn_api_pop_lane, false},
	{"POST", "api/v1/ack", qn_api_ack, false},
	{"POST", "api/v1/ack/batch", qn_api_ack_batch, false},
	{"POST", "api/v1/transaction", qn_api_transaction, false},
	{"POST", "api/v1/lease/:/extend", qn_api_lease_extend, false},
	{"POST", "api/v1/configure", qn_api_configure, false},
	{"GET", "api/v1/resources/namespaces", qn_api_namespaces, true},
	{"GET", "api/v1/resources/tasks", qn_api_tasks, true},
	{"GET", "api/v1/resources/queues", qn_api_queue_list, true},
	{"GET", "api/v1/resources/queues/:", qn_api_queue_get, true},
	{"DELETE", "api/v1/resources/queues/:", qn_api_queue_delete, false},
	{"GET", "health", qn_api_health, true},
	{"GET", "status", qn_api_status, true},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

static bool matches(const struct route *r, const struct qn_path *path)
{
	const char *at = r->pattern;

	for (unsigned i = 0; i < path->count; i++) {
		size_t n = strcspn(at, "/");

		if (i >= QN_PATH_SEGMENTS) {
			return false;
		}
		if (!(n == 1 && *at == ':') && !qn_span_eq(path->seg[i], (struct qn_span){at, n})) {
			return false;
		}
		if (at[n] == '\0') {
			return i + 1 == path->count;
		}
		at += n + 1;
	}
	return false;
}

static bool method_is(const struct qn_call *c, const char *method)
{
	return qn_span_eq(c->http->method, (struct qn_span){method, strlen(method)});
}

static void no_such_route(struct qn_call *c)
{
	struct qn_bytes b = {0};

	QN_PUT_LIT(&b, "{\"error\":\"Not Found\",\"code\":\"no_such_route\"}");
	qn_call_reply(c, 404, &b);
}

static void wrong_method(struct qn_call *c, const char *const *allowed, unsigned count)
{
	struct qn_bytes b = {0}, list = {0};
	struct qn_http_header allow = {.name = QN_SPAN_LIT("allow")};

	for (unsigned i = 0; i < count; i++) {
		if (i > 0) {
			QN_PUT_LIT(&list, ", ");
		}
		qn_bytes_put(&list, allowed[i], strlen(allowed[i]));
	}
	allow.value = (struct qn_span){list.p, list.n};
	QN_PUT_LIT(&b, "{\"error\":\"Method Not Allowed\"}");
	qn_call_reply_headers(c, 405, &b, &allow, 1);
	qn_bytes_fini(&list);
}

static void route(struct qn_call *c)
{
	const char *allowed[4];
	unsigned count = 0;

	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		const struct route *r = &routes[i];

		if (!matches(r, &c->path)) {
			continue;
		}
		if (method_is(c, r->method) || (r->head && method_is(c, "HEAD"))) {
			r->handler(c);
			return;
		}
		if (count + 2 <= sizeof(allowed) / sizeof(allowed[0])) {
			allowed[count] = r->method;
			count++;
			if (r->head) {
				allowed[count] = "HEAD";
				count++;
			}
		}
	}
	if (count > 0) {
		wrong_method(c, allowed, count);
	} else {
		no_such_route(c);
	}
}

void qn_api_dispatch(struct qn_http_call *http)
{
	struct qn_call *c = qn_call_create(http);
	struct qn_span path = qn_arena_dup(c->arena, http->path);
	const char *why = NULL;

	c->query = qn_arena_dup(c->arena, http->query);
	if (!qn_path_split(path, c->arena, &c->path, &why)) {
		qn_call_error(c, 400, "bad path: %s", why);
		return;
	}
	route(c);
}
