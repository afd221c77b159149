/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values below 2 * HIST_SUB have a bucket of their own; above, each power of two is cut into
 * HIST_SUB equal buckets.
 */
#include "hist.h"

static unsigned bucket_of(uint64_t us)
{
	unsigned power = 0;

	while ((us >> power) >= 2 * HIST_SUB) {
		power++;
	}
	if (power == 0) {
		return (unsigned)us;
	}
	return (power + 1) * HIST_SUB + (unsigned)((us >> power) - HIST_SUB);
}

static uint64_t upper_edge(unsigned bucket)
{
	unsigned power = bucket / HIST_SUB;

	if (power < 2) {
		return bucket;
	}
	power--;
	return (((uint64_t)(bucket % HIST_SUB) + HIST_SUB + 1) << power) - 1;
}

void hist_add(struct hist *h, uint64_t us)
{
	unsigned b = bucket_of(us);
	const unsigned last = sizeof(h->counts) / sizeof(h->counts[0]) - 1;

	h->counts[b > last ? last : b]++;
	h->total++;
	h->max_us = us > h->max_us ? us : h->max_us;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	uint64_t want = (uint64_t)((double)h->total * q), seen = 0;

	if (h->total == 0) {
		return 0;
	}
	for (unsigned b = 0; b < sizeof(h->counts) / sizeof(h->counts[0]); b++) {
		seen += h->counts[b];
		if (seen > want) {
			return upper_edge(b) < h->max_us ? upper_edge(b) : h->max_us;
		}
	}
	return h->max_us;
}
