/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A host for tests of storage_pg: one engine "thread" (the test's own, with a uv loop), an arena that
 * counts, a log on stderr that remembers event names. And a throw-away server to run against.
 */
#ifndef QN_PG_FAKE_HOST_H
#define QN_PG_FAKE_HOST_H

#include "supervise.h"

#include <libpq-fe.h>
#include <qn/abi.h>
#include <qn/storage.h>
#include <setjmp.h>
#include <stdarg.h>
#include <uv.h>

#include <cmocka.h>

extern const struct qn_host fake_host;

/** The one function the module exports; linked in here. */
const struct qn_module *qn_module_entry(void);

/** A fresh directory under /tmp that everybody may enter, as data_dir from now on. */
void fake_data_dir(char *out, size_t size);
void fake_set_data_dir(const char *path);
void fake_remove_dir(const char *path);
/** How often an event was logged since the last call of fake_log_reset(). */
unsigned fake_log_count(const char *event);
void fake_log_reset(void);
/** Arenas not destroyed. */
int fake_arenas(void);
/** The module's option defaults. */
struct qn_pg_options fake_options(void);

/** The module, loaded, started and running on a loop. */
struct fake_broker {
	const struct qn_module *module;
	void *self, *tself;
	const struct qn_storage_vt *vt;
	struct qn_pg_options options;
	uv_loop_t loop;
	uv_timer_t alarm;
	bool timed_out;
};

/** load, start and thread_start; e says why it did not. */
int fake_broker_start(struct fake_broker *b, const struct qn_pg_options *o, struct qn_error *e) QN_MUST;
/** thread_stop, the loop run dry, stop, unload; asserts that nothing is left. */
void fake_broker_stop(struct fake_broker *b);

/** One op with its outcome: initialise, start it, then fake_wait(). */
struct fake_wait {
	bool done;
	struct qn_error error; /* zeroed on success */
};

/** Prepares op; 0 = no deadline. */
void fake_op(struct fake_broker *b, struct qn_op *op, struct fake_wait *w, uint64_t deadline_in_ms);
/** Runs the loop until w is done; asserts that this happens within 60 s. */
void fake_wait(struct fake_broker *b, const struct fake_wait *w);
void fake_op_free(struct qn_op *op);
/** A ping from start to end; the code. */
int fake_ping(struct fake_broker *b, struct qn_error *e);
/** Pings until one succeeds, at most 60 s. */
void fake_ping_until_up(struct fake_broker *b);

/** A server of its own in a directory of its own. */
struct fake_server {
	char dir[128];
	char dsn[PATH_MAX + 256];
	struct qn_pg pg;
};

void fake_server_start(struct fake_server *s);
void fake_server_stop(struct fake_server *s);
/** A superuser's session. */
PGconn *fake_server_connect(const struct fake_server *s);
/** Runs a statement that must succeed; returns the first value (in a static buffer), "" when none. */
const char *fake_sql(PGconn *c, const char *text);
pid_t fake_postmaster(const char *dir);

#endif
