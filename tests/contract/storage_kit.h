/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Short words for storage operations. Each case has a tenant of its own, so that cases do not meet;
 * results live until the case ends. Names not given are queue "q", partition "p", group "g".
 *
 * Messages are named by their transactionId: push(c, "a b c") stores three. Acks are written
 * "a:c b:f" (c completed, f failed, r retry, d dlq) and outcomes are read back as one letter each:
 * C completed, N noop, R retried, F failed, D dead-lettered, X dropped, V redelivered; rejected: l bad
 * lease, n no consumer, u unresolvable, m committed (moved past), b no batch, s storage.
 */
#ifndef QN_CONTRACT_STORAGE_KIT_H
#define QN_CONTRACT_STORAGE_KIT_H

#include "harness.h"

#include <qn/storage.h>

#define L1     "11111111-1111-7111-8111-111111111111"
#define L2     "22222222-2222-7222-8222-222222222222"
#define SECOND INT64_C(1000000)

struct ct {
	struct qn_uuid tenant;
	struct qn_arena *mem; /* inputs, and the arenas of ops hang on it */
	const void *row;      /* of a table-driven case */
};

int ct_setup(void **state);
int ct_teardown(void **state);

void *ct_alloc(struct ct *c, size_t n);
/** Keeps what an op produced until the case ends. */
void ct_keep(struct ct *c, struct qn_arena *a);

/** Runs the op to its end; fails the case when the op fails. */
void ct_push_op(struct ct *c, struct qn_push_op *op);
void ct_fetch_op(struct ct *c, struct qn_fetch_op *op);
void ct_hashes_op(struct ct *c, struct qn_hashes_op *op);
void ct_register_op(struct ct *c, struct qn_register_op *op);
void ct_claim_op(struct ct *c, struct qn_claim_op *op);
void ct_settle_op(struct ct *c, struct qn_settle_op *op);
void ct_dead_letter_op(struct ct *c, struct qn_dead_letter_op *op);
/** Fails the case only when the op fails: the verdict is the case's business. */
void ct_txn_op(struct ct *c, struct qn_txn_op *op);
void ct_extend_op(struct ct *c, struct qn_extend_op *op);
void ct_release_op(struct ct *c, struct qn_release_op *op);
void ct_configure_op(struct ct *c, struct qn_configure_op *op);
void ct_delete_op(struct ct *c, struct qn_delete_op *op);
void ct_walk_op(struct ct *c, struct qn_walk_op *op);
void ct_list_op(struct ct *c, struct qn_list_op *op);
void ct_maintain_op(struct ct *c, struct qn_maintain_op *op);
void ct_sweep_op(struct ct *c, struct qn_sweep_op *op);

/** A lane to be pushed, ids separated by blanks. */
struct qn_push_lane lane_of(struct ct *c, const char *queue, const char *partition, const char *ids);
struct qn_push_lane push_lane(struct ct *c, struct qn_push_lane lane);
/** To q/p; must be stored. */
struct qn_push_lane push(struct ct *c, const char *ids);
struct qn_push_lane push_to(struct ct *c, const char *queue, const char *partition, const char *ids);

/** From queue q for group g, everything from the start, one lane, 100 messages, 60 s; "": auto_ack. */
struct qn_claim_pop pop_of(struct ct *c, const char *lease);
struct qn_claim_pop claim(struct ct *c, struct qn_claim_pop pop);
/** The one lane a plain claim must yield; asserts its first and last offset. */
struct qn_claimed take(struct ct *c, const char *lease, int64_t first, int64_t end);

struct qn_settle_lane ack_of(struct ct *c, struct qn_uuid lane, const char *lease, const char *items);
struct qn_settle_lane settle(struct ct *c, struct qn_settle_lane lane);
const char *outcomes(struct ct *c, const struct qn_settle_lane *lane);
/** settle, and the letters it must answer. */
struct qn_settle_lane ack(struct ct *c, struct qn_uuid lane, const char *lease, const char *items,
                          const char *expected);
/** Files the poison of a settled lane, which must succeed. */
struct qn_dead_letter bury(struct ct *c, const struct qn_settle_lane *s);

bool registers(struct ct *c, const char *queue, const char *group, enum qn_start mode, int64_t from_us);
struct qn_queue_options options_default(void);
void configure(struct ct *c, const char *queue, struct qn_queue_options o);
struct qn_list_op list_one(struct ct *c, const char *queue);
bool same_id(struct qn_uuid a, struct qn_uuid b);

/** The cases of each file. */
extern const struct CMUnitTest push_cases[], claim_cases[], visible_cases[], group_cases[], settle_cases[],
	letter_cases[], queue_cases[], sweep_cases[], transaction_cases[], walk_cases[];
extern const size_t push_case_count, claim_case_count, visible_case_count, group_case_count, settle_case_count,
	letter_case_count, queue_case_count, sweep_case_count, transaction_case_count, walk_case_count;
/** One case per row of the decision table; allocated. */
struct CMUnitTest *decision_cases(size_t *count);

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, ct_setup, ct_teardown)

#endif
