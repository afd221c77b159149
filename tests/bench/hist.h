/* SPDX-License-Identifier: Apache-2.0 */
/** Latency histogram: log-linear buckets, 1 % wide, from 1 microsecond to about 70 minutes. */
#ifndef QBENCH_HIST_H
#define QBENCH_HIST_H

#include <stdint.h>

#define HIST_SUB   128 /* buckets per power of two */
#define HIST_POWER 26

struct hist {
	uint64_t counts[HIST_POWER * HIST_SUB];
	uint64_t total, max_us;
};

void hist_add(struct hist *h, uint64_t us);
/** Upper edge of the bucket that holds the quantile (0..1), in microseconds; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);

#endif
