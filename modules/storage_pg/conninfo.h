/* SPDX-License-Identifier: Apache-2.0 */
/** Keyword/value pairs for libpq, from the options or for the embedded server. */
#ifndef QN_PG_CONNINFO_H
#define QN_PG_CONNINFO_H

#include "options.h"

#include <qn/host.h>

#define QN_PG_CONNINFO_MAX 64

/** Both arrays end with NULL; all strings are owned. */
struct qn_pg_conninfo {
	const struct qn_host *host;
	char *keywords[QN_PG_CONNINFO_MAX];
	char *values[QN_PG_CONNINFO_MAX];
	int count;
	bool settings_refused; /* a pooler refused the startup parameter `options` */
	char *cert_file;       /* PEM content of ssl_root_cert, written for libpq; removed by fini */
};

/** A server elsewhere: dsn or the PG_* rows. */
int qn_pg_conninfo_external(struct qn_pg_conninfo *c, const struct qn_host *h, const struct qn_pg_options *o,
                            struct qn_error *e) QN_MUST;
/** The embedded server behind a socket directory. */
void qn_pg_conninfo_local(struct qn_pg_conninfo *c, const struct qn_host *h, const struct qn_pg_options *o,
                          const char *socket_dir, const char *password);
void qn_pg_conninfo_fini(struct qn_pg_conninfo *c);
/** NULL when absent. */
const char *qn_pg_conninfo_get(const struct qn_pg_conninfo *c, const char *keyword);
/** Replaces or appends; a NULL value removes. */
void qn_pg_conninfo_set(struct qn_pg_conninfo *c, const char *keyword, const char *value);
/** A copy to change; cert_file stays with the original. */
void qn_pg_conninfo_copy(struct qn_pg_conninfo *to, const struct qn_pg_conninfo *from);
/** True when libpq's text says that a pooler does not take `options`; removes them then. */
bool qn_pg_conninfo_refused(struct qn_pg_conninfo *c, const char *message);

#endif
