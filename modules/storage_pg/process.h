/* SPDX-License-Identifier: Apache-2.0 */
/** Child processes of the embedded server: starting them, and finding those a crash left behind. */
#ifndef QN_PG_PROCESS_H
#define QN_PG_PROCESS_H

#include <qn/base.h>
#include <qn/host.h>

#include <sys/types.h>

struct qn_pg_spawn {
	const char *const *argv; /* argv[0] is the path of the program */
	const char *log_file;    /* stdout and stderr are appended to it */
	bool switch_user;        /* run as uid and gid */
	uid_t uid;
	gid_t gid;
	int death_signal; /* sent when the calling THREAD ends; 0: none */
};

/** Starts a program in a session of its own, with no descriptor but the log. The pid, or -errno. Any thread. */
pid_t qn_pg_spawn(const struct qn_pg_spawn *s);
/** True for a PostgreSQL process whose working directory is dir. */
bool qn_pg_is_server(pid_t pid, const char *dir);
/** Signals every PostgreSQL process whose working directory is dir (sig 0: none); returns how many there are. */
unsigned qn_pg_signal_processes(const char *dir, int sig);
/** Waits until none is left or wait_ms is over; true when none is. Blocks. */
bool qn_pg_wait_processes(const char *dir, unsigned wait_ms);
void qn_pg_sleep_ms(unsigned ms);

#endif
