/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of module.conf and of --set.
 *
 * Grammar, line by line: blank; `# comment`; `[section]` or `[plugin NAME]`; `key = value`, where
 * value is the rest of the line without surrounding space, or a text in double quotes with \" and
 * \\ as its escapes. A `#` behind white space ends an unquoted value. Nothing continues over a line.
 * Keys are checked against the option tables elsewhere; here only their spelling is.
 */
#include "conf.h"

#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES (1024 * 1024)
#define PLUGIN         "plugin "

const char *const qn_conf_kinds[] = {"storage", "hotlist", "dedup", "retention", "encryption", "http", NULL};

/* The place an entry is being read from. */
struct place {
	struct qn_conf *c;
	const char *origin;
	int line;
	const char *section;
	struct qn_error *e;
};

#define REFUSE(at, ...) (QN_FAIL((at)->e, QN_INVALID, __VA_ARGS__), place_prefix(at))

static int place_prefix(const struct place *at)
{
	if (at->line > 0) {
		qn_error_prefix(at->e, "%s:%d", at->origin, at->line);
	} else {
		qn_error_prefix(at->e, "%s", at->origin);
	}
	return QN_INVALID;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool is_name(const char *s)
{
	if (*s == '\0') {
		return false;
	}
	for (; *s != '\0'; s++) {
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' ||
		      *s == '-')) {
			return false;
		}
	}
	return true;
}

static char *copy_trimmed(struct qn_arena *a, const char *p, size_t n)
{
	while (n > 0 && is_space(p[0])) {
		p++;
		n--;
	}
	while (n > 0 && is_space(p[n - 1])) {
		n--;
	}
	return (char *)(uintptr_t)qn_arena_dup(a, (struct qn_span){p, n}).p;
}

static size_t distance(const char *a, const char *b)
{
	size_t row[65], n = strlen(a), m = strlen(b);

	if (n > 64 || m > 64) {
		return 64;
	}
	for (size_t j = 0; j <= m; j++) {
		row[j] = j;
	}
	for (size_t i = 1; i <= n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t best = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);

			best = row[j] + 1 < best ? row[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[m];
}

const char *qn_conf_nearest(const char *name, const char *const *candidates)
{
	const char *best = NULL;
	size_t best_distance = strlen(name) / 3 + 2;

	for (; *candidates != NULL; candidates++) {
		size_t d = distance(name, *candidates);

		if (d < best_distance) {
			best = *candidates;
			best_distance = d;
		}
	}
	return best;
}

/* False when the name is none; a good one is returned in its canonical spelling. */
static const char *section_name(struct place *at, char *name)
{
	const char *candidates[16] = {"core"};
	const char *near;
	size_t n = 1;

	for (size_t i = 0; qn_conf_kinds[i] != NULL; i++) {
		candidates[n++] = qn_conf_kinds[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(candidates[i], name) == 0) {
			return candidates[i];
		}
	}
	if (strncmp(name, PLUGIN, sizeof(PLUGIN) - 1) == 0) {
		char *plugin = copy_trimmed(at->c->arena, name + sizeof(PLUGIN) - 1, strlen(name) - sizeof(PLUGIN) + 1);
		size_t size = strlen(plugin) + sizeof(PLUGIN);
		char *whole = qn_arena_alloc(at->c->arena, size);

		if (!is_name(plugin)) {
			(void)REFUSE(at, "\"%s\" is not a plugin name", plugin);
			return NULL;
		}
		(void)snprintf(whole, size, PLUGIN "%s", plugin);
		return whole;
	}
	candidates[n] = "plugin NAME";
	near = qn_conf_nearest(name, candidates);
	if (near != NULL) {
		(void)REFUSE(at, "unknown section [%s], did you mean [%s]?", name, near);
	} else {
		(void)REFUSE(at, "unknown section [%s]", name);
	}
	return NULL;
}

static struct qn_conf_section *section_find(const struct qn_conf *c, const char *name)
{
	for (struct qn_conf_section *s = c->sections; s != NULL; s = s->next) {
		if (strcmp(s->name, name) == 0) {
			return s;
		}
	}
	return NULL;
}

static void section_add(struct place *at, const char *name)
{
	struct qn_conf_section *s = qn_arena_zalloc(at->c->arena, sizeof(*s)), **end = &at->c->sections;

	s->name = name;
	s->origin = at->origin;
	s->line = at->line;
	while (*end != NULL) {
		end = &(*end)->next;
	}
	*end = s;
}

static void cut_comment(char *value)
{
	for (char *p = value; *p != '\0'; p++) {
		if (*p == '#' && (p == value || is_space(p[-1]))) {
			*p = '\0';
			break;
		}
	}
	for (size_t n = strlen(value); n > 0 && is_space(value[n - 1]); n--) {
		value[n - 1] = '\0';
	}
}

static int section_open(struct place *at, char *line)
{
	const struct qn_conf_section *old;
	size_t n;

	cut_comment(line);
	n = strlen(line);

	if (line[n - 1] != ']') {
		return REFUSE(at, "a section ends with ]");
	}
	at->section = section_name(at, copy_trimmed(at->c->arena, line + 1, n - 2));
	if (at->section == NULL) {
		return QN_INVALID;
	}
	old = section_find(at->c, at->section);
	if (old != NULL) {
		return REFUSE(at, "section [%s] is there already, at %s:%d", at->section, old->origin, old->line);
	}
	section_add(at, at->section);
	return QN_OK;
}

static int unquote(struct place *at, char *value)
{
	char *to = value, *from = value + 1;

	while (*from != '"') {
		if (*from == '\\' && (from[1] == '"' || from[1] == '\\')) {
			from++;
		}
		if (*from == '\0') {
			return REFUSE(at, "a quoted value ends with \"");
		}
		*to++ = *from++;
	}
	*to = '\0';
	for (from++; is_space(*from); from++) {
	}
	if (*from != '\0' && *from != '#') {
		return REFUSE(at, "text behind a quoted value");
	}
	return QN_OK;
}

static void entry_add(struct place *at, enum qn_conf_rank rank, const char *key, const char *value)
{
	struct qn_conf_entry *entry = qn_arena_zalloc(at->c->arena, sizeof(*entry)), **end = &at->c->entries;

	entry->rank = rank;
	entry->section = at->section;
	entry->key = key;
	entry->value = value;
	entry->origin = at->origin;
	entry->line = at->line;
	while (*end != NULL) {
		end = &(*end)->next;
	}
	*end = entry;
}

static int entry_read(struct place *at, const char *line)
{
	const char *equals = strchr(line, '=');
	const struct qn_conf_entry *old;
	char *key, *value;
	int rc;

	if (equals == NULL) {
		return REFUSE(at, "neither [section] nor key = value");
	}
	key = copy_trimmed(at->c->arena, line, (size_t)(equals - line));
	value = copy_trimmed(at->c->arena, equals + 1, strlen(equals + 1));
	if (!is_name(key)) {
		return REFUSE(at, "\"%s\" is not a key", key);
	}
	if (at->section == NULL) {
		return REFUSE(at, "%s stands before the first section", key);
	}
	if (value[0] == '"') {
		rc = unquote(at, value);
		if (rc != QN_OK) {
			return rc;
		}
	} else {
		cut_comment(value);
	}
	old = qn_conf_find(at->c, at->section, key, QN_CONF_FILE);
	if (old != NULL && old->rank == QN_CONF_FILE) {
		return REFUSE(at, "%s is set twice, first at %s:%d", key, old->origin, old->line);
	}
	entry_add(at, QN_CONF_FILE, key, value);
	return QN_OK;
}

int qn_conf_parse(struct qn_conf *c, const char *origin, struct qn_span text, struct qn_error *e)
{
	struct place at = {.c = c,
	                   .origin = (const char *)qn_arena_dup(c->arena, (struct qn_span){origin, strlen(origin)}).p,
	                   .e = e};
	const char *p = text.p, *end = p + text.n;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((newline != NULL ? newline : end) - p);
		char *line = copy_trimmed(c->arena, p, n);
		int rc = QN_OK;

		at.line++;
		if (memchr(p, '\0', n) != NULL) {
			rc = REFUSE(&at, "a NUL byte");
		} else if (line[0] == '[') {
			rc = section_open(&at, line);
		} else if (line[0] != '\0' && line[0] != '#') {
			rc = entry_read(&at, line);
		}
		if (rc != QN_OK) {
			return rc;
		}
		p += n + 1;
	}
	return QN_OK;
}

