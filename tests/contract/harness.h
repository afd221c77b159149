/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One module under test: loaded by the core's loader, given the core's host, running on a real engine
 * thread. A suite is a program: SUITE MODULE.so [option=value ...].
 */
#ifndef QN_CONTRACT_HARNESS_H
#define QN_CONTRACT_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "error.h"
#include "module.h"
#include "thread.h"
#include "wire/ident.h"

#include <string.h>

#define CT_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/** Loads, configures and starts the module; the process ends with 2 and a message when that fails. */
void ct_open(const char *kind, int argc, char **argv);
/** Undoes it; the process ends with 3 when a handle or an operation is left. */
void ct_close(void);
/** What the module provides. */
struct qn_service ct_service(void);

/** Starts an operation on the engine thread. */
typedef void ct_start_fn(void *op);
/**
 * Prepares op (a fresh arena, which the caller destroys), starts it, waits for done() and returns its
 * code. Fails the test when done() came inside the start (OP-1) or not within a minute.
 */
int ct_run(struct qn_op *op, ct_start_fn *start, void *arg, struct qn_error *e);
/** Runs fn on the engine thread and waits. */
void ct_on_engine(void (*fn)(void *arg), void *arg);
/** Waits until the wall clock has passed that time. */
void ct_wait_until_us(int64_t at_us);

static inline struct qn_span ct_span(const char *text)
{
	return (struct qn_span){text, strlen(text)};
}

#endif
