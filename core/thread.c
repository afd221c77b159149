/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with a uv loop and a mailbox.
 *
 * The mailbox is one list under a mutex and one async handle; the receiver takes the whole list per
 * wake, a sender wakes it only when the list was empty. The watchdog is a prepare handle: it sees
 * each turn of the loop once and takes the time spent waiting for I/O off, so that only work counts.
 *
 * A thread starts running in create() and ends in stop(). After the loop has ended post() still
 * accepts entries, which then never run: late answers to a thread that is gone.
 */
#include "thread.h"

#include "error.h"
#include "log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_TICK_NS (100 * UINT64_C(1000000))
#define LEFTOVER_MS  1000

struct qn_thread {
	enum qn_thread_kind kind;
	unsigned index;
	bool running; /* main's: between create and stop */
	pthread_t id;
	uv_loop_t loop;
	uv_async_t wake;
	uv_prepare_t prepare;
	uint64_t turn_at_ns, idle_ns;
	struct qn_post stop;
	pthread_mutex_t lock; /* guards the rest */
	struct qn_post *first, *last;
	bool closed;
};

struct call {
	struct qn_post post;
	struct qn_thread *t;
	qn_thread_fn *fn;
	void *arg;
	struct qn_error *e;
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	bool done;
	int rc;
};

static _Thread_local struct qn_thread *self;

static void on_wake(uv_async_t *wake)
{
	struct qn_thread *t = wake->data;
	struct qn_post *p;

	(void)pthread_mutex_lock(&t->lock);
	p = t->first;
	t->first = NULL;
	t->last = NULL;
	(void)pthread_mutex_unlock(&t->lock);
	while (p != NULL) {
		/* fn may free or post the entry again. */
		struct qn_post *next = p->next;

		p->fn(p);
		p = next;
	}
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct qn_thread *t = prepare->data;
	uint64_t now_ns = uv_hrtime(), idle_ns = uv_metrics_idle_time(&t->loop);
	uint64_t total_ns = now_ns - t->turn_at_ns, waited_ns = idle_ns - t->idle_ns;

	if (total_ns > waited_ns && total_ns - waited_ns > SLOW_TICK_NS) {
		qn_log(QN_WARN, "loop.slow", QN_U("took_ms", (total_ns - waited_ns) / 1000000));
	}
	t->turn_at_ns = now_ns;
	t->idle_ns = idle_ns;
}

static void on_stop(struct qn_post *post)
{
	struct qn_thread *t = (struct qn_thread *)(void *)((char *)post - offsetof(struct qn_thread, stop));

	(void)pthread_mutex_lock(&t->lock);
	t->closed = true;
	(void)pthread_mutex_unlock(&t->lock);
	/* What was posted between the last wake and now still runs. */
	on_wake(&t->wake);
	uv_close((uv_handle_t *)&t->wake, NULL);
	uv_close((uv_handle_t *)&t->prepare, NULL);
	uv_stop(&t->loop);
}

static void count_open(uv_handle_t *h, void *arg)
{
	unsigned *open = arg;

	*open += uv_is_closing(h) ? 0 : 1;
}

static void log_open(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h)) {
		qn_log(QN_ERROR, "loop.leftover", QN_S("handle", uv_handle_type_name(h->type)));
	}
}

/* Lets handles that are closing, and work of the thread pool, finish. */
static void run_out(struct qn_thread *t)
{
	uint64_t deadline_ms = uv_hrtime() / 1000000 + LEFTOVER_MS;
	unsigned open;

	for (;;) {
		(void)uv_run(&t->loop, UV_RUN_NOWAIT);
		if (!uv_loop_alive(&t->loop)) {
			open = 0;
			uv_walk(&t->loop, count_open, &open);
			if (open == 0) {
				return;
			}
		}
		if (uv_hrtime() / 1000000 > deadline_ms) {
			uv_walk(&t->loop, log_open, NULL);
			return;
		}
		uv_sleep(1);
	}
}

static void *thread_main(void *arg)
{
	struct qn_thread *t = arg;

	self = t;
	t->turn_at_ns = uv_hrtime();
	(void)uv_run(&t->loop, UV_RUN_DEFAULT);
	run_out(t);
	QN_ASSERT(uv_loop_close(&t->loop) == 0);
	return NULL;
}

