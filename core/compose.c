/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition: which module fills which section, who provides what, in which order they start.
 *
 * Load order is kinds first, in their fixed order, then plugins as they stand in module.conf. Start
 * order is a depth-first walk over needs in load order, so that it is the same on every run. Each
 * kind has exactly one provider; the six kinds are obligatory, others exist when a plugin brings them.
 */
#include "error.h"
#include "module.h"

#include <stdio.h>
#include <string.h>

#define PLUGIN "plugin "

static const char *const shipped[] = {"storage_pg",       "hotlist_scan",      "dedup_cache",
                                      "retention_prefix", "encryption_aesgcm", "http_h2o"};

/* What the core asks of the six vtables; a smaller one misses members the core calls. */
static const struct {
	const char *kind;
	uint16_t major;
	size_t size;
} wanted[] = {
	{"storage", QN_STORAGE_MAJOR, sizeof(struct qn_storage_vt)},
	{"hotlist", QN_HOTLIST_MAJOR, sizeof(struct qn_hotlist_vt)},
	{"dedup", QN_DEDUP_MAJOR, sizeof(struct qn_dedup_vt)},
	{"retention", QN_RETENTION_MAJOR, sizeof(struct qn_retention_vt)},
	{"encryption", QN_ENCRYPTION_MAJOR, sizeof(struct qn_encryption_vt)},
	{"http", QN_HTTP_MAJOR, sizeof(struct qn_http_vt)},
};

static struct qn_provided *provider_find(struct qn_composition *c, const char *kind)
{
	for (size_t i = 0; i < c->provided_count; i++) {
		if (strcmp(c->provided[i].kind, kind) == 0) {
			return &c->provided[i];
		}
	}
	return NULL;
}

static int check_vtable(const struct qn_mod *m, const char *kind, const struct qn_iface *vt, struct qn_error *e)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (strcmp(wanted[i].kind, kind) != 0) {
			continue;
		}
		if (vt->major != wanted[i].major) {
			return QN_FAIL(e, QN_ABI, "%s provides %s with major %u, expected %u", m->d.name, kind,
			               vt->major, wanted[i].major);
		}
		if (vt->size < wanted[i].size) {
			return QN_FAIL(e, QN_ABI, "%s provides %s with a table of %u bytes, expected at least %zu",
			               m->d.name, kind, vt->size, wanted[i].size);
		}
	}
	return QN_OK;
}

int qn_compose_provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e)
{
	struct qn_composition *c = m->all;
	const struct qn_provided *old = provider_find(c, kind);
	int rc;

	if (c->loading != m) {
		return QN_FAIL(e, QN_INVALID, "%s provides %s outside of load", m->d.name, kind);
	}
	if (old != NULL) {
		return QN_FAIL(e, QN_CONFLICT, "%s is provided twice: by %s and by %s", kind, old->mod->d.name,
		               m->d.name);
	}
	if (s.vt == NULL || c->provided_count == QN_SERVICES_MAX) {
		return QN_FAIL(e, QN_INVALID, "%s provides %s without a table, or too many kinds", m->d.name, kind);
	}
	rc = check_vtable(m, kind, s.vt, e);
	if (rc == QN_OK) {
		c->provided[c->provided_count++] = (struct qn_provided){kind, m, s};
	}
	return rc;
}

int qn_compose_require(struct qn_mod *m, const char *kind, uint16_t major, struct qn_service *out, struct qn_error *e)
{
	const struct qn_provided *p = provider_find(m->all, kind);
	bool declared = false;

	for (const char *const *need = m->d.needs; need != NULL && *need != NULL; need++) {
		declared = declared || strcmp(*need, kind) == 0;
	}
	if (!m->all->is_resolved) {
		return QN_FAIL(e, QN_INVALID, "%s requires %s before start", m->d.name, kind);
	}
	if (!declared || p == NULL) {
		return QN_FAIL(e, QN_MISSING, "%s requires %s without naming it in its needs", m->d.name, kind);
	}
	if (p->service.vt->major != major) {
		return QN_FAIL(e, QN_ABI, "%s requires %s with major %u, %s has %u", m->d.name, kind, major,
		               p->mod->d.name, p->service.vt->major);
	}
	*out = p->service;
	return QN_OK;
}

