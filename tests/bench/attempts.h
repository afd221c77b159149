/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What became of each transaction, and which of them left a message. Numbers are given from 0.
 *
 *   phantom  a message of a transaction that was rolled back
 *   missing  a transaction that was committed, and no message of it was delivered
 */
#ifndef QBENCH_ATTEMPTS_H
#define QBENCH_ATTEMPTS_H

#include <stddef.h>
#include <stdint.h>

enum attempt_mark {
	ATTEMPT_COMMITTED = 1,
	ATTEMPT_ROLLED_BACK = 2,
	ATTEMPT_SEEN = 4, /* a message of it was delivered */
};

struct attempts {
	uint8_t *marks;
	size_t n, cap;
};

uint64_t attempts_add(struct attempts *a);
/** A number that was never given counts as a phantom. */
void attempts_mark(struct attempts *a, uint64_t attempt, enum attempt_mark mark);
uint64_t attempts_count(const struct attempts *a, enum attempt_mark mark);
uint64_t attempts_phantoms(const struct attempts *a);
uint64_t attempts_missing(const struct attempts *a);
void attempts_fini(struct attempts *a);

#endif
