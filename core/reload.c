/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: read everything anew, validate everything, then change what may change.
 *
 * Nothing is applied unless all of it is valid. Rows without the reload mark keep their old value
 * and are named in the log; so is a section whose module changed. A module gets a whole new struct;
 * the old one stays, since it may still be reading it.
 */
#include "error.h"
#include "log.h"
#include "options.h"
#include "process.h"

#include <string.h>

static size_t copy_size(const struct qn_option *o)
{
	switch ((enum qn_option_type)o->type) {
	case QN_OPT_BOOL:
		return sizeof(bool);
	case QN_OPT_ENUM:
		return sizeof(int);
	case QN_OPT_STR:
	case QN_OPT_SECRET:
		return sizeof(const char *);
	case QN_OPT_INT:
	case QN_OPT_FLOAT:
	case QN_OPT_DURATION:
	case QN_OPT_BYTES:
		break;
	}
	return sizeof(int64_t);
}

/* Takes back what may not change; true when something that may has. */
static bool keep_fixed(const struct qn_table *t, const void *old, void *fresh, bool can_reload)
{
	bool changed = false;

	for (const struct qn_option *o = t->rows; o != NULL && o->name != NULL; o++) {
		if (qn_option_same(o, old, fresh)) {
			continue;
		}
		if ((o->flags & QN_OPT_RELOAD) != 0 && can_reload) {
			changed = true;
			continue;
		}
		memcpy((char *)fresh + o->offset, (const char *)old + o->offset, copy_size(o));
		qn_log(QN_WARN, "config.needs_restart", QN_S("section", t->section), QN_S("option", o->name));
	}
	return changed;
}

static void warn_sections(const struct qn_process *p, const struct qn_conf *conf)
{
	for (size_t i = 0; i < p->modules.count; i++) {
		const char *section = p->modules.mods[i]->section;

		if (strcmp(qn_compose_use(conf, section), qn_compose_use(&p->conf, section)) != 0) {
			qn_log(QN_WARN, "config.needs_restart", QN_S("section", section), QN_S("option", "use"));
		}
	}
	for (const struct qn_conf_section *s = conf->sections; s != NULL; s = s->next) {
		bool known = strncmp(s->name, "plugin ", 7) != 0;

		for (size_t i = 0; i < p->modules.count; i++) {
			known = known || strcmp(p->modules.mods[i]->section, s->name) == 0;
		}
		if (!known) {
			qn_log(QN_WARN, "config.needs_restart", QN_S("section", s->name), QN_S("option", "use"));
		}
	}
}

static void apply_module(struct qn_mod *m, void *fresh)
{
	struct qn_table table = qn_mod_table(m);
	struct qn_error e = {0};

	if (!keep_fixed(&table, m->options, fresh, m->d.reload != NULL)) {
		return;
	}
	if (m->d.reload(m->self, fresh, &e) != QN_OK) {
		qn_log(QN_ERROR, "config.reload_failed", QN_S("name", m->d.name), QN_S("why", e.msg));
		return;
	}
	m->options = fresh;
}

static int read_all(struct qn_process *p, struct qn_conf *conf, void **fresh, struct qn_error *e)
{
	struct qn_core_options *core = qn_arena_zalloc(p->arena, sizeof(*core));
	int rc = qn_process_read(p, conf, core, e);

	for (size_t i = 0; rc == QN_OK && i < p->modules.count; i++) {
		struct qn_table table = qn_mod_table(p->modules.mods[i]);

		fresh[i] = qn_arena_zalloc(p->arena, table.size + 1);
		rc = qn_table_fill(&table, conf, fresh[i], e);
	}
	fresh[p->modules.count] = core;
	return rc;
}

void qn_process_reload(struct qn_process *p)
{
	void *fresh[QN_MODULES_MAX + 1];
	struct qn_conf *conf = qn_arena_zalloc(p->arena, sizeof(*conf));
	const struct qn_core_options *core;
	struct qn_error e = {0};

	if (read_all(p, conf, fresh, &e) != QN_OK) {
		qn_log(QN_ERROR, "config.reload_refused", QN_S("why", e.msg));
		return;
	}
	warn_sections(p, conf);
	for (size_t i = 0; i < p->modules.count; i++) {
		apply_module(p->modules.mods[i], fresh[i]);
	}
	core = fresh[p->modules.count];
	/* Threads read the core's options: only what the log holds in its own atomics may change. */
	(void)keep_fixed(&qn_core_table, &p->app.options, fresh[p->modules.count], true);
	qn_log_setup((enum qn_level)core->log_level, (enum qn_log_format)core->log_format, 2);
	qn_log(QN_INFO, "config.reloaded");
}
