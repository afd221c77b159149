/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TCP connection, whatever it speaks: accept, TLS handshake, choice of protocol, time-outs, end.
 *
 * All time-outs are judged by a sweep over the thread's list; nothing is armed per connection. Phases
 * HEAD to LINGER are HTTP/1 and this module reads the socket itself; in H2 h2o does.
 *
 * libuv refuses writes on a stream whose reading failed, and h2o ignores that refusal: its completion
 * would never come and the socket would stay for ever (TLS, peer reset). The sweep finds such writes,
 * pending by h2o's book but not by libuv's, and completes them with an error.
 */
#include "server.h"

#include <stdlib.h>

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#define CLOSING_MS  1000 /* for the TLS farewell */
#define CALL_FIN_MS 1000

static void conn_link(struct http_conn *c)
{
	struct http_thread *t = c->t;
	c->next = t->conns;
	if (c->next != NULL) {
		c->next->prev = c;
	}
	t->conns = c;
	t->conn_count++;
}

static void on_tcp_closed(uv_handle_t *h)
{
	struct http_conn *c = (struct http_conn *)h;
	struct http_thread *t = c->t;
	t->server->host->free(c);
	http_thread_handle_closed(t);
}

/* The call leaves the connection; the core hears of it. */
static void drop_call(struct http_conn *c)
{
	struct http_call *call = c->call;
	enum conn_phase phase = c->phase;
	c->call = NULL;
	if (call == NULL) {
		return;
	}
	call->conn = NULL;
	if (phase == CONN_CALL) {
		http_call_gone(call);
	} else {
		http_call_destroy(call); /* the core has never seen it */
	}
}

/* h2o: the socket is being disposed, whoever asked for it. */
static void on_sock_closed(void *data)
{
	struct http_conn *c = data;
	struct http_thread *t = c->t;
	c->is_gone = true;
	c->sock = NULL;
	if (c->prev != NULL) {
		c->prev->next = c->next;
	} else {
		t->conns = c->next;
	}
	if (c->next != NULL) {
		c->next->prev = c->prev;
	}
	t->conn_count--;
	atomic_fetch_sub(&t->server->connections, 1);
	drop_call(c);
	http_buf_free(&c->reply_body);
	free(c->reply_head);
	c->reply_head = NULL;
}

void http_conn_close(struct http_conn *c)
{
	if (c->is_gone || c->phase == CONN_CLOSING) {
		return;
	}
	drop_call(c);
	if (c->is_gone) {
		return;
	}
	c->phase = CONN_CLOSING;
	c->deadline_ms = http_now_ms(c->t) + CLOSING_MS;
	h2o_socket_close(c->sock);
}

static void on_handshake(h2o_socket_t *sock, const char *err)
{
	struct http_conn *c = sock->on_close.data;
	if (err != NULL) {
		http_conn_close(c);
		return;
	}
	c->deadline_ms = 0;
	h1_start(c);
}

void http_conn_accept(struct http_thread *t, uv_stream_t *listener)
{
	struct http_server *s = t->server;
	struct http_conn *c = s->host->alloc(sizeof(*c));
	c->t = t;
	if (uv_tcp_init(t->loop, &c->tcp) != 0) {
		s->host->free(c);
		return;
	}
	t->handle_count++;
	bool is_full = atomic_fetch_add(&s->connections, 1) >= (uint64_t)s->options.max_connections;
	if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 || is_full) {
		atomic_fetch_sub(&s->connections, 1);
		uv_close((uv_handle_t *)&c->tcp, on_tcp_closed);
		return;
	}
	uv_os_fd_t fd = -1;
	(void)uv_fileno((uv_handle_t *)&c->tcp, &fd);
	(void)uv_tcp_nodelay(&c->tcp, 1);
	c->fd = fd;
	(void)gettimeofday(&c->connected_at, NULL);
	c->sock = h2o_uv_socket_create((uv_stream_t *)&c->tcp, on_tcp_closed);
	c->sock->on_close.cb = on_sock_closed;
	c->sock->on_close.data = c;
	conn_link(c);
	if (s->tls != NULL) {
		c->is_tls = true;
		c->phase = CONN_HANDSHAKE;
		c->deadline_ms = http_now_ms(t) + (uint64_t)s->options.head_timeout_ms;
		h2o_socket_ssl_handshake(c->sock, s->tls, NULL, on_handshake);
	} else {
		h1_start(c);
	}
}

