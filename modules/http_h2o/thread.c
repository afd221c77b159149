/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One I/O thread's part: h2o context, sweep timer, list of connections, and its orderly end.
 *
 * Drain closes the listeners and every idle connection and says good-bye on the others. thread_stop
 * forces what is left; TLS and pending writes need a few turns of the loop, so the end is a chain of
 * close callbacks: connections, then h2o's context, then the thread object. h2o's own dispose runs the
 * loop from inside, which is not allowed in a callback; context_dispose() below does the same steps
 * without it, and the object is freed one turn later, when h2o's embedded timers have closed.
 */
#include "server.h"

#include <stdlib.h>

#define SWEEP_MAX_MS      1000
#define SWEEP_MIN_MS      20
#define SWEEP_STOPPING_MS 10

static void context_dispose(h2o_context_t *ctx)
{
	h2o_globalconf_t *conf = ctx->globalconf;
	for (size_t i = 0; conf->hosts[i] != NULL; i++) {
		for (size_t k = 0; k < conf->hosts[i]->paths.size; k++) {
			h2o_context_dispose_pathconf_context(ctx, &conf->hosts[i]->paths.entries[k]);
		}
		h2o_context_dispose_pathconf_context(ctx, &conf->hosts[i]->fallback_path);
	}
	free(ctx->_pathconfs_inited.entries);
	free(ctx->_module_configs);
	h2o_timeout_dispose(ctx->loop, &ctx->zero_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->one_sec_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->hundred_ms_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->handshake_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->http1.req_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->http2.idle_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->http2.graceful_shutdown_timeout);
	h2o_timeout_dispose(ctx->loop, &ctx->proxy.io_timeout);
	h2o_filecache_destroy(ctx->filecache);
	for (size_t i = 0; i < ctx->storage.size; i++) {
		if (ctx->storage.entries[i].dispose != NULL) {
			ctx->storage.entries[i].dispose(ctx->storage.entries[i].data);
		}
	}
	free(ctx->storage.entries);
	if (ctx->_timestamp_cache.value != NULL) {
		h2o_mem_release_shared(ctx->_timestamp_cache.value);
	}
	h2o_multithread_unregister_receiver(ctx->queue, &ctx->receivers.hostinfo_getaddr);
	h2o_multithread_destroy_queue(ctx->queue);
}

static void on_last_closed(uv_handle_t *h)
{
	struct http_thread *t = h->data;
	struct http_server *s = t->server;
	s->host->free(t);
	http_server_unref(s);
}

static void on_sweep_closed(uv_handle_t *h)
{
	struct http_thread *t = h->data;
	uv_close((uv_handle_t *)&t->last, on_last_closed);
}

void http_thread_handle_closed(struct http_thread *t)
{
	t->handle_count--;
	if (!t->is_stopping || t->handle_count > 0) {
		return;
	}
	if (!uv_is_closing((uv_handle_t *)&t->sweep)) {
		/* The sweep closes in one turn with h2o's timers, in no useful order; `last` a turn later. */
		context_dispose(&t->ctx);
		uv_close((uv_handle_t *)&t->sweep, on_sweep_closed);
	}
}

static void sweep_all(struct http_thread *t)
{
	/* A connection's memory, and so its next, outlives the sweep even when the sweep closes it. */
	for (struct http_conn *c = t->conns; c != NULL; c = c->next) {
		if (!c->is_gone) {
			http_conn_sweep(c);
		}
	}
}

static void on_sweep(uv_timer_t *timer)
{
	sweep_all(timer->data);
}

static uint64_t sweep_period(const struct http_options *o)
{
	int64_t ms = o->head_timeout_ms < o->body_timeout_ms ? o->head_timeout_ms : o->body_timeout_ms;
	ms = (ms < o->idle_timeout_ms ? ms : o->idle_timeout_ms) / 4;
	if (ms > SWEEP_MAX_MS) {
		return SWEEP_MAX_MS;
	}
	return ms < SWEEP_MIN_MS ? SWEEP_MIN_MS : (uint64_t)ms;
}

int http_thread_start(void *self, struct qn_thread *thread, void **tself, struct qn_error *e)
{
	struct http_server *s = self;
	(void)e;
	*tself = NULL;
	if (s->host->thread_kind(thread) != QN_THREAD_IO) {
		return QN_OK;
	}
	struct http_thread *t = s->host->alloc(sizeof(*t));
	atomic_fetch_add(&s->refs, 1);
	t->server = s;
	t->thread = thread;
	t->loop = s->host->thread_loop(thread);
	h2o_context_init(&t->ctx, t->loop, &s->conf);
	t->accept = (h2o_accept_ctx_t){.ctx = &t->ctx, .hosts = s->conf.hosts};
	uint64_t period = sweep_period(&s->options);
	t->sweep.data = t;
	t->last.data = t;
	(void)uv_timer_init(t->loop, &t->sweep);
	(void)uv_timer_init(t->loop, &t->last);
	(void)uv_timer_start(&t->sweep, on_sweep, period, period);
	*tself = t;
	return QN_OK;
}

void http_thread_drain(void *self, struct qn_thread *thread, void *tself)
{
	struct http_thread *t = tself;
	(void)self;
	(void)thread;
	if (t == NULL || t->is_draining) {
		return;
	}
	t->is_draining = true;
	http_listen_close(t);
	h2o_context_request_shutdown(&t->ctx);
	/* Its second step would cut uploads after 1 s, and its timer makes h2o assert at the end. The sweep
	 * closes each connection when its last stream is done. */
	if (h2o_timeout_is_linked(&t->ctx.http2._graceful_shutdown_timeout)) {
		h2o_timeout_unlink(&t->ctx.http2._graceful_shutdown_timeout);
	}
	(void)uv_timer_start(&t->sweep, on_sweep, SWEEP_MIN_MS, SWEEP_MIN_MS);
	sweep_all(t);
}

void http_thread_stop(void *self, struct qn_thread *thread, void *tself)
{
	struct http_thread *t = tself;
	(void)self;
	(void)thread;
	if (t == NULL) {
		return;
	}
	t->is_draining = true;
	t->is_stopping = true;
	t->handle_count++; /* holds the object until the loop below is done */
	http_listen_close(t);
	(void)uv_timer_start(&t->sweep, on_sweep, SWEEP_STOPPING_MS, SWEEP_STOPPING_MS);
	sweep_all(t);
	http_thread_handle_closed(t);
}
