/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "dedup": up to which offset a lane's new hashes are known to be new. Memory only, engine
 * thread only. It never gives a verdict: the storage judges under the lane's lock; the watermark
 * only tells it where to begin looking.
 *
 * Rules (DD-n): DD-1 watermark() returns w only if every hash given was compared with every message of
 * the lane at offsets <= w created at *since_us or later; -1 claims nothing and is always right. So a
 * watermark needs neither the window nor a clock to be true: the storage knows both.
 * DD-2 A hash that was learned makes the watermark of a lane that repeats it -1. DD-3 A gap between
 * learned ranges (another broker wrote) never raises a watermark. DD-4 forget() leaves nothing.
 *
 * Times are the storage's. now_us is the core's estimate of its clock, 0 while nothing is known of it;
 * it may lag, so nothing is dropped before it is a few seconds out of the window.
 */
#ifndef QN_DEDUP_H
#define QN_DEDUP_H

#include <qn/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_DEDUP_MAJOR 1
#define QN_DEDUP_MINOR 1

/** Hashes a module wants read back from the storage. */
struct qn_dedup_read {
	struct qn_uuid partition_id;
	int64_t after_offset;
	int64_t byte_limit; /* of one page */
	uint32_t ticket;    /* the module's own */
};

struct qn_dedup_vt {
	struct qn_iface head;
	/** partition_id nil: a lane never seen. hashes: 16 * count bytes. Writes *since_us unless it is -1. */
	int64_t (*watermark)(void *self, const struct qn_uuid *partition_id, struct qn_span hashes, int64_t now_us,
	                     int64_t *since_us);
	/** The storage stored these at base_offset. window_s: the queue's window as the storage saw it. */
	void (*learn)(void *self, const struct qn_uuid *partition_id, int64_t base_offset, struct qn_span hashes,
	              int64_t created_at_us, int32_t window_s);
	void (*forget)(void *self, const struct qn_uuid *partition_id);
	/** Drops what is out of every window; called once a second whatever the traffic. */
	void (*expire)(void *self, int64_t now_us);
	/** The read that is wanted most now, or false. Each true is answered by one read_page(). Minor 1. */
	bool (*read_due)(void *self, struct qn_dedup_read *r);
	/** page: the finished operation; NULL: the read failed. More pages are wanted by read_due() again. */
	void (*read_page)(void *self, const struct qn_dedup_read *r, const struct qn_hashes_op *page);
};

#ifdef __cplusplus
}
#endif
#endif
