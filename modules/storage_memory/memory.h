/* SPDX-License-Identifier: Apache-2.0 */
/** What storage_memory keeps, and the functions that find it. Engine thread only, all of it. */
#ifndef QN_MEM_MEMORY_H
#define QN_MEM_MEMORY_H

#include "table.h"

#include <qn/storage.h>

#define QN_MEM_SECOND_US  INT64_C(1000000)
#define QN_MEM_LEASE_TEXT 64 /* longer lease ids never match */

struct qn_mem_options {
	int64_t max_bytes;
};

/** One push of one lane. Its messages and its hashes go at different times, and it goes with the later. */
struct qn_mem_segment {
	int64_t base_offset, created_at_us;
	uint32_t count, raw_bytes;
	size_t blob_bytes;
	uint8_t *blob;   /* NULL: the messages are deleted */
	uint8_t *hashes; /* 16 * count bytes; NULL: purged */
};

/** Slot of a lane's hash index. */
struct qn_mem_slot {
	uint8_t hash[QN_HASH_BYTES];
	int64_t offset_plus_1; /* 0: free */
};

struct qn_mem_lease {
	char text[QN_MEM_LEASE_TEXT];
	size_t n; /* 0: none */
};

/** Cursor and lease of one (lane, group). */
struct qn_mem_cursor {
	struct qn_mem_node node; /* in lane->cursors by group */
	int64_t committed;
	int64_t batch_end; /* of the recorded batch; -1: none */
	int64_t lease_expires_at_us;
	struct qn_mem_lease lease, last_lease; /* last_lease: the one an ack ended last */
	int64_t created_at_us, leased_at_us;
	int32_t retry_count;
	int64_t attempt_offset; /* -1: none */
	int32_t attempt_count;
	uint64_t claim_serial; /* the claim call that took it last */
	struct qn_span group;
	char name[];
};

struct qn_mem_letter {
	struct qn_mem_letter *next;
	int64_t offset;
	uint32_t count;
	int32_t retry_count;
	struct qn_uuid message_id;
	size_t group_bytes, transaction_bytes, payload_bytes, error_bytes;
	uint8_t bytes[]; /* the four, in that order */
};

struct qn_mem_queue;

struct qn_mem_lane {
	struct qn_mem_node by_name; /* in queue->lanes */
	struct qn_mem_node by_id;   /* in memory->lanes */
	struct qn_mem_queue *queue;
	struct qn_uuid id;
	int64_t created_at_us, newest_at_us, last_offset;
	struct qn_mem_segment **segments; /* ascending */
	size_t segment_count, segment_cap;
	size_t live, hashed;       /* index of the first segment with messages, with hashes; one of them is 0 */
	struct qn_mem_slot *slots; /* open addressing, a power of two */
	size_t slot_count, slot_used;
	struct qn_mem_table cursors;
	struct qn_mem_letter *letters;
	int64_t letter_count;
	struct qn_span name;
	char text[];
};

/** Where a group starts on lanes it has not met. */
struct qn_mem_registration {
	struct qn_mem_node node;          /* in queue->groups; unused in memory->labels */
	struct qn_mem_registration *next; /* in memory->labels, oldest first */
	struct qn_uuid tenant;
	int64_t from_us; /* 0: everything */
	struct qn_span group, name_space, task;
	char text[];
};

struct qn_mem_queue {
	struct qn_mem_node node; /* in memory->queues */
	struct qn_uuid tenant, id;
	uint64_t serial; /* order of birth */
	int64_t created_at_us;
	struct qn_queue_options options; /* labels: owned, in `labels` */
	char *labels;
	struct qn_mem_table lanes, groups;
	struct qn_span name;
	char text[];
};

/** Whose turn maintenance is. */
struct qn_mem_turn {
	int64_t fence, start_us, due_us, lease_until_us; /* lease_until_us 0: nobody's */
	char holder[QN_MEM_LEASE_TEXT];
	size_t holder_bytes;
};

struct qn_mem {
	const struct qn_host *host;
	struct qn_mod *mod;
	const struct qn_mem_options *options;
	struct qn_mem_table queues, lanes;
	struct qn_mem_registration *labels;
	uint64_t serial;
	int64_t used_bytes;
	uint32_t inflight;
	struct qn_mem_turn turn;
};

/** Where an item's message is. */
struct qn_mem_place {
	int64_t eff; /* lowest offset that may act; -1: none */
	bool below;  /* also, or only, at or below the cursor */
};

