/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table a module is handed: the core's functions behind the names of qn/host.h.
 *
 * Counters are named by constant strings and live as long as the process. A look-up takes no lock:
 * slots are filled once, under the mutex, and published with their name (release, paired with the
 * acquire in counter_find); adding is one atomic addition.
 */
#include "api/api.h"
#include "arena.h"
#include "error.h"
#include "log.h"
#include "module.h"
#include "wire/ident.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS 512 /* power of two; names beyond three quarters of it are not counted */

struct counter {
	_Atomic(const char *) name;
	_Atomic uint64_t value;
};

struct deferred {
	struct qn_post post;
	struct qn_op *op;
	bool failed;
	struct qn_error error;
};

static struct counter counters[COUNTERS];
static size_t counters_used;
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *data_dir = ".";

static size_t counter_slot(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name != '\0'; name++) {
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	}
	return hash & (COUNTERS - 1);
}

/* The counter, or the free slot it would take. */
static struct counter *counter_find(const char *name, bool *found)
{
	for (size_t i = counter_slot(name);; i = (i + 1) & (COUNTERS - 1)) {
		const char *old = atomic_load_explicit(&counters[i].name, memory_order_acquire);

		*found = old != NULL && strcmp(old, name) == 0;
		if (*found || old == NULL) {
			return &counters[i];
		}
	}
}

static void host_counter(const char *name, uint64_t add)
{
	bool found;
	struct counter *c = counter_find(name, &found);

	if (!found) {
		(void)pthread_mutex_lock(&counters_lock);
		c = counter_find(name, &found);
		if (!found && counters_used < COUNTERS / 4 * 3) {
			const char *copy = strdup(name);

			QN_ASSERT(copy != NULL);
			atomic_store_explicit(&c->name, copy, memory_order_release);
			counters_used++;
			found = true;
		}
		(void)pthread_mutex_unlock(&counters_lock);
	}
	if (found) {
		atomic_fetch_add_explicit(&c->value, add, memory_order_relaxed);
	}
}

uint64_t qn_host_counter(const char *name)
{
	bool found;
	const struct counter *c = counter_find(name, &found);

	return found ? atomic_load_explicit(&c->value, memory_order_relaxed) : 0;
}

static void *host_alloc(size_t n)
{
	void *p = calloc(1, n > 0 ? n : 1);

	QN_ASSERT(p != NULL);
	return p;
}

static void *host_try_alloc(size_t n)
{
	return malloc(n);
}

static void host_free(void *p)
{
	free(p);
}

static int QN_FMT(5, 6) host_error(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...)
{
	char text[sizeof(e->msg)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return qn_error_set(e, file, line, code, "%s", text);
}

static void host_log(const struct qn_mod *m, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n)
{
	qn_log_write(m != NULL ? m->d.name : "core", level, event, kv, n);
}

static void on_deferred(struct qn_post *post)
{
	struct deferred *d = (struct deferred *)(void *)post;

	d->op->done(d->op, d->failed ? &d->error : NULL);
	free(d);
}

static void host_defer(struct qn_op *op, const struct qn_error *e)
{
	struct deferred *d = host_alloc(sizeof(*d));

	QN_ASSERT(qn_thread_self() != NULL);
	d->post.fn = on_deferred;
	d->op = op;
	d->failed = e != NULL;
	if (e != NULL) {
		d->error = *e;
	}
	qn_thread_post(qn_thread_self(), &d->post);
}

static const char *host_data_dir(void)
{
	return data_dir;
}

void qn_host_set_data_dir(const char *path)
{
	data_dir = path;
}

const struct qn_host qn_host = {
	.head = {.size = sizeof(struct qn_host), .major = QN_ABI_MAJOR, .minor = QN_ABI_MINOR},
	.provide = qn_compose_provide,
	.require = qn_compose_require,
	.alloc = host_alloc,
	.try_alloc = host_try_alloc,
	.free = host_free,
	.arena_create = qn_arena_create,
	.arena_alloc = qn_arena_alloc,
	.arena_defer = qn_arena_defer,
	.arena_destroy = qn_arena_destroy,
	.error = host_error,
	.log = host_log,
	.log_enabled = qn_log_enabled,
	.thread_kind = qn_thread_kind,
	.thread_index = qn_thread_index,
	.thread_loop = qn_thread_loop,
	.post = qn_thread_post,
	.defer = host_defer,
	.now_us = qn_now_us,
	.mono_ms = qn_mono_ms,
	.random = qn_random,
	.uuid7 = qn_uuid7,
	.hash128 = qn_hash128,
	.data_dir = host_data_dir,
	.dispatch = qn_api_dispatch,
	.counter = host_counter,
};
