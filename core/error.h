/* SPDX-License-Identifier: Apache-2.0 */
/** Filling and reading struct qn_error inside the core. */
#ifndef QN_CORE_ERROR_H
#define QN_CORE_ERROR_H

#include <qn/base.h>

/** Fills e unless it is NULL or already set; returns code. */
int qn_error_set(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...) QN_FMT(5, 6);
/** Puts "prefix: " in front of e's message. Accepts NULL. */
void qn_error_prefix(struct qn_error *e, const char *fmt, ...) QN_FMT(2, 3);
/** "INVALID", "UNAVAIL", ... */
const char *qn_code_name(int code);
/** Default HTTP status of a code. */
int qn_code_http(int code);

#define QN_FAIL(e, code, ...) qn_error_set((e), __FILE__, __LINE__, (code), __VA_ARGS__)

/** Stays on in release builds: prints the condition, a backtrace and the thread, then aborts. */
#define QN_ASSERT(cond) ((cond) ? (void)0 : qn_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void qn_assert_failed(const char *cond, const char *file, int line);

#endif
