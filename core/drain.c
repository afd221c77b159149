/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining: no new work, then patience.
 *
 * Every module is told on every thread, then the broker, which answers parked pops at once. After
 * that the main thread looks every few milliseconds whether requests, storage operations and
 * connections are gone; what is left when drain_timeout is over is cut off by the stop that follows.
 * A loop that hangs would hang this too: an alarm ends the process then.
 */
#include "api/api.h"
#include "broker/broker.h"
#include "log.h"
#include "process.h"

#include <stdatomic.h>
#include <unistd.h>

#define LOOK_MS      5
#define STOP_GRACE_S 10

struct look {
	struct qn_process *p;
	uint64_t busy;
};

static int drain_here(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_process *p = arg;

	(void)e;
	for (size_t i = p->modules.count; i > 0; i--) {
		struct qn_mod *m = p->modules.order[i - 1];

		if (m->d.drain != NULL) {
			m->d.drain(m->self, t, m->tself[qn_mod_slot(t)]);
		}
	}
	if (qn_thread_kind(t) == QN_THREAD_ENGINE) {
		qn_broker_drain(p->app.broker);
	}
	return QN_OK;
}

static int look_engine(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct look *look = arg;

	(void)t;
	(void)e;
	look->busy += qn_broker_idle(look->p->app.broker) ? 0 : 1;
	return QN_OK;
}

static int look_io(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct look *look = arg;
	const struct qn_app *app = &look->p->app;

	(void)e;
	for (size_t i = 0; i < look->p->modules.provided_count; i++) {
		const struct qn_provided *provided = &look->p->modules.provided[i];

		if (provided->service.vt == &app->http.vt->head) {
			look->busy += app->http.vt->connections(app->http.self, provided->mod->tself[qn_mod_slot(t)]);
		}
	}
	return QN_OK;
}

static bool is_quiet(struct qn_process *p)
{
	struct look look = {.p = p, .busy = qn_api_open_calls()};

	for (size_t i = 0; i < p->io_count; i++) {
		(void)qn_thread_call(p->io[i], look_io, &look, NULL);
	}
	(void)qn_thread_call(p->app.engine, look_engine, &look, NULL);
	return look.busy == 0;
}

void qn_process_drain(struct qn_process *p)
{
	uint64_t began_ms = qn_mono_ms(), timeout_ms = (uint64_t)p->app.options.drain_timeout_ms;
	bool quiet;

	qn_log(QN_INFO, "core.draining", QN_U("timeout_ms", timeout_ms));
	atomic_store(&p->app.draining, true);
	(void)alarm((unsigned)(timeout_ms / 1000) + STOP_GRACE_S);
	for (size_t i = 0; i < p->io_count; i++) {
		(void)qn_thread_call(p->io[i], drain_here, p, NULL);
	}
	(void)qn_thread_call(p->app.engine, drain_here, p, NULL);
	for (quiet = is_quiet(p); !quiet && qn_mono_ms() - began_ms < timeout_ms; quiet = is_quiet(p)) {
		uv_sleep(LOOK_MS);
	}
	if (quiet) {
		qn_log(QN_INFO, "core.drained", QN_U("took_ms", qn_mono_ms() - began_ms));
	} else {
		qn_log(QN_WARN, "core.drain_timeout", QN_U("took_ms", qn_mono_ms() - began_ms),
		       QN_U("open_calls", qn_api_open_calls()));
	}
}