/** One lane's group of items being decided. In: the first three. */
struct qn_mem_decision {
	struct qn_mem *m;
	struct qn_arena *arena;
	struct qn_settle_lane *s;
	struct qn_mem_lane *lane;     /* NULL: unknown */
	struct qn_mem_cursor *cursor; /* NULL: no consumer */
	struct qn_mem_place *places;
	int64_t now_us;
	int signal;     /* index of the deciding item; -1: none */
	int64_t prefix; /* the cursor below the signal */
	enum qn_ack_outcome of_signal;
	bool acts; /* a live decision: the three above are set */
};

/* tables.c */
static inline bool qn_mem_span_eq(struct qn_span a, struct qn_span b)
{
	return a.n == b.n && (a.n == 0 || __builtin_memcmp(a.p, b.p, a.n) == 0);
}
struct qn_mem_queue *qn_mem_queue_find(struct qn_mem *m, const struct qn_uuid *tenant, struct qn_span name);
/** With the options a queue born of a push or a pop has. */
struct qn_mem_queue *qn_mem_queue_create(struct qn_mem *m, const struct qn_uuid *tenant, struct qn_span name);
/** Takes copies of the labels. */
void qn_mem_queue_set(struct qn_mem *m, struct qn_mem_queue *q, const struct qn_queue_options *o);
void qn_mem_queue_destroy(struct qn_mem *m, struct qn_mem_queue *q);
/** An empty label matches all. */
bool qn_mem_queue_matches(const struct qn_mem_queue *q, struct qn_span name_space, struct qn_span task);
struct qn_mem_lane *qn_mem_lane_find(struct qn_mem *m, struct qn_mem_queue *q, struct qn_span name);
struct qn_mem_lane *qn_mem_lane_create(struct qn_mem *m, struct qn_mem_queue *q, struct qn_span name);
/** With all that is in it. */
void qn_mem_lane_destroy(struct qn_mem *m, struct qn_mem_lane *l);
/** NULL also when it is another tenant's; tenant NULL: whoever's it is. */
struct qn_mem_lane *qn_mem_lane_by_id(struct qn_mem *m, const struct qn_uuid *tenant, const struct qn_uuid *id);
struct qn_mem_cursor *qn_mem_cursor_find(struct qn_mem *m, const struct qn_mem_lane *l, struct qn_span group);
struct qn_mem_cursor *qn_mem_cursor_create(struct qn_mem *m, struct qn_mem_lane *l, struct qn_span group,
                                           int64_t committed);
/** Everything. */
void qn_mem_clear(struct qn_mem *m);
uint64_t qn_mem_hash(struct qn_mem *m, struct qn_span s);
/** A copy in the arena. */
struct qn_span qn_mem_dup(struct qn_mem *m, struct qn_arena *a, struct qn_span s);

/* segments.c */
/** Offset of the first message kept; last_offset + 1 when there is none. */
int64_t qn_mem_log_start(const struct qn_mem_lane *l);
/** The last offset a cursor need not deliver: committed, or what retention took above it. */
int64_t qn_mem_passed(const struct qn_mem_lane *l, int64_t committed);
/** When the message at offset, whose hash is kept, was stored. */
int64_t qn_mem_stored_at(const struct qn_mem_lane *l, int64_t offset);
/** Deletes the messages, or purges the hashes, of the first segment that has them. */
void qn_mem_drop_messages(struct qn_mem *m, struct qn_mem_lane *l);
void qn_mem_drop_hashes(struct qn_mem *m, struct qn_mem_lane *l);
/** Index of the first segment kept whose last offset is >= offset; segment_count when there is none. */
size_t qn_mem_segment_at(const struct qn_mem_lane *l, int64_t offset);
/** Offset before the first message with created_at >= from_us; last_offset when there is none. */
int64_t qn_mem_before_time(const struct qn_mem_lane *l, int64_t from_us);
/** As qn_mem_segment_at and qn_mem_before_time, of the segments whose hashes are kept. */
size_t qn_mem_hashed_at(const struct qn_mem_lane *l, int64_t offset);
int64_t qn_mem_hashed_before(const struct qn_mem_lane *l, int64_t from_us);
/** A segment for the lane, and room in the lane for it; NULL with QN_LIMIT beyond max_mb, or QN_NOMEM. */
struct qn_mem_segment *qn_mem_segment_create(struct qn_mem *m, struct qn_mem_lane *l, const struct qn_push_lane *p,
                                             struct qn_error *e) QN_MUST;
