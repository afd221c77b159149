/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2: h2o drives the socket and the streams; this file is what it does not do by itself.
 *
 * A hook around h2o's socket reader runs after every read. It bounds bodies: what exceeds the limit is
 * thrown away while it arrives, so the handler sees one byte too many and answers 413 (h2o's own limit
 * would reset the stream with a code that clients take as an invitation to retry). It also counts
 * streams that ended without an answer, and closes the connection above max_resets in 10 s.
 *
 * h2o's connection object is only touched while the hook is installed: h2o takes it off the socket, by
 * stopping or replacing the reader, before it frees the object. Ending a connection is done by telling
 * h2o's reader that the peer has closed it.
 */
#include "server.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define RESET_WINDOW_MS 10000
#define BODY_PROGRESS   1024u

struct handler {
	h2o_handler_t super;
	const struct http_server *server;
};

static struct http_conn *conn_of(h2o_req_t *req)
{
	return req->conn->callbacks->get_socket(req->conn)->on_close.data;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
	(void)generator;
	(void)req;
}

/* Its address marks answers of ours; h2o's own errors come from another one. */
static h2o_generator_t our_generator = {on_proceed, NULL};

static void on_body_disposed(void *p)
{
	http_buf_free(p);
}

static void send_reply(h2o_req_t *req, const struct qn_http_reply *r)
{
	struct qn_buf *body = h2o_mem_alloc_shared(&req->pool, sizeof(*body), on_body_disposed);
	*body = r->body;
	req->res.status = r->status;
	req->res.reason = http_reason(r->status);
	if (r->content_type.n > 0) {
		h2o_iovec_t type = h2o_strdup(&req->pool, r->content_type.p, r->content_type.n);
		h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, type.base, type.len);
	}
	for (uint32_t i = 0; i < r->header_count; i++) {
		h2o_iovec_t name = h2o_strdup(&req->pool, r->headers[i].name.p, r->headers[i].name.n);
		h2o_iovec_t value = h2o_strdup(&req->pool, r->headers[i].value.p, r->headers[i].value.n);
		h2o_strtolower(name.base, name.len);
		h2o_add_header_by_str(&req->pool, &req->res.headers, name.base, name.len, 1, NULL, value.base,
		                      value.len);
	}
	bool has_length = r->status >= 200 && r->status != 204 && r->status != 304;
	bool is_head = h2o_memis(req->input.method.base, req->input.method.len, H2O_STRLIT("HEAD"));
	req->res.content_length = has_length ? body->n : SIZE_MAX;
	h2o_iovec_t out = {body->p, body->n};
	h2o_start_response(req, &our_generator);
	h2o_send(req, &out, has_length && !is_head && body->n > 0 ? 1 : 0, H2O_SEND_STATE_FINAL);
}

static void refuse(h2o_req_t *req, int status, const char *text)
{
	struct qn_http_reply r = {.status = status, .content_type = QN_SPAN_LIT("application/json")};
	size_t cap = strlen(text) + 16;
	char *body = h2o_mem_alloc_pool(&req->pool, cap);
	r.body = (struct qn_buf){.p = body, .n = (size_t)snprintf(body, cap, "{\"error\":\"%s\"}", text)};
	send_reply(req, &r);
}

void h2_reply(struct http_call *call, const struct qn_http_reply *reply)
{
	h2o_req_t *req = call->req;
	/* Cut before sending: h2o may dispose the request inside. */
	call->anchor->call = NULL;
	call->req = NULL;
	call->conn->h2.answered++;
	send_reply(req, reply);
}

/* ---- h2o's own errors ------------------------------------------------------------------------ */

static void send_json_instead(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs, size_t count,
                              h2o_send_state_t state)
{
	static const char text[] = "{\"error\":\"malformed request\"}";
	h2o_iovec_t out = h2o_iovec_init(text, sizeof(text) - 1);
	(void)bufs;
	h2o_ostream_send_next(self, req, &out, count > 0 ? 1 : 0, state);
}

static void on_setup_ostream(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
	(void)self;
	if (req->_generator != &our_generator && req->res.status >= 400) {
		req->res.headers = (h2o_headers_t){NULL, 0, 0};
		req->res.content_length = sizeof("{\"error\":\"malformed request\"}") - 1;
		h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
		               H2O_STRLIT("application/json"));
		h2o_ostream_t *stream = h2o_add_ostream(req, sizeof(*stream), slot);
		stream->do_send = send_json_instead;
		slot = &stream->next;
		if (req->version >= 0x200) {
			conn_of(req)->h2.answered++;
		}
	}
	h2o_setup_next_ostream(req, slot);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_anchor_disposed(void *p)
{
	struct http_anchor *anchor = p;
	if (anchor->call != NULL) {
		http_call_gone(anchor->call);
	}
}

