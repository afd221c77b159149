/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The embedded server's files: where it lives, its one-time initialisation and its settings.
 * Blocking; main thread, inside start() and stop().
 */
#ifndef QN_PG_CLUSTER_H
#define QN_PG_CLUSTER_H

#include "module.h"

#include <limits.h>
#include <sys/types.h>

#define QN_PG_PASSWORD_CHARS 48

struct qn_pg_cluster {
	struct qn_pg *pg;
	int lock_fd;             /* flock on <data_dir>/queend.lock; -1 when not held */
	char bin[PATH_MAX];      /* directory of initdb and postgres */
	char base[PATH_MAX];     /* data_dir, resolved */
	char data[PATH_MAX];     /* base/pg */
	char log_file[PATH_MAX]; /* base/pg.log: what the server says before its own log opens */
	char socket_dir[PATH_MAX];
	bool socket_dir_is_temporary;
	bool switch_user; /* we are root: the server is `uid` */
	uid_t uid;
	gid_t gid;
	char password[QN_PG_PASSWORD_CHARS + 1];
};

/** Locks the data directory, finds the programs, initialises the cluster when there is none, writes the settings. */
int qn_pg_cluster_open(struct qn_pg_cluster *c, struct qn_pg *pg, struct qn_error *e) QN_MUST;
/** Ends what a crash left running on this data directory and removes its lock files. */
int qn_pg_cluster_clear(struct qn_pg_cluster *c, struct qn_error *e) QN_MUST;
/** Gives up the lock and forgets the password; accepts a half-opened one. */
void qn_pg_cluster_close(struct qn_pg_cluster *c);

#endif
