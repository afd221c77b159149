/* SPDX-License-Identifier: Apache-2.0 */
/** Reading the body of POST /api/v1/transaction. */
#ifndef QN_API_TRANSACTION_PARSE_H
#define QN_API_TRANSACTION_PARSE_H

#include "ack_parse.h"
#include "push_build.h"

/** One element of the answer. */
struct qn_txn_slot {
	bool is_push;
	uint32_t index; /* in pushes or acks */
};

/** Payloads and names of pushes point into the body; everything else is in the arena. */
struct qn_txn_input {
	struct qn_push_input *pushes;
	struct qn_ack_input *acks;
	struct qn_txn_slot *slots; /* request order */
	struct qn_span *leases;    /* requiredLeases in canonical form, as given */
	uint32_t push_count, ack_count, slot_count, lease_count;
	uint32_t nameless; /* pushes without a queue: they fail the transaction */
};

struct qn_txn_fault {
	bool is_body; /* no JSON, or text that cannot be: the plain envelope */
	char text[320];
};

/** Operations in the order of the body; false with the fault, which is a 400 (message-plane 7, 7.2). */
bool qn_txn_parse(struct qn_arena *a, struct qn_span body, struct qn_txn_input *out,
                  struct qn_txn_fault *fault) QN_MUST;

#endif
