/* SPDX-License-Identifier: Apache-2.0 */
/** Grouping of acknowledgments into units, which the storage decides one by one. */
#ifndef QN_API_ACK_UNITS_H
#define QN_API_ACK_UNITS_H

#include "ack_parse.h"

/** Where an item's result is: no unit for an item whose partitionId cannot be one. */
struct qn_ack_place {
	struct qn_ack_unit *unit;
	uint32_t index;
};

struct qn_ack_units {
	struct qn_ack_unit *units;
	uint32_t unit_count;
	struct qn_ack_place *places; /* one per input */
};

/**
 * Units by (partition, group, lease), in order of first appearance; all memory is the arena's. Not
 * by_lease: by (partition, group), and the first lease named counts for the unit (message-plane 7.1).
 */
struct qn_ack_units qn_ack_group(struct qn_arena *a, const struct qn_uuid *tenant, const struct qn_ack_input *inputs,
                                 uint32_t count, bool by_lease);

#endif
