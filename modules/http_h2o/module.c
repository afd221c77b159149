/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_h2o: the descriptor, its options, and the life of the one server object.
 *
 * The server is shared by all I/O threads and constant after start. It is reference-counted because
 * a thread's last handles close a little after thread_stop: the last of module and threads frees it.
 */
#include "server.h"

#include <qn/abi.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ROW(field, type_, env_, def_, unit_, lo, hi, text)                                                 \
	{                                                                                                  \
		.name = #field, .env = (env_), .def = (def_), .unit = (unit_), .doc = (text), .min = (lo), \
		.max = (hi), .type = (type_), .offset = offsetof(struct http_options, field),              \
	}
#define ROW_MS(field, def_, lo, hi, text)                                                            \
	{                                                                                            \
		.name = #field, .def = (def_), .unit = "s", .doc = (text), .min = (lo), .max = (hi), \
		.type = QN_OPT_DURATION, .offset = offsetof(struct http_options, field##_ms),        \
	}

static const struct qn_option options[] = {
	ROW(port, QN_OPT_INT, "PORT", "6632", NULL, 0, 65535, "TCP port; 0 takes any free one"),
	ROW(bind_addr, QN_OPT_STR, "QUEEN_BIND_ADDR", "", NULL, 0, 0,
            "numeric addresses, comma-separated, * for all; empty: loopback unless PG_HOST is in the environment"),
	ROW(max_body_bytes, QN_OPT_BYTES, "QUEEN_MAX_BODY_BYTES", "67108864", "B", 1, INT64_C(1) << 40,
            "largest request body; a larger one is answered 413"),
	ROW(tls_cert, QN_OPT_STR, "QUEEN_TLS_CERT", "", NULL, 0, 0,
            "certificate chain, PEM file; with tls_key the port speaks TLS only"),
	ROW(tls_key, QN_OPT_STR, "QUEEN_TLS_KEY", "", NULL, 0, 0, "private key, PEM file"),
	ROW_MS(head_timeout, "10s", 50, 3600000,
               "time for a TLS handshake, and for a request head from its first byte"),
	ROW_MS(body_timeout, "30s", 50, 3600000, "time within which a body must bring another 1 KiB, or end"),
	ROW_MS(idle_timeout, "75s", 50, 86400000, "idle connection; also a reply of which nothing is taken"),
	ROW(max_connections, QN_OPT_INT, NULL, "10000", NULL, 1, 1000000, "connections of the process"),
	ROW(max_resets, QN_OPT_INT, NULL, "500", NULL, 1, 1000000000,
            "HTTP/2 streams of one connection that may end unanswered within 10 s"),
	ROW(max_streams, QN_OPT_INT, NULL, "100", NULL, 1, 100,
            "HTTP/2 requests of one connection served at once; more wait"),
	{.name = NULL},
};

static void ignore_sigpipe(void)
{
	struct sigaction act;
	if (sigaction(SIGPIPE, NULL, &act) == 0 && act.sa_handler == SIG_DFL) {
		memset(&act, 0, sizeof(act));
		act.sa_handler = SIG_IGN;
		(void)sigaction(SIGPIPE, &act, NULL);
	}
}

void http_server_unref(struct http_server *s)
{
	if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1) {
		return;
	}
	if (s->has_conf) {
		h2o_config_dispose(&s->conf);
	}
	SSL_CTX_free(s->tls);
	pthread_mutex_destroy(&s->lock);
	s->host->free(s);
}

static int http_load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct http_server *s = h->alloc(sizeof(*s));
	s->host = h;
	s->mod = m;
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	int rc = h->provide(m, "http", (struct qn_service){&http_vt.head, s}, e);
	if (rc != QN_OK) {
		http_server_unref(s);
		return rc;
	}
	*self = s;
	return QN_OK;
}

static int http_start(void *self, const void *opts, struct qn_error *e)
{
	struct http_server *s = self;
	s->options = *(const struct http_options *)opts;
	int rc = http_addresses_init(s, e);
	if (rc == QN_OK) {
		rc = http_tls_create(s->host, &s->options, &s->tls, e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	ignore_sigpipe();
	rc = h2_register(s, e);
	if (rc != QN_OK) {
		SSL_CTX_free(s->tls);
		s->tls = NULL;
	}
	return rc;
}

static void http_unload(void *self)
{
	http_server_unref(self);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "http_h2o",
	.version = "1.0.0",
	.kind = "http",
	.doc = "HTTP/1.1 and HTTP/2, clear or TLS, on libh2o and libuv",
	.options = options,
	.options_size = sizeof(struct http_options),
	.load = http_load,
	.start = http_start,
	.thread_start = http_thread_start,
	.drain = http_thread_drain,
	.thread_stop = http_thread_stop,
	.unload = http_unload,
};

QN_MODULE(module);
