/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded server's data directory.
 *
 * Layout under data_dir: queend.lock (flock: one queend at a time), pg.password (0600), pg (the cluster,
 * made as pg.new and renamed, so a half-made one is never mistaken for a whole), pg-run (socket),
 * pg.log. Settings live in pg/queend.conf, written at each start; pg/local.conf, read after it, is the
 * operator's. PostgreSQL refuses to run as root, so then it runs as user postgres, who owns pg*.
 * Processes are supervise.c's.
 */
#include "cluster.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET_DIR_MAX 80 /* sun_path holds 107 bytes; the socket's name takes 20 */
#define STOP_WAIT_MS   60000
#define ORPHAN_WAIT_MS 3000

static int path_of(const struct qn_pg_cluster *c, char out[PATH_MAX], const char *name, struct qn_error *e)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", c->base, name);
	if (n < 0 || n >= PATH_MAX) {
		return QN_ERR(c->pg->host, e, QN_INVALID, "data_dir: path too long");
	}
	return QN_OK;
}

static int fail_errno(const struct qn_pg_cluster *c, struct qn_error *e, const char *what, const char *path)
{
	int saved = errno;
	int code = QN_ERR(c->pg->host, e, QN_INVALID, "embedded PostgreSQL: %s %s: %s", what, path, strerror(saved));
	if (e != NULL) {
		e->sys = saved;
	}
	return code;
}

static int write_file(const struct qn_pg_cluster *c, const char *path, const char *text, struct qn_error *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return fail_errno(c, e, "cannot write", path);
	}
	size_t n = strlen(text);
	bool good = write(fd, text, n) == (ssize_t)n && fsync(fd) == 0 &&
	            (!c->switch_user || fchown(fd, c->uid, c->gid) == 0);
	if (close(fd) != 0 || !good) {
		return fail_errno(c, e, "cannot write", path);
	}
	return QN_OK;
}

static int make_dir(const struct qn_pg_cluster *c, const char *path, struct qn_error *e)
{
	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		return fail_errno(c, e, "cannot create", path);
	}
	if (c->switch_user && chown(path, c->uid, c->gid) != 0) {
		return fail_errno(c, e, "cannot give away", path);
	}
	return QN_OK;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* ---- finding things ------------------------------------------------------------------------------ */

static bool has_programs(const char *dir)
{
	char initdb[PATH_MAX + 16];
	char postgres[PATH_MAX + 16];
	snprintf(initdb, sizeof(initdb), "%s/initdb", dir);
	snprintf(postgres, sizeof(postgres), "%s/postgres", dir);
	return access(initdb, X_OK) == 0 && access(postgres, X_OK) == 0;
}

static bool newest_bin(char out[PATH_MAX])
{
	glob_t g;
	long best = -1;
	if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &g) != 0) {
		return false;
	}
	for (size_t i = 0; i < g.gl_pathc; i++) {
		long version = strtol(g.gl_pathv[i] + strlen("/usr/lib/postgresql/"), NULL, 10);
		if (version > best && has_programs(g.gl_pathv[i])) {
			best = version;
			snprintf(out, PATH_MAX, "%s", g.gl_pathv[i]);
		}
	}
	globfree(&g);
	return best >= 0;
}

static bool bin_on_path(char out[PATH_MAX])
{
	const char *p = getenv("PATH");
	while (p != NULL && *p != '\0') {
		size_t n = strcspn(p, ":");
		snprintf(out, PATH_MAX, "%.*s", (int)n, p);
		if (n > 0 && has_programs(out)) {
			return true;
		}
		p += n + (p[n] == ':');
	}
	return false;
}

static int find_bin(struct qn_pg_cluster *c, struct qn_error *e)
{
	const char *given = c->pg->options->bin_dir;
	if (given[0] != '\0') {
		snprintf(c->bin, sizeof(c->bin), "%s", given);
		if (!has_programs(given)) {
			return QN_ERR(c->pg->host, e, QN_INVALID, "pg_bin_dir: no initdb and postgres in %s", given);
		}
		return QN_OK;
	}
	if (newest_bin(c->bin) || bin_on_path(c->bin)) {
		return QN_OK;
	}
	return QN_ERR(c->pg->host, e, QN_INVALID,
	              "embedded PostgreSQL: no initdb and postgres found: install postgresql, or set dsn or PG_HOST");
}

