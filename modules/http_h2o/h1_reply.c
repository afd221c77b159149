/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 replies: one write of head and body, the body borrowed from its owner until it is out.
 *
 * Framing: Content-Length always, except for 1xx, 204 and 304, which announce nothing. HEAD gets the
 * length and no body. The connection stays open unless the client, an error or the drain says not.
 */
#include "server.h"

#include <stdio.h>
#include <string.h>

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} reasons[] = {
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{409, "Conflict"},
		{413, "Payload Too Large"},
		{417, "Expectation Failed"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
	};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].status == status) {
			return reasons[i].text;
		}
	}
	return "Status";
}

/* A buffer that only grows by what was measured before. */
struct text {
	char *p;
	size_t n;
};

static void put(struct text *t, const void *p, size_t n)
{
	if (n > 0) {
		memcpy(t->p + t->n, p, n);
		t->n += n;
	}
}

static void put_header(struct text *t, struct qn_span name, struct qn_span value)
{
	put(t, name.p, name.n);
	put(t, ": ", 2);
	put(t, value.p, value.n);
	put(t, "\r\n", 2);
}

static bool has_length(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

static void render_head(struct http_conn *c, uint16_t version, const struct qn_http_reply *r, struct text *out)
{
	char line[96];
	size_t n = 256 + r->content_type.n;
	for (uint32_t i = 0; i < r->header_count; i++) {
		n += r->headers[i].name.n + r->headers[i].value.n + 4;
	}
	out->p = h2o_mem_alloc(n);
	out->n = 0;
	int line_bytes =
		snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\nServer: queend\r\n", r->status, http_reason(r->status));
	put(out, line, (size_t)line_bytes);
	if (r->content_type.n > 0) {
		put_header(out, QN_SPAN_LIT("Content-Type"), r->content_type);
	}
	if (has_length(r->status)) {
		put(out, line, (size_t)snprintf(line, sizeof(line), "Content-Length: %zu\r\n", r->body.n));
	}
	for (uint32_t i = 0; i < r->header_count; i++) {
		put_header(out, r->headers[i].name, r->headers[i].value);
	}
	if (c->close_after) {
		put_header(out, QN_SPAN_LIT("Connection"), QN_SPAN_LIT("close"));
	} else if (version < 0x101) {
		put_header(out, QN_SPAN_LIT("Connection"), QN_SPAN_LIT("keep-alive"));
	}
	put(out, "\r\n", 2);
}

static void on_written(h2o_socket_t *sock, const char *err)
{
	struct http_conn *c = sock->on_close.data;
	http_buf_free(&c->reply_body);
	free(c->reply_head);
	c->reply_head = NULL;
	if (err != NULL) {
		http_conn_close(c);
	} else {
		h1_finish(c);
	}
}

static void send_reply(struct http_conn *c, uint16_t version, bool is_head, const struct qn_http_reply *r)
{
	struct text head;
	render_head(c, version, r, &head);
	bool has_body = !is_head && has_length(r->status) && r->body.n > 0;
	h2o_iovec_t out[2] = {{head.p, head.n}, {r->body.p, has_body ? r->body.n : 0}};
	c->phase = CONN_REPLY;
	c->deadline_ms = 0;
	c->reply_head = head.p;
	c->reply_body = r->body;
	if (!uv_is_writable((uv_stream_t *)&c->tcp)) {
		http_conn_close(c);
		return;
	}
	h2o_socket_write(c->sock, out, has_body ? 2 : 1, on_written);
}

static void free_text(void *p, void *ctx)
{
	(void)ctx;
	free(p);
}

void h1_refuse(struct http_conn *c, int status, const char *text)
{
	char body[160];
	struct http_call *call = c->call;
	int n = snprintf(body, sizeof(body), "{\"error\":\"%s\"}", text);
	struct qn_http_reply r = {
		.status = status,
		.content_type = QN_SPAN_LIT("application/json"),
		.body = {.p = h2o_mem_alloc((size_t)n), .n = (size_t)n},
	};
	memcpy(r.body.p, body, (size_t)n);
	r.body.free = free_text;
	bool is_head = call != NULL && call->head.method.n == 4 && memcmp(call->head.method.p, "HEAD", 4) == 0;
	c->call = NULL;
	c->close_after = true;
	c->linger_after = true;
	send_reply(c, 0x101, is_head, &r);
	http_call_destroy(call);
}

void h1_reply(struct http_conn *c, const struct http_call *call, const struct qn_http_reply *reply)
{
	bool is_head = call->head.method.n == 4 && memcmp(call->head.method.p, "HEAD", 4) == 0;
	c->close_after = !call->head.keep_alive || c->t->is_draining || c->has_eof;
	c->linger_after = false;
	send_reply(c, call->head.version, is_head, reply);
}
