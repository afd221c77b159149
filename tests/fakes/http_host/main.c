/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_host MODULE.so [io_threads=N] [OPTION=VALUE ...]
 *
 * Loads the module, gives it the options (durations in ms), listens, and runs until SIGTERM; then it
 * drains, stops and unloads in the core's order and says "clean" when nothing was left. Log lines go
 * to standard output, one event a line.
 */
#include "http_host.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DRAIN_MS 3000

struct qn_service http_service;
static const struct qn_module *module;
static void *self, *options;
static struct qn_thread threads[THREADS_MAX];
static unsigned thread_count = 1;

/* ---- the host table -------------------------------------------------------------------------- */

static int host_provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e)
{
	(void)m;
	(void)e;
	http_service = s;
	return strcmp(kind, "http") == 0 ? QN_OK : QN_INVALID;
}

static void *host_alloc(size_t n)
{
	void *p = calloc(1, n);
	if (p == NULL) {
		abort();
	}
	return p;
}

static int host_error(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...) QN_FMT(5, 6);

static int host_error(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...)
{
	va_list ap;
	e->code = code;
	e->file = file;
	e->line = line;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return code;
}

static void host_log(const struct qn_mod *m, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n)
{
	char line[512];
	int at = snprintf(line, sizeof(line), "%s level=%d", event, (int)level);
	(void)m;
	for (size_t i = 0; i < n && at < (int)sizeof(line) - 1; i++) {
		size_t room = sizeof(line) - (size_t)at;
		if (kv[i].type == QN_KV_STR) {
			at += snprintf(line + at, room, " %s=%.*s", kv[i].key, (int)kv[i].v.s.n,
			               (const char *)kv[i].v.s.p);
		} else {
			uint64_t value = kv[i].type == QN_KV_BOOL ? kv[i].v.b : kv[i].v.u;
			at += snprintf(line + at, room, " %s=%llu", kv[i].key, (unsigned long long)value);
		}
	}
	(void)puts(line);
	(void)fflush(stdout);
}

static bool host_log_enabled(enum qn_level level)
{
	(void)level;
	return true;
}

static enum qn_thread_kind host_thread_kind(const struct qn_thread *t)
{
	(void)t;
	return QN_THREAD_IO;
}

static unsigned host_thread_index(const struct qn_thread *t)
{
	return t->index;
}

static struct uv_loop_s *host_thread_loop(struct qn_thread *t)
{
	return &t->loop;
}

static void host_counter(const char *name, uint64_t add)
{
	(void)name;
	(void)add;
}

const struct qn_host fake_host = {
	.head = {sizeof(struct qn_host), QN_ABI_MAJOR, QN_ABI_MINOR},
	.provide = host_provide,
	.alloc = host_alloc,
	.try_alloc = malloc,
	.free = free,
	.error = host_error,
	.log = host_log,
	.log_enabled = host_log_enabled,
	.thread_kind = host_thread_kind,
	.thread_index = host_thread_index,
	.thread_loop = host_thread_loop,
	.post = thread_post,
	.dispatch = routes_dispatch,
	.counter = host_counter,
};

/* ---- options --------------------------------------------------------------------------------- */

static void set_option(const struct qn_option *o, const char *text, void *out)
{
	char *field = (char *)out + o->offset;
	char *end = NULL;
	if (o->type == QN_OPT_STR) {
		memcpy(field, &text, sizeof(text));
		return;
	}
	int64_t value = strtoll(text, &end, 10);
	if (*end == 's') { /* defaults only */
		value *= 1000;
	}
	memcpy(field, &value, sizeof(value));
}

static void *read_options(int argc, char **argv)
{
	void *out = host_alloc(module->options_size);
	for (const struct qn_option *o = module->options; o->name != NULL; o++) {
		set_option(o, o->def, out);
		for (int i = 2; i < argc; i++) {
			size_t n = strlen(o->name);
			if (strncmp(argv[i], o->name, n) == 0 && argv[i][n] == '=') {
				set_option(o, argv[i] + n + 1, out);
			}
		}
	}
	for (int i = 2; i < argc; i++) {
		if (strncmp(argv[i], "io_threads=", 11) == 0) {
			thread_count = (unsigned)strtoul(argv[i] + 11, NULL, 10);
		}
	}
	return out;
}

/* ---- life cycle ------------------------------------------------------------------------------ */

static int on_start(struct qn_thread *t)
{
	struct qn_error e = {0};
	int rc = module->thread_start(self, t, &t->tself, &e);
	return rc;
}

static int on_listen(struct qn_thread *t)
{
	struct qn_error e = {0};
	const struct qn_http_vt *vt = (const struct qn_http_vt *)(const void *)http_service.vt;
	int rc = vt->listen(http_service.self, t->tself, &e);
	if (rc != QN_OK) {
		(void)fprintf(stderr, "listen: %s\n", e.msg);
	}
	return rc;
}

static int on_drain(struct qn_thread *t)
{
	module->drain(self, t, t->tself);
	routes_drain(t);
	return 0;
}

static int on_count(struct qn_thread *t)
{
	const struct qn_http_vt *vt = (const struct qn_http_vt *)(const void *)http_service.vt;
	return (int)vt->connections(http_service.self, t->tself);
}

static int on_stop(struct qn_thread *t)
{
	module->thread_stop(self, t, t->tself);
	return 0;
}

static void load(int argc, char **argv)
{
	struct qn_error e = {0};
	void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (so == NULL) {
		die("dlopen", dlerror());
	}
	qn_module_entry_fn *entry;
	*(void **)&entry = dlsym(so, "qn_module_entry");
	if (entry == NULL) {
		die("dlsym", dlerror());
	}
	module = entry();
	options = read_options(argc, argv);
	if (module->load((struct qn_mod *)(void *)&threads, &fake_host, &self, &e) != QN_OK ||
	    module->start(self, options, &e) != QN_OK) {
		die("start", e.msg);
	}
}

/* Watches parked calls like an engine thread until a signal comes. */
static void run(const sigset_t *signals)
{
	const struct timespec tick = {.tv_nsec = 5000000};
	while (sigtimedwait(signals, NULL, &tick) < 0) {
		for (unsigned i = 0; i < thread_count; i++) {
			routes_watch(&threads[i]);
		}
	}
}

static void finish(void)
{
	int left = 1;
	for (unsigned i = 0; i < thread_count; i++) {
		(void)thread_call(&threads[i], on_drain);
	}
	for (int ms = 0; left > 0 && ms < DRAIN_MS; ms += 10) {
		left = 0;
		for (unsigned i = 0; i < thread_count; i++) {
			left += thread_call(&threads[i], on_count);
		}
		uv_sleep(left > 0 ? 10 : 0);
	}
	(void)printf("drained left=%d\n", left);
	for (unsigned i = 0; i < thread_count; i++) {
		(void)thread_call(&threads[i], on_stop);
		thread_join(&threads[i]);
	}
	module->unload(self);
	free(options);
	(void)puts("clean");
}

int main(int argc, char **argv)
{
	sigset_t signals;
	if (argc < 2) {
		die("usage", "http_host MODULE.so [io_threads=N] [OPTION=VALUE ...]");
	}
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
	load(argc, argv);
	for (unsigned i = 0; i < thread_count && i < THREADS_MAX; i++) {
		thread_create(&threads[i], i);
		if (thread_call(&threads[i], on_start) != QN_OK || thread_call(&threads[i], on_listen) != QN_OK) {
			return 1;
		}
	}
	(void)puts("ready");
	(void)fflush(stdout);
	run(&signals);
	finish();
	return 0;
}
