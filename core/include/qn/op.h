/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One asynchronous operation of a module.
 *
 * Rules (cited by the contract tests as OP-1 ... OP-5):
 *  OP-1 Starting an operation never fails and never calls done() itself: done() comes later, on
 *       the thread that started it, exactly once.
 *  OP-2 The caller owns the op struct and everything its input fields point to until done() returns.
 *  OP-3 Results, and everything they point to, live in op->arena; the caller frees it after done().
 *  OP-4 cancel(op) may be called between start and done(); it only hurries done(), which comes with
 *       QN_CANCELED or with the result if it was too late.
 *  OP-5 deadline_ms is enforced by the module: done() comes with QN_TIMEOUT soon after it.
 */
#ifndef QN_OP_H
#define QN_OP_H

#include <qn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct qn_arena;
struct qn_op;

/** e is NULL on success, else borrowed for the call. */
typedef void qn_done_fn(struct qn_op *op, const struct qn_error *e);

struct qn_op {
	qn_done_fn *done;
	struct qn_arena *arena; /* [borrow] results live here */
	uint64_t deadline_ms;   /* on host->mono_ms(); 0 = none */
	void *user;             /* the caller's */
	void *impl[4];          /* the module's, from start until done() */
};

#ifdef __cplusplus
}
#endif
#endif