/* True when the write that h2o waits for will never be completed; handles it. */
static bool sweep_lost_write(struct http_conn *c)
{
	uint32_t limit = c->t->is_stopping ? 1 : 2;
	bool is_lost = h2o_socket_is_writing(c->sock) && !uv_is_writable((uv_stream_t *)&c->tcp) &&
	               uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp) == 0;
	c->strikes = is_lost ? c->strikes + 1 : 0;
	if (c->strikes < limit) {
		return is_lost;
	}
	h2o_socket_cb cb = c->sock->_cb.write;
	c->strikes = 0;
	c->sock->_cb.write = NULL;
	cb(c->sock, h2o_socket_error_io);
	return true;
}

/* True when the peer has not taken a byte of what waits for it for idle_timeout. */
static bool is_stalled(struct http_conn *c)
{
	int queued = 0;
	uint64_t now = http_now_ms(c->t);
	uint64_t unsent = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
	if (unsent == 0) {
		c->unsent = 0;
		return false;
	}
	if (ioctl(c->fd, SIOCOUTQ, &queued) == 0) {
		unsent += (uint64_t)queued;
	}
	if (unsent != c->unsent) {
		c->unsent = unsent;
		c->unsent_ms = now;
	}
	return now - c->unsent_ms >= (uint64_t)c->t->server->options.idle_timeout_ms;
}

/* A call whose client closed its side: by an error at once, after a FIN when it has waited a while. */
static void sweep_call(struct http_conn *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
	if (poll(&p, 1, 0) <= 0 && !c->has_eof) {
		return;
	}
	atomic_store(&c->call->is_gone, true);
	bool is_dead = (p.revents & (POLLERR | POLLHUP)) != 0;
	if (is_dead || http_now_ms(c->t) - c->call->began_ms >= CALL_FIN_MS) {
		http_conn_close(c);
	}
}

/* thread_stop: whatever it does, it ends within a few sweeps. */
static void sweep_stopping(struct http_conn *c)
{
	(void)shutdown(c->fd, SHUT_RDWR);
	if (c->phase == CONN_H2) {
		h2_close(c);
	} else if (c->phase == CONN_CLOSING) {
		h2o_socket_close(c->sock);
	} else {
		http_conn_close(c);
	}
}

void http_conn_sweep(struct http_conn *c)
{
	struct http_thread *t = c->t;
	uint64_t now = http_now_ms(t);
	if (t->is_stopping) {
		sweep_stopping(c);
		if (!c->is_gone) {
			(void)sweep_lost_write(c);
		}
		return;
	}
	if (sweep_lost_write(c) || c->is_gone) {
		return;
	}
	if (is_stalled(c)) {
		/* A failing write is the one end that h2o, TLS and we all understand. */
		(void)shutdown(c->fd, SHUT_RDWR);
		return;
	}
	bool is_late = c->deadline_ms != 0 && now >= c->deadline_ms;
	if (c->phase == CONN_H2) {
		h2_sweep(c);
	} else if (c->phase == CONN_CLOSING) {
		if (is_late) {
			h2o_socket_close(c->sock); /* the second call does not wait for the farewell */
		}
	} else if (is_late) {
		http_conn_close(c);
	} else if (c->phase == CONN_CALL) {
		sweep_call(c);
	} else if (c->phase == CONN_HEAD && t->is_draining && c->sock->input->size == 0) {
		http_conn_close(c);
	}
}
