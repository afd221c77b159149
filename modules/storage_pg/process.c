/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork/exec and /proc.
 *
 * Between fork and exec only async-signal-safe calls are made: other threads exist. Every process of
 * a PostgreSQL server has the data directory as its working directory, which is how leftovers are
 * found: by a name that only ours can have, never by a process id alone, since ids are reused. What
 * to do with them is decided elsewhere.
 */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void reset_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int sig = 1; sig < 32; sig++) {
		signal(sig, SIG_DFL);
	}
}

static _Noreturn void run_child(const struct qn_pg_spawn *s, int log_fd, pid_t parent)
{
	reset_signals();
	setsid();
	int null_fd = open("/dev/null", O_RDONLY);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0) {
		_exit(126);
	}
	(void)close_range(3, ~0U, 0);
	if (s->switch_user && (setgroups(1, &s->gid) != 0 || setgid(s->gid) != 0 || setuid(s->uid) != 0)) {
		_exit(126);
	}
	/* After setuid, which clears it. The parent may be gone already. */
	if (s->death_signal != 0 && (prctl(PR_SET_PDEATHSIG, s->death_signal) != 0 || getppid() != parent)) {
		_exit(126);
	}
	execv(s->argv[0], (char *const *)s->argv);
	_exit(127);
}

pid_t qn_pg_spawn(const struct qn_pg_spawn *s)
{
	int log_fd = open(s->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0) {
		return -errno;
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_child(s, log_fd, parent);
	}
	int failed = errno;
	close(log_fd);
	return pid > 0 ? pid : -failed;
}

bool qn_pg_is_server(pid_t pid, const char *dir)
{
	char path[64];
	char at[PATH_MAX];
	char name[32];
	if (pid <= 0) {
		return false;
	}
	snprintf(path, sizeof(path), "/proc/%ld/cwd", (long)pid);
	ssize_t n = readlink(path, at, sizeof(at) - 1);
	if (n <= 0) {
		return false;
	}
	at[n] = '\0';
	if (strcmp(at, dir) != 0) {
		return false;
	}
	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	FILE *f = fopen(path, "re");
	bool ours = f != NULL && fgets(name, sizeof(name), f) != NULL && strncmp(name, "postgres", 8) == 0;
	if (f != NULL) {
		(void)fclose(f);
	}
	return ours;
}

unsigned qn_pg_signal_processes(const char *dir, int sig)
{
	unsigned count = 0;
	DIR *d = opendir("/proc");
	const struct dirent *entry;
	while (d != NULL && (entry = readdir(d)) != NULL) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (!qn_pg_is_server(pid, dir)) {
			continue;
		}
		count++;
		if (sig != 0) {
			(void)kill(pid, sig);
		}
	}
	if (d != NULL) {
		closedir(d);
	}
	return count;
}

bool qn_pg_wait_processes(const char *dir, unsigned wait_ms)
{
	for (unsigned waited = 0; qn_pg_signal_processes(dir, 0) > 0; waited += 50) {
		if (waited >= wait_ms) {
			return false;
		}
		qn_pg_sleep_ms(50);
	}
	return true;
}

void qn_pg_sleep_ms(unsigned ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}
