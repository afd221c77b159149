/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A small process around one http module: the host table, I/O threads, and a router of test routes.
 */
#ifndef HTTP_HOST_H
#define HTTP_HOST_H

#include <qn/abi.h>
#include <qn/http.h>

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#define THREADS_MAX 4

struct qn_thread {
	unsigned index;
	uv_loop_t loop;
	uv_async_t wake;
	pthread_t id;
	void *tself;
	pthread_mutex_t lock; /* guards posts */
	struct qn_post *first, **last;
	struct parked *parked; /* this thread's calls under way; guarded by routes' lock */
};

struct counters {
	_Atomic unsigned calls, parked, gone, peer_gone, bodies_freed;
};

extern struct counters counters;
extern struct qn_service http_service;
extern const struct qn_host fake_host;

/** Runs p->fn on the thread. Any thread. */
void thread_post(struct qn_thread *t, struct qn_post *p);
/** Runs fn on the thread, waits for it and returns its result. [main] */
int thread_call(struct qn_thread *t, int (*fn)(struct qn_thread *t));
void thread_create(struct qn_thread *t, unsigned index);
/** Lets the loop run out; aborts when it does not close clean. */
void thread_join(struct qn_thread *t);

/** The host's dispatch(). */
void routes_dispatch(struct qn_http_call *call);
/** Answers 204 to everything parked on the thread. [that thread] */
void routes_drain(struct qn_thread *t);
/** Asks peer_gone() about every parked call, as an engine would. Any thread. */
void routes_watch(struct qn_thread *t);
_Noreturn void die(const char *what, const char *text);

#endif
