/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One HTTP connection with one request in flight, HTTP/1.1 keep-alive or HTTP/2 by prior knowledge,
 * on a uv loop. Reconnects by itself; a request whose connection is lost ends with status 0.
 */
#ifndef QBENCH_CLIENT_H
#define QBENCH_CLIENT_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct target {
	char host[256];
	char port[8];
	char authority[272];
	struct sockaddr_storage addr;
	bool h2;
};

/** "http://host:port"; false when it is not one or does not resolve. */
bool target_parse(struct target *t, const char *url, bool h2);

struct buffer {
	char *p;
	size_t n, cap;
};

void buffer_put(struct buffer *b, const void *p, size_t n);
void buffer_fmt(struct buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buffer_fini(struct buffer *b);

struct client;
/** status 0: the connection was lost and nothing is known of the request. body is NUL-terminated. */
typedef void client_done_fn(struct client *c, int status, const char *body, size_t n);

/** What an HTTP/1.1 response has told so far. */
struct h1_parse {
	size_t head_bytes; /* 0: the head is not complete */
	size_t content_length;
	bool chunked, close;
	int status;
};

/** 1: complete (body in *out, which it may use), 0: more bytes needed, -1: not a response. */
int h1_feed(struct h1_parse *h, const struct buffer *in, struct buffer *out);

struct client {
	uv_loop_t *loop;
	const struct target *target;
	client_done_fn *done;
	void *user;
	uv_tcp_t tcp;
	uv_connect_t connect;
	uv_timer_t retry;
	bool open, connecting, busy, closing;
	unsigned failures;
	char method[8];
	const char *path; /* [borrow] until done */
	const char *body;
	size_t body_bytes, body_sent;
	struct buffer in, out, response;
	struct h1_parse h1;
	nghttp2_session *h2;
	int status;
	char read_buf[65536];
};

void client_init(struct client *c, uv_loop_t *loop, const struct target *t, client_done_fn *done, void *user);
/** path and body stay valid until done. */
void client_send(struct client *c, const char *method, const char *path, const char *body, size_t n);
void client_close(struct client *c);

#endif
