/* SPDX-License-Identifier: Apache-2.0 */
/** Option tables at work: from text to typed structs and back. See qn/option.h for the rows. */
#ifndef QN_CORE_OPTION_H
#define QN_CORE_OPTION_H

#include "conf.h"

#include <qn/option.h>

#include <stdio.h>

/** One table and where its values come from. */
struct qn_table {
	const char *section;          /* of module.conf */
	const char *owner;            /* "core" or the module's name, for headings */
	const struct qn_option *rows; /* may be NULL: no options */
	size_t size;                  /* of the struct */
};

/** Parses one value into the row's field of the struct at out. Strings are borrowed from text. */
int qn_option_parse(const struct qn_option *o, const char *text, void *out, struct qn_error *e) QN_MUST;
/** true/false 1/0 yes/no on/off, any case. */
bool qn_option_bool(const char *text, bool *out) QN_MUST;
/** First non-empty of the environment variables in "A|B", which must not be NULL; *name is the one it was. */
const char *qn_option_env(const char *names, struct qn_arena *a, const char **name);

/** The rows themselves: known types, fields inside the struct, defaults that parse. */
int qn_table_check(const struct qn_table *t, struct qn_error *e) QN_MUST;
/** Unknown keys of the section are refused, then every row gets its value. out: zeroed, t->size bytes. */
int qn_table_fill(const struct qn_table *t, const struct qn_conf *c, void *out, struct qn_error *e) QN_MUST;
/** "key = value" for every row, as module.conf text; secrets are masked. */
void qn_table_dump(const struct qn_table *t, const void *values, FILE *to);
/** One Markdown table. doc: a line below the heading, may be NULL. */
void qn_table_list(const struct qn_table *t, const char *doc, FILE *to);
/** True when both structs have the same value in the row's field. */
bool qn_option_same(const struct qn_option *o, const void *a, const void *b);

#endif
