/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queend: arguments, start, wait, drain, stop.
 *
 * Exit status: 0 after an orderly stop, 1 when something failed, 2 for a bad command line.
 */
#include "error.h"
#include "log.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *event, const struct qn_error *e)
{
	qn_log(QN_ERROR, event, QN_S("why", e->msg), QN_S("code", qn_code_name(e->code)));
	return 1;
}

static int run(struct qn_process *p)
{
	struct qn_error e = {0};

	if (qn_process_compose(p, &e) != QN_OK) {
		return fail("config.refused", &e);
	}
	qn_log_setup((enum qn_level)p->app.options.log_level, (enum qn_log_format)p->app.options.log_format,
	             STDERR_FILENO);
	qn_signals_install(p->app.options.log_format == QN_LOG_JSON);
	if (qn_process_start(p, &e) != QN_OK) {
		return qn_signals_stopping() ? 0 : fail("core.start_failed", &e);
	}
	if (qn_signals_wait(p, &e) != QN_OK) {
		qn_process_stop(p);
		return fail("core.start_failed", &e);
	}
	qn_process_drain(p);
	qn_process_stop(p);
	qn_log(QN_INFO, "core.stopped");
	return 0;
}

int main(int argc, char **argv)
{
	static struct qn_process process;
	struct qn_arguments args;
	const char **sets = calloc((size_t)argc + 1, sizeof(*sets));
	int status;

	QN_ASSERT(sets != NULL);
	status = qn_arguments_parse(argc, argv, sets, &args);
	if (status == 0) {
		process.args = &args;
		process.arena = qn_arena_create();
		status = args.action == QN_RUN ? run(&process) : qn_arguments_answer(&process);
		qn_arena_destroy(process.arena);
	}
	free((void *)sets);
	return status;
}
