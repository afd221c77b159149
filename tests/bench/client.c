/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator's connection. Requests are written whole; with HTTP/2 nghttp2 frames them. A
 * lost connection ends the request in flight with status 0 and is opened again with a growing pause.
 */
#include "client.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_MAX_MS 500

bool target_parse(struct target *t, const char *url, bool h2)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;

	memset(t, 0, sizeof(*t));
	t->h2 = h2;
	if (sscanf(url, "http://%255[^:/]:%7[0-9]", t->host, t->port) != 2 ||
	    getaddrinfo(t->host, t->port, &hints, &found) != 0) {
		return false;
	}
	memcpy(&t->addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	(void)snprintf(t->authority, sizeof(t->authority), "%s:%s", t->host, t->port);
	return true;
}

static void reconnect(uv_timer_t *timer);
static void flush_out(struct client *c);

static void tcp_closed(uv_handle_t *handle)
{
	struct client *c = handle->data;

	c->connecting = false;
	if (c->closing) {
		return;
	}
	(void)uv_timer_start(&c->retry, reconnect, c->failures * 25 > RETRY_MAX_MS ? RETRY_MAX_MS : c->failures * 25,
	                     0);
}

static void lost(struct client *c)
{
	bool was_busy = c->busy && !c->connecting;

	if (uv_is_closing((uv_handle_t *)&c->tcp)) {
		return;
	}
	c->failures++;
	c->open = false;
	nghttp2_session_del(c->h2);
	c->h2 = NULL;
	uv_close((uv_handle_t *)&c->tcp, tcp_closed);
	if (was_busy) {
		c->busy = false;
		c->done(c, 0, "", 0);
	}
}

static void answered(struct client *c, int status)
{
	c->busy = false;
	c->failures = 0;
	c->done(c, status, c->response.n == 0 ? "" : c->response.p, c->response.n);
}

static void h1_read(struct client *c, const char *p, size_t n)
{
	int r;

	buffer_put(&c->in, p, n);
	r = h1_feed(&c->h1, &c->in, &c->response);
	if (r < 0) {
		lost(c);
	} else if (r > 0) {
		int status = c->h1.status;
		bool close = c->h1.close;

		c->in.n = 0;
		c->h1 = (struct h1_parse){0};
		if (close) {
			c->failures = 0;
			c->busy = false;
			lost(c);
		}
		answered(c, status);
	}
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct client *c = s->data;

	if (n < 0) {
		lost(c);
		return;
	}
	if (c->h2 == NULL) {
		h1_read(c, buf->base, (size_t)n);
		return;
	}
	if (nghttp2_session_mem_recv(c->h2, (const uint8_t *)buf->base, (size_t)n) < 0) {
		lost(c);
		return;
	}
	flush_out(c);
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
	struct client *c = h->data;

	(void)hint;
	*buf = uv_buf_init(c->read_buf, sizeof(c->read_buf));
}

struct write {
	uv_write_t req;
	char bytes[];
};

static void on_written(uv_write_t *req, int status)
{
	(void)status; /* a failed write shows as a read error */
	free(req->data);
}

static void write_bytes(struct client *c, const void *p, size_t n)
{
	struct write *w;
	uv_buf_t buf = uv_buf_init((char *)(uintptr_t)p, (unsigned)n);
	int sent = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);

	if (sent == (int)n) {
		return;
	}
	sent = sent < 0 ? 0 : sent;
	w = malloc(sizeof(*w) + n);
	if (w == NULL) {
		perror("malloc");
		exit(1);
	}
	memcpy(w->bytes, (const char *)p + sent, n - (size_t)sent);
	w->req.data = w;
	buf = uv_buf_init(w->bytes, (unsigned)(n - (size_t)sent));
	if (uv_write(&w->req, (uv_stream_t *)&c->tcp, &buf, 1, on_written) != 0) {
		free(w);
	}
}

static void flush_out(struct client *c)
{
	const uint8_t *p;
	ssize_t n;

	while (c->h2 != NULL && (n = nghttp2_session_mem_send(c->h2, &p)) > 0) {
		write_bytes(c, p, (size_t)n);
	}
}

static int h2_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nl, const uint8_t *value,
                     size_t vl, uint8_t flags, void *user)
{
	struct client *c = user;

	(void)s, (void)f, (void)vl, (void)flags;
	if (nl == 7 && memcmp(name, ":status", 7) == 0) {
		c->status = (int)strtol((const char *)value, NULL, 10);
	}
	return 0;
}

static int h2_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
	struct client *c = user;

	(void)s, (void)flags, (void)id;
	buffer_put(&c->response, p, n);
	return 0;
}

