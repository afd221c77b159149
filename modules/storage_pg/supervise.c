/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision of the embedded server.
 *
 * One thread starts the postmaster, waits for it and starts it again with back-off when it ends
 * uninvited; the same thread starts it each time because the kernel's death signal is tied to the
 * thread that forked: when queend dies in whatever way, the postmaster gets SIGINT and shuts down
 * cleanly. The mutex guards `pid` and `stopping` between that thread and start/stop. The engine's
 * connections notice restarts by themselves.
 */
#include "supervise.h"

#include "process.h"

#include <errno.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000
#define STEADY_MS      60000 /* after that long the back-off starts anew */
#define READY_TICK_MS  50
#define READY_LOG_MS   5000
#define FAST_STOP_MS   30000
#define QUICK_STOP_MS  10000

struct qn_pg_embedded {
	struct qn_pg *pg;
	struct qn_pg_cluster cluster;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pid_t pid; /* the postmaster; 0 when none runs */
	bool stopping;
	bool failed;    /* the first start did not succeed */
	unsigned exits; /* uninvited ends */
};

static pid_t launch(struct qn_pg_embedded *s)
{
	struct qn_error e = {0};
	char program[PATH_MAX + 16];
	char socket_arg[PATH_MAX + 32];
	if (qn_pg_cluster_clear(&s->cluster, &e) != QN_OK) {
		QN_LOG(s->pg->host, s->pg->mod, QN_ERROR, "storage.server_blocked", QN_S("error", e.msg));
		return -EBUSY;
	}
	snprintf(program, sizeof(program), "%s/postgres", s->cluster.bin);
	snprintf(socket_arg, sizeof(socket_arg), "unix_socket_directories=%s", s->cluster.socket_dir);
	const char *const argv[] = {program, "-D", s->cluster.data, "-c", socket_arg, "-c", "listen_addresses=", NULL};
	const struct qn_pg_spawn spawn = {.argv = argv,
	                                  .log_file = s->cluster.log_file,
	                                  .switch_user = s->cluster.switch_user,
	                                  .uid = s->cluster.uid,
	                                  .gid = s->cluster.gid,
	                                  .death_signal = SIGINT};
	return qn_pg_spawn(&spawn);
}

/* Sleeps until stop() or ms are over. The mutex is held. */
static void wait_locked(struct qn_pg_embedded *s, unsigned ms)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (!s->stopping && pthread_cond_timedwait(&s->changed, &s->mutex, &until) != ETIMEDOUT) {
	}
}

