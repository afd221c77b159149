/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the sources of configuration to a composition that could start.
 *
 * The file is the one the command line names, else ./module.conf, else the installed one, else none:
 * the built-in defaults are what the shipped file says. Reading has no side effects, so that a
 * reload can read everything anew and compare.
 */
#include "error.h"
#include "options.h"
#include "process.h"

#include <string.h>
#include <unistd.h>

int qn_process_read(const struct qn_process *p, struct qn_conf *conf, struct qn_core_options *core, struct qn_error *e)
{
	static const char *const usual[] = {"module.conf", QN_CONF_DIR "/module.conf", NULL};
	const char *file = p->args->config;
	int rc = QN_OK;

	conf->arena = p->arena;
	for (size_t i = 0; file == NULL && usual[i] != NULL; i++) {
		file = access(usual[i], F_OK) == 0 ? usual[i] : NULL;
	}
	if (file != NULL) {
		rc = qn_conf_load(conf, file, e);
	}
	if (rc == QN_OK) {
		rc = qn_core_imply(conf, e);
	}
	for (size_t i = 0; rc == QN_OK && i < p->args->set_count; i++) {
		rc = qn_conf_set(conf, p->args->sets[i], e);
	}
	return rc == QN_OK ? qn_table_fill(&qn_core_table, conf, core, e) : rc;
}

static int configure(struct qn_process *p, struct qn_error *e)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int rc = qn_process_read(p, &p->conf, &p->app.options, e);

	if (rc != QN_OK) {
		return rc;
	}
	p->io_wanted = (size_t)p->app.options.io_threads;
	if (p->io_wanted == 0) {
		p->io_wanted = cores < 1 ? 1 : cores > 4 ? 4 : (size_t)cores;
	}
	return QN_OK;
}

int qn_process_compose(struct qn_process *p, struct qn_error *e)
{
	int rc = configure(p, e);

	if (rc != QN_OK) {
		return rc;
	}
	p->modules.arena = p->arena;
	rc = qn_compose_load(&p->modules, &p->conf, qn_module_dir(p->app.options.module_dir, p->arena), e);
	if (rc == QN_OK) {
		rc = qn_compose_options(&p->modules, &p->conf, e);
	}
	if (rc == QN_OK) {
		rc = qn_compose_resolve(&p->modules, &p->app, e);
	}
	if (rc != QN_OK) {
		qn_compose_unload(&p->modules);
	}
	return rc;
}
