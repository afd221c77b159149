/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "retention": policy only, pure. Queue options and the time in, cut-offs out; the storage
 * deletes, in bounded steps, and the core schedules.
 */
#ifndef QN_RETENTION_H
#define QN_RETENTION_H

#include <qn/host.h>
#include <qn/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_RETENTION_MAJOR 1
#define QN_RETENTION_MINOR 0
/** A cut-off that deletes nothing. */
#define QN_KEEP_ALL INT64_MIN

/** Whole segments older than a cut-off may go; times in microseconds since 1970. */
struct qn_cutoffs {
	int64_t all_us;       /* whatever was consumed (retentionSeconds) */
	int64_t completed_us; /* up to the slowest group's cursor (completedRetentionSeconds) */
	int64_t max_wait_us;  /* leased batches too (maxWaitTimeSeconds) */
	int64_t hashes_us;    /* hash sidecar */
};

struct qn_retention_vt {
	struct qn_iface head;
	void (*plan)(void *self, const struct qn_queue_options *q, int64_t now_us, struct qn_cutoffs *out);
};

#ifdef __cplusplus
}
#endif
#endif