static int loop_init(struct qn_thread *t, struct qn_error *e)
{
	int rc = uv_loop_init(&t->loop);

	if (rc != 0) {
		return QN_FAIL(e, QN_UNAVAIL, "event loop: %s", uv_strerror(rc));
	}
	(void)uv_loop_configure(&t->loop, UV_METRICS_IDLE_TIME);
	rc = uv_async_init(&t->loop, &t->wake, on_wake);
	if (rc != 0) {
		(void)uv_loop_close(&t->loop);
		return QN_FAIL(e, QN_UNAVAIL, "event loop: %s", uv_strerror(rc));
	}
	t->wake.data = t;
	t->prepare.data = t;
	(void)uv_prepare_init(&t->loop, &t->prepare);
	(void)uv_prepare_start(&t->prepare, on_prepare);
	uv_unref((uv_handle_t *)&t->prepare);
	return QN_OK;
}

int qn_thread_create(enum qn_thread_kind kind, unsigned index, struct qn_thread **out, struct qn_error *e)
{
	struct qn_thread *t = calloc(1, sizeof(*t));
	char name[16];
	int rc;

	QN_ASSERT(t != NULL);
	t->kind = kind;
	t->index = index;
	t->stop.fn = on_stop;
	(void)pthread_mutex_init(&t->lock, NULL);
	rc = loop_init(t, e);
	if (rc != QN_OK) {
		free(t);
		return rc;
	}
	rc = pthread_create(&t->id, NULL, thread_main, t);
	if (rc != 0) {
		uv_close((uv_handle_t *)&t->wake, NULL);
		uv_close((uv_handle_t *)&t->prepare, NULL);
		(void)uv_run(&t->loop, UV_RUN_DEFAULT);
		(void)uv_loop_close(&t->loop);
		free(t);
		return QN_FAIL(e, QN_UNAVAIL, "thread: error %d", rc);
	}
	(void)snprintf(name, sizeof(name), kind == QN_THREAD_ENGINE ? "engine" : "io-%u", index);
	(void)pthread_setname_np(t->id, name);
	t->running = true;
	*out = t;
	return QN_OK;
}

void qn_thread_post(struct qn_thread *t, struct qn_post *p)
{
	bool was_empty;

	p->next = NULL;
	(void)pthread_mutex_lock(&t->lock);
	was_empty = t->last == NULL;
	if (was_empty) {
		t->first = p;
	} else {
		t->last->next = p;
	}
	t->last = p;
	/* Under the lock: the handle is open as long as `closed` is not set. */
	if (was_empty && !t->closed) {
		(void)uv_async_send(&t->wake);
	}
	(void)pthread_mutex_unlock(&t->lock);
}

static void on_call(struct qn_post *post)
{
	struct call *c = (struct call *)(void *)post;
	int rc = c->fn(c->t, c->arg, c->e);

	(void)pthread_mutex_lock(&c->lock);
	c->rc = rc;
	c->done = true;
	(void)pthread_cond_signal(&c->done_cond);
	(void)pthread_mutex_unlock(&c->lock);
}

int qn_thread_call(struct qn_thread *t, qn_thread_fn *fn, void *arg, struct qn_error *e)
{
	struct call c = {.post = {.fn = on_call}, .t = t, .fn = fn, .arg = arg, .e = e};

	QN_ASSERT(self == NULL && t->running);
	(void)pthread_mutex_init(&c.lock, NULL);
	(void)pthread_cond_init(&c.done_cond, NULL);
	qn_thread_post(t, &c.post);
	(void)pthread_mutex_lock(&c.lock);
	while (!c.done) {
		(void)pthread_cond_wait(&c.done_cond, &c.lock);
	}
	(void)pthread_mutex_unlock(&c.lock);
	(void)pthread_cond_destroy(&c.done_cond);
	(void)pthread_mutex_destroy(&c.lock);
	return c.rc;
}

void qn_thread_stop(struct qn_thread *t)
{
	if (t->running) {
		t->running = false;
		qn_thread_post(t, &t->stop);
		(void)pthread_join(t->id, NULL);
	}
}

void qn_thread_destroy(struct qn_thread *t)
{
	if (t == NULL) {
		return;
	}
	qn_thread_stop(t);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

uv_loop_t *qn_thread_loop(struct qn_thread *t)
{
	return &t->loop;
}

enum qn_thread_kind qn_thread_kind(const struct qn_thread *t)
{
	return t->kind;
}

unsigned qn_thread_index(const struct qn_thread *t)
{
	return t->index;
}

struct qn_thread *qn_thread_self(void)
{
	return self;
}
