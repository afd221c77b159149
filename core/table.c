/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option tables as wholes: checking them, filling structs from every source, printing them.
 *
 * Precedence, highest first: --set, the environment, module.conf, the default. Unknown keys are
 * refused with the place they were written at and the nearest known name. Values are printed in the
 * largest unit that holds them exactly, so that what is printed parses back to the same value.
 */
#include "error.h"
#include "option.h"

#include <inttypes.h>
#include <string.h>

#define KEYS_MAX 256

static size_t field_size(const struct qn_option *o)
{
	switch ((enum qn_option_type)o->type) {
	case QN_OPT_STR:
	case QN_OPT_SECRET:
		return sizeof(const char *);
	case QN_OPT_BOOL:
		return sizeof(bool);
	case QN_OPT_ENUM:
		return sizeof(int);
	case QN_OPT_INT:
	case QN_OPT_FLOAT:
	case QN_OPT_DURATION:
	case QN_OPT_BYTES:
		return sizeof(int64_t);
	}
	return 0;
}

static const struct qn_option *row_find(const struct qn_table *t, const char *name)
{
	for (const struct qn_option *o = t->rows; o != NULL && o->name != NULL; o++) {
		if (strcmp(o->name, name) == 0) {
			return o;
		}
	}
	return NULL;
}

int qn_table_check(const struct qn_table *t, struct qn_error *e)
{
	for (const struct qn_option *o = t->rows; o != NULL && o->name != NULL; o++) {
		size_t size = field_size(o);

		if (size == 0) {
			return QN_FAIL(e, QN_ABI, "%s: option %s: type %u is unknown", t->owner, o->name, o->type);
		}
		if (o->offset % (size < 8 ? size : 8) != 0 || o->offset > t->size || size > t->size - o->offset) {
			return QN_FAIL(e, QN_ABI, "%s: option %s: offset %zu is not a field of %zu bytes of options",
			               t->owner, o->name, o->offset, t->size);
		}
		if (o->def == NULL || o->doc == NULL || (o->type == QN_OPT_ENUM && o->choices == NULL)) {
			return QN_FAIL(e, QN_ABI, "%s: option %s: row is incomplete", t->owner, o->name);
		}
		if (row_find(t, o->name) != o || strcmp(o->name, "use") == 0) {
			return QN_FAIL(e, QN_ABI, "%s: option %s: name is taken", t->owner, o->name);
		}
	}
	return QN_OK;
}

static int refuse_key(const struct qn_table *t, const struct qn_conf_entry *entry, struct qn_error *e)
{
	const char *names[KEYS_MAX + 2], *near;
	size_t n = 0;

	for (const struct qn_option *o = t->rows; o != NULL && o->name != NULL && n < KEYS_MAX; o++) {
		names[n++] = o->name;
	}
	if (strcmp(t->section, "core") != 0) {
		names[n++] = "use";
	}
	names[n] = NULL;
	near = qn_conf_nearest(entry->key, names);
	(void)QN_FAIL(e, QN_INVALID, "unknown key %s in [%s]%s%s%s", entry->key, t->section,
	              near != NULL ? ", did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
	if (entry->line > 0) {
		qn_error_prefix(e, "%s:%d", entry->origin, entry->line);
	} else {
		qn_error_prefix(e, "%s", entry->origin);
	}
	return QN_INVALID;
}

static int check_keys(const struct qn_table *t, const struct qn_conf *c, struct qn_error *e)
{
	for (const struct qn_conf_entry *entry = c->entries; entry != NULL; entry = entry->next) {
		if (strcmp(entry->section, t->section) != 0) {
			continue;
		}
		if (strcmp(entry->key, "use") == 0 && strcmp(t->section, "core") != 0) {
			continue;
		}
		if (row_find(t, entry->key) == NULL) {
			return refuse_key(t, entry, e);
		}
	}
	return QN_OK;
}

static int fill_row(const struct qn_table *t, const struct qn_option *o, const struct qn_conf *c, void *out,
                    struct qn_error *e)
{
	const struct qn_conf_entry *entry = qn_conf_find(c, t->section, o->name, QN_CONF_FILE);
	const char *variable = NULL, *text = o->def;
	struct qn_error why = {0};
	int rc;

	if ((entry == NULL || entry->rank < QN_CONF_ENV) && o->env != NULL) {
		const char *value = qn_option_env(o->env, c->arena, &variable);

		text = value != NULL ? value : text;
	}
	if (variable == NULL && entry != NULL) {
		text = entry->value;
	}
	rc = qn_option_parse(o, text, out, &why);
	if (rc == QN_OK) {
		return QN_OK;
	}
	if (o->type == QN_OPT_SECRET) {
		why.msg[0] = '\0';
		(void)snprintf(why.msg, sizeof(why.msg), "a value is required");
	}
	if (variable != NULL) {
		return QN_FAIL(e, rc, "%s: %.200s", variable, why.msg);
	}
	if (entry == NULL) {
		return QN_FAIL(e, rc, "[%s] %s: %.200s", t->section, o->name, why.msg);
	}
	if (entry->line > 0) {
		return QN_FAIL(e, rc, "%s:%d: %s: %.200s", entry->origin, entry->line, o->name, why.msg);
	}
	return QN_FAIL(e, rc, "%s: %s.%s: %.200s", entry->origin, t->section, o->name, why.msg);
}

int qn_table_fill(const struct qn_table *t, const struct qn_conf *c, void *out, struct qn_error *e)
{
	int rc = check_keys(t, c, e);

	for (const struct qn_option *o = t->rows; rc == QN_OK && o != NULL && o->name != NULL; o++) {
		rc = fill_row(t, o, c, out, e);
	}
	return rc;
}

static void print_str(const char *s, FILE *to)
{
	bool bare = s[0] != '\0' && s[0] != '"' && s[0] != ' ' && s[strlen(s) - 1] != ' ' && strchr(s, '#') == NULL;

	if (bare) {
		(void)fputs(s, to);
		return;
	}
	(void)fputc('"', to);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\') {
			(void)fputc('\\', to);
		}
		(void)fputc(*s, to);
	}
	(void)fputc('"', to);
}

