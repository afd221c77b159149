/* SPDX-License-Identifier: Apache-2.0 */
/** The statements of sql/CONTRACT.md: one row each, nothing is sent that is not here. */
#ifndef QN_PG_STATEMENTS_H
#define QN_PG_STATEMENTS_H

#include <stdbool.h>

enum qn_pg_class { QN_PG_PUSH, QN_PG_CLAIM, QN_PG_SETTLE, QN_PG_QUERY, QN_PG_UPKEEP, QN_PG_CLASSES };

enum qn_pg_statement_id {
	QN_PG_STMT_PUSH,
	QN_PG_STMT_CLAIM,
	QN_PG_STMT_SETTLE,
	QN_PG_STMT_DEAD_LETTER,
	QN_PG_STMT_TRANSACTION,
	QN_PG_STMT_FETCH,
	QN_PG_STMT_HASHES,
	QN_PG_STMT_REGISTER,
	QN_PG_STMT_EXTEND,
	QN_PG_STMT_RELEASE,
	QN_PG_STMT_CONFIGURE,
	QN_PG_STMT_DELETE,
	QN_PG_STMT_LIST_QUEUES,
	QN_PG_STMT_LIST_PARTITIONS,
	QN_PG_STMT_MAINTAIN,
	QN_PG_STMT_SWEEP,
	QN_PG_STMT_WALK,
	QN_PG_STMT_PING,
	QN_PG_STATEMENTS,
};

struct qn_pg_statement {
	const char *label; /* for messages */
	const char *text;
	enum qn_pg_class class;
	int columns;
	bool once; /* must not run twice: lost after sending it is in doubt */
};

extern const struct qn_pg_statement qn_pg_statements[QN_PG_STATEMENTS];

/** Fills the names; before the first pool, main thread. */
void qn_pg_statements_init(void);
/** Server-side name: carries a hash of the text, so that two builds behind one pooler never mix. */
const char *qn_pg_statement_name(enum qn_pg_statement_id id);

#endif
