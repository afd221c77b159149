/* SPDX-License-Identifier: Apache-2.0 */
/** Reading the bodies of the ack routes. */
#ifndef QN_API_ACK_PARSE_H
#define QN_API_ACK_PARSE_H

#include "call.h"

/** One acknowledgment; every span is in the call's arena. */
struct qn_ack_input {
	struct qn_span transaction_id, partition_id, group, error;
	struct qn_span lease_id; /* empty, or the 36 lower-case characters of a UUID */
	enum qn_ack_status status;
};

/** False after answering 400. batch: {"consumerGroup", "acknowledgments": [...]}. */
bool qn_ack_parse(struct qn_call *c, bool batch, const struct qn_ack_input **out, uint32_t *count) QN_MUST;

/** What a status word means; unknown ones fail (decisions 3). */
enum qn_ack_status qn_ack_status_of(struct qn_span word);
/**
 * Canonical form in the arena; empty for an empty text. An id that is no UUID is no lease of ours: the
 * nil UUID, which no lease ever has, stands for it.
 */
struct qn_span qn_ack_lease_of(struct qn_arena *a, struct qn_span text);
/** A copy for the database's text: a NUL, which JSON may spell, becomes a space. */
struct qn_span qn_ack_error_of(struct qn_arena *a, struct qn_span text);

#endif
