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

#endif