int qn_conf_load(struct qn_conf *c, const char *path, struct qn_error *e)
{
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;
	int rc;

	if (f == NULL) {
		return QN_FAIL(e, QN_INVALID, "%s: %s", path, strerror(errno));
	}
	text = malloc(FILE_MAX_BYTES + 1);
	QN_ASSERT(text != NULL);
	n = fread(text, 1, FILE_MAX_BYTES + 1, f);
	if (ferror(f)) {
		rc = QN_FAIL(e, QN_INVALID, "%s: cannot be read", path);
	} else if (n > FILE_MAX_BYTES) {
		rc = QN_FAIL(e, QN_INVALID, "%s: larger than 1 MiB", path);
	} else {
		rc = qn_conf_parse(c, path, (struct qn_span){text, n}, e);
	}
	free(text);
	(void)fclose(f);
	return rc;
}

int qn_conf_set(struct qn_conf *c, const char *text, struct qn_error *e)
{
	struct place at = {.c = c, .origin = "--set", .e = e};
	const char *equals = strchr(text, '='), *dot = NULL;
	char *key;

	for (const char *p = text; equals != NULL && p < equals; p++) {
		dot = *p == '.' ? p : dot;
	}
	if (dot == NULL) {
		return REFUSE(&at, "\"%s\" is not section.key=value", text);
	}
	at.section = section_name(&at, copy_trimmed(c->arena, text, (size_t)(dot - text)));
	if (at.section == NULL) {
		return QN_INVALID;
	}
	key = copy_trimmed(c->arena, dot + 1, (size_t)(equals - dot - 1));
	if (!is_name(key)) {
		return REFUSE(&at, "\"%s\" is not a key", key);
	}
	if (section_find(c, at.section) == NULL) {
		section_add(&at, at.section);
	}
	entry_add(&at, QN_CONF_SET, key, copy_trimmed(c->arena, equals + 1, strlen(equals + 1)));
	return QN_OK;
}

void qn_conf_imply(struct qn_conf *c, const char *section, const char *key, const char *value, const char *variable)
{
	struct place at = {.c = c, .origin = variable, .section = section};

	entry_add(&at, QN_CONF_ENV, key, value);
}

const struct qn_conf_entry *qn_conf_find(const struct qn_conf *c, const char *section, const char *key,
                                         enum qn_conf_rank least)
{
	const struct qn_conf_entry *best = NULL;

	for (const struct qn_conf_entry *entry = c->entries; entry != NULL; entry = entry->next) {
		if (entry->rank >= least && (best == NULL || entry->rank >= best->rank) &&
		    strcmp(entry->section, section) == 0 && strcmp(entry->key, key) == 0) {
			best = entry;
		}
	}
	return best;
}