const char *qn_compose_use(const struct qn_conf *conf, const char *section)
{
	const struct qn_conf_entry *entry = qn_conf_find(conf, section, "use", QN_CONF_FILE);

	if (entry != NULL) {
		return entry->value;
	}
	for (size_t i = 0; qn_conf_kinds[i] != NULL; i++) {
		if (strcmp(qn_conf_kinds[i], section) == 0) {
			return shipped[i];
		}
	}
	return section + sizeof(PLUGIN) - 1;
}

static bool is_plugin(const char *section)
{
	return strncmp(section, PLUGIN, sizeof(PLUGIN) - 1) == 0;
}

static void want_of(const struct qn_conf *conf, const char *module_dir, const char *section, struct qn_module_want *out)
{
	const char *use = qn_compose_use(conf, section);
	char *path;
	size_t n;

	out->kind = is_plugin(section) ? "plugin" : section;
	if (strchr(use, '/') != NULL) {
		out->path = use;
		out->name = NULL;
		return;
	}
	n = strlen(module_dir) + strlen(use) + sizeof("/.so");
	path = qn_arena_alloc(conf->arena, n);
	(void)snprintf(path, n, "%s/%s.so", module_dir, use);
	out->path = path;
	out->name = use;
}

/* Adds where the section's `use` was written, when it was. */
static int prefix_use(const struct qn_conf *conf, const char *section, int rc, struct qn_error *e)
{
	const struct qn_conf_entry *entry = qn_conf_find(conf, section, "use", QN_CONF_FILE);

	if (entry != NULL && entry->line > 0) {
		qn_error_prefix(e, "%s:%d", entry->origin, entry->line);
	} else {
		qn_error_prefix(e, "[%s]", section);
	}
	return rc;
}

static int load_one(struct qn_composition *c, const struct qn_conf *conf, const struct qn_module_want *want,
                    const char *section, struct qn_error *e)
{
	struct qn_mod *m = qn_arena_zalloc(c->arena, sizeof(*m));
	struct qn_table table;
	int rc;

	if (c->count == QN_MODULES_MAX) {
		return QN_FAIL(e, QN_LIMIT, "more than %d modules", QN_MODULES_MAX);
	}
	rc = qn_module_open(want, &m->d, e);
	if (rc != QN_OK) {
		return prefix_use(conf, section, rc, e);
	}
	m->all = c;
	m->section = section;
	m->path = want->path;
	table = qn_mod_table(m);
	rc = qn_table_check(&table, e);
	if (rc == QN_OK) {
		c->loading = m;
		rc = m->d.load(m, &qn_host, &m->self, e);
		c->loading = NULL;
		if (rc != QN_OK) {
			(void)QN_FAIL(e, rc, "no reason given");
			qn_error_prefix(e, "%s: load", m->d.name);
		}
	}
	/* What it registered goes with it. */
	for (size_t i = c->provided_count; rc != QN_OK && i > 0; i--) {
		if (c->provided[i - 1].mod == m) {
			c->provided[i - 1] = c->provided[--c->provided_count];
		}
	}
	if (rc == QN_OK) {
		m->is_loaded = true;
		c->mods[c->count++] = m;
	}
	return rc;
}

int qn_compose_load(struct qn_composition *c, const struct qn_conf *conf, const char *module_dir, struct qn_error *e)
{
	const struct qn_conf_section *s = conf->sections;
	struct qn_module_want want;
	int rc = QN_OK;

	for (size_t i = 0; rc == QN_OK && qn_conf_kinds[i] != NULL; i++) {
		want_of(conf, module_dir, qn_conf_kinds[i], &want);
		rc = load_one(c, conf, &want, qn_conf_kinds[i], e);
	}
	for (; rc == QN_OK && s != NULL; s = s->next) {
		if (is_plugin(s->name)) {
			want_of(conf, module_dir, s->name, &want);
			rc = load_one(c, conf, &want, s->name, e);
		}
	}
	if (rc != QN_OK) {
		qn_compose_unload(c);
	}
	return rc;
}

struct qn_table qn_mod_table(const struct qn_mod *m)
{
	return (struct qn_table){m->section, m->d.name, m->d.options, m->d.options_size};
}

