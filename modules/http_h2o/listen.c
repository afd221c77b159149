/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and listeners.
 *
 * Every I/O thread binds its own socket to each address with SO_REUSEPORT, so the kernel spreads
 * connections and nothing is shared. The first thread settles the port for all: it binds without
 * SO_REUSEPORT first, so that a second broker on the same port is an error and not a silent partner,
 * and with port 0 it finds one that is free on every address. IPv6 is left out, when it was not asked
 * for by name, on hosts without it.
 */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG    4096
#define PORT_TRIES 20

static int add_address(struct http_server *s, const char *text, struct qn_error *e)
{
	struct sockaddr_storage *ss = &s->addresses[s->address_count];
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	if (s->address_count == HTTP_ADDRESSES_MAX) {
		return QN_ERR(s->host, e, QN_INVALID, "bind_addr: more than %d addresses", HTTP_ADDRESSES_MAX);
	}
	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		s->is_public = s->is_public || (ntohl(in->sin_addr.s_addr) >> 24) != 127;
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		s->is_public = s->is_public || !IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	} else {
		return QN_ERR(s->host, e, QN_INVALID, "bind_addr: %s is not a numeric address", text);
	}
	s->address_count++;
	return QN_OK;
}

static int add_pair(struct http_server *s, const char *v4, const char *v6, struct qn_error *e)
{
	int rc = add_address(s, v4, e);
	int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	bool has_v6 = probe >= 0 && inet_pton(AF_INET6, v6, &in6.sin6_addr) == 1 &&
	              bind(probe, (struct sockaddr *)&in6, sizeof(in6)) == 0;
	if (probe >= 0) {
		close(probe);
	}
	return rc == QN_OK && has_v6 ? add_address(s, v6, e) : rc;
}

static int add_word(struct http_server *s, const char *word, struct qn_error *e)
{
	char text[INET6_ADDRSTRLEN + 2];
	size_t n = strlen(word);
	if (strcmp(word, "*") == 0) {
		return add_pair(s, "0.0.0.0", "::", e);
	}
	if (strcmp(word, "localhost") == 0) {
		return add_pair(s, "127.0.0.1", "::1", e);
	}
	if (n >= sizeof(text)) {
		return QN_ERR(s->host, e, QN_INVALID, "bind_addr: %.80s is not a numeric address", word);
	}
	bool bracketed = n > 2 && word[0] == '[' && word[n - 1] == ']';
	memcpy(text, bracketed ? word + 1 : word, n + 1);
	if (bracketed) {
		text[n - 2] = '\0';
	}
	return add_address(s, text, e);
}

int http_addresses_init(struct http_server *s, struct qn_error *e)
{
	const char *pg_host = getenv("PG_HOST");
	const char *list = s->options.bind_addr;
	if (list[0] == '\0') {
		list = pg_host != NULL && pg_host[0] != '\0' ? "*" : "localhost";
	}
	int rc = QN_OK;
	while (rc == QN_OK && *list != '\0') {
		char word[128];
		size_t n = strcspn(list, ", ");
		if (n >= sizeof(word)) {
			return QN_ERR(s->host, e, QN_INVALID, "bind_addr: %.80s is not a numeric address", list);
		}
		memcpy(word, list, n);
		word[n] = '\0';
		rc = n > 0 ? add_word(s, word, e) : QN_OK;
		list += n + strspn(list + n, ", ");
	}
	if (rc == QN_OK && s->address_count == 0) {
		rc = QN_ERR(s->host, e, QN_INVALID, "bind_addr: no address");
	}
	return rc;
}

static void set_port(struct sockaddr_storage *ss, uint16_t port)
{
	if (ss->ss_family == AF_INET) {
		((struct sockaddr_in *)ss)->sin_port = htons(port);
	} else {
		((struct sockaddr_in6 *)ss)->sin6_port = htons(port);
	}
}

static uint16_t get_port(const struct sockaddr_storage *ss)
{
	return ntohs(ss->ss_family == AF_INET ? ((const struct sockaddr_in *)ss)->sin_port
	                                      : ((const struct sockaddr_in6 *)ss)->sin6_port);
}

