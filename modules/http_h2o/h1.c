/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1: heads, bodies, 100-continue, pipelining, and the two ways over to HTTP/2.
 *
 * The module reads HTTP/1 itself, because h2o accepts what decisions of the wire forbid, answers its
 * own errors as text, has one timer for everything and stops reading while a request is served. Here
 * reading goes on during a call, so a client that leaves is seen at once; what it pipelines waits in
 * the socket's buffer up to PIPELINE_MAX, then reading pauses.
 *
 * h2o takes a clear connection over after the HTTP/2 preface, or with a request that carries a
 * complete upgrade offer; under TLS by ALPN.
 */
#include "server.h"

#include <string.h>
#include <sys/socket.h>

#define PIPELINE_MAX   65536u
#define BODY_FIRST_MAX 65536u /* allocated before any byte of a body has come */
#define BODY_PROGRESS  1024u
#define LINGER_MS      2000

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
#define PREFACE_BYTES (sizeof(preface) - 1)

static void read_body(struct http_conn *c);

static void start_call(struct http_conn *c)
{
	struct http_call *call = c->call;
	c->phase = CONN_CALL;
	c->deadline_ms = 0;
	call->pub.method = call->head.method;
	call->pub.path = call->head.path;
	call->pub.query = call->head.query;
	call->pub.version = call->head.version;
	call->began_ms = http_now_ms(c->t);
	c->t->server->host->dispatch(&call->pub);
}

/* ---- body ------------------------------------------------------------------------------------ */

static bool body_append(struct http_conn *c, struct qn_span data)
{
	struct http_call *call = c->call;
	size_t n = call->pub.body.n;
	if (n + data.n > c->body_cap) {
		size_t cap = c->body_cap * 2 > n + data.n ? c->body_cap * 2 : n + data.n;
		char *p = realloc(call->h1_body, cap);
		if (p == NULL) {
			return false;
		}
		call->h1_body = p;
		c->body_cap = cap;
	}
	if (data.n > 0) {
		memcpy(call->h1_body + n, data.p, data.n);
	}
	call->pub.body = (struct qn_span){call->h1_body, n + data.n};
	return true;
}

/* Eats one piece of the body from the input. Returns 1 when it is complete, 0 for more, or -status. */
static int body_step(struct http_conn *c)
{
	h2o_buffer_t *input = c->sock->input;
	struct qn_span data = {input->bytes, input->size};
	size_t eaten;
	if (c->call->head.is_chunked) {
		long n = h1_chunk_step(&c->chunk, input->bytes, input->size, &data);
		if (n < 0) {
			return -400;
		}
		eaten = (size_t)n;
	} else {
		data.n = data.n < c->body_left ? data.n : (size_t)c->body_left;
		eaten = data.n;
		c->body_left -= data.n;
	}
	if (c->call->pub.body.n + data.n > (uint64_t)c->t->server->options.max_body_bytes) {
		return -413;
	}
	if (!body_append(c, data)) {
		return -503;
	}
	h2o_buffer_consume(&c->sock->input, eaten);
	return c->call->head.is_chunked ? c->chunk.is_done : c->body_left == 0;
}

static void read_body(struct http_conn *c)
{
	int rc = 0;
	while (rc == 0 && c->sock->input->size > 0) {
		rc = body_step(c);
	}
	if (rc == -400) {
		h1_refuse(c, 400, "bad chunked coding");
	} else if (rc == -413) {
		h1_refuse(c, 413, "request body too large");
	} else if (rc < 0) {
		h1_refuse(c, -rc, "out of memory");
	} else if (rc > 0) {
		start_call(c);
	} else if (c->call->pub.body.n - c->progress_at >= BODY_PROGRESS) {
		c->progress_at = c->call->pub.body.n;
		c->deadline_ms = http_now_ms(c->t) + (uint64_t)c->t->server->options.body_timeout_ms;
	}
}

static void on_read(h2o_socket_t *sock, const char *err);

static void on_continue_written(h2o_socket_t *sock, const char *err)
{
	struct http_conn *c = sock->on_close.data;
	if (err != NULL) {
		http_conn_close(c);
		return;
	}
	h2o_socket_read_start(sock, on_read);
	if (sock->input->size > 0) {
		read_body(c);
	}
}

static void send_continue(struct http_conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	h2o_iovec_t out = h2o_iovec_init(text, sizeof(text) - 1);
	/* Reading pauses, so that no reply can come up while this write is pending. */
	h2o_socket_read_stop(c->sock);
	h2o_socket_write(c->sock, &out, 1, on_continue_written);
}

static void start_body(struct http_conn *c)
{
	const struct http_options *o = &c->t->server->options;
	const struct h1_head *head = &c->call->head;
	if (head->content_length > (uint64_t)o->max_body_bytes) {
		h1_refuse(c, 413, "request body too large");
		return;
	}
	c->phase = CONN_BODY;
	c->deadline_ms = http_now_ms(c->t) + (uint64_t)o->body_timeout_ms;
	c->body_left = head->content_length;
	c->chunk = (struct h1_chunk){0};
	c->progress_at = 0;
	c->body_cap = head->content_length < BODY_FIRST_MAX && !head->is_chunked ? (size_t)head->content_length
	                                                                         : BODY_FIRST_MAX;
	c->call->h1_body = malloc(c->body_cap);
	if (c->call->h1_body == NULL) {
		h1_refuse(c, 503, "out of memory");
	} else if (head->wants_continue && c->sock->input->size == 0) {
		send_continue(c);
	} else {
		read_body(c);
	}
}

