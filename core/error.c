/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling and reading struct qn_error, and the assertion that stays on in release builds.
 *
 * The first setter of an error wins: a caller adds context with qn_error_prefix(), it never
 * replaces what the callee said. Messages are cut at the size of the field, never overrun.
 */
#include "error.h"

#include "thread.h"

#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	int code, http;
	const char *name;
} codes[] = {
#define X(name, value, http) {value, http, #name},
	QN_CODES(X)
#undef X
};

int qn_error_set(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...)
{
	va_list args;

	if (e == NULL || e->code != QN_OK) {
		return code;
	}
	e->code = code;
	e->file = file;
	e->line = line;
	va_start(args, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, args);
	va_end(args);
	return code;
}

void qn_error_prefix(struct qn_error *e, const char *fmt, ...)
{
	char old[sizeof(e->msg)];
	va_list args;
	size_t n;

	if (e == NULL) {
		return;
	}
	memcpy(old, e->msg, sizeof(old));
	va_start(args, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, args);
	va_end(args);
	n = strlen(e->msg);
	for (size_t i = 0; i < 2 && n < sizeof(e->msg) - 1; i++) {
		e->msg[n++] = ": "[i];
	}
	for (size_t i = 0; old[i] != '\0' && n < sizeof(e->msg) - 1; i++) {
		e->msg[n++] = old[i];
	}
	e->msg[n] = '\0';
}

const char *qn_code_name(int code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code) {
			return codes[i].name;
		}
	}
	return "UNKNOWN";
}

int qn_code_http(int code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == code) {
			return codes[i].http;
		}
	}
	return 500;
}

_Noreturn void qn_assert_failed(const char *cond, const char *file, int line)
{
	const struct qn_thread *t = qn_thread_self();
	void *frames[32];

	if (t == NULL) {
		(void)fprintf(stderr, "assertion failed: %s at %s:%d, thread main\n", cond, file, line);
	} else {
		(void)fprintf(stderr, "assertion failed: %s at %s:%d, thread %s %u\n", cond, file, line,
		              qn_thread_kind(t) == QN_THREAD_ENGINE ? "engine" : "io", qn_thread_index(t));
	}
	backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
	abort();
}