static bool is_target(const h2o_req_t *req)
{
	const h2o_iovec_t *path = &req->input.path;
	for (size_t i = 0; i < path->len; i++) {
		unsigned char byte = (unsigned char)path->base[i];
		if (byte <= 0x20 || byte == 0x7f) {
			return false;
		}
	}
	return path->len > 0 && path->base[0] == '/';
}

static struct http_call *call_from(struct http_conn *c, h2o_req_t *req)
{
	h2o_iovec_t method = req->input.method, path = req->input.path;
	h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, req);
	struct http_call *call = http_call_create(c, method.len + path.len, 0);
	memcpy(call->text, method.base, method.len);
	memcpy(call->text + method.len, path.base, path.len);
	const char *target = call->text + method.len;
	const char *mark = memchr(target, '?', path.len);
	size_t path_n = mark != NULL ? (size_t)(mark - target) : path.len;
	call->pub.method = (struct qn_span){call->text, method.len};
	call->pub.path = (struct qn_span){target, path_n};
	call->pub.query = mark != NULL ? (struct qn_span){mark + 1, path.len - path_n - 1} : (struct qn_span){"", 0};
	call->pub.version = 0x200;
	/* The body moves to the call: h2o frees the stream's before it tells of the stream's end. */
	call->h2_body = stream->_req_body;
	stream->_req_body = NULL;
	if (call->h2_body != NULL) {
		call->pub.body = (struct qn_span){call->h2_body->bytes, call->h2_body->size};
	}
	call->req = req;
	call->anchor = h2o_mem_alloc_shared(&req->pool, sizeof(*call->anchor), on_anchor_disposed);
	call->anchor->call = call;
	return call;
}

static int on_req(h2o_handler_t *self, h2o_req_t *req)
{
	const struct http_server *s = ((struct handler *)self)->server;
	struct http_conn *c = conn_of(req);
	if (req->version < 0x200) {
		/* h2o did not like the upgrade offer; nothing has been executed. */
		req->http1_is_persistent = 0;
		refuse(req, 400, "bad HTTP2-Settings");
		return 0;
	}
	c->h2.conn = (h2o_http2_conn_t *)req->conn;
	if (!is_target(req)) {
		c->h2.answered++;
		refuse(req, 400, "request target must start with a slash");
	} else if (req->entity.len > (uint64_t)s->options.max_body_bytes) {
		c->h2.answered++;
		refuse(req, 413, "request body too large");
	} else {
		s->host->dispatch(&call_from(c, req)->pub);
	}
	return 0;
}