int qn_compose_options(struct qn_composition *c, const struct qn_conf *conf, struct qn_error *e)
{
	for (size_t i = 0; i < c->count; i++) {
		struct qn_table table = qn_mod_table(c->mods[i]);
		int rc;

		c->mods[i]->options = qn_arena_zalloc(c->arena, table.size + 1);
		rc = qn_table_fill(&table, conf, c->mods[i]->options, e);
		if (rc != QN_OK) {
			return rc;
		}
	}
	return QN_OK;
}

/* One step of the walk from the module that asked first, for the chain in messages. */
struct step {
	const struct step *before;
	struct qn_mod *mod;
	const char *need;
};

/* "a needs x, b needs y" from the step at which `from` stands, or from the beginning. */
static void print_chain(const struct step *step, const struct qn_mod *from, char *out, size_t size)
{
	size_t n;

	if (step->before != NULL && step->mod != from) {
		print_chain(step->before, from, out, size);
	}
	n = strlen(out);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every step has its module */
	(void)snprintf(out + n, size - n, "%s%s needs %s", n > 0 ? ", " : "", step->mod->d.name, step->need);
}

static int visit(struct qn_composition *c, struct qn_mod *m, size_t *placed, const struct step *before,
                 struct qn_error *e)
{
	struct step step = {.before = before, .mod = m};
	char chain[200] = "";
	int rc = QN_OK;

	if (m->mark == 2) {
		return QN_OK;
	}
	if (m->mark == 1) {
		/* Under way means that a step before this one is at it. */
		QN_ASSERT(before != NULL);
		print_chain(before, m, chain, sizeof(chain));
		return QN_FAIL(e, QN_CONFLICT, "circular need: %s", chain);
	}
	m->mark = 1;
	for (const char *const *need = m->d.needs; rc == QN_OK && need != NULL && *need != NULL; need++) {
		const struct qn_provided *p = provider_find(c, *need);

		step.need = *need;
		if (p == NULL) {
			print_chain(&step, NULL, chain, sizeof(chain));
			return QN_FAIL(e, QN_MISSING, "unmet need: %s, which nothing provides", chain);
		}
		rc = visit(c, p->mod, placed, &step, e);
	}
	m->mark = 2;
	c->order[(*placed)++] = m;
	return rc;
}

int qn_compose_resolve(struct qn_composition *c, struct qn_app *app, struct qn_error *e)
{
	size_t placed = 0;
	struct qn_service s[6] = {0};
	int rc = QN_OK;

	for (size_t i = 0; i < c->count && rc == QN_OK; i++) {
		rc = visit(c, c->mods[i], &placed, NULL, e);
	}
	if (rc != QN_OK) {
		return rc;
	}
	for (size_t i = 0; qn_conf_kinds[i] != NULL; i++) {
		const struct qn_provided *p = provider_find(c, qn_conf_kinds[i]);

		if (p == NULL) {
			return QN_FAIL(e, QN_MISSING, "nothing provides %s", qn_conf_kinds[i]);
		}
		s[i] = p->service;
	}
	app->storage.vt = (const struct qn_storage_vt *)(const void *)s[0].vt;
	app->storage.self = s[0].self;
	app->hotlist.vt = (const struct qn_hotlist_vt *)(const void *)s[1].vt;
	app->hotlist.self = s[1].self;
	app->dedup.vt = (const struct qn_dedup_vt *)(const void *)s[2].vt;
	app->dedup.self = s[2].self;
	app->retention.vt = (const struct qn_retention_vt *)(const void *)s[3].vt;
	app->retention.self = s[3].self;
	app->encryption.vt = (const struct qn_encryption_vt *)(const void *)s[4].vt;
	app->encryption.self = s[4].self;
	app->http.vt = (const struct qn_http_vt *)(const void *)s[5].vt;
	app->http.self = s[5].self;
	c->is_resolved = true;
	return QN_OK;
}

void qn_compose_unload(struct qn_composition *c)
{
	while (c->count > 0) {
		struct qn_mod *m = c->mods[--c->count];

		if (m->d.unload != NULL) {
			m->d.unload(m->self);
		}
		m->is_loaded = false;
	}
	c->provided_count = 0;
}
