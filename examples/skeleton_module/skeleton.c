/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skeleton: the smallest plugin that does something: a heartbeat in the log.
 *
 * It shows every part a module has: the option table and the struct it fills, the life cycle, a
 * handle on a thread's own loop, the descriptor and the one exported function. It keeps all state in
 * one object; the timer belongs to the engine thread and nobody else touches it.
 */
#include <qn/abi.h>

#include <uv.h>

struct skeleton_options {
	const char *greeting;
	int64_t interval_ms;
};

struct skeleton {
	const struct qn_host *host;
	struct qn_mod *mod;
	const struct skeleton_options *options;
	uv_timer_t timer;
	uint64_t beats;
};

static void on_timer(uv_timer_t *timer)
{
	struct skeleton *s = timer->data;

	s->beats++;
	s->host->counter("skeleton_beats", 1);
	QN_LOG(s->host, s->mod, QN_INFO, "skeleton.beat", QN_S("greeting", s->options->greeting),
	       QN_U("beats", s->beats));
}

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct skeleton *s = h->alloc(sizeof(*s));

	(void)e;
	s->host = h;
	s->mod = m;
	*self = s;
	return QN_OK;
}

static int start(void *self, const void *options, struct qn_error *e)
{
	struct skeleton *s = self;

	(void)e;
	s->options = options;
	return QN_OK;
}

static int thread_start(void *self, struct qn_thread *t, void **tself, struct qn_error *e)
{
	struct skeleton *s = self;
	uint64_t interval_ms = (uint64_t)s->options->interval_ms;
	int rc;

	if (s->host->thread_kind(t) != QN_THREAD_ENGINE) {
		return QN_OK;
	}
	rc = uv_timer_init(s->host->thread_loop(t), &s->timer);
	if (rc != 0) {
		return QN_ERR(s->host, e, QN_UNAVAIL, "timer: %s", uv_strerror(rc));
	}
	s->timer.data = s;
	(void)uv_timer_start(&s->timer, on_timer, 0, interval_ms);
	*tself = s;
	return QN_OK;
}

static void thread_stop(void *self, struct qn_thread *t, void *tself)
{
	struct skeleton *s = tself;

	(void)self;
	(void)t;
	if (s != NULL) {
		uv_close((uv_handle_t *)&s->timer, NULL);
	}
}

/* The loop has ended by now: the closed handle's memory may go. */
static void unload(void *self)
{
	struct skeleton *s = self;

	s->host->free(s);
}

static const struct qn_option option_rows[] = {
	{.name = "greeting",
         .env = "SKELETON_GREETING",
         .type = QN_OPT_STR,
         .def = "hello",
         .offset = offsetof(struct skeleton_options, greeting),
         .doc = "what every heartbeat says"},
	{.name = "interval",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "1m",
         .min = 10,
         .max = 86400000,
         .offset = offsetof(struct skeleton_options, interval_ms),
         .doc = "time between two heartbeats"},
	{.name = NULL},
};

static const struct qn_module skeleton = {
	QN_MODULE_HEAD,
	.name = "skeleton",
	.version = "1.0.0",
	.kind = "plugin",
	.doc = "A heartbeat in the log, to begin a plugin from",
	.options = option_rows,
	.options_size = sizeof(struct skeleton_options),
	.load = load,
	.start = start,
	.thread_start = thread_start,
	.thread_stop = thread_stop,
	.unload = unload,
};

QN_MODULE(skeleton);