static int find_user(struct qn_pg_cluster *c, struct qn_error *e)
{
	if (geteuid() != 0) {
		return QN_OK;
	}
	const struct passwd *user = getpwnam("postgres");
	if (user == NULL) {
		return QN_ERR(c->pg->host, e, QN_INVALID,
		              "embedded PostgreSQL does not run as root and there is no user "
		              "postgres: create that user or start queend as another");
	}
	c->switch_user = true;
	c->uid = user->pw_uid;
	c->gid = user->pw_gid;
	return QN_OK;
}

static int lock_data_dir(struct qn_pg_cluster *c, struct qn_error *e)
{
	char path[PATH_MAX];
	const char *dir = c->pg->host->data_dir();
	if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
		return fail_errno(c, e, "cannot create", dir);
	}
	if (realpath(dir, c->base) == NULL) {
		return fail_errno(c, e, "cannot resolve", dir);
	}
	int rc = path_of(c, path, "queend.lock", e);
	if (rc != QN_OK) {
		return rc;
	}
	c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock_fd < 0) {
		return fail_errno(c, e, "cannot open", path);
	}
	if (flock(c->lock_fd, LOCK_EX | LOCK_NB) != 0) {
		return QN_ERR(c->pg->host, e, QN_CONFLICT, "data_dir %s is in use by another queend", c->base);
	}
	return QN_OK;
}

/* ---- the password ---------------------------------------------------------------------------------- */

static int load_password(struct qn_pg_cluster *c, const char *path, struct qn_error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		return fail_errno(c, e, "cannot read", path);
	}
	ssize_t n = read(fd, c->password, QN_PG_PASSWORD_CHARS);
	close(fd);
	if (n != QN_PG_PASSWORD_CHARS) {
		return QN_ERR(c->pg->host, e, QN_INVALID, "embedded PostgreSQL: %s is damaged", path);
	}
	return QN_OK;
}

static int make_password(struct qn_pg_cluster *c, const char *path, struct qn_error *e)
{
	uint8_t bytes[QN_PG_PASSWORD_CHARS / 2];
	c->pg->host->random(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		snprintf(c->password + 2 * i, 3, "%02x", bytes[i]);
	}
	explicit_bzero(bytes, sizeof(bytes));
	return write_file(c, path, c->password, e);
}

/* ---- initialisation -------------------------------------------------------------------------------- */

static int run_initdb(struct qn_pg_cluster *c, const char *dir, const char *password_file, struct qn_error *e)
{
	char program[PATH_MAX + 16];
	char pwfile[PATH_MAX + 16];
	snprintf(program, sizeof(program), "%s/initdb", c->bin);
	snprintf(pwfile, sizeof(pwfile), "--pwfile=%s", password_file);
	const char *const argv[] = {
		program, "-D", dir, "-U", "postgres", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256",
		pwfile,  NULL};
	const struct qn_pg_spawn s = {.argv = argv,
	                              .log_file = c->log_file,
	                              .switch_user = c->switch_user,
	                              .uid = c->uid,
	                              .gid = c->gid,
	                              .death_signal = SIGTERM};
	pid_t pid = qn_pg_spawn(&s);
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		return QN_ERR(c->pg->host, e, QN_INTERNAL, "embedded PostgreSQL: cannot run %s", program);
	}
	if (status != 0) {
		return QN_ERR(c->pg->host, e, QN_INTERNAL, "embedded PostgreSQL: initdb failed%s, see %s",
		              c->switch_user ? " (must user postgres be let into data_dir?)" : "", c->log_file);
	}
	return QN_OK;
}