/* ---- head ------------------------------------------------------------------------------------ */

/* True when the input is, or may become, the HTTP/2 preface. */
static bool take_preface(struct http_conn *c)
{
	size_t n = c->sock->input->size < PREFACE_BYTES ? c->sock->input->size : PREFACE_BYTES;
	if (memcmp(c->sock->input->bytes, preface, n) != 0) {
		return false;
	}
	if (n == PREFACE_BYTES) {
		h2_start(c);
	}
	return true;
}

/* The request goes to h2o as it came: it sends 101 and serves it as the first stream. */
static void take_upgrade(struct http_conn *c)
{
	http_call_destroy(c->call);
	c->call = NULL;
	c->phase = CONN_H2;
	c->deadline_ms = 0;
	h2o_socket_read_stop(c->sock);
	h2o_http1_accept(&c->t->accept, c->sock, c->connected_at);
}

static void take_head(struct http_conn *c, size_t n, uint32_t lines)
{
	const char *why = NULL;
	struct http_call *call = http_call_create(c, n, lines);
	memcpy(call->text, c->sock->input->bytes, n);
	int rc = h1_head_parse(call->text, n, &call->head, &why);
	c->call = call;
	if (rc < 0) {
		h1_refuse(c, -rc, why);
		return;
	}
	if (call->head.wants_h2c && !c->is_tls && !c->t->is_draining) {
		take_upgrade(c);
		return;
	}
	h2o_buffer_consume(&c->sock->input, n);
	c->scanned = 0;
	if (call->head.is_chunked || call->head.content_length > 0) {
		start_body(c);
	} else {
		start_call(c);
	}
}

static void read_head(struct http_conn *c)
{
	h2o_socket_t *sock = c->sock;
	const char *why = NULL;
	uint32_t lines = 0;
	/* Old clients send an empty line after a body. */
	while (c->scanned == 0 && sock->input->size >= 2 && memcmp(sock->input->bytes, "\r\n", 2) == 0) {
		h2o_buffer_consume(&sock->input, 2);
	}
	if (sock->input->size == 0 || (sock->input->size == 1 && sock->input->bytes[0] == '\r')) {
		return;
	}
	if (c->scanned == 0) {
		c->deadline_ms = http_now_ms(c->t) + (uint64_t)c->t->server->options.head_timeout_ms;
		if (take_preface(c)) {
			/* A preface that stops halfway counts as one head: the deadline is not moved again. */
			c->scanned = c->phase == CONN_HEAD ? 1 : 0;
			return;
		}
	} else if (c->scanned < PREFACE_BYTES && take_preface(c)) {
		return;
	}
	int n = h1_head_find(sock->input->bytes, sock->input->size, c->scanned, &lines, &why);
	if (n < 0) {
		h1_refuse(c, -n, why);
	} else if (n > 0) {
		take_head(c, (size_t)n, lines);
	} else {
		c->scanned = sock->input->size;
	}
}

/* ---- connection ------------------------------------------------------------------------------ */

static void on_end(struct http_conn *c)
{
	c->has_eof = true;
	h2o_socket_read_stop(c->sock);
	if (c->phase == CONN_CALL) {
		/* It may have closed its sending side only; the sweep decides, until then it is answered. */
		atomic_store(&c->call->is_gone, true);
	} else if (c->phase != CONN_REPLY) {
		http_conn_close(c);
	}
}

static void on_read(h2o_socket_t *sock, const char *err)
{
	struct http_conn *c = sock->on_close.data;
	if (err != NULL) {
		on_end(c);
	} else if (c->phase == CONN_HEAD) {
		read_head(c);
	} else if (c->phase == CONN_BODY) {
		read_body(c);
	} else if (c->phase == CONN_LINGER) {
		h2o_buffer_consume(&sock->input, sock->input->size);
	} else if (sock->input->size > PIPELINE_MAX) {
		h2o_socket_read_stop(sock);
	}
}

static void next_request(struct http_conn *c)
{
	c->phase = CONN_HEAD;
	c->scanned = 0;
	c->deadline_ms = http_now_ms(c->t) + (uint64_t)c->t->server->options.idle_timeout_ms;
	if (!h2o_socket_is_reading(c->sock)) {
		h2o_socket_read_start(c->sock, on_read);
	}
	if (c->sock->input->size > 0) {
		read_head(c);
	} else if (c->t->is_draining) {
		http_conn_close(c);
	}
}

void h1_start(struct http_conn *c)
{
	h2o_iovec_t protocol = c->is_tls ? h2o_socket_ssl_get_selected_protocol(c->sock) : h2o_iovec_init(NULL, 0);
	h2o_socket_read_start(c->sock, on_read);
	if (protocol.len == 2 && memcmp(protocol.base, "h2", 2) == 0) {
		h2_start(c);
	} else {
		next_request(c);
	}
}

void h1_finish(struct http_conn *c)
{
	if (c->has_eof || (c->close_after && !c->linger_after && c->sock->input->size == 0)) {
		http_conn_close(c);
	} else if (c->close_after) {
		c->phase = CONN_LINGER;
		c->deadline_ms = http_now_ms(c->t) + LINGER_MS;
		h2o_buffer_consume(&c->sock->input, c->sock->input->size);
		if (!c->is_tls) {
			(void)shutdown(c->fd, SHUT_WR);
		}
		if (!h2o_socket_is_reading(c->sock)) {
			h2o_socket_read_start(c->sock, on_read);
		}
	} else {
		next_request(c);
	}
}
