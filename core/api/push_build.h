/* SPDX-License-Identifier: Apache-2.0 */
/** From parsed push items to the items and groups of a job. */
#ifndef QN_API_PUSH_BUILD_H
#define QN_API_PUSH_BUILD_H

#include "call.h"

/** One message as a body gives it; spans point into the body or the arena. */
struct qn_push_input {
	struct qn_span queue, partition, transaction_id, payload;
	struct qn_uuid trace_id;
	bool has_queue, has_partition, has_payload, has_transaction, has_trace_key, has_trace;
};

#define QN_PUSH_FAULT 160
/** False with what is wrong with the names of item `index` (decisions 7). */
bool qn_push_names_ok(const struct qn_push_input *in, uint32_t index, char text[QN_PUSH_FAULT]) QN_MUST;
/** Any text that is a UUID in some spelling; other texts leave the item without (decisions 14). */
void qn_push_set_trace(struct qn_push_input *in, struct qn_span text);
/**
 * Fills items and groups of the job, in the arena, with new message ids and frames; count may be 0. An
 * item without partition goes to "Default", one without transactionId takes its message id for it.
 */
void qn_push_build(struct qn_push_job *job, struct qn_arena *a, const struct qn_uuid *tenant,
                   const struct qn_push_input *inputs, uint32_t count);

#endif