int h2_register(struct http_server *s, struct qn_error *e)
{
	h2o_config_init(&s->conf);
	s->has_conf = true;
	s->conf.server_name = h2o_iovec_init(H2O_STRLIT("queend"));
	s->conf.max_request_entity_size = SIZE_MAX / 2; /* bounded by the hook */
	s->conf.http1.req_timeout = (uint64_t)s->options.idle_timeout_ms;
	s->conf.http2.idle_timeout = (uint64_t)s->options.idle_timeout_ms;
	s->conf.http2.max_concurrent_requests_per_connection = (size_t)s->options.max_streams;
	/* Bodies stay in memory, never in a temporary file. */
	h2o_socket_buffer_mmap_settings.threshold = SIZE_MAX;
	h2o_hostconf_t *host = h2o_config_register_host(&s->conf, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
	if (path == NULL) {
		return QN_ERR(s->host, e, QN_INTERNAL, "h2o refuses the root path");
	}
	h2o_pathconf_t *confs[] = {path, &host->fallback_path};
	for (size_t i = 0; i < 2; i++) {
		struct handler *handler = (struct handler *)h2o_create_handler(confs[i], sizeof(*handler));
		handler->super.on_req = on_req;
		handler->server = s;
		h2o_create_filter(confs[i], sizeof(h2o_filter_t))->on_setup_ostream = on_setup_ostream;
		confs[i]->error_log.emit_request_errors = 0;
	}
	return QN_OK;
}

/* ---- the hook -------------------------------------------------------------------------------- */

static void on_h2_read(h2o_socket_t *sock, const char *err);

/* Looks at every body under way; cuts those above the limit. */
static void scan_bodies(struct http_conn *c)
{
	khash_t(h2o_http2_stream_t) *streams = c->h2.conn->streams;
	size_t limit = (size_t)c->t->server->options.max_body_bytes;
	uint64_t received = c->h2.discarded;
	bool is_receiving = false;
	if (c->h2.conn->num_streams.pull.open > c->h2.conn->num_streams.pull.half_closed) {
		for (khiter_t k = kh_begin(streams); k != kh_end(streams); k++) {
			h2o_http2_stream_t *stream = kh_exist(streams, k) ? kh_val(streams, k) : NULL;
			if (stream == NULL || stream->state != H2O_HTTP2_STREAM_STATE_RECV_BODY ||
			    stream->_req_body == NULL) {
				continue;
			}
			is_receiving = true;
			received += stream->_req_body->size;
			if (stream->_req_body->size > limit) {
				c->h2.discarded += stream->_req_body->size - (limit + 1);
				stream->_req_body->size = limit + 1;
				/* Else h2o would compare the announced length with what was kept. */
				stream->_expected_content_length = SIZE_MAX;
			}
		}
	}
	if (!c->h2.is_receiving || received < c->h2.received || received - c->h2.received >= BODY_PROGRESS) {
		c->h2.received = received;
		c->h2.progress_ms = http_now_ms(c->t);
	}
	c->h2.is_receiving = is_receiving;
}

/* Clients number their streams without gaps; those neither answered nor open were given up. */
static bool resets_too_often(struct http_conn *c)
{
	const h2o_http2_conn_t *conn = c->h2.conn;
	uint64_t now = http_now_ms(c->t);
	uint64_t opened = ((uint64_t)conn->pull_stream_ids.max_open + 1) / 2;
	uint64_t others = c->h2.answered + conn->num_streams.pull.open;
	uint64_t abandoned = opened > others ? opened - others : 0;
	if (now - c->h2.window_ms >= RESET_WINDOW_MS || abandoned < c->h2.abandoned) {
		c->h2.window_ms = now;
		c->h2.abandoned = abandoned;
	}
	return abandoned - c->h2.abandoned > (uint64_t)c->t->server->options.max_resets;
}

/* False when h2o's object must not be touched now. */
static bool hook(struct http_conn *c)
{
	if (c->is_gone || c->sock->_cb.read == NULL || c->h2.read == NULL) {
		return false;
	}
	if (c->sock->_cb.read == c->h2.read) {
		c->sock->_cb.read = on_h2_read;
	}
	return c->sock->_cb.read == on_h2_read;
}

static void on_h2_read(h2o_socket_t *sock, const char *err)
{
	struct http_conn *c = sock->on_close.data;
	c->h2.read(sock, err);
	if (!hook(c)) {
		return;
	}
	scan_bodies(c);
	if (resets_too_often(c)) {
		const struct http_server *s = c->t->server;
		QN_LOG(s->host, s->mod, QN_WARN, "http.reset_flood", QN_I("max_resets", s->options.max_resets));
		s->host->counter("http_reset_floods", 1);
		h2_close(c);
	}
}

/* After an upgrade h2o installs its reader out of our sight. */
static void adopt(struct http_conn *c)
{
	const h2o_linklist_t *all = &c->t->ctx.http2._conns;
	if (c->h2.read != NULL || c->h2.conn == NULL || c->sock->_cb.read == NULL) {
		return;
	}
	for (const h2o_linklist_t *l = all->next; l != all; l = l->next) {
		if (H2O_STRUCT_FROM_MEMBER(h2o_http2_conn_t, _conns, l) == c->h2.conn) {
			c->h2.read = c->sock->_cb.read;
			return;
		}
	}
}

void h2_start(struct http_conn *c)
{
	c->phase = CONN_H2;
	c->deadline_ms = 0;
	c->h2.window_ms = http_now_ms(c->t);
	h2o_http2_accept(&c->t->accept, c->sock, c->connected_at);
	if (!c->is_gone && c->sock->_cb.read != NULL) {
		c->h2.conn = c->sock->data;
		c->h2.read = c->sock->_cb.read;
		(void)hook(c);
	}
}

void h2_close(struct http_conn *c)
{
	if (hook(c)) {
		c->h2.read(c->sock, h2o_socket_error_closed);
	} else if (!c->is_gone) {
		(void)shutdown(c->fd, SHUT_RDWR);
	}
}

static bool is_head_late(struct http_conn *c, uint64_t now)
{
	if (c->h2.conn->_headers_unparsed == NULL) {
		c->h2.head_ms = 0;
		return false;
	}
	if (c->h2.head_ms == 0) {
		c->h2.head_ms = now;
	}
	return now - c->h2.head_ms >= (uint64_t)c->t->server->options.head_timeout_ms;
}

void h2_sweep(struct http_conn *c)
{
	uint64_t now = http_now_ms(c->t);
	adopt(c);
	if (!hook(c)) {
		return;
	}
	scan_bodies(c);
	bool is_body_late =
		c->h2.is_receiving && now - c->h2.progress_ms >= (uint64_t)c->t->server->options.body_timeout_ms;
	bool is_idle = c->h2.conn->num_streams.pull.open == 0;
	if (is_head_late(c, now) || is_body_late || (c->t->is_draining && is_idle)) {
		h2_close(c);
	}
}
