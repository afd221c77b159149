/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The options of a queue, as /configure sets them and queen.queues stores them
 * (source: seed "Queue options"; bounds: decisions 11).
 */
#ifndef QN_QUEUE_H
#define QN_QUEUE_H

#include <qn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** X(field, JSON name, SQL column, default of /configure, minimum, maximum); values are whole numbers. */
#define QN_QUEUE_INTS(X)                                                                                    \
	X(priority, "priority", priority, 0, INT32_MIN, INT32_MAX)                                          \
	X(lease_time_s, "leaseTime", lease_time, 300, 1, 604800)                                            \
	X(retry_limit, "retryLimit", retry_limit, 3, 0, 1000000)                                            \
	X(retry_delay_ms, "retryDelay", retry_delay, 1000, 0, INT32_MAX)                                    \
	X(max_size, "maxSize", max_queue_size, 0, 0, INT32_MAX)                                             \
	X(ttl_s, "ttl", ttl, 3600, 0, 315360000)                                                            \
	X(delayed_processing_s, "delayedProcessing", delayed_processing, 0, 0, 315360000)                   \
	X(window_buffer_s, "windowBuffer", window_buffer, 0, 0, 315360000)                                  \
	X(retention_s, "retentionSeconds", retention_seconds, 0, 0, 315360000)                              \
	X(completed_retention_s, "completedRetentionSeconds", completed_retention_seconds, 0, 0, 315360000) \
	X(max_wait_time_s, "maxWaitTimeSeconds", max_wait_time_seconds, 0, 0, 315360000)                    \
	X(min_pop_wait_ms, "minPopWaitTime", min_pop_wait_time, 0, 0, 60000)                                \
	X(dedup_window_s, "dedupWindowSeconds", dedup_window_seconds, 3600, 0, 315360000)

/** X(field, JSON name, SQL column, default of /configure) */
#define QN_QUEUE_BOOLS(X)                                                           \
	X(dead_letter_queue, "deadLetterQueue", dead_letter_queue, true)            \
	X(dlq_after_max_retries, "dlqAfterMaxRetries", dlq_after_max_retries, true) \
	X(retention_enabled, "retentionEnabled", retention_enabled, false)          \
	X(encryption_enabled, "encryptionEnabled", encryption_enabled, false)

/** Lease of a queue born by a push or a pop; /configure without leaseTime writes 300. */
#define QN_LEASE_IMPLICIT_S 60

struct qn_queue_options {
	struct qn_span name_space, task; /* labels; n = 0 when unset */
#define X(field, json, column, def, lo, hi) int32_t field;
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) bool field;
	QN_QUEUE_BOOLS(X)
#undef X
};

#ifdef __cplusplus
}
#endif
#endif