static void print_units(const struct qn_option *o, int64_t v, FILE *to)
{
	static const struct {
		const char *name;
		int64_t factor;
	} durations[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}},
	  sizes[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};
	size_t i = 0;

	if (o->type == QN_OPT_DURATION) {
		for (i = v == 0 ? 4 : 0; v % durations[i].factor != 0; i++) {
		}
		(void)fprintf(to, "%" PRId64 "%s", v / durations[i].factor, durations[i].name);
	} else {
		for (i = v == 0 ? 3 : 0; v % sizes[i].factor != 0; i++) {
		}
		(void)fprintf(to, "%" PRId64 "%s", v / sizes[i].factor, sizes[i].name);
	}
}

static void print_value(const struct qn_option *o, const void *values, FILE *to)
{
	const void *field = (const char *)values + o->offset;

	switch ((enum qn_option_type)o->type) {
	case QN_OPT_STR:
		print_str(*(const char *const *)field, to);
		break;
	case QN_OPT_SECRET:
		(void)fputs((*(const char *const *)field)[0] != '\0' ? "***" : "\"\"", to);
		break;
	case QN_OPT_BOOL:
		(void)fputs(*(const bool *)field ? "true" : "false", to);
		break;
	case QN_OPT_INT:
		(void)fprintf(to, "%" PRId64, *(const int64_t *)field);
		break;
	case QN_OPT_FLOAT:
		(void)fprintf(to, "%.17g", *(const double *)field);
		break;
	case QN_OPT_DURATION:
	case QN_OPT_BYTES:
		print_units(o, *(const int64_t *)field, to);
		break;
	case QN_OPT_ENUM:
		(void)fputs(o->choices[*(const int *)field], to);
		break;
	}
}

void qn_table_dump(const struct qn_table *t, const void *values, FILE *to)
{
	for (const struct qn_option *o = t->rows; o != NULL && o->name != NULL; o++) {
		(void)fprintf(to, "%s = ", o->name);
		print_value(o, values, to);
		(void)fputc('\n', to);
	}
}

static void list_type(const struct qn_option *o, FILE *to)
{
	static const char *const names[] = {"text", "secret", "boolean", "whole number", "number", "duration", "size"};

	if (o->type != QN_OPT_ENUM) {
		(void)fputs(names[o->type], to);
		if (o->unit != NULL) {
			(void)fprintf(to, ", %s", o->unit);
		}
		return;
	}
	for (size_t i = 0; o->choices[i] != NULL; i++) {
		(void)fprintf(to, "%s`%s`", i > 0 ? ", " : "", o->choices[i]);
	}
}

static void list_row(const struct qn_option *o, FILE *to)
{
	(void)fprintf(to, "| `%s` | ", o->name);
	for (const char *p = o->env; p != NULL && *p != '\0'; p++) {
		if (p == o->env) {
			(void)fputc('`', to);
		}
		if (*p == '|') {
			(void)fputs("`, `", to);
		} else {
			(void)fputc(*p, to);
		}
		if (p[1] == '\0') {
			(void)fputc('`', to);
		}
	}
	(void)fputs(" | ", to);
	list_type(o, to);
	if (o->def[0] != '\0') {
		(void)fprintf(to, " | `%s` | ", o->def);
	} else {
		(void)fputs(" | | ", to);
	}
	if (o->min != 0 || o->max != 0) {
		if (o->type == QN_OPT_DURATION || o->type == QN_OPT_BYTES) {
			print_units(o, o->min, to);
			(void)fputs(" .. ", to);
			print_units(o, o->max, to);
		} else {
			(void)fprintf(to, "%" PRId64 " .. %" PRId64, o->min, o->max);
		}
	}
	(void)fprintf(to, " | %s%s%s |\n", o->doc, (o->flags & QN_OPT_REQUIRED) != 0 ? " (required)" : "",
	              (o->flags & QN_OPT_RELOAD) != 0 ? " (reload)" : "");
}

void qn_table_list(const struct qn_table *t, const char *doc, FILE *to)
{
	(void)fprintf(to, "## %s\n\nSection `[%s]`.", t->owner, t->section);
	if (doc != NULL) {
		(void)fprintf(to, " %s.", doc);
	}
	(void)fputs("\n\n", to);
	if (t->rows == NULL || t->rows->name == NULL) {
		(void)fputs("No options.\n\n", to);
		return;
	}
	(void)fputs("| option | environment | type | default | bounds | meaning |\n"
	            "| --- | --- | --- | --- | --- | --- |\n",
	            to);
	for (const struct qn_option *o = t->rows; o->name != NULL; o++) {
		list_row(o, to);
	}
	(void)fputc('\n', to);
}
