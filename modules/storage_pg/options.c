/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option table of storage_pg.
 *
 * Names of environment variables are the ones operators of the API know. Defaults of the PG_* rows
 * apply only when the server is external; the embedded server ignores all of them.
 */
#include "options.h"

static const char *const embedded_choices[] = {"auto", "on", "off", NULL};
static const char *const lease_choices[] = {"async", "sync", NULL};
static const char *const prepared_choices[] = {"auto", "off", NULL};

#define FIELD(f) .offset = offsetof(struct qn_pg_options, f)

const struct qn_option qn_pg_option_table[] = {
	{.name = "embedded", .type = QN_OPT_ENUM, .def = "auto", .choices = embedded_choices, FIELD(embedded),
	 .doc = "run a private PostgreSQL under data_dir; auto: when neither dsn nor host is given"},
	{.name = "dsn", .env = "QUEEN_DSN", .type = QN_OPT_SECRET, .def = "", FIELD(dsn),
	 .doc = "connection string or URI; several hosts allowed; wins over the rows below"},
	{.name = "host", .env = "PG_HOST", .type = QN_OPT_STR, .def = "", FIELD(host),
	 .doc = "server name, address or socket directory; empty with embedded = off: localhost"},
	{.name = "port", .env = "PG_PORT", .type = QN_OPT_INT, .def = "5432", .min = 1, .max = 65535, FIELD(port),
	 .doc = "server port"},
	{.name = "user", .env = "PG_USER", .type = QN_OPT_STR, .def = "postgres", FIELD(user), .doc = "role"},
	{.name = "password", .env = "PG_PASSWORD", .type = QN_OPT_SECRET, .def = "postgres", FIELD(password),
	 .doc = "password of the role"},
	{.name = "database", .env = "PG_DATABASE|PG_DB", .type = QN_OPT_STR, .def = "postgres", FIELD(database),
	 .doc = "database"},
	{.name = "use_ssl", .env = "PG_USE_SSL", .type = QN_OPT_BOOL, .def = "false", FIELD(use_ssl),
	 .doc = "TLS or nothing: there is no fallback to plain text"},
	{.name = "ssl_reject_unauthorized", .env = "PG_SSL_REJECT_UNAUTHORIZED", .type = QN_OPT_BOOL, .def = "true",
	 FIELD(reject_unauthorized), .doc = "verify chain and host name; false: encrypt only"},
	{.name = "ssl_root_cert", .env = "PG_SSL_ROOT_CERT", .type = QN_OPT_STR, .def = "", FIELD(root_cert),
	 .doc = "the only trusted CA: PEM text (\\n escapes allowed) or a path; implies verification"},
	{.name = "push_connections", .type = QN_OPT_INT, .def = "4", .min = 1, .max = 64, FIELD(push_connections),
	 .doc = "connections for pushes"},
	{.name = "claim_connections", .type = QN_OPT_INT, .def = "4", .min = 1, .max = 64, FIELD(claim_connections),
	 .doc = "connections for claims"},
	{.name = "settle_connections", .type = QN_OPT_INT, .def = "2", .min = 1, .max = 64, FIELD(settle_connections),
	 .doc = "connections for acks and dead letters"},
	{.name = "query_connections", .type = QN_OPT_INT, .def = "2", .min = 1, .max = 64, FIELD(query_connections),
	 .doc = "connections for everything else"},
	{.name = "statement_timeout", .env = "QUEEN_STMT_TIMEOUT_MS", .type = QN_OPT_DURATION, .def = "30000", .unit = "ms",
	 .min = 100, .max = 3600000, FIELD(statement_timeout_ms),
	 .doc = "longest statement; the connection of one that exceeds it is closed"},
	{.name = "apply_schema", .env = "QUEEN_APPLY_SCHEMA", .type = QN_OPT_BOOL, .def = "true", FIELD(apply_schema),
	 .doc = "create and upgrade the schema at start; false: only check its version"},
	{.name = "lease_commit", .type = QN_OPT_ENUM, .def = "async", .choices = lease_choices, FIELD(lease_commit),
	 .doc = "async: a lease granted just before a database crash may be granted again"},
	{.name = "prepared", .type = QN_OPT_ENUM, .def = "auto", .choices = prepared_choices, FIELD(prepared),
	 .doc = "auto: named prepared statements until a transaction pooler shows itself; off: never"},
	{.name = "pg_bin_dir", .type = QN_OPT_STR, .def = "", FIELD(bin_dir),
	 .doc = "where initdb and postgres are; empty: the newest /usr/lib/postgresql/*/bin, else PATH"},
	{.name = "shared_buffers", .type = QN_OPT_BYTES, .def = "0", .unit = "MiB", .min = 0, .max = INT64_C(1) << 40,
	 FIELD(shared_buffers_bytes), .doc = "of the embedded server; 0: an eighth of the memory, 128 MiB to 1 GiB"},
	{.name = NULL},
};
