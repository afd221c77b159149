/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What hotlist_ring keeps. Engine thread only, all of it.
 *
 * A queue knows its lanes by dense numbers; a group has one slot of eight bytes per lane, in the same
 * order. A slot is in the ready line (linked by number), in the wheel (by its time), out at a claim, or
 * idle. Groups exist from their first take() on, so a queue nobody pops costs nothing.
 */
#ifndef QN_RING_H
#define QN_RING_H

#include <qn/hotlist.h>

#define QN_RING_NONE       UINT32_MAX
#define QN_RING_REVISIT_MS 10000 /* how long a lease that another broker may have ended is believed */

struct qn_ring_options {
	int64_t walk_ms, full_walk_ms, idle_ms;
	int64_t window_batch;
};

/* ---- wheel.c --------------------------------------------------------------------------------- */

#define QN_WHEEL_LEVELS  4
#define QN_WHEEL_BUCKETS 256

/** A slot's appointment. Nobody takes it back: whether it still counts is asked every 16 seconds and when it comes up. */
struct qn_wheel_node {
	uint32_t next; /* in its bucket, or in the free list */
	uint32_t group, slot;
	uint32_t due; /* ticks of 1 ms since the wheel began, modulo 2^32 */
};

/** False: the node is stale and need not come up. */
typedef bool qn_wheel_wanted(void *owner, const struct qn_wheel_node *n);

struct qn_wheel {
	const struct qn_host *host;
	qn_wheel_wanted *wanted;
	void *owner;
	uint64_t now_ms; /* loop time it has been moved to */
	uint32_t now;    /* the same in ticks */
	uint32_t nodes_used;
	struct qn_wheel_node *nodes;
	uint32_t node_cap, free;
	uint32_t heads[QN_WHEEL_LEVELS][QN_WHEEL_BUCKETS];
	uint64_t used[QN_WHEEL_LEVELS][QN_WHEEL_BUCKETS / 64]; /* which buckets are not empty */
};

void qn_wheel_init(struct qn_wheel *w, const struct qn_host *host, uint64_t now_ms, qn_wheel_wanted *wanted,
                   void *owner);
void qn_wheel_fini(struct qn_wheel *w);
/** Tick of a loop time; what is over counts as now, what is far away as three weeks from now. */
uint32_t qn_wheel_tick(const struct qn_wheel *w, uint64_t at_ms);
/** False when out of memory. */
bool qn_wheel_add(struct qn_wheel *w, uint32_t group, uint32_t slot, uint32_t due) QN_MUST;
/** Moves the wheel on and takes out one node that has come up; false: none up to now_ms. */
bool qn_wheel_next(struct qn_wheel *w, uint64_t now_ms, struct qn_wheel_node *out);
/** No node comes up before this loop time; UINT64_MAX when there is none. */
uint64_t qn_wheel_due_ms(const struct qn_wheel *w);

/* ---- lanes.c --------------------------------------------------------------------------------- */

/** Lanes of a queue: number <-> id. Numbers are never used again. */
struct qn_ring_lanes {
	struct qn_uuid *ids; /* nil: the lane is gone */
	uint32_t count, cap, gone;
	uint32_t *index; /* number + 1, by hash of the id; a power of two */
	uint32_t mask, index_used;
};

uint32_t qn_ring_lane_find(const struct qn_ring_lanes *l, const struct qn_uuid *id);
/** The lane's number, new or not; QN_RING_NONE when out of memory. */
uint32_t qn_ring_lane_get(struct qn_ring_lanes *l, const struct qn_host *h, const struct qn_uuid *id);
void qn_ring_lane_remove(struct qn_ring_lanes *l, uint32_t number);
void qn_ring_lanes_fini(struct qn_ring_lanes *l, const struct qn_host *h);
/** At least n elements of `size`, zeroed beyond *cap; false when out of memory, with nothing changed. */
bool qn_ring_grow(const struct qn_host *h, void **array, uint32_t *cap, uint32_t n, size_t size) QN_MUST;

/* ---- ring.c, groups.c ------------------------------------------------------------------------ */

enum qn_slot_state { QN_SLOT_IDLE, QN_SLOT_READY, QN_SLOT_WAITING, QN_SLOT_OUT };

