/* SPDX-License-Identifier: Apache-2.0 */
/** Bringing the database to the schema this build knows. Blocking; main thread, inside start(). */
#ifndef QN_PG_SCHEMA_H
#define QN_PG_SCHEMA_H

#include "module.h"

struct qn_pg_sql_file {
	const char *name;     /* NULL ends the list */
	const char *checksum; /* SHA-256, hex */
	const char *text;
};

/** Generated from sql/, lexical order. */
extern const struct qn_pg_sql_file qn_pg_sql_files[];

/**
 * Connects, checks the server's version and the schema's, and applies what is missing unless
 * apply_schema is off. Learns whether a pooler refuses startup settings (pg->conninfo).
 */
int qn_pg_schema_apply(struct qn_pg *pg, struct qn_error *e) QN_MUST;

#endif