static int initialise(struct qn_pg_cluster *c, struct qn_error *e)
{
	const struct qn_host *h = c->pg->host;
	char fresh[PATH_MAX];
	char password_file[PATH_MAX];
	char conf[PATH_MAX + 32];
	uint64_t from = h->mono_ms();
	int rc = path_of(c, fresh, "pg.new", e);
	if (rc == QN_OK) {
		rc = path_of(c, password_file, "pg.password", e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	QN_LOG(h, c->pg->mod, QN_INFO, "storage.initdb", QN_S("dir", c->data), QN_S("programs", c->bin));
	if (nftw(fresh, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
		return fail_errno(c, e, "cannot remove", fresh);
	}
	rc = make_dir(c, fresh, e);
	if (rc == QN_OK) {
		rc = make_password(c, password_file, e);
	}
	if (rc == QN_OK) {
		rc = run_initdb(c, fresh, password_file, e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	snprintf(conf, sizeof(conf), "%s/postgresql.conf", fresh);
	rc = write_file(c, conf, "include 'queend.conf'\ninclude_if_exists 'local.conf'\n", e);
	if (rc != QN_OK) {
		return rc;
	}
	if (rename(fresh, c->data) != 0) {
		return fail_errno(c, e, "cannot rename", fresh);
	}
	QN_LOG(h, c->pg->mod, QN_INFO, "storage.initdb_done", QN_U("took_ms", h->mono_ms() - from));
	return QN_OK;
}

static int first_line(const char *path, char *out, int size)
{
	FILE *f = fopen(path, "re");
	bool good = f != NULL && fgets(out, size, f) != NULL;
	if (f != NULL) {
		(void)fclose(f);
	}
	return good ? QN_OK : QN_MISSING;
}

/* "postgres (PostgreSQL) 15.4 ..." without a shell: the line goes through a file. */
static long program_version(struct qn_pg_cluster *c)
{
	char program[PATH_MAX + 16];
	char out[PATH_MAX + 16];
	char line[128];
	snprintf(program, sizeof(program), "%s/postgres", c->bin);
	snprintf(out, sizeof(out), "%s.version", c->log_file);
	const char *const argv[] = {program, "--version", NULL};
	const struct qn_pg_spawn s = {.argv = argv, .log_file = out};
	(void)unlink(out);
	pid_t pid = qn_pg_spawn(&s);
	bool good = pid > 0 && waitpid(pid, NULL, 0) == pid && first_line(out, line, sizeof(line)) == QN_OK;
	(void)unlink(out);
	const char *digits = good ? strpbrk(line, "0123456789") : NULL;
	return digits != NULL ? strtol(digits, NULL, 10) : 0;
}

static int check_version(struct qn_pg_cluster *c, struct qn_error *e)
{
	char path[PATH_MAX + 16];
	char line[32];
	snprintf(path, sizeof(path), "%s/PG_VERSION", c->data);
	if (first_line(path, line, sizeof(line)) != QN_OK) {
		return fail_errno(c, e, "cannot read", path);
	}
	long made_by = strtol(line, NULL, 10);
	long program = program_version(c);
	if (program == 0) {
		return QN_ERR(c->pg->host, e, QN_INVALID, "embedded PostgreSQL: %s/postgres does not run", c->bin);
	}
	if (program != made_by) {
		return QN_ERR(c->pg->host, e, QN_CONFLICT,
		              "embedded PostgreSQL: %s was made by version %ld, %s has version "
		              "%ld: set pg_bin_dir or run pg_upgrade",
		              c->data, made_by, c->bin, program);
	}
	return QN_OK;
}

/* ---- settings -------------------------------------------------------------------------------------- */

static long long shared_buffers_mib(const struct qn_pg_cluster *c)
{
	long long mib = c->pg->options->shared_buffers_bytes >> 20;
	if (mib == 0) {
		mib = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8 >> 20;
		mib = mib < 128 ? 128 : mib > 1024 ? 1024 : mib;
	}
	return mib;
}

static int write_settings(struct qn_pg_cluster *c, struct qn_error *e)
{
	const struct qn_pg_options *o = c->pg->options;
	char path[PATH_MAX + 16];
	char text[2048];
	long long clients = o->push_connections + o->claim_connections + o->settle_connections + o->query_connections +
	                    QN_PG_UPKEEP_CONNECTIONS;
	snprintf(path, sizeof(path), "%s/queend.conf", c->data);
	snprintf(text, sizeof(text),
	         "# Written at each start; put changes into local.conf.\n"
	         "listen_addresses = ''\nport = 5432\nunix_socket_permissions = 0700\n"
	         "max_connections = %lld\nshared_buffers = %lldMB\n"
	         "fsync = on\nsynchronous_commit = on\nfull_page_writes = on\nwal_compression = off\n"
	         "max_wal_size = 2GB\ncheckpoint_timeout = 15min\ncheckpoint_completion_target = 0.9\n"
	         "wal_level = replica\nautovacuum_naptime = 10s\nautovacuum_vacuum_cost_delay = 0\n"
	         "random_page_cost = 1.1\njit = off\nTimeZone = 'UTC'\nlog_timezone = 'UTC'\n"
	         "logging_collector = on\nlog_directory = 'log'\nlog_filename = 'postgresql-%%a.log'\n"
	         "log_truncate_on_rotation = on\nlog_rotation_age = 1d\nlog_rotation_size = 0\n"
	         "log_line_prefix = '%%m [%%p] '\n",
	         clients + 50 > 100 ? clients + 50 : 100, shared_buffers_mib(c));
	return write_file(c, path, text, e);
}

static int choose_socket_dir(struct qn_pg_cluster *c, struct qn_error *e)
{
	int rc = path_of(c, c->socket_dir, "pg-run", e);
	if (rc != QN_OK) {
		return rc;
	}
	if (strlen(c->socket_dir) <= SOCKET_DIR_MAX) {
		return make_dir(c, c->socket_dir, e);
	}
	snprintf(c->socket_dir, sizeof(c->socket_dir), "/tmp/queend-pg-XXXXXX");
	if (mkdtemp(c->socket_dir) == NULL) {
		return fail_errno(c, e, "cannot create", c->socket_dir);
	}
	c->socket_dir_is_temporary = true;
	return make_dir(c, c->socket_dir, e);
}

/* ---- public ---------------------------------------------------------------------------------------- */

static int open_cluster(struct qn_pg_cluster *c, struct qn_error *e)
{
	char password_file[PATH_MAX];
	int rc = path_of(c, c->data, "pg", e);
	if (rc == QN_OK) {
		rc = path_of(c, c->log_file, "pg.log", e);
	}
	if (rc == QN_OK) {
		rc = path_of(c, password_file, "pg.password", e);
	}
	if (rc == QN_OK) {
		rc = find_bin(c, e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	struct stat st;
	rc = stat(c->data, &st) == 0 ? load_password(c, password_file, e) : initialise(c, e);
	if (rc == QN_OK) {
		rc = check_version(c, e);
	}
	if (rc == QN_OK) {
		rc = write_settings(c, e);
	}
	return rc == QN_OK ? choose_socket_dir(c, e) : rc;
}

int qn_pg_cluster_open(struct qn_pg_cluster *c, struct qn_pg *pg, struct qn_error *e)
{
	memset(c, 0, sizeof(*c));
	c->pg = pg;
	c->lock_fd = -1;
	int rc = find_user(c, e);
	if (rc == QN_OK) {
		rc = lock_data_dir(c, e);
	}
	if (rc == QN_OK) {
		rc = open_cluster(c, e);
	}
	if (rc != QN_OK) {
		qn_pg_cluster_close(c);
	}
	return rc;
}

/* A postmaster that still lives ends cleanly; backends without one are told to leave, then made to. */
static bool end_leftovers(struct qn_pg_cluster *c, const char *pid_file)
{
	char line[32];
	pid_t master = first_line(pid_file, line, sizeof(line)) == QN_OK ? (pid_t)strtol(line, NULL, 10) : 0;
	if (qn_pg_is_server(master, c->data) && kill(master, SIGINT) == 0 &&
	    qn_pg_wait_processes(c->data, STOP_WAIT_MS)) {
		return true;
	}
	static const int signals[] = {0, SIGQUIT, SIGKILL};
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		(void)qn_pg_signal_processes(c->data, signals[i]);
		if (qn_pg_wait_processes(c->data, ORPHAN_WAIT_MS)) {
			return true;
		}
	}
	return false;
}

int qn_pg_cluster_clear(struct qn_pg_cluster *c, struct qn_error *e)
{
	const struct qn_host *h = c->pg->host;
	char path[PATH_MAX + 32];
	unsigned left = qn_pg_signal_processes(c->data, 0);
	snprintf(path, sizeof(path), "%s/postmaster.pid", c->data);
	if (left > 0) {
		QN_LOG(h, c->pg->mod, QN_WARN, "storage.leftovers", QN_U("processes", left), QN_S("dir", c->data));
		if (!end_leftovers(c, path)) {
			return QN_ERR(h, e, QN_CONFLICT, "embedded PostgreSQL: old processes on %s do not end",
			              c->data);
		}
	}
	/* Nothing runs here and we hold the lock: whatever these files say is past. */
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", c->socket_dir);
	(void)unlink(path);
	snprintf(path, sizeof(path), "%s/.s.PGSQL.5432.lock", c->socket_dir);
	(void)unlink(path);
	return QN_OK;
}

void qn_pg_cluster_close(struct qn_pg_cluster *c)
{
	explicit_bzero(c->password, sizeof(c->password));
	if (c->socket_dir_is_temporary) {
		(void)rmdir(c->socket_dir);
		c->socket_dir_is_temporary = false;
	}
	if (c->lock_fd >= 0) {
		close(c->lock_fd);
		c->lock_fd = -1;
	}
}
