/* SPDX-License-Identifier: Apache-2.0 */
/** One flush: the segments of several lanes, assembled and sealed for one storage call. */
#ifndef QN_BROKER_FLUSH_H
#define QN_BROKER_FLUSH_H

#include "internal.h"

/** Items of one lane that wait for a flush. In broker->push_lanes while it has any or is in flight. */
struct qn_push_queue {
	struct qn_map_node node;
	struct qn_list link;       /* in push_ready */
	struct qn_uuid tenant, id; /* id nil: not known */
	struct qn_span queue, partition;
	struct qn_push_item *first, *last;
	bool in_flight;
	char names[];
};

/* lanes.c */
/** The group's items join their lane's queue, which is made when it is not there. */
void qn_lane_enter(struct qn_broker *b, const struct qn_push_group *g);
/** Items that must go again, in order, before everything that waits. */
void qn_lane_prepend(struct qn_push_queue *l, struct qn_push_item *first, struct qn_push_item *last);
/** Lines the lane up for a flush, or frees it when nothing is left to do; nothing while it is in flight. */
void qn_lane_settle(struct qn_broker *b, struct qn_push_queue *l);

struct qn_lane_flush {
	struct qn_push_queue *lane;
	struct qn_push_item **items;
	uint32_t count;
	bool has_repeats; /* a repeated hash was held back, or ended the segment */
	struct qn_bytes blob;
};

struct qn_flush {
	struct qn_push_op push; /* its lanes run parallel to ours */
	struct qn_broker *broker;
	struct qn_lane_flush *lanes;
	uint32_t lane_count, lane_max;
	size_t raw_bytes;
	uint64_t sent_ms; /* qn_mono_ms() when the storage got it */
	uv_work_t work;
	struct qn_error seal_error;
	void (*sealed)(struct qn_flush *f, const struct qn_error *e);
};

/* seal.c */
/** Seals what is known to need it of a job; true when the job goes on by itself. */
bool qn_seal_first(struct qn_broker *b, struct qn_push_job *job);
/** The storage refused the lane as unsealed: it stays in flight until its items can go again or have failed. */
void qn_seal_again(struct qn_broker *b, const struct qn_lane_flush *lf);

/* flush.c */
/** Open-addressing set of hashes, each with the item that brought it. */
struct qn_seen {
	struct qn_push_item **slots;
	size_t mask;
};
/** For up to `items` hashes. */
void qn_seen_init(struct qn_seen *s, struct qn_arena *a, size_t items);
/** The slot of the item's hash: NULL in it when the hash is new. */
struct qn_push_item **qn_seen_slot(const struct qn_seen *s, const struct qn_push_item *item);
/** Describes a segment of these items; the lane's names and ids are set already. Returns the frames' bytes. */
size_t qn_segment_describe(struct qn_broker *b, struct qn_arena *a, struct qn_push_item *const *items, uint32_t count,
                           struct qn_push_lane *out);
/** Any thread: packs the items' frames. */
int qn_segment_pack(struct qn_push_item *const *items, uint32_t count, int level, struct qn_bytes *out,
                    struct qn_error *e) QN_MUST;
/** Frames above this many bytes are compressed on the crew. */
#define QN_CREW_BYTES ((size_t)32 << 10)

struct qn_flush *qn_flush_create(struct qn_broker *b, uint32_t lane_max);
/** Takes items of the lane, up to a segment's bounds; returns their bytes. */
size_t qn_flush_add(struct qn_flush *f, struct qn_push_queue *lane);
/** Compresses; large flushes on the crew. Then calls sealed on the engine, maybe inside this call. */
void qn_flush_seal(struct qn_flush *f, void (*sealed)(struct qn_flush *f, const struct qn_error *e));
void qn_flush_destroy(struct qn_flush *f);

#endif
