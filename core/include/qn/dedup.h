/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "dedup": up to which offset a lane's new hashes are known to be new. Memory only, engine
 * thread only. It never gives a verdict: the storage judges under the lane's lock; the watermark
 * only tells it where to begin looking.
 *
 * Rules (DD-n): DD-1 watermark() returns w only if every hash given was compared with every message
 * of the lane at offsets <= w that is still inside the window; -1 claims nothing and is always right.
 * DD-2 A hash that was learned makes the watermark of a lane that repeats it -1. DD-3 A gap between
 * learned ranges (another broker wrote) never raises a watermark. DD-4 forget() leaves nothing.
 */
#ifndef QN_DEDUP_H
#define QN_DEDUP_H

#include <qn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_DEDUP_MAJOR 1
#define QN_DEDUP_MINOR 0

struct qn_dedup_vt {
	struct qn_iface head;
	/** partition_id nil: a lane never seen. hashes: 16 * count bytes. */
	int64_t (*watermark)(void *self, const struct qn_uuid *partition_id, struct qn_span hashes, int64_t now_us);
	/** The storage stored these at base_offset. window_s: the queue's window as the storage saw it. */
	void (*learn)(void *self, const struct qn_uuid *partition_id, int64_t base_offset, struct qn_span hashes,
	              int64_t created_at_us, int32_t window_s);
	void (*forget)(void *self, const struct qn_uuid *partition_id);
	/** Drops what is out of every window; called once a second whatever the traffic. */
	void (*expire)(void *self, int64_t now_us);
};

#ifdef __cplusplus
}
#endif
#endif
