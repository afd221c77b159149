/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names to addresses, off the loop.
 *
 * libpq looks names up with a blocking call inside PQconnectStart and PQconnectPoll, also later for
 * the second host of a list. So names are looked up here, in the uv thread pool, and libpq gets
 * `hostaddr` beside `host` (which stays the name that TLS verifies). A host with several addresses
 * becomes several entries; a name that does not resolve is left out as long as another does.
 */
#include "conn.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define LIST_MAX 2048

struct qn_pg_resolve {
	uv_work_t work;
	struct qn_pg_conn *conn; /* NULL: nobody waits any more */
	struct qn_pg_pool *pool;
	struct qn_pg_conninfo info;
	bool failed;
	char why[160];
};

struct lists {
	char host[LIST_MAX], addr[LIST_MAX], port[LIST_MAX];
	unsigned count;
};

static bool is_name(const char *host)
{
	uint8_t any[16];
	return host[0] != '\0' && host[0] != '/' && host[0] != '@' && inet_pton(AF_INET, host, any) != 1 &&
	       inet_pton(AF_INET6, host, any) != 1;
}

/* Copies the comma-separated field number i of list; the last one repeats (as libpq does for ports). */
static void field(const char *list, unsigned i, char *out, size_t size)
{
	const char *p = list;
	for (; i > 0 && strchr(p, ',') != NULL; i--) {
		p = strchr(p, ',') + 1;
	}
	size_t n = strcspn(p, ",");
	snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), p);
}

static unsigned fields(const char *list)
{
	unsigned n = 1;
	for (const char *p = list; *p != '\0'; p++) {
		n += *p == ',';
	}
	return n;
}

static void append(char *list, const char *item, bool first)
{
	size_t n = strlen(list);
	snprintf(list + n, LIST_MAX - n, "%s%s", first ? "" : ",", item);
}

static void add(struct lists *l, const char *host, const char *addr, const char *port)
{
	if (strlen(l->host) + strlen(host) + 2 > LIST_MAX || strlen(l->addr) + strlen(addr) + 2 > LIST_MAX) {
		return;
	}
	append(l->host, host, l->count == 0);
	append(l->addr, addr, l->count == 0);
	append(l->port, port, l->count == 0);
	l->count++;
}

static void look_up(struct qn_pg_resolve *r, struct lists *l, const char *host, const char *port)
{
	if (!is_name(host)) {
		add(l, host, host[0] == '/' || host[0] == '@' ? "" : host, port);
		return;
	}
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int rc = getaddrinfo(host, NULL, &hints, &found);
	if (rc != 0) {
		snprintf(r->why, sizeof(r->why), "%.100s: %s", host, gai_strerror(rc));
		return;
	}
	for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
		char text[64];
		if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0) {
			add(l, host, text, port);
		}
	}
	freeaddrinfo(found);
}

static void on_work(uv_work_t *work)
{
	struct qn_pg_resolve *r = work->data;
	const char *hosts = qn_pg_conninfo_get(&r->info, "host");
	const char *ports = qn_pg_conninfo_get(&r->info, "port");
	struct lists l = {.count = 0};
	unsigned n = fields(hosts);
	for (unsigned i = 0; i < n; i++) {
		char host[256];
		char port[16];
		field(hosts, i, host, sizeof(host));
		field(ports != NULL ? ports : "5432", i, port, sizeof(port));
		look_up(r, &l, host, port);
	}
	r->failed = l.count == 0;
	if (!r->failed) {
		qn_pg_conninfo_set(&r->info, "host", l.host);
		qn_pg_conninfo_set(&r->info, "hostaddr", l.addr);
		qn_pg_conninfo_set(&r->info, "port", l.port);
	}
}

static void after_work(uv_work_t *work, int status)
{
	struct qn_pg_resolve *r = work->data;
	struct qn_pg_pool *pool = r->pool;
	if (r->conn != NULL && !pool->closing) {
		r->conn->resolve = NULL;
		qn_pg_conn_resolved(r->conn, status == 0 && !r->failed ? &r->info : NULL, r->why);
	}
	qn_pg_conninfo_fini(&r->info);
	pool->host->free(r);
	qn_pg_pool_unref(pool);
}

bool qn_pg_resolve_needed(const struct qn_pg_conninfo *c)
{
	const char *hosts = qn_pg_conninfo_get(c, "host");
	if (hosts == NULL || qn_pg_conninfo_get(c, "hostaddr") != NULL) {
		return false;
	}
	unsigned n = fields(hosts);
	for (unsigned i = 0; i < n; i++) {
		char host[256];
		field(hosts, i, host, sizeof(host));
		if (is_name(host)) {
			return true;
		}
	}
	return false;
}

void qn_pg_resolve_start(struct qn_pg_conn *c)
{
	struct qn_pg_resolve *r = c->pool->host->alloc(sizeof(*r));
	r->conn = c;
	r->pool = c->pool;
	r->work.data = r;
	qn_pg_conninfo_copy(&r->info, &c->pool->pg->conninfo);
	c->resolve = r;
	c->pool->refs++;
	/* It refuses only a missing callback. */
	(void)uv_queue_work(c->pool->loop, &r->work, on_work, after_work);
}
