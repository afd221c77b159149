/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host a module sees in these tests.
 *
 * Everything happens on the test's thread; the supervisor thread of the embedded server only logs and
 * reads the clock, which are safe from any thread here.
 */
#include "fake_host.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 4096

struct block {
	struct block *next;
	void (*fn)(void *arg);
	void *arg;
	void *memory;
};

struct qn_arena {
	struct block *blocks;
};

struct qn_thread {
	uv_loop_t *loop;
};

static char data_dir[256];
static int arenas;
static const struct qn_storage_vt *provided;
static void *provided_self;
static char events[EVENTS_MAX][40];
static unsigned event_count;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static int provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e)
{
	(void)m;
	(void)e;
	assert_string_equal(kind, "storage");
	provided = (const struct qn_storage_vt *)(const void *)s.vt;
	provided_self = s.self;
	return QN_OK;
}

static void *alloc(size_t n)
{
	void *p = calloc(1, n);
	if (p == NULL) {
		abort();
	}
	return p;
}

static struct qn_arena *arena_create(void)
{
	arenas++;
	return alloc(sizeof(struct qn_arena));
}

static struct block *add_block(struct qn_arena *a)
{
	struct block *b = alloc(sizeof(*b));
	b->next = a->blocks;
	a->blocks = b;
	return b;
}

static void *arena_alloc(struct qn_arena *a, size_t n)
{
	struct block *b = add_block(a);
	b->memory = malloc(n > 0 ? n : 1);
	if (b->memory == NULL) {
		abort();
	}
	memset(b->memory, 0xa5, n);
	return b->memory;
}

static void arena_defer(struct qn_arena *a, void (*fn)(void *arg), void *arg)
{
	struct block *b = add_block(a);
	b->fn = fn;
	b->arg = arg;
}

static void arena_destroy(struct qn_arena *a)
{
	while (a->blocks != NULL) {
		struct block *b = a->blocks;
		a->blocks = b->next;
		if (b->fn != NULL) {
			b->fn(b->arg);
		}
		free(b->memory);
		free(b);
	}
	free(a);
	arenas--;
}

static QN_FMT(5, 6) int set_error(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...)
{
	if (e != NULL && e->code == 0) {
		va_list ap;
		va_start(ap, fmt);
		e->code = code;
		e->file = file;
		e->line = line;
		vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
		va_end(ap);
	}
	return code;
}

static void write_log(const struct qn_mod *m, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n)
{
	(void)m;
	pthread_mutex_lock(&log_mutex);
	if (event_count < EVENTS_MAX) {
		snprintf(events[event_count++], sizeof(events[0]), "%s", event);
	}
	fprintf(stderr, "%d %s", (int)level, event);
	for (size_t i = 0; i < n; i++) {
		if (kv[i].type == QN_KV_STR) {
			fprintf(stderr, " %s=\"%.*s\"", kv[i].key, (int)kv[i].v.s.n, (const char *)kv[i].v.s.p);
		} else {
			fprintf(stderr, " %s=%lld", kv[i].key, (long long)kv[i].v.i);
		}
	}
	fputc('\n', stderr);
	pthread_mutex_unlock(&log_mutex);
}

static bool log_enabled(enum qn_level level)
{
	return level <= QN_INFO;
}

static enum qn_thread_kind thread_kind(const struct qn_thread *t)
{
	(void)t;
	return QN_THREAD_ENGINE;
}

static struct uv_loop_s *thread_loop(struct qn_thread *t)
{
	return t->loop;
}

static uint64_t mono_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void random_bytes(void *p, size_t n)
{
	if (getrandom(p, n, 0) != (ssize_t)n) {
		abort();
	}
}

static const char *get_data_dir(void)
{
	return data_dir;
}

