/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O threads with a mailbox, ended the way the core ends them: the module's handles close while the
 * loop runs out, and the loop must then close without a handle left.
 */
#include "http_host.h"

#include <stdio.h>
#include <stdlib.h>

struct wait {
	struct qn_post post;
	struct qn_thread *t;
	int (*fn)(struct qn_thread *t);
	int rc;
	uv_sem_t done;
};

_Noreturn void die(const char *what, const char *text)
{
	(void)fprintf(stderr, "http_host: %s: %s\n", what, text);
	exit(1);
}

static void on_wake(uv_async_t *wake)
{
	struct qn_thread *t = wake->data;
	(void)pthread_mutex_lock(&t->lock);
	struct qn_post *p = t->first;
	t->first = NULL;
	t->last = &t->first;
	(void)pthread_mutex_unlock(&t->lock);
	while (p != NULL) {
		struct qn_post *next = p->next;
		p->fn(p);
		p = next;
	}
}

void thread_post(struct qn_thread *t, struct qn_post *p)
{
	p->next = NULL;
	(void)pthread_mutex_lock(&t->lock);
	*t->last = p;
	t->last = &p->next;
	(void)uv_async_send(&t->wake);
	(void)pthread_mutex_unlock(&t->lock);
}

static void on_wait(struct qn_post *post)
{
	struct wait *w = (struct wait *)(void *)post;
	w->rc = w->fn(w->t);
	uv_sem_post(&w->done);
}

int thread_call(struct qn_thread *t, int (*fn)(struct qn_thread *t))
{
	struct wait w = {.post.fn = on_wait, .t = t, .fn = fn};
	(void)uv_sem_init(&w.done, 0);
	thread_post(t, &w.post);
	uv_sem_wait(&w.done);
	uv_sem_destroy(&w.done);
	return w.rc;
}

static void *thread_main(void *arg)
{
	struct qn_thread *t = arg;
	(void)uv_run(&t->loop, UV_RUN_DEFAULT);
	int rc = uv_loop_close(&t->loop);
	if (rc != 0) {
		uv_print_all_handles(&t->loop, stderr);
		die("loop", uv_strerror(rc));
	}
	return NULL;
}

void thread_create(struct qn_thread *t, unsigned index)
{
	t->index = index;
	t->last = &t->first;
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)uv_loop_init(&t->loop);
	(void)uv_async_init(&t->loop, &t->wake, on_wake);
	t->wake.data = t;
	if (pthread_create(&t->id, NULL, thread_main, t) != 0) {
		die("thread", "cannot create");
	}
}

static int close_wake(struct qn_thread *t)
{
	uv_close((uv_handle_t *)&t->wake, NULL);
	return 0;
}

void thread_join(struct qn_thread *t)
{
	(void)thread_call(t, close_wake);
	(void)pthread_join(t->id, NULL);
	(void)pthread_mutex_destroy(&t->lock);
}