static socklen_t address_size(const struct sockaddr_storage *ss)
{
	return ss->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Returns the descriptor or a negative errno. */
static int bind_socket(const struct sockaddr_storage *ss, bool shared)
{
	int on = 1;
	int fd = socket(ss->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return -errno;
	}
	bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0;
	ok = ok && (!shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
	ok = ok && (ss->ss_family == AF_INET || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0);
	ok = ok && bind(fd, (const struct sockaddr *)ss, address_size(ss)) == 0;
	if (!ok) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* Proves that the wanted port is ours alone on every address; port 0 becomes a real one. */
static int try_port(struct http_server *s, uint16_t *port, uint32_t *failed)
{
	int fds[HTTP_ADDRESSES_MAX];
	uint32_t n = 0;
	int rc = 0;
	for (; n < s->address_count; n++) {
		struct sockaddr_storage got;
		socklen_t size = sizeof(got);
		set_port(&s->addresses[n], *port);
		fds[n] = bind_socket(&s->addresses[n], false);
		if (fds[n] < 0) {
			rc = fds[n];
			*failed = n;
			break;
		}
		/* Bound is not enough: only a listener is a conflict for another SO_REUSEADDR binder. */
		if (listen(fds[n], 1) != 0 || getsockname(fds[n], (struct sockaddr *)&got, &size) != 0) {
			rc = -errno;
			*failed = n++;
			break;
		}
		*port = get_port(&got);
	}
	while (n > 0) {
		close(fds[--n]);
	}
	return rc;
}

static void address_text(const struct sockaddr_storage *ss, char *out, size_t n)
{
	const void *raw = ss->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)ss)->sin_addr
	                                           : (const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr;
	if (inet_ntop(ss->ss_family, raw, out, (socklen_t)n) == NULL) {
		out[0] = '\0';
	}
}

static int settle_port_locked(struct http_server *s, struct qn_error *e)
{
	char text[INET6_ADDRSTRLEN];
	uint32_t failed = 0;
	uint16_t port = 0;
	int rc = -EADDRINUSE;
	for (int i = 0; i < PORT_TRIES && rc == -EADDRINUSE; i++) {
		port = (uint16_t)s->options.port;
		rc = try_port(s, &port, &failed);
		if (s->options.port != 0) {
			break;
		}
	}
	if (rc != 0) {
		address_text(&s->addresses[failed], text, sizeof(text));
		return QN_ERR(s->host, e, QN_UNAVAIL, "cannot listen on %s port %u: %s", text, (unsigned)port,
		              strerror(-rc));
	}
	s->has_port = true;
	for (uint32_t i = 0; i < s->address_count; i++) {
		set_port(&s->addresses[i], port);
		address_text(&s->addresses[i], text, sizeof(text));
		QN_LOG(s->host, s->mod, QN_INFO, "http.listening", QN_S("addr", text), QN_U("port", port),
		       QN_BOOL("tls", s->tls != NULL));
	}
	return QN_OK;
}

static void on_handle_closed(uv_handle_t *h)
{
	struct http_thread *t = h->data;
	t->server->host->free(h);
	http_thread_handle_closed(t);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct http_thread *t = listener->data;
	struct http_server *s = t->server;
	if (status != 0) {
		QN_LOG(s->host, s->mod, QN_WARN, "http.accept_failed", QN_S("error", uv_strerror(status)));
		return;
	}
	http_conn_accept(t, listener);
}

static int open_listener(struct http_thread *t, uint32_t i, struct qn_error *e)
{
	struct http_server *s = t->server;
	char text[INET6_ADDRSTRLEN];
	int fd = bind_socket(&s->addresses[i], true);
	int rc = fd;
	if (fd >= 0) {
		uv_tcp_t *tcp = s->host->alloc(sizeof(*tcp));
		(void)uv_tcp_init(t->loop, tcp);
		t->handle_count++;
		tcp->data = t;
		t->listeners[i] = tcp;
		rc = uv_tcp_open(tcp, fd);
		if (rc == 0) {
			rc = uv_listen((uv_stream_t *)tcp, BACKLOG, on_connection);
		} else {
			close(fd);
		}
	}
	if (rc < 0) {
		address_text(&s->addresses[i], text, sizeof(text));
		return QN_ERR(s->host, e, QN_UNAVAIL, "cannot listen on %s port %u: %s", text,
		              (unsigned)get_port(&s->addresses[i]), uv_strerror(rc));
	}
	return QN_OK;
}

int http_listen(void *self, void *tself, struct qn_error *e)
{
	struct http_server *s = self;
	struct http_thread *t = tself;
	pthread_mutex_lock(&s->lock);
	int rc = s->has_port ? QN_OK : settle_port_locked(s, e);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; rc == QN_OK && i < s->address_count; i++) {
		rc = open_listener(t, i, e);
	}
	if (rc != QN_OK) {
		http_listen_close(t);
	}
	return rc;
}

void http_listen_close(struct http_thread *t)
{
	for (uint32_t i = 0; i < HTTP_ADDRESSES_MAX; i++) {
		if (t->listeners[i] != NULL) {
			uv_close((uv_handle_t *)t->listeners[i], on_handle_closed);
			t->listeners[i] = NULL;
		}
	}
}