const struct qn_host fake_host = {
	.head = {.size = sizeof(struct qn_host), .major = 1},
	.provide = provide,
	.alloc = alloc,
	.try_alloc = malloc,
	.free = free,
	.arena_create = arena_create,
	.arena_alloc = arena_alloc,
	.arena_defer = arena_defer,
	.arena_destroy = arena_destroy,
	.error = set_error,
	.log = write_log,
	.log_enabled = log_enabled,
	.thread_kind = thread_kind,
	.thread_loop = thread_loop,
	.mono_ms = mono_ms,
	.random = random_bytes,
	.data_dir = get_data_dir,
};

/* ---- directories and logs --------------------------------------------------------------------------- */

void fake_data_dir(char *out, size_t size)
{
	char path[] = "/tmp/qn-pg-XXXXXX";
	assert_non_null(mkdtemp(path));
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(data_dir, sizeof(data_dir), "%s", path);
	snprintf(out, size, "%s", path);
}

void fake_set_data_dir(const char *path)
{
	snprintf(data_dir, sizeof(data_dir), "%s", path);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

void fake_remove_dir(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

unsigned fake_log_count(const char *event)
{
	unsigned n = 0;
	pthread_mutex_lock(&log_mutex);
	for (unsigned i = 0; i < event_count; i++) {
		n += strcmp(events[i], event) == 0;
	}
	pthread_mutex_unlock(&log_mutex);
	return n;
}

void fake_log_reset(void)
{
	pthread_mutex_lock(&log_mutex);
	event_count = 0;
	pthread_mutex_unlock(&log_mutex);
}

int fake_arenas(void)
{
	return arenas;
}

struct qn_pg_options fake_options(void)
{
	return (struct qn_pg_options){.dsn = "",
	                              .host = "",
	                              .user = "postgres",
	                              .password = "postgres",
	                              .database = "postgres",
	                              .port = 5432,
	                              .reject_unauthorized = true,
	                              .root_cert = "",
	                              .push_connections = 2,
	                              .claim_connections = 1,
	                              .settle_connections = 1,
	                              .query_connections = 2,
	                              .statement_timeout_ms = 30000,
	                              .apply_schema = true,
	                              .bin_dir = "",
	                              .shared_buffers_bytes = INT64_C(32) << 20};
}

/* ---- the broker's side ------------------------------------------------------------------------------- */

static void on_alarm(uv_timer_t *t)
{
	((struct fake_broker *)t->data)->timed_out = true;
}

int fake_broker_start(struct fake_broker *b, const struct qn_pg_options *o, struct qn_error *e)
{
	memset(b, 0, sizeof(*b));
	b->options = *o;
	b->module = qn_module_entry();
	int rc = b->module->load(NULL, &fake_host, &b->self, e);
	if (rc == QN_OK) {
		rc = b->module->start(b->self, &b->options, e);
	}
	if (rc != QN_OK) {
		b->module->unload(b->self);
		return rc;
	}
	b->vt = provided;
	assert_ptr_equal(provided_self, b->self);
	assert_int_equal(uv_loop_init(&b->loop), 0);
	struct qn_thread t = {.loop = &b->loop};
	assert_int_equal(b->module->thread_start(b->self, &t, &b->tself, e), QN_OK);
	assert_int_equal(uv_timer_init(&b->loop, &b->alarm), 0);
	b->alarm.data = b;
	return QN_OK;
}

void fake_broker_stop(struct fake_broker *b)
{
	struct qn_thread t = {.loop = &b->loop};
	b->module->thread_stop(b->self, &t, b->tself);
	assert_int_equal(b->vt->inflight(b->self), 0);
	uv_close((uv_handle_t *)&b->alarm, NULL);
	assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&b->loop), 0);
	b->module->stop(b->self);
	b->module->unload(b->self);
	assert_int_equal(fake_arenas(), 0);
}

static void on_done(struct qn_op *op, const struct qn_error *e)
{
	struct fake_wait *w = op->user;
	assert_false(w->done);
	w->done = true;
	if (e != NULL) {
		w->error = *e;
	}
}

void fake_op(struct fake_broker *b, struct qn_op *op, struct fake_wait *w, uint64_t deadline_in_ms)
{
	(void)b;
	memset(w, 0, sizeof(*w));
	op->done = on_done;
	op->arena = arena_create();
	op->user = w;
	op->deadline_ms = deadline_in_ms != 0 ? mono_ms() + deadline_in_ms : 0;
}

