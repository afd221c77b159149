/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: SIGTERM and SIGINT stop, SIGHUP reloads, SIGPIPE is ignored.
 *
 * Handlers only count and wake the main loop; reload and drain run outside of them. They are in
 * place before anything starts. The second stop, and an alarm that finds the stop stuck, end the
 * process from inside the handler, whatever the main thread is doing.
 */
#include "error.h"
#include "process.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stops, reloads, woken;
static volatile sig_atomic_t is_json;
static uv_async_t wake;

static void last_words(const char *event)
{
	const char *before = is_json ? "{\"level\":\"warn\",\"event\":\"" : "level=warn event=";
	const char *after = is_json ? "\",\"module\":\"core\"}\n" : " module=core\n";
	char line[128];
	size_t n = 0;

	for (const char *p = before; *p != '\0'; p++) {
		line[n++] = *p;
	}
	for (const char *p = event; *p != '\0'; p++) {
		line[n++] = *p;
	}
	for (const char *p = after; *p != '\0'; p++) {
		line[n++] = *p;
	}
	(void)!write(STDERR_FILENO, line, n);
	_exit(1);
}

static void on_signal(int signo)
{
	if (signo == SIGALRM) {
		last_words("core.stop_stuck");
	}
	if (signo == SIGHUP) {
		reloads = 1;
	} else {
		stops = stops + 1;
		if (stops > 1) {
			last_words("core.killed");
		}
	}
	if (woken) {
		(void)uv_async_send(&wake);
	}
}

void qn_signals_install(bool json)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGALRM};
	struct sigaction action;

	is_json = json;
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	(void)sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		(void)sigaction(signals[i], &action, NULL);
	}
	action.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &action, NULL);
}

bool qn_signals_stopping(void)
{
	return stops > 0;
}

static void on_wake(uv_async_t *async)
{
	if (stops > 0) {
		uv_stop(async->loop);
	} else if (reloads) {
		reloads = 0;
		qn_process_reload(async->data);
	}
}

int qn_signals_wait(struct qn_process *p, struct qn_error *e)
{
	uv_loop_t loop;
	int rc = uv_loop_init(&loop);

	if (rc == 0) {
		rc = uv_async_init(&loop, &wake, on_wake);
	}
	if (rc != 0) {
		return QN_FAIL(e, QN_UNAVAIL, "event loop: %s", uv_strerror(rc));
	}
	wake.data = p;
	woken = 1;
	/* A signal that came before the loop was there. */
	(void)uv_async_send(&wake);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	woken = 0;
	uv_close((uv_handle_t *)&wake, NULL);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	QN_ASSERT(uv_loop_close(&loop) == 0);
	return QN_OK;
}
