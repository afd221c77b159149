/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLSTATE classes.
 *
 * `retryable` means: nothing is stored and the same call may succeed later. A statement whose
 * connection broke after it was sent is in doubt; only statements that may not run twice say so.
 * Messages carry the server's primary text only: detail and context may quote data.
 */
#include "errors.h"

#include <string.h>

static bool class_is(const char *sqlstate, const char *class)
{
	return strncmp(sqlstate, class, 2) == 0;
}

bool qn_pg_sqlstate_repeats(const char *sqlstate)
{
	return strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0;
}

bool qn_pg_sqlstate_evicts(const char *sqlstate)
{
	return strcmp(sqlstate, "25006") == 0 || class_is(sqlstate, "57") || class_is(sqlstate, "08") ||
	       class_is(sqlstate, "XX");
}

bool qn_pg_sqlstate_unprepared(const char *sqlstate)
{
	return strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "42P05") == 0;
}

static bool retryable(const char *sqlstate)
{
	return qn_pg_sqlstate_repeats(sqlstate) || strcmp(sqlstate, "55P03") == 0 || strcmp(sqlstate, "25006") == 0 ||
	       class_is(sqlstate, "08") || class_is(sqlstate, "53") || class_is(sqlstate, "57");
}

int qn_pg_error_from_result(const struct qn_host *h, const PGresult *res, const char *statement, struct qn_error *e)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	if (sqlstate == NULL || strlen(sqlstate) != 5) {
		return qn_pg_error_lost(h, statement, false, e);
	}
	int code = QN_INTERNAL;
	if (strcmp(sqlstate, "57014") == 0) {
		code = QN_TIMEOUT;
	} else if (retryable(sqlstate)) {
		code = QN_UNAVAIL;
	} else if (class_is(sqlstate, "22") || class_is(sqlstate, "23") || class_is(sqlstate, "54")) {
		code = QN_INVALID;
	}
	code = QN_ERR(h, e, code, "%s: %.160s", statement, text != NULL ? text : "no message");
	if (e != NULL) {
		memcpy(e->sqlstate, sqlstate, 6);
		e->retryable = retryable(sqlstate);
	}
	return code;
}

int qn_pg_error_lost(const struct qn_host *h, const char *statement, bool in_doubt, struct qn_error *e)
{
	int code = QN_ERR(h, e, QN_UNAVAIL, "%s: %s", statement,
	                  in_doubt ? "connection lost after sending, in doubt" : "connection to the database lost");
	if (e != NULL) {
		memcpy(e->sqlstate, "08006", 6);
		e->retryable = !in_doubt;
	}
	return code;
}
