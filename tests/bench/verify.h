/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Per-lane sequence check. Sequences start at 0; a lane's producer numbers its messages densely.
 *
 *   duplicate    delivered again after its acknowledgment was confirmed
 *   redelivered  delivered again before that (lease expiry, broker restart): allowed
 *   disorder     first delivery that is not the lane's next message
 *   gap          at the end: stored, never delivered
 */
#ifndef QBENCH_VERIFY_H
#define QBENCH_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

struct verify_lane {
	uint64_t stored;    /* messages the broker confirmed */
	uint64_t delivered; /* next sequence expected as a first delivery */
	uint64_t acked;     /* sequences below were confirmed as acknowledged */
};

struct verify {
	struct verify_lane *lanes;
	uint32_t lane_count;
	uint64_t duplicates, redelivered, disorders;
};

void verify_init(struct verify *v, uint32_t lanes);
void verify_fini(struct verify *v);
void verify_stored(struct verify *v, uint32_t lane, uint64_t seq);
void verify_delivered(struct verify *v, uint32_t lane, uint64_t seq);
void verify_acked(struct verify *v, uint32_t lane, uint64_t seq);
/** Stored and not delivered. */
uint64_t verify_gaps(const struct verify *v);
/** Stored, and not confirmed as acknowledged. */
uint64_t verify_unsettled(const struct verify *v);

#endif
