/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statement table.
 *
 * Every statement is one function call in a transaction of its own, so that it works on whatever
 * session a pooler lends. The names of prepared statements are derived from their text (FNV-1a).
 */
#include "statements.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#define CALL(function, args) "SELECT * FROM queen." function "(" args ")"
#define ARGS_3               "$1, $2, $3"
#define ARGS_5               ARGS_3 ", $4, $5"
#define ARGS_7               ARGS_5 ", $6, $7"
#define ARGS_8               ARGS_7 ", $8"
#define ARGS_11              ARGS_8 ", $9, $10, $11"
#define ARGS_12              ARGS_11 ", $12"
#define ARGS_17              ARGS_12 ", $13, $14, $15, $16, $17"
#define ARGS_21              ARGS_17 ", $18, $19, $20, $21"
#define ARGS_27              ARGS_21 ", $22, $23, $24, $25, $26, $27"

const struct qn_pg_statement qn_pg_statements[QN_PG_STATEMENTS] = {
	[QN_PG_STMT_PUSH] = {"push", CALL("push_v1", ARGS_11), QN_PG_PUSH, 11, true},
	[QN_PG_STMT_CLAIM] = {"claim", CALL("claim_v1", ARGS_17 ", $18, $19"), QN_PG_CLAIM, 16, true},
	[QN_PG_STMT_SETTLE] = {"settle", CALL("settle_v1", ARGS_7), QN_PG_SETTLE, 15, false},
	[QN_PG_STMT_DEAD_LETTER] = {"dead_letter", CALL("dead_letter_v1", ARGS_12), QN_PG_SETTLE, 5, false},
	[QN_PG_STMT_TRANSACTION] = {"transaction", CALL("transaction_v1", ARGS_27), QN_PG_SETTLE, 24, true},
	[QN_PG_STMT_FETCH] = {"fetch", CALL("fetch_v1", ARGS_3), QN_PG_QUERY, 5, false},
	[QN_PG_STMT_HASHES] = {"hashes", CALL("hashes_v1", ARGS_3), QN_PG_QUERY, 7, false},
	[QN_PG_STMT_REGISTER] = {"register", CALL("register_v1", ARGS_8), QN_PG_QUERY, 2, false},
	[QN_PG_STMT_EXTEND] = {"extend", CALL("extend_v1", ARGS_5), QN_PG_QUERY, 2, false},
	[QN_PG_STMT_RELEASE] = {"release", CALL("release_v1", ARGS_3 ", $4"), QN_PG_QUERY, 1, false},
	[QN_PG_STMT_CONFIGURE] = {"configure", CALL("configure_queue_v1", ARGS_21), QN_PG_QUERY, 2, false},
	[QN_PG_STMT_DELETE] = {"delete_queue", CALL("delete_queue_v1", "$1, $2"), QN_PG_QUERY, 1, false},
	[QN_PG_STMT_LIST_QUEUES] = {"list_queues", CALL("list_queues_v1", ARGS_8 ", $9"), QN_PG_QUERY, 28, false},
	[QN_PG_STMT_LIST_PARTITIONS] = {"list_partitions", CALL("list_partitions_v1", "$1, $2"), QN_PG_QUERY, 10,
                                        false},
	[QN_PG_STMT_WALK] = {"walk", CALL("walk_v1", ARGS_7), QN_PG_QUERY, 4, false},
	[QN_PG_STMT_MAINTAIN] = {"maintain", CALL("maintain_v1", ARGS_7), QN_PG_UPKEEP, 27, false},
	[QN_PG_STMT_SWEEP] = {"sweep", CALL("sweep_v1", ARGS_8), QN_PG_UPKEEP, 7, false},
	[QN_PG_STMT_PING] = {"ping", "SELECT 1", QN_PG_QUERY, 1, false},
};

static char names[QN_PG_STATEMENTS][24];

void qn_pg_statements_init(void)
{
	for (int i = 0; i < QN_PG_STATEMENTS; i++) {
		uint64_t h = UINT64_C(0xcbf29ce484222325);
		for (const char *p = qn_pg_statements[i].text; *p != '\0'; p++) {
			h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
		}
		snprintf(names[i], sizeof(names[i]), "qn_%016" PRIx64, h);
	}
}

const char *qn_pg_statement_name(enum qn_pg_statement_id id)
{
	return names[id];
}
