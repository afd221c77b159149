/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One thread with a uv loop and a mailbox: the engine thread and the I/O threads.
 *
 * An object belongs to one thread; others reach it by posting. A watchdog on each loop logs every
 * tick above 100 ms (event loop.slow).
 */
#ifndef QN_CORE_THREAD_H
#define QN_CORE_THREAD_H

#include <qn/host.h>
#include <uv.h>

struct qn_thread;

/** Runs p->fn(p) on t; entries of one sender keep their order. Any thread. */
void qn_thread_post(struct qn_thread *t, struct qn_post *p);
uv_loop_t *qn_thread_loop(struct qn_thread *t);
enum qn_thread_kind qn_thread_kind(const struct qn_thread *t);
unsigned qn_thread_index(const struct qn_thread *t);
/** The thread that runs the caller, or NULL on a foreign one. */
struct qn_thread *qn_thread_self(void);

typedef int qn_thread_fn(struct qn_thread *t, void *arg, struct qn_error *e);

/** Starts the thread and its loop; *out is valid until destroy. [main] */
int qn_thread_create(enum qn_thread_kind kind, unsigned index, struct qn_thread **out, struct qn_error *e) QN_MUST;
/** Runs fn on t and waits for what it returns. Not from a thread with a loop of its own. [main] */
int qn_thread_call(struct qn_thread *t, qn_thread_fn *fn, void *arg, struct qn_error *e);
/**
 * Ends the loop and joins the thread. Handles that are closing may finish; one that is still open
 * after a second is a programming error: its type is logged and the process aborts. What is posted
 * from then on is kept and never runs. [main]
 */
void qn_thread_stop(struct qn_thread *t);
/** Stops it when that is not done yet. Nobody may post any more. Accepts NULL. [main] */
void qn_thread_destroy(struct qn_thread *t);

/** Wall clock in microseconds since 1970 UTC; monotonic milliseconds. Replaceable by tests. */
int64_t qn_now_us(void);
uint64_t qn_mono_ms(void);
void qn_random(void *p, size_t n);
/** NULL gives the real clock back. Before threads start. */
void qn_clock_replace(int64_t (*now_us)(void), uint64_t (*mono_ms)(void));

#endif
