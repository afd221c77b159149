/* SPDX-License-Identifier: Apache-2.0 */
/** The options of storage_pg as module.conf, the environment and the command line fill them. */
#ifndef QN_PG_OPTIONS_H
#define QN_PG_OPTIONS_H

#include <qn/option.h>

enum qn_pg_embedded_choice { QN_PG_EMBEDDED_AUTO, QN_PG_EMBEDDED_ON, QN_PG_EMBEDDED_OFF };
enum qn_pg_lease_commit { QN_PG_LEASE_ASYNC, QN_PG_LEASE_SYNC };
enum qn_pg_prepared { QN_PG_PREPARED_AUTO, QN_PG_PREPARED_OFF };

/** Of maintenance: one, so that a long step delays nobody. */
#define QN_PG_UPKEEP_CONNECTIONS 1

struct qn_pg_options {
	int embedded;
	const char *dsn;
	const char *host, *user, *password, *database;
	int64_t port;
	bool use_ssl, reject_unauthorized;
	const char *root_cert;
	int64_t push_connections, claim_connections, settle_connections, query_connections;
	int64_t statement_timeout_ms;
	bool apply_schema;
	int lease_commit;
	int prepared;
	const char *bin_dir;
	int64_t shared_buffers_bytes;
};

extern const struct qn_option qn_pg_option_table[];

#endif