/* Runs the server once, from launch to its end. */
static void run_once(struct qn_pg_embedded *s)
{
	pthread_mutex_lock(&s->mutex);
	bool stopping = s->stopping;
	pid_t pid = stopping ? 0 : launch(s);
	s->pid = pid > 0 ? pid : 0;
	s->failed |= pid < 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
	if (pid <= 0) {
		return;
	}
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	pthread_mutex_lock(&s->mutex);
	s->pid = 0;
	s->exits++;
	if (!s->stopping) {
		QN_LOG(s->pg->host, s->pg->mod, QN_WARN, "storage.server_died",
		       QN_I("exit_status", WIFEXITED(status) ? WEXITSTATUS(status) : -1),
		       QN_I("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0), QN_S("log", s->cluster.log_file));
	}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
}

static void *supervise(void *arg)
{
	struct qn_pg_embedded *s = arg;
	unsigned backoff = BACKOFF_MIN_MS;
	for (;;) {
		uint64_t from = s->pg->host->mono_ms();
		run_once(s);
		if (s->pg->host->mono_ms() - from > STEADY_MS) {
			backoff = BACKOFF_MIN_MS;
		}
		pthread_mutex_lock(&s->mutex);
		wait_locked(s, backoff);
		bool stopping = s->stopping;
		pthread_mutex_unlock(&s->mutex);
		if (stopping) {
			return NULL;
		}
		backoff = backoff * 2 < BACKOFF_MAX_MS ? backoff * 2 : BACKOFF_MAX_MS;
	}
}

static bool gave_up(struct qn_pg_embedded *s)
{
	pthread_mutex_lock(&s->mutex);
	bool over = s->failed || s->exits > 0;
	pthread_mutex_unlock(&s->mutex);
	return over;
}

/* Recovery after a crash may take long: as long as the process lives, it is waited for. */
static int wait_ready(struct qn_pg_embedded *s, struct qn_error *e)
{
	const char *const keywords[] = {"host", "port", "dbname", "user", NULL};
	const char *const values[] = {s->cluster.socket_dir, "5432", "postgres", "postgres", NULL};
	uint64_t from = s->pg->host->mono_ms();
	uint64_t log_at = from + READY_LOG_MS;
	while (PQpingParams(keywords, values, 0) != PQPING_OK) {
		if (gave_up(s)) {
			return QN_ERR(s->pg->host, e, QN_UNAVAIL,
			              "embedded PostgreSQL does not start, see %s and %s/log", s->cluster.log_file,
			              s->cluster.data);
		}
		uint64_t now = s->pg->host->mono_ms();
		if (now >= log_at) {
			QN_LOG(s->pg->host, s->pg->mod, QN_INFO, "storage.server_starting",
			       QN_U("waited_ms", now - from));
			log_at = now + READY_LOG_MS;
		}
		qn_pg_sleep_ms(READY_TICK_MS);
	}
	QN_LOG(s->pg->host, s->pg->mod, QN_INFO, "storage.server_ready", QN_S("dir", s->cluster.data),
	       QN_S("socket", s->cluster.socket_dir), QN_U("took_ms", s->pg->host->mono_ms() - from));
	return QN_OK;
}

static void signal_and_wait_locked(struct qn_pg_embedded *s, int sig, unsigned ms)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	if (s->pid > 0) {
		(void)kill(s->pid, sig);
	}
	while (s->pid > 0 && pthread_cond_timedwait(&s->changed, &s->mutex, &until) != ETIMEDOUT) {
	}
}

const struct qn_pg_cluster *qn_pg_embedded_cluster(const struct qn_pg_embedded *s)
{
	return &s->cluster;
}

int qn_pg_embedded_start(struct qn_pg *pg, struct qn_pg_embedded **out, struct qn_error *e)
{
	struct qn_pg_embedded *s = pg->host->alloc(sizeof(*s));
	s->pg = pg;
	int rc = qn_pg_cluster_open(&s->cluster, pg, e);
	if (rc != QN_OK) {
		pg->host->free(s);
		return rc;
	}
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&s->thread, NULL, supervise, s) != 0) {
		qn_pg_cluster_close(&s->cluster);
		pg->host->free(s);
		return QN_ERR(pg->host, e, QN_NOMEM, "embedded PostgreSQL: cannot start a thread");
	}
	rc = wait_ready(s, e);
	if (rc != QN_OK) {
		qn_pg_embedded_stop(s);
		return rc;
	}
	*out = s;
	return QN_OK;
}

void qn_pg_embedded_stop(struct qn_pg_embedded *s)
{
	if (s == NULL) {
		return;
	}
	pthread_mutex_lock(&s->mutex);
	s->stopping = true;
	pthread_cond_broadcast(&s->changed);
	signal_and_wait_locked(s, SIGINT, FAST_STOP_MS);
	signal_and_wait_locked(s, SIGQUIT, QUICK_STOP_MS);
	signal_and_wait_locked(s, SIGKILL, QUICK_STOP_MS);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->thread, NULL);
	/* The log collector ends a little after the postmaster. */
	(void)qn_pg_wait_processes(s->cluster.data, QUICK_STOP_MS);
	pthread_mutex_destroy(&s->mutex);
	pthread_cond_destroy(&s->changed);
	qn_pg_cluster_close(&s->cluster);
	s->pg->host->free(s);
}
