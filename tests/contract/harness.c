/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the module under test, and the hand-over between the test's thread and the engine's.
 *
 * The test's thread starts an operation by a call to the engine thread and sleeps on a condition
 * until done(). Everything is the core's own: loader, option tables, host, thread.
 */
#include "harness.h"

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 60

struct waiting {
	struct qn_op *op;
	ct_start_fn *start;
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned done;
	bool was_early;
	struct qn_error error;
};

struct plain {
	void (*fn)(void *arg);
	void *arg;
};

static struct qn_composition all;
static struct qn_conf conf;
static struct qn_mod *mod;
static struct qn_thread *engine;
static char data_dir[] = "/tmp/qn-contract-XXXXXX";

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static void give_up(const char *step, const struct qn_error *e)
{
	fprintf(stderr, "%s: %s\n", step, e->msg);
	(void)nftw(data_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	exit(2);
}

static int enter(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_mod *m = arg;

	return m->d.thread_start == NULL ? QN_OK : m->d.thread_start(m->self, t, &m->tself[0], e);
}

static int leave(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct qn_mod *m = arg;

	(void)e;
	if (m->d.drain != NULL) {
		m->d.drain(m->self, t, m->tself[0]);
	}
	if (m->d.thread_stop != NULL) {
		m->d.thread_stop(m->self, t, m->tself[0]);
	}
	return QN_OK;
}

static void configure(const char *kind, int argc, char **argv)
{
	struct qn_error e = {0};

	for (int i = 2; i < argc; i++) {
		char text[1024];

		(void)snprintf(text, sizeof(text), "%s.%s", kind, argv[i]);
		if (qn_conf_set(&conf, text, &e) != QN_OK) {
			give_up(argv[i], &e);
		}
	}
	if (qn_compose_options(&all, &conf, &e) != QN_OK) {
		give_up("options", &e);
	}
}

void ct_open(const char *kind, int argc, char **argv)
{
	struct qn_module_want want = {argc > 1 ? argv[1] : "", NULL, kind};
	struct qn_error e = {0};

	if (mkdtemp(data_dir) == NULL || chmod(data_dir, 0755) != 0) {
		perror(data_dir);
		exit(2);
	}
	qn_host_set_data_dir(data_dir);
	all.arena = qn_arena_create();
	conf.arena = all.arena;
	mod = qn_arena_zalloc(all.arena, sizeof(*mod));
	mod->all = &all;
	mod->section = kind;
	if (qn_module_open(&want, &mod->d, &e) != QN_OK) {
		give_up("open", &e);
	}
	all.loading = mod;
	if (mod->d.load(mod, &qn_host, &mod->self, &e) != QN_OK) {
		give_up("load", &e);
	}
	all.loading = NULL;
	all.mods[all.count++] = mod;
	configure(kind, argc, argv);
	if (mod->d.start != NULL && mod->d.start(mod->self, mod->options, &e) != QN_OK) {
		give_up("start", &e);
	}
	if (qn_thread_create(QN_THREAD_ENGINE, 0, &engine, &e) != QN_OK ||
	    qn_thread_call(engine, enter, mod, &e) != QN_OK) {
		give_up("thread", &e);
	}
}

void ct_close(void)
{
	if (qn_thread_call(engine, leave, mod, NULL) != QN_OK) {
		exit(3);
	}
	qn_thread_destroy(engine);
	if (mod->d.stop != NULL) {
		mod->d.stop(mod->self);
	}
	qn_compose_unload(&all);
	qn_arena_destroy(all.arena);
	(void)nftw(data_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

struct qn_service ct_service(void)
{
	return all.provided[0].service;
}

static void on_done(struct qn_op *op, const struct qn_error *e)
{
	struct waiting *w = op->user;

	(void)pthread_mutex_lock(&w->lock);
	w->done++;
	if (e != NULL) {
		w->error = *e;
	}
	(void)pthread_cond_signal(&w->cond);
	(void)pthread_mutex_unlock(&w->lock);
}

static int begin(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct waiting *w = arg;

	(void)t, (void)e;
	w->start(w->arg);
	(void)pthread_mutex_lock(&w->lock);
	w->was_early = w->done > 0;
	(void)pthread_mutex_unlock(&w->lock);
	return QN_OK;
}

static int nothing(struct qn_thread *t, void *arg, struct qn_error *e)
{
	(void)t, (void)arg, (void)e;
	return QN_OK;
}

int ct_run(struct qn_op *op, ct_start_fn *start, void *arg, struct qn_error *e)
{
	struct waiting w = {.op = op, .start = start, .arg = arg};
	struct timespec until;
	int rc = 0;

	(void)pthread_mutex_init(&w.lock, NULL);
	(void)pthread_cond_init(&w.cond, NULL);
	op->done = on_done;
	op->user = &w;
	op->arena = qn_arena_create();
	(void)qn_thread_call(engine, begin, &w, NULL);
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	(void)pthread_mutex_lock(&w.lock);
	while (w.done == 0 && rc == 0) {
		rc = pthread_cond_timedwait(&w.cond, &w.lock, &until);
	}
	(void)pthread_mutex_unlock(&w.lock);
	/* Whatever was on its way behind done() has arrived after one more turn. */
	(void)qn_thread_call(engine, nothing, NULL, NULL);
	assert_int_equal(w.done, 1);
	assert_false(w.was_early);
	(void)pthread_mutex_destroy(&w.lock);
	(void)pthread_cond_destroy(&w.cond);
	if (e != NULL) {
		*e = w.error;
	}
	return w.error.code;
}

static int run_plain(struct qn_thread *t, void *arg, struct qn_error *e)
{
	struct plain *p = arg;

	(void)t, (void)e;
	p->fn(p->arg);
	return QN_OK;
}

void ct_on_engine(void (*fn)(void *arg), void *arg)
{
	struct plain p = {fn, arg};

	(void)qn_thread_call(engine, run_plain, &p, NULL);
}

void ct_wait_until_us(int64_t at_us)
{
	for (int64_t left = at_us - qn_now_us(); left >= 0; left = at_us - qn_now_us()) {
		(void)usleep((useconds_t)(left + 1000));
	}
}