void qn_mem_segment_destroy(struct qn_mem *m, struct qn_mem_segment *s);
/** Adds it at the lane's end: the lane must not have grown since it was created. [take] s */
void qn_mem_segment_append(struct qn_mem_lane *l, struct qn_mem_segment *s, int64_t at_us);
/** Calls fn for every offset, in any order, that holds the hash. */
typedef void qn_mem_offset_fn(int64_t offset, void *arg);
void qn_mem_each_offset(const struct qn_mem_lane *l, const uint8_t *hash, qn_mem_offset_fn *fn, void *arg);
/** Copies into the arena what a qn_fetch shows of the segment that holds f->offset. */
void qn_mem_fetch_one(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_fetch *f);

/* push.c */
/** Sets the lane's status, and what it says of the queue; stores nothing. */
void qn_mem_push_judge(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_push_lane *p);
/** Stores a lane that was judged QUEUED. [take] s */
void qn_mem_push_store(struct qn_mem *m, struct qn_mem_lane *l, struct qn_push_lane *p, struct qn_mem_segment *s);

/* settle.c */
/** Sets every result that does not depend on the cursor's movement; changes nothing else. */
void qn_mem_settle_judge(struct qn_mem_decision *d);
/** Carries out what was judged; nothing may have happened to the lane's cursor since. */
void qn_mem_settle_apply(struct qn_mem_decision *d);

/* leases.c */
bool qn_mem_lease_is(const struct qn_mem_lease *l, struct qn_span id);
bool qn_mem_is_leased(const struct qn_mem_cursor *c, int64_t now_us);
/** Notes whose lease it is. */
void qn_mem_lease_set(struct qn_mem_cursor *c, struct qn_span id);
/** Forgets lease and recorded batch. */
void qn_mem_lease_drop(struct qn_mem_cursor *c);
/** Likewise, by an ack: the lease is remembered. */
void qn_mem_lease_end(struct qn_mem_cursor *c);
/** As after a completed batch: no retries charged, no delivery counted. */
void qn_mem_counters_reset(struct qn_mem_cursor *c);
/** Messages above the cursor, and nobody holds it. */
bool qn_mem_has_more(const struct qn_mem_lane *l, const struct qn_mem_cursor *c, int64_t now_us);

/* groups.c */
/** The cursor of the group on the lane, made where the group is met for the first time (ST-10). */
struct qn_mem_cursor *qn_mem_contact(struct qn_mem *m, struct qn_mem_lane *l, struct qn_span group,
                                     const struct qn_subscription *start);

/* The operations; each has its result when it returns. */
void qn_mem_push(struct qn_mem *m, struct qn_push_op *op);               /* push.c */
void qn_mem_fetch(struct qn_mem *m, struct qn_fetch_op *op);             /* push.c */
void qn_mem_hashes(struct qn_mem *m, struct qn_hashes_op *op);           /* push.c */
void qn_mem_register(struct qn_mem *m, struct qn_register_op *op);       /* groups.c */
void qn_mem_walk(struct qn_mem *m, struct qn_walk_op *op);               /* walk.c */
void qn_mem_claim(struct qn_mem *m, struct qn_claim_op *op);             /* claim.c */
void qn_mem_settle(struct qn_mem *m, struct qn_settle_op *op);           /* settle.c */
void qn_mem_dead_letter(struct qn_mem *m, struct qn_dead_letter_op *op); /* leases.c */
/** transaction.c; the only one that can fail as a whole. */
int qn_mem_transaction(struct qn_mem *m, struct qn_txn_op *op, struct qn_error *e) QN_MUST;
void qn_mem_extend(struct qn_mem *m, struct qn_extend_op *op);       /* leases.c */
void qn_mem_release(struct qn_mem *m, struct qn_release_op *op);     /* leases.c */
void qn_mem_configure(struct qn_mem *m, struct qn_configure_op *op); /* queues.c */
void qn_mem_delete(struct qn_mem *m, struct qn_delete_op *op);       /* queues.c */
void qn_mem_list(struct qn_mem *m, struct qn_list_op *op);           /* list.c */
void qn_mem_maintain(struct qn_mem *m, struct qn_maintain_op *op);   /* maintain.c */
void qn_mem_sweep(struct qn_mem *m, struct qn_sweep_op *op);         /* maintain.c */

#endif
