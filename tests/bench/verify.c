/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier. A first delivery ahead of the frontier counts as one disorder and moves the frontier
 * behind it; what it jumped over counts again when it comes late, and as a gap when it never comes.
 */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

void verify_init(struct verify *v, uint32_t lanes)
{
	*v = (struct verify){.lane_count = lanes};
	v->lanes = calloc(lanes, sizeof(*v->lanes));
	if (v->lanes == NULL) {
		perror("calloc");
		exit(1);
	}
}

void verify_fini(struct verify *v)
{
	free(v->lanes);
}

void verify_stored(struct verify *v, uint32_t lane, uint64_t seq)
{
	struct verify_lane *l = &v->lanes[lane];

	l->stored = seq + 1 > l->stored ? seq + 1 : l->stored;
}

void verify_delivered(struct verify *v, uint32_t lane, uint64_t seq)
{
	struct verify_lane *l;

	if (lane >= v->lane_count) {
		v->disorders++;
		return;
	}
	l = &v->lanes[lane];
	if (seq == l->delivered) {
		l->delivered++;
	} else if (seq > l->delivered) {
		v->disorders++;
		l->delivered = seq + 1;
	} else if (seq < l->acked) {
		v->duplicates++;
	} else {
		v->redelivered++;
	}
}

void verify_acked(struct verify *v, uint32_t lane, uint64_t seq)
{
	struct verify_lane *l;

	if (lane < v->lane_count) {
		l = &v->lanes[lane];
		l->acked = seq + 1 > l->acked ? seq + 1 : l->acked;
	}
}

uint64_t verify_gaps(const struct verify *v)
{
	uint64_t gaps = 0;

	for (uint32_t i = 0; i < v->lane_count; i++) {
		const struct verify_lane *l = &v->lanes[i];

		gaps += l->stored > l->delivered ? l->stored - l->delivered : 0;
	}
	return gaps;
}

uint64_t verify_unsettled(const struct verify *v)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v->lane_count; i++) {
		const struct verify_lane *l = &v->lanes[i];

		n += l->stored > l->acked ? l->stored - l->acked : 0;
	}
	return n;
}
