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

/** Wall clock in microseconds since 1970 UTC; monotonic milliseconds. Replaceable by tests. */
int64_t qn_now_us(void);
uint64_t qn_mono_ms(void);
void qn_random(void *p, size_t n);

#endif