static int h2_closed(nghttp2_session *s, int32_t id, uint32_t error, void *user)
{
	struct client *c = user;

	(void)s, (void)id;
	answered(c, error == 0 ? c->status : 0);
	return 0;
}

static ssize_t h2_body(nghttp2_session *s, int32_t id, uint8_t *out, size_t max, uint32_t *flags,
                       nghttp2_data_source *src, void *user)
{
	struct client *c = user;
	size_t n = c->body_bytes - c->body_sent;

	(void)s, (void)id, (void)src;
	n = n > max ? max : n;
	memcpy(out, c->body + c->body_sent, n);
	c->body_sent += n;
	if (c->body_sent == c->body_bytes) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	}
	return (ssize_t)n;
}

static void h2_open(struct client *c)
{
	nghttp2_session_callbacks *cb;
	const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 16 << 20};

	(void)nghttp2_session_callbacks_new(&cb);
	nghttp2_session_callbacks_set_on_header_callback(cb, h2_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_closed);
	(void)nghttp2_session_client_new(&c->h2, cb, c);
	nghttp2_session_callbacks_del(cb);
	(void)nghttp2_submit_settings(c->h2, 0, &window, 1);
	(void)nghttp2_session_set_local_window_size(c->h2, 0, 0, 64 << 20);
}

#define NV(name, value)                                                                                     \
	{                                                                                                   \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), 0 \
	}

static void h2_request(struct client *c)
{
	const nghttp2_nv head[] = {NV(":method", c->method), NV(":scheme", "http"),
	                           NV(":authority", c->target->authority), NV(":path", c->path),
	                           NV("content-type", "application/json")};
	const nghttp2_data_provider body = {.read_callback = h2_body};

	c->body_sent = 0;
	c->response.n = 0;
	(void)nghttp2_submit_request(c->h2, NULL, head, sizeof(head) / sizeof(head[0]),
	                             c->body_bytes > 0 ? &body : NULL, NULL);
	flush_out(c);
}

static void h1_request(struct client *c)
{
	c->out.n = 0;
	buffer_fmt(&c->out, "%s %s HTTP/1.1\r\nHost: %s\r\n", c->method, c->path, c->target->authority);
	if (c->body_bytes > 0) {
		buffer_fmt(&c->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", c->body_bytes);
	}
	buffer_put(&c->out, "\r\n", 2);
	buffer_put(&c->out, c->body, c->body_bytes);
	write_bytes(c, c->out.p, c->out.n);
}

static void request(struct client *c)
{
	if (c->target->h2) {
		h2_request(c);
	} else {
		h1_request(c);
	}
}

static void on_connected(uv_connect_t *req, int status)
{
	struct client *c = req->data;

	if (status == UV_ECANCELED) {
		return;
	}
	if (status != 0) {
		lost(c);
		return;
	}
	c->connecting = false;
	c->open = true;
	(void)uv_tcp_nodelay(&c->tcp, 1);
	c->in.n = 0;
	c->h1 = (struct h1_parse){0};
	(void)uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
	if (c->target->h2) {
		h2_open(c);
	}
	if (c->busy) {
		request(c);
	}
}

static void reconnect(uv_timer_t *timer)
{
	struct client *c = timer->data;

	(void)uv_tcp_init(c->loop, &c->tcp);
	c->tcp.data = c;
	c->connect.data = c;
	c->connecting = true;
	if (uv_tcp_connect(&c->connect, &c->tcp, (const struct sockaddr *)&c->target->addr, on_connected) != 0) {
		lost(c);
	}
}

void client_init(struct client *c, uv_loop_t *loop, const struct target *t, client_done_fn *done, void *user)
{
	memset(c, 0, sizeof(*c));
	c->loop = loop;
	c->target = t;
	c->done = done;
	c->user = user;
	(void)uv_timer_init(loop, &c->retry);
	c->retry.data = c;
	reconnect(&c->retry);
}

void client_send(struct client *c, const char *method, const char *path, const char *body, size_t n)
{
	(void)snprintf(c->method, sizeof(c->method), "%s", method);
	c->path = path;
	c->body = body;
	c->body_bytes = n;
	c->busy = true;
	if (c->open) {
		request(c);
	}
}

void client_close(struct client *c)
{
	c->closing = true;
	c->busy = false;
	uv_close((uv_handle_t *)&c->retry, NULL);
	nghttp2_session_del(c->h2);
	c->h2 = NULL;
	if (!uv_is_closing((uv_handle_t *)&c->tcp)) {
		uv_close((uv_handle_t *)&c->tcp, tcp_closed);
	}
}
