/* SPDX-License-Identifier: Apache-2.0 */
/** The process: from a parsed command line to its exit status. Everything here runs on the main thread. */
#ifndef QN_CORE_PROCESS_H
#define QN_CORE_PROCESS_H

#include "module.h"

/** What the command line said. */
struct qn_arguments {
	enum { QN_RUN, QN_CHECK_CONFIG, QN_DUMP_CONFIG, QN_LIST_OPTIONS, QN_VERSION_ONLY, QN_HELP } action;
	const char *config; /* NULL: the first of the usual places that exists */
	const char *const *sets;
	size_t set_count;
};

struct qn_process {
	const struct qn_arguments *args;
	struct qn_arena *arena;
	struct qn_conf conf;
	struct qn_composition modules;
	struct qn_app app;
	struct qn_thread *io[QN_IO_THREADS_MAX];
	size_t io_count, io_wanted;
	bool broker_runs;
};

/* cli.c */
/** 0, or the exit status after a message on stderr. sets: room for argc texts. */
int qn_arguments_parse(int argc, char **argv, const char **sets, struct qn_arguments *out);
/** --version, --help, --check-config, --dump-config, --list-options. Returns the exit status. */
int qn_arguments_answer(struct qn_process *p);

/* configure.c */
/** Reads every source into an empty conf, whose arena becomes p's, and the [core] options. */
int qn_process_read(const struct qn_process *p, struct qn_conf *conf, struct qn_core_options *core,
                    struct qn_error *e) QN_MUST;
/** Configures, loads, validates and resolves; starts nothing. */
int qn_process_compose(struct qn_process *p, struct qn_error *e) QN_MUST;

/* startup.c */
/** Starts everything, in order. On failure all that was done is undone. */
int qn_process_start(struct qn_process *p, struct qn_error *e) QN_MUST;
/** Undoes whatever was reached, in reverse, and unloads. */
void qn_process_stop(struct qn_process *p);

/* drain.c */
/** Takes no new work and waits for what is under way, at most drain_timeout. */
void qn_process_drain(struct qn_process *p);

/* reload.c */
/** SIGHUP: validates everything, then applies what may change while running. */
void qn_process_reload(struct qn_process *p);

/* signals.c */
/** Installs the handlers. The second SIGTERM or SIGINT ends the process at once. */
void qn_signals_install(bool json);
/** True after the first SIGTERM or SIGINT. */
bool qn_signals_stopping(void);
/** Serves SIGHUP until a stop is asked for. */
int qn_signals_wait(struct qn_process *p, struct qn_error *e) QN_MUST;

#endif