enum {
	QN_SLOT_MARKED = 1,  /* messages came since it was taken */
	QN_SLOT_DRAINED = 2, /* what was taken reached the lane's end */
	QN_SLOT_WINDOW = 4,  /* waits for windowBuffer: enough messages end that */
	QN_SLOT_FREED = 8,   /* given back with messages since it was taken: a verdict `leased` is out of date */
	QN_SLOT_LEASED = 16, /* waits for a lease: when that is given back empty, there is nothing to wait for */
};

struct qn_ring_slot {
	uint32_t link;     /* READY: the next one; WAITING: its tick */
	uint16_t messages; /* marked and not taken, up to 65535 */
	uint8_t state, flags;
};

struct qn_ring_group {
	struct qn_ring_group *next; /* of its queue */
	struct qn_ring_queue *queue;
	struct qn_span name;
	uint32_t number; /* in ring->groups */
	struct qn_ring_slot *slots;
	uint32_t cap;
	uint32_t head, tail; /* of the ready line */
	uint32_t out;        /* slots at claims */
	bool used;           /* taken from since the last sweep */
	/* announcements */
	bool fired;
	struct qn_ring_group *fired_next;
	/* walk */
	bool walked, walking, asked, full;
	uint64_t ticket; /* of the page asked for */
	unsigned pages;
	struct qn_walk_place place;
	uint64_t walk_ms, full_ms; /* when the next one is due */
	char text[];
};

struct qn_ring_queue {
	struct qn_ring_queue *next; /* in its bucket */
	uint64_t hash;
	struct qn_uuid tenant;
	struct qn_span name;
	struct qn_ring_lanes lanes;
	struct qn_ring_group *groups;
	int32_t window_s; /* as the last mark had it */
	char text[];
};

struct qn_ring {
	const struct qn_host *host;
	const struct qn_ring_options *options;
	struct qn_ring_queue **buckets;
	uint32_t bucket_mask, queue_count;
	struct qn_ring_group **groups; /* by number; NULL: free */
	uint32_t group_cap;
	struct qn_wheel wheel;
	uint32_t waiting; /* slots */
	struct qn_ring_group *fired;
	uint64_t sweep_ms;
	uint64_t tickets;
};

/* groups.c */
struct qn_ring_queue *qn_ring_queue_find(struct qn_ring *r, const struct qn_uuid *tenant, struct qn_span name);
struct qn_ring_group *qn_ring_group_find(struct qn_ring *r, const struct qn_group_key *g);
/** Makes queue and group when missing; NULL when out of memory. */
struct qn_ring_group *qn_ring_group_get(struct qn_ring *r, const struct qn_group_key *g, uint64_t now_ms);
void qn_ring_group_drop(struct qn_ring *r, struct qn_ring_group *g);
void qn_ring_queue_drop(struct qn_ring *r, struct qn_ring_queue *q);
/** Drops groups that nobody took from since the last sweep but one. */
void qn_ring_sweep(struct qn_ring *r, uint64_t now_ms);
void qn_ring_fini(struct qn_ring *r);

/* ring.c */
/** Whether a node of the wheel is what its slot waits for. */
bool qn_ring_waits(void *ring, const struct qn_wheel_node *n);
/** The slot of a lane; NULL when out of memory. */
struct qn_ring_slot *qn_ring_slot(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane);
void qn_ring_ready(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane);
/** Until at_ms, and ready at once when that is over. */
void qn_ring_wait(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, uint64_t at_ms);
/** A slot that waits has messages for certain; one that waits for a lease is looked at within ten seconds. */
void qn_ring_noticed(struct qn_ring *r, struct qn_ring_group *g, uint32_t lane, uint64_t now_ms);
void qn_ring_idle(struct qn_ring *r, struct qn_ring_slot *s);
/** The next ready lane, which is out from now on; QN_RING_NONE: there is none. */
uint32_t qn_ring_pop(struct qn_ring *r, struct qn_ring_group *g);
/** Turns slots whose time has come ready and remembers their groups for due(). */
void qn_ring_advance(struct qn_ring *r, uint64_t now_ms);

/* walk.c */
bool qn_ring_walk_due(struct qn_ring *r, struct qn_ring_group *g, struct qn_walk *w, uint64_t now_ms);
void qn_ring_walk_page(struct qn_ring *r, struct qn_ring_group *g, const struct qn_walk_page *page, uint64_t now_ms);

#endif
