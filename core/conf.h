/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What was configured, as text: module.conf, the environment's special cases and --set, in one list.
 *
 * Knows sections and keys, not their meaning; every entry remembers where it was written.
 */
#ifndef QN_CORE_CONF_H
#define QN_CORE_CONF_H

#include "arena.h"

enum qn_conf_rank { QN_CONF_FILE, QN_CONF_ENV, QN_CONF_SET };

struct qn_conf_entry {
	struct qn_conf_entry *next;
	enum qn_conf_rank rank;
	const char *section, *key, *value;
	const char *origin; /* file name, environment variable or "--set" */
	int line;           /* 0: no line */
};

struct qn_conf_section {
	struct qn_conf_section *next;
	const char *name; /* "core", "storage", "plugin NAME", ... */
	const char *origin;
	int line;
};

/** Zeroed but for the arena, which owns every string, it is a valid empty configuration. */
struct qn_conf {
	struct qn_arena *arena;
	struct qn_conf_section *sections; /* in order of appearance */
	struct qn_conf_entry *entries;
};

/** Adds what the text says. Refuses bad syntax, unknown sections and duplicates: "file:line: why". */
int qn_conf_parse(struct qn_conf *c, const char *origin, struct qn_span text, struct qn_error *e) QN_MUST;
/** Reads the file (at most 1 MiB) and parses it. */
int qn_conf_load(struct qn_conf *c, const char *path, struct qn_error *e) QN_MUST;
/** One "section.key=value" of the command line. A later one of the same key wins. */
int qn_conf_set(struct qn_conf *c, const char *text, struct qn_error *e) QN_MUST;
/** A value an environment variable implies for a key that has no variable of that meaning. */
void qn_conf_imply(struct qn_conf *c, const char *section, const char *key, const char *value, const char *variable);
/** The entry of the highest rank that is at least `least`, or NULL. */
const struct qn_conf_entry *qn_conf_find(const struct qn_conf *c, const char *section, const char *key,
                                         enum qn_conf_rank least);
/** The six kinds every composition has, NULL-terminated. */
extern const char *const qn_conf_kinds[];
/** The candidate nearest to a misspelt name, or NULL when none is near. Of a NULL-terminated list. */
const char *qn_conf_nearest(const char *name, const char *const *candidates);

#endif