void fake_wait(struct fake_broker *b, const struct fake_wait *w)
{
	b->timed_out = false;
	assert_int_equal(uv_timer_start(&b->alarm, on_alarm, 60000, 0), 0);
	while (!w->done && !b->timed_out) {
		uv_run(&b->loop, UV_RUN_ONCE);
	}
	assert_true(w->done);
	uv_timer_stop(&b->alarm);
}

void fake_op_free(struct qn_op *op)
{
	arena_destroy(op->arena);
}

int fake_ping(struct fake_broker *b, struct qn_error *e)
{
	struct qn_ping_op op = {0};
	struct fake_wait w;
	fake_op(b, &op.op, &w, 20000);
	b->vt->ping(b->self, &op);
	assert_false(w.done);
	fake_wait(b, &w);
	fake_op_free(&op.op);
	if (e != NULL) {
		*e = w.error;
	}
	return w.error.code;
}

static void on_tick(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

static void run_for(struct fake_broker *b, uint64_t ms)
{
	bool over = false;
	uv_timer_t t;
	uv_timer_init(&b->loop, &t);
	t.data = &over;
	uv_timer_start(&t, on_tick, ms, 0);
	while (!over) {
		uv_run(&b->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&t, NULL);
	uv_run(&b->loop, UV_RUN_NOWAIT);
}

void fake_ping_until_up(struct fake_broker *b)
{
	uint64_t until = mono_ms() + 60000;
	while (fake_ping(b, NULL) != QN_OK) {
		assert_true(mono_ms() < until);
		run_for(b, 20);
	}
}

/* ---- the server ---------------------------------------------------------------------------------------- */

static struct qn_pg_options server_options;

void fake_server_start(struct fake_server *s)
{
	memset(s, 0, sizeof(*s));
	fake_data_dir(s->dir, sizeof(s->dir));
	server_options = fake_options();
	s->pg.host = &fake_host;
	s->pg.options = &server_options;
	struct qn_error e = {0};
	if (qn_pg_embedded_start(&s->pg, &s->pg.embedded, &e) != QN_OK) {
		fail_msg("%s", e.msg);
	}
	const struct qn_pg_cluster *c = qn_pg_embedded_cluster(s->pg.embedded);
	snprintf(s->dsn, sizeof(s->dsn), "host=%s user=postgres dbname=postgres password=%s", c->socket_dir,
	         c->password);
}

void fake_server_stop(struct fake_server *s)
{
	qn_pg_embedded_stop(s->pg.embedded);
	fake_remove_dir(s->dir);
}

PGconn *fake_server_connect(const struct fake_server *s)
{
	/* A server that a test has just crashed refuses connections until its recovery is over. */
	for (int i = 0; i < 600 && PQping(s->dsn) != PQPING_OK; i++) {
		uv_sleep(100);
	}
	PGconn *c = PQconnectdb(s->dsn);
	if (PQstatus(c) != CONNECTION_OK) {
		fail_msg("%s", PQerrorMessage(c));
	}
	return c;
}

const char *fake_sql(PGconn *c, const char *text)
{
	static char value[256];
	PGresult *res = PQexec(c, text);
	ExecStatusType status = PQresultStatus(res);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
		fail_msg("%s: %s", text, PQerrorMessage(c));
	}
	snprintf(value, sizeof(value), "%s", PQntuples(res) > 0 ? PQgetvalue(res, 0, 0) : "");
	PQclear(res);
	return value;
}

pid_t fake_postmaster(const char *dir)
{
	char path[300];
	long pid = 0;
	snprintf(path, sizeof(path), "%s/pg/postmaster.pid", dir);
	FILE *f = fopen(path, "re");
	if (f != NULL) {
		if (fscanf(f, "%ld", &pid) != 1) {
			pid = 0;
		}
		(void)fclose(f);
	}
	return (pid_t)pid;
}
