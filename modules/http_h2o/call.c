/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call: one request between dispatch() and reply(), and the vtable of kind "http".
 *
 * A call owns copies of method, target and headers, and the body itself (read into its own memory, or
 * taken over from h2o's stream), so all of it lives until reply() even when the client has gone. The
 * connection or stream and the call point at each other; whichever ends first cuts both ends.
 */
#include "server.h"

#include <poll.h>
#include <string.h>

void http_buf_free(struct qn_buf *b)
{
	if (b->free != NULL) {
		b->free(b->p, b->ctx);
	}
	*b = (struct qn_buf){0};
}

struct http_call *http_call_create(struct http_conn *c, size_t text_n, uint32_t header_count)
{
	const struct http_server *s = c->t->server;
	size_t headers_at = (sizeof(struct http_call) + text_n + 15) & ~(size_t)15;
	struct http_call *call = s->host->alloc(headers_at + header_count * sizeof(struct h1_header));
	call->pub.vt = &http_vt;
	call->pub.thread = c->t->thread;
	call->pub.tls = c->is_tls;
	call->server = s;
	call->conn = c;
	call->began_ms = http_now_ms(c->t);
	call->head.headers = (struct h1_header *)(void *)((char *)call + headers_at);
	atomic_init(&call->is_gone, false);
	atomic_init(&call->fd, c->fd);
	return call;
}

void http_call_destroy(struct http_call *call)
{
	if (call == NULL) {
		return;
	}
	if (call->h2_body != NULL) {
		h2o_buffer_dispose(&call->h2_body);
	}
	free(call->h1_body);
	call->server->host->free(call);
}

void http_call_gone(struct http_call *call)
{
	atomic_store(&call->is_gone, true);
	atomic_store(&call->fd, -1);
	call->conn = NULL;
	call->req = NULL;
	call->anchor = NULL;
	if (call->pub.on_gone != NULL) {
		call->pub.on_gone(&call->pub);
	}
}

static struct http_call *call_of(struct qn_http_call *pub)
{
	return (struct http_call *)pub;
}

static void vt_reply(struct qn_http_call *pub, const struct qn_http_reply *reply)
{
	struct http_call *call = call_of(pub);
	if (call->req != NULL) {
		h2_reply(call, reply);
	} else if (call->conn != NULL) {
		struct http_conn *c = call->conn;
		c->call = NULL;
		call->conn = NULL;
		h1_reply(c, call, reply);
	} else {
		struct qn_buf body = reply->body;
		http_buf_free(&body);
	}
	http_call_destroy(call);
}

static bool vt_peer_gone(struct qn_http_call *pub)
{
	struct http_call *call = call_of(pub);
	if (atomic_load(&call->is_gone)) {
		return true;
	}
	struct pollfd p = {.fd = atomic_load(&call->fd), .events = POLLRDHUP};
	return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static bool vt_header(struct qn_http_call *pub, struct qn_span name, struct qn_span *value)
{
	struct http_call *call = call_of(pub);
	if (pub->version < 0x200) {
		const struct h1_header *line = h1_head_header(&call->head, name);
		if (line != NULL) {
			*value = line->value;
		}
		return line != NULL;
	}
	if (call->req == NULL) {
		return false;
	}
	if (name.n == 4 && memcmp(name.p, "host", 4) == 0 && call->req->input.authority.len > 0) {
		*value = (struct qn_span){call->req->input.authority.base, call->req->input.authority.len};
		return true;
	}
	ssize_t at = h2o_find_header_by_str(&call->req->headers, name.p, name.n, -1);
	if (at < 0) {
		return false;
	}
	h2o_iovec_t found = call->req->headers.entries[at].value;
	*value = (struct qn_span){found.base, found.len};
	return true;
}

static uint32_t vt_connections(void *self, void *tself)
{
	const struct http_thread *t = tself;
	(void)self;
	return t != NULL ? t->conn_count : 0;
}

static bool vt_is_public(void *self)
{
	const struct http_server *s = self;
	return s->is_public;
}

const struct qn_http_vt http_vt = {
	.head = {sizeof(struct qn_http_vt), QN_HTTP_MAJOR, QN_HTTP_MINOR},
	.listen = http_listen,
	.reply = vt_reply,
	.peer_gone = vt_peer_gone,
	.header = vt_header,
	.connections = vt_connections,
	.is_public = vt_is_public,
};
