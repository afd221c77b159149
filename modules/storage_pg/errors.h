/* SPDX-License-Identifier: Apache-2.0 */
/** What a SQLSTATE means for an operation and for the connection it came over. */
#ifndef QN_PG_ERRORS_H
#define QN_PG_ERRORS_H

#include <libpq-fe.h>
#include <qn/base.h>
#include <qn/host.h>

/** Fills e from a failed result; the text is the server's primary message, shortened. Returns the code. */
int qn_pg_error_from_result(const struct qn_host *h, const PGresult *res, const char *statement, struct qn_error *e);
/** Fills e for a lost or never made connection. in_doubt: the statement may have been committed. */
int qn_pg_error_lost(const struct qn_host *h, const char *statement, bool in_doubt, struct qn_error *e);
/** The session must not be used again: read-only, shutting down, cancelled, protocol trouble. */
bool qn_pg_sqlstate_evicts(const char *sqlstate);
/** The transaction rolled back only because of others: run it again. */
bool qn_pg_sqlstate_repeats(const char *sqlstate);
/** A prepared statement is not where it was prepared: a transaction pooler is in between. */
bool qn_pg_sqlstate_unprepared(const char *sqlstate);

#endif
