/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: start in order, stop in exact reverse.
 *
 * stop() goes by what was reached, which every step records, so that it serves a failing start and
 * a normal end alike. Steps on threads are calls the main thread waits for: at any time exactly one
 * thread is changing the process. I/O threads end before the engine, which still answers to them.
 */
#include "app.h"
#include "broker/broker.h"
#include "error.h"
#include "log.h"
#include "options.h"
#include "process.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct qn_app *qn_app;

static int make_data_dir(struct qn_process *p, struct qn_error *e)
{
	const char *dir = p->app.options.data_dir;
	char path[PATH_MAX], real[PATH_MAX];
	size_t n = strlen(dir);

	if (n >= sizeof(path)) {
		return QN_FAIL(e, QN_INVALID, "data_dir is longer than %d bytes", PATH_MAX);
	}
	memcpy(path, dir, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0') {
			continue;
		}
		path[i] = '\0';
		if (mkdir(path, 0711) != 0 && errno != EEXIST) {
			return QN_FAIL(e, QN_UNAVAIL, "data_dir %s: %s", path, strerror(errno));
		}
		path[i] = i < n ? '/' : '\0';
	}
	if (realpath(path, real) == NULL) {
		return QN_FAIL(e, QN_UNAVAIL, "data_dir %s: %s", path, strerror(errno));
	}
	qn_host_set_data_dir(qn_arena_dup(p->arena, (struct qn_span){real, strlen(real)}).p);
	return QN_OK;
}

static int fail_step(const struct qn_mod *m, const char *step, int rc, struct qn_error *e)
{
	(void)QN_FAIL(e, rc, "no reason given");
	qn_error_prefix(e, "%s: %s", m->d.name, step);
	return rc;
}

static int start_modules(struct qn_process *p, struct qn_error *e)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		struct qn_mod *m = p->modules.order[i];
		int rc = m->d.start != NULL ? m->d.start(m->self, m->options, e) : QN_OK;

		if (rc != QN_OK) {
			return fail_step(m, "start", rc, e);
		}
		m->is_started = true;
		if (qn_signals_stopping()) {
			return QN_FAIL(e, QN_CANCELED, "stopped while starting");
		}
	}
	return QN_OK;
}

static int thread_enter(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;
	unsigned slot = qn_mod_slot(t);

	for (size_t i = 0; i < p->modules.count; i++) {
		struct qn_mod *m = p->modules.order[i];
		int rc = m->d.thread_start != NULL ? m->d.thread_start(m->self, t, &m->tself[slot], e) : QN_OK;

		if (rc != QN_OK) {
			return fail_step(m, "thread_start", rc, e);
		}
		m->on_thread[slot] = true;
	}
	return QN_OK;
}

static int thread_leave(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;
	unsigned slot = qn_mod_slot(t);

	(void)e;
	for (size_t i = p->modules.count; i > 0; i--) {
		struct qn_mod *m = p->modules.order[i - 1];

		if (m->on_thread[slot] && m->d.thread_stop != NULL) {
			m->d.thread_stop(m->self, t, m->tself[slot]);
		}
		m->on_thread[slot] = false;
	}
	return QN_OK;
}

static int broker_enter(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;
	int rc = qn_broker_start(&p->app, e);

	(void)t;
	p->broker_runs = rc == QN_OK;
	return rc;
}

static int broker_leave(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;

	(void)t;
	(void)e;
	qn_broker_stop(p->app.broker);
	return QN_OK;
}

static const struct qn_mod *provider_of(const struct qn_process *p, const char *kind)
{
	for (size_t i = 0; i < p->modules.provided_count; i++) {
		if (strcmp(p->modules.provided[i].kind, kind) == 0) {
			return p->modules.provided[i].mod;
		}
	}
	return NULL;
}

static int listen_here(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;
	const struct qn_mod *m = provider_of(p, "http");
	int rc = p->app.http.vt->listen(p->app.http.self, m->tself[qn_mod_slot(t)], e);

	return rc == QN_OK ? QN_OK : fail_step(m, "listen", rc, e);
}

static int start_threads(struct qn_process *p, struct qn_error *e)
{
	int rc = qn_thread_create(QN_THREAD_ENGINE, 0, &p->app.engine, e);

	if (rc == QN_OK) {
		rc = qn_thread_call(p->app.engine, thread_enter, p, e);
	}
	if (rc == QN_OK) {
		rc = qn_thread_call(p->app.engine, broker_enter, p, e);
	}
	while (rc == QN_OK && p->io_count < p->io_wanted) {
		rc = qn_thread_create(QN_THREAD_IO, (unsigned)p->io_count, &p->io[p->io_count], e);
		if (rc == QN_OK) {
			rc = qn_thread_call(p->io[p->io_count++], thread_enter, p, e);
		}
	}
	for (size_t i = 0; rc == QN_OK && i < p->io_count; i++) {
		rc = qn_thread_call(p->io[i], listen_here, p, e);
	}
	return rc;
}

int qn_process_start(struct qn_process *p, struct qn_error *e)
{
	const char *ignored = qn_core_ignored(p->arena);
	int rc = make_data_dir(p, e);

	qn_app = &p->app;
	if (ignored[0] != '\0') {
		qn_log(QN_INFO, "config.ignored", QN_S("name", ignored));
	}
	if (rc == QN_OK) {
		rc = start_modules(p, e);
	}
	if (rc == QN_OK) {
		rc = start_threads(p, e);
	}
	if (rc != QN_OK) {
		qn_process_stop(p);
		return rc;
	}
	if (provider_of(p, "auth") == NULL && p->app.http.vt->is_public(p->app.http.self)) {
		qn_log(QN_WARN, "core.open",
		       QN_S("why",
		            "listening on a non-loopback address without authentication: everybody who reaches it may do everything"));
	}
	qn_log(QN_INFO, "core.ready", QN_S("version", QN_VERSION), QN_U("io_threads", p->io_count),
	       QN_U("modules", p->modules.count));
	return QN_OK;
}

void qn_process_stop(struct qn_process *p)
{
	for (size_t i = p->io_count; i > 0; i--) {
		(void)qn_thread_call(p->io[i - 1], thread_leave, p, NULL);
		qn_thread_stop(p->io[i - 1]);
	}
	if (p->app.engine != NULL) {
		if (p->broker_runs) {
			(void)qn_thread_call(p->app.engine, broker_leave, p, NULL);
		}
		(void)qn_thread_call(p->app.engine, thread_leave, p, NULL);
		qn_thread_stop(p->app.engine);
	}
	qn_broker_destroy(p->app.broker);
	p->broker_runs = false;
	for (size_t i = p->modules.count; i > 0; i--) {
		struct qn_mod *m = p->modules.order[i - 1];

		if (m->is_started && m->d.stop != NULL) {
			m->d.stop(m->self);
		}
		m->is_started = false;
	}
	qn_compose_unload(&p->modules);
	while (p->io_count > 0) {
		qn_thread_destroy(p->io[--p->io_count]);
	}
	qn_thread_destroy(p->app.engine);
	p->app.engine = NULL;
}
