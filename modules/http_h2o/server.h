/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the files of this module share: the server (one per process), its threads, their connections
 * and the calls under way.
 *
 * Everything here belongs to one I/O thread, except struct http_server, which is constant after start
 * (its few atomics and the port excepted), and the two atomics of struct http_call.
 */
#ifndef HTTP_H2O_SERVER_H
#define HTTP_H2O_SERVER_H

#include "h1_chunk.h"
#include "h1_head.h"

#include <qn/http.h>

#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>
#include <h2o/http2_internal.h>
#include <pthread.h>
#include <stdatomic.h>

#define HTTP_ADDRESSES_MAX 8

struct http_options {
	int64_t port;
	const char *bind_addr;
	int64_t max_body_bytes;
	const char *tls_cert, *tls_key;
	int64_t head_timeout_ms, body_timeout_ms, idle_timeout_ms;
	int64_t max_connections, max_resets, max_streams;
};

struct http_server {
	const struct qn_host *host;
	struct qn_mod *mod;
	struct http_options options;
	SSL_CTX *tls; /* NULL: clear text */
	h2o_globalconf_t conf;
	bool has_conf, is_public;
	_Atomic uint32_t refs;        /* the module and each of its threads */
	_Atomic uint32_t connections; /* of the whole process */
	pthread_mutex_t lock;         /* guards the rest */
	struct sockaddr_storage addresses[HTTP_ADDRESSES_MAX];
	uint32_t address_count;
	bool has_port; /* the addresses carry the port that was found */
};

struct http_conn;

struct http_thread {
	struct http_server *server;
	struct qn_thread *thread;
	uv_loop_t *loop;
	h2o_context_t ctx;
	h2o_accept_ctx_t accept;
	struct http_conn *conns; /* list */
	uint32_t conn_count;     /* in the list */
	uint32_t handle_count;   /* uv handles of ours not closed yet */
	uv_tcp_t *listeners[HTTP_ADDRESSES_MAX];
	uv_timer_t sweep, last; /* last: closed after everything of h2o */
	bool is_draining, is_stopping;
};

enum conn_phase {
	CONN_HANDSHAKE, /* TLS */
	CONN_HEAD,      /* waiting for, or within, a request head */
	CONN_BODY,
	CONN_CALL,    /* the core has the call */
	CONN_REPLY,   /* writing */
	CONN_LINGER,  /* refused: reading the rest into the void so that the answer arrives */
	CONN_H2,      /* h2o drives the socket */
	CONN_CLOSING, /* h2o_socket_close() was called */
};

struct h2_state {
	h2o_http2_conn_t *conn; /* touch only while sock->_cb.read is the hook */
	h2o_socket_cb read;     /* h2o's reader, behind the hook */
	uint64_t answered;      /* streams that got a reply */
	uint64_t abandoned;     /* streams that ended without one, at the start of the window */
	uint64_t window_ms;
	uint64_t received;  /* body bytes at the last progress */
	uint64_t discarded; /* of bodies above the limit */
	uint64_t progress_ms;
	uint64_t head_ms;  /* since when a header block is incomplete, 0: none is */
	bool is_receiving; /* some stream's body is incomplete */
};

/* Memory ends in the uv handle's close callback, so it is valid for the whole turn in which it closes. */
struct http_conn {
	uv_tcp_t tcp; /* first; its data is h2o's */
	struct http_conn *prev, *next;
	struct http_thread *t;
	h2o_socket_t *sock; /* gone once is_gone */
	int fd;
	enum conn_phase phase;
	uint32_t strikes;
	uint64_t deadline_ms;       /* loop time, 0: none */
	uint64_t unsent, unsent_ms; /* bytes not acknowledged by the peer, and since when that number stands */
	struct timeval connected_at;
	bool is_tls, has_eof, is_gone;
	/* HTTP/1 */
	struct http_call *call; /* in BODY and CALL */
	size_t scanned;
	struct h1_chunk chunk;
	uint64_t body_left; /* without chunked */
	size_t body_cap, progress_at;
	struct qn_buf reply_body;
	bool close_after, linger_after;
	char *reply_head;
	struct h2_state h2;
};

/* Lives in req->pool: its end is the only notice that an HTTP/2 request is over. */
struct http_anchor {
	struct http_call *call; /* NULL once answered */
};

struct http_call {
	struct qn_http_call pub;
	const struct http_server *server;
	struct http_conn *conn; /* NULL once nobody waits */
	h2o_req_t *req;         /* HTTP/2; NULL once the stream is over */
	struct http_anchor *anchor;
	h2o_buffer_t *h2_body; /* HTTP/2: taken from the stream */
	char *h1_body;
	uint64_t began_ms;
	_Atomic bool is_gone; /* with fd: written by the I/O thread, read by peer_gone() on any thread */
	_Atomic int fd;
	struct h1_head head; /* HTTP/1 */
	char text[];         /* head bytes, or method and target */
};

extern const struct qn_http_vt http_vt;

/* module.c */
void http_server_unref(struct http_server *s);

/* tls.c: *out stays NULL when neither file is set. */
int http_tls_create(const struct qn_host *host, const struct http_options *o, SSL_CTX **out,
                    struct qn_error *e) QN_MUST;

/* listen.c */
int http_addresses_init(struct http_server *s, struct qn_error *e) QN_MUST;
int http_listen(void *self, void *tself, struct qn_error *e) QN_MUST;
void http_listen_close(struct http_thread *t);

/* thread.c */
int http_thread_start(void *self, struct qn_thread *thread, void **tself, struct qn_error *e);
void http_thread_drain(void *self, struct qn_thread *thread, void *tself);
void http_thread_stop(void *self, struct qn_thread *thread, void *tself);
/** One uv handle of ours has closed. */
void http_thread_handle_closed(struct http_thread *t);

/* conn.c */
/** Accepts one connection from the listener. */
void http_conn_accept(struct http_thread *t, uv_stream_t *listener);
/** Closes. Its HTTP/1 call, if any, is told first. */
void http_conn_close(struct http_conn *c);
/** Once per sweep: enforces every time-out. */
void http_conn_sweep(struct http_conn *c);

/* h1.c */
void h1_start(struct http_conn *c);
/** The reply is out: next request, linger or close. */
void h1_finish(struct http_conn *c);

/* h1_reply.c */
/** Answers {"error":"..."}, then closes after reading what still comes. */
void h1_refuse(struct http_conn *c, int status, const char *text);
void h1_reply(struct http_conn *c, const struct http_call *call, const struct qn_http_reply *reply);
const char *http_reason(int status);

/* h2.c */
int h2_register(struct http_server *s, struct qn_error *e) QN_MUST;
void h2_start(struct http_conn *c);
void h2_sweep(struct http_conn *c);
/** Ends the connection as if the peer had closed it. */
void h2_close(struct http_conn *c);
void h2_reply(struct http_call *call, const struct qn_http_reply *reply);

/* call.c */
struct http_call *http_call_create(struct http_conn *c, size_t text_n, uint32_t header_count);
void http_call_destroy(struct http_call *call);
/** Nobody waits any more: marks it and tells the core, once. The call may be freed on return. */
void http_call_gone(struct http_call *call);
void http_buf_free(struct qn_buf *b);

static inline uint64_t http_now_ms(const struct http_thread *t)
{
	return uv_now(t->loop);
}

#endif
