/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "storage": everything durable. All operations follow the rules of qn/op.h and are started
 * and completed on the engine thread.
 *
 * Words: a lane is one partition of one queue of one tenant; a frame is one message; a segment is
 * many consecutive frames of one lane, stored as one immutable blob the storage never looks into;
 * an offset is a message's dense position in its lane, from 0. Group "__QUEUE_MODE__" is queue mode.
 *
 * Rules (cited by the contract tests as ST-n). "Judge" means: decided under the lane's or the
 * cursor's lock, whatever the caller believed.
 *  ST-1  Per lane, offsets are dense in commit order and created_at_us never decreases.
 *  ST-2  push stores a lane's segment wholly or not at all; one lane never harms another of the call.
 *  ST-3  Deduplication is exact within the queue's dedup_window_s (0 = off), in commit order, by the
 *        128-bit hash within one lane. A lane with a duplicate writes nothing and names every one.
 *        (Repeats inside one lane's hashes are the caller's to remove.) A watermark is believed for the
 *        lane that partition_id names, while the window does not reach back beyond verified_since_us.
 *  ST-4  An unknown queue or lane is created by push, in the same transaction, with labels derived
 *        from the dotted name and a lease of QN_LEASE_IMPLICIT_S.
 *  ST-5  A lane with sealed = false of a queue whose encryption_enabled is set is not stored.
 *  ST-6  Per (lane, group) at most one leased batch is live; claims skip leased or locked lanes.
 *  ST-7  claim delivers from the cursor on, in offset order, over segment borders and retention gaps.
 *  ST-8  Expiry of a lease charges nothing; only an explicit `failed` does.
 *  ST-9  settle decides by message-plane section 5 as amended by decisions 15-17: one signal (the
 *        lowest failed/retry/dlq) decides a lane's group of items.
 *  ST-10 A group's start is decided once: queue mode at the oldest retained message, others by
 *        mode and time of registration; lanes born later start by the registered time.
 *  ST-11 Times are the storage's own clock, in microseconds since 1970 UTC.
 *  ST-12 All names are opaque bytes, already checked; tenants never see each other's data.
 *  ST-13 transaction stores all its pushes by ST-1 to ST-5 and decides all its acks by ST-9, or leaves no
 *        trace. Judged in this order: pushes, fences, acks; a named lease must be live even for a
 *        repetition. Acks see the lanes as they were before the pushes. Acks of messages at or below
 *        the cursor, or above the leased batch, do nothing and refuse nothing.
 *  ST-14 At most one holder sweeps: a sweep whose fence is not the current one deletes nothing.
 *  ST-15 A sweep takes whole segments, only from the front of a lane, only what is older than the rule's
 *        cut-off; QN_SWEEP_COMPLETED stops at the slowest cursor of the lane and without any takes nothing.
 *  ST-16 Hashes stay, whatever the cut-off, while their message is kept and not every cursor is past it.
 *  ST-17 A lane goes only when it is empty, without hashes, dead letters and live leases, and nothing touched
 *        it since the cut-off. A later push makes it anew, with another id, from offset 0.
 */
#ifndef QN_STORAGE_H
#define QN_STORAGE_H

#include <qn/base.h>
#include <qn/host.h>
#include <qn/op.h>
#include <qn/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_STORAGE_MAJOR 1
#define QN_STORAGE_MINOR 1
#define QN_QUEUE_MODE    "__QUEUE_MODE__"
#define QN_HASH_BYTES    16
/** lease_id is a UUID in its 36-character form; an empty span means none. */

/* ---- push ------------------------------------------------------------------------------------ */

enum qn_push_status {
	QN_PUSH_QUEUED,    /* stored */
	QN_PUSH_DUPLICATE, /* nothing of this lane stored: see dups */
	QN_PUSH_UNSEALED,  /* nothing stored: the queue wants encrypted payloads (ST-5) */
	QN_PUSH_FAILED,    /* nothing stored: see error */
};

struct qn_push_dup {
	uint32_t index; /* of the frame in this lane's segment */
	int64_t offset; /* of the original message */
};

struct qn_push_lane {
	/* in */
	struct qn_uuid tenant;
	struct qn_span queue, partition;
	struct qn_uuid partition_id; /* nil: resolve by name; a stale id is re-resolved, never trusted */
	uint32_t count;              /* frames, >= 1 */
	uint32_t raw_bytes;          /* size of the frames before compression */
	bool sealed;                 /* every payload of the segment is encrypted */
	struct qn_span hashes;       /* 16 * count bytes, frame order */
	int64_t verified;            /* all hashes are known to be new up to this offset; -1: nothing known */
	int64_t verified_since_us;   /* among the messages created then or later */
	struct qn_span blob;
	/* out */
	enum qn_push_status status;
	struct qn_uuid lane_id;   /* partition id, QUEUED and DUPLICATE */
	int64_t base_offset;      /* QUEUED: offset of frame 0 */
	int64_t created_at_us;    /* QUEUED */
	int32_t dedup_window_s;   /* QUEUED and DUPLICATE: what the queue says now */
	struct qn_push_dup *dups; /* DUPLICATE: ascending by index */
	uint32_t dup_count;
	/* QUEUED and DUPLICATE: what the queue says now */
	bool encryption_enabled;
	int32_t delayed_processing_s, window_buffer_s;
	struct qn_error error; /* FAILED */
};

/** Lanes are distinct. The op fails as a whole only when nothing of it is stored or it is in doubt. */
struct qn_push_op {
	struct qn_op op;
	struct qn_push_lane *lanes;
	uint32_t lane_count;
};

/* ---- fetch: segments that hold given offsets ----------------------------------------------------- */

struct qn_fetch {
	struct qn_uuid partition_id; /* in */
	int64_t offset;              /* in */
	bool found;                  /* out: false when retention took it */
	int64_t base_offset, created_at_us;
	uint32_t count;
	struct qn_span blob;
};

struct qn_fetch_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_fetch *items;
	uint32_t count;
};

/* ---- hashes: a lane's deduplication window read back ------------------------------------------- */

/** Hashes of `count` consecutive messages that were stored together. */
struct qn_hash_row {
	int64_t base_offset, created_at_us;
	uint32_t count;
	struct qn_span hashes; /* 16 * count bytes, offset order */
};

/**
 * One page of the hashes of the messages above after_offset that are inside the lane's window, oldest
 * first. Every such message created at since_us or later is in the rows: up to last_offset, or, with
 * more, up to the end of the last row. The first row may begin at or below after_offset. For the
 * broker's own memory, so there is no tenant: ids of lanes are unique.
 */
struct qn_hashes_op {
	struct qn_op op;
	struct qn_uuid partition_id; /* in */
	int64_t after_offset;        /* in; -1: from the start */
	int64_t byte_limit;          /* in; about so many bytes of hashes, at least one row when there is any */
	bool found;                  /* out: false when there is no such lane */
	bool more;
	int64_t last_offset, since_us;
	int32_t dedup_window_s; /* 0: no rows */
	struct qn_hash_row *rows;
	uint32_t row_count;
};

/* ---- groups ---------------------------------------------------------------------------------- */

enum qn_start { QN_START_ALL, QN_START_NEW, QN_START_TIME };

/** Where a group starts when it is met for the first time. */
struct qn_subscription {
	enum qn_start mode;
	int64_t from_us; /* QN_START_TIME */
};

/**
 * Registers a group on a queue (by name; creates the queue when missing), or, with by_labels, on
 * every queue whose labels match (an empty label matches all; creates nothing) and on those that
 * will match later, from the moment of registration. Seeds the cursor of every existing lane in one
 * statement. Doing it twice changes nothing.
 */
struct qn_register_op {
	struct qn_op op;
	struct qn_uuid tenant;
	bool by_labels;
	struct qn_span queue, name_space, task, group;
	struct qn_subscription start;
	bool created_queue; /* out */
	bool registered;    /* out: this call was the first */
};

/* ---- claim ----------------------------------------------------------------------------------- */

enum qn_claim_from {
	QN_CLAIM_QUEUE,  /* any lane of a queue: candidates, or the storage's own scan when there are none */
	QN_CLAIM_LANE,   /* one lane by name; unknown queue or lane: nothing, and nothing is created */
	QN_CLAIM_LABELS, /* any lane of the queues whose labels match: the storage's own scan */
};

struct qn_slice {
	int64_t base_offset; /* of the segment */
	uint32_t count;      /* frames in the segment */
	uint32_t first;      /* first frame delivered */
	uint32_t take;       /* frames delivered */
	int64_t created_at_us;
	struct qn_span blob;
};

struct qn_claimed {
	struct qn_uuid partition_id;
	struct qn_span queue, partition;
	int64_t first_offset, batch_end; /* batch_end inclusive */
	int64_t lease_expires_at_us;     /* 0 with auto_ack */
	int32_t attempt;                 /* 1 for the first delivery of this batch head */
	int64_t last_offset;             /* allocator of the lane as this call saw it */
	struct qn_slice *slices;
	uint32_t slice_count;
};

enum qn_verdict_kind { QN_TOOK, QN_LANE_EMPTY, QN_LANE_LEASED, QN_LANE_BUSY, QN_LANE_LATER, QN_LANE_GONE };

/** What a claim found on one candidate. */
struct qn_verdict {
	struct qn_uuid partition_id;
	enum qn_verdict_kind kind;
	int64_t until_us; /* TOOK (0 with auto_ack) and LEASED: expiry; LATER: when it becomes visible; else 0 */
	int64_t last_offset, batch_end; /* TOOK */
};

struct qn_claim_pop {
	/* in */
	struct qn_uuid tenant;
	enum qn_claim_from from;
	struct qn_span queue, partition, name_space, task, group;
	struct qn_subscription start;     /* for lanes no registration covers */
	struct qn_span lease_id;          /* empty: auto_ack, the cursor moves now */
	int32_t lease_s;                  /* <= 0: the queue's lease_time */
	int32_t budget;                   /* messages, >= 1 */
	int64_t budget_bytes;             /* answer's size; at least one message always */
	int32_t max_lanes;                /* <= 0: the widest */
	bool may_hold;                    /* a batch that is not full may be held back: see hold_ms */
	const struct qn_uuid *candidates; /* QN_CLAIM_QUEUE with a ring; else NULL */
	bool window_kept;                 /* the candidates have waited for the queue's windowBuffer */
	uint32_t candidate_count;
	/* out */
	struct qn_claimed *lanes; /* claim order */
	uint32_t lane_count;
	struct qn_verdict *verdicts; /* one per candidate, any order; none after a scan */
	uint32_t verdict_count;
	bool contended;      /* nothing taken, but a lane with work was locked by another claim */
	int64_t next_due_us; /* earliest time a lane seen here becomes claimable (lease, delay); 0 unknown */
	/* With may_hold: there are messages, fewer than budget, and every queue they are of has a minPopWaitTime;
	 * nothing was taken. The shortest of these times, and how many messages; else 0. */
	int32_t hold_ms;
	int64_t ready;
};

/** Several pops of different requests in one call. No lane goes to two of them. */
struct qn_claim_op {
	struct qn_op op;
	struct qn_claim_pop *pops;
	uint32_t pop_count;
	int64_t now_us; /* out: the storage's clock when it looked */
};

/* ---- settle ---------------------------------------------------------------------------------- */

enum qn_ack_status { QN_ACK_COMPLETED, QN_ACK_FAILED, QN_ACK_RETRY, QN_ACK_DLQ };

/** Names on the wire: message-plane 5, decisions 15. */
enum qn_ack_outcome {
	QN_OUT_COMPLETED,
	QN_OUT_NOOP,
	QN_OUT_RETRIED,
	QN_OUT_FAILED,
	QN_OUT_DEAD_LETTERED,
	QN_OUT_DROPPED,
	QN_OUT_REDELIVERED,
	QN_OUT_REJECTED,
};

enum qn_ack_reason {
	QN_ACK_OK,
	QN_ACK_BAD_LEASE,    /* invalid or expired lease */
	QN_ACK_NO_CONSUMER,  /* consumer not found */
	QN_ACK_UNRESOLVABLE, /* unresolvable: ... */
	QN_ACK_COMMITTED,    /* already committed: ... */
	QN_ACK_NO_BATCH,     /* no leased batch */
	QN_ACK_STORAGE,      /* the lane's statement failed: nothing changed */
	QN_ACK_DLQ_REJECTED, /* dlq rejected: the poison message is not readable any more */
};

struct qn_ack_item {
	/* in */
	uint8_t hash[QN_HASH_BYTES];
	enum qn_ack_status status;
	/* out; DEAD_LETTERED is promised, the row is filed by the dead_letter call that must follow */
	enum qn_ack_outcome outcome;
	enum qn_ack_reason reason;
};

/** The items of one request for one (lane, group, lease). */
struct qn_settle_lane {
	/* in */
	struct qn_uuid tenant, partition_id;
	struct qn_span group, lease_id; /* empty lease_id: not fenced */
	struct qn_ack_item *items;
	uint32_t item_count;
	/* out */
	bool lease_released;
	int64_t committed;               /* cursor afterwards */
	bool has_more;                   /* the lane holds messages above the cursor and is free */
	struct qn_span queue, partition; /* names, for wake-ups; empty when the lane is unknown */
	/* out: the lane waits, lease kept, for a dead_letter call about this message */
	bool needs_dead_letter;
	uint32_t poison_item; /* index of the deciding item */
	int64_t poison_offset;
	int32_t retry_count;
	struct qn_fetch poison; /* its segment; found = false when it is gone */
};

/** Lanes are distinct by (partition_id, group). */
struct qn_settle_op {
	struct qn_op op;
	struct qn_settle_lane *lanes;
	uint32_t lane_count;
};

/** What a dead letter does to the cursor. */
enum qn_letter_kind {
	QN_LETTER_POISON, /* moves it past the messages and ends the lease */
	QN_LETTER_HEAD,   /* the same, for messages that cannot be delivered: rows that are there are not filed again */
	QN_LETTER_BESIDE, /* nothing: messages that cannot be delivered, of a batch that goes on; filed once, as HEAD */
	QN_LETTER_DEFER,  /* files nothing: the leased batch ends before the offset from now on */
};

/**
 * Files messages [offset, offset + count). POISON, HEAD and DEFER need the lease they name, and a cursor
 * below the offset; BESIDE is not fenced.
 */
struct qn_dead_letter {
	/* in */
	enum qn_letter_kind kind;
	struct qn_uuid tenant, partition_id;
	struct qn_span group, lease_id;
	int64_t offset;
	uint32_t count;            /* > 1 only for an undecodable segment */
	struct qn_uuid message_id; /* nil when unknown */
	struct qn_span transaction_id, payload, error;
	int32_t retry_count;
	/* out */
	bool filed; /* false: the lease is not held any more, or the cursor is past it already; unknown lane */
	bool has_more;
	struct qn_span queue, partition;
};

struct qn_dead_letter_op {
	struct qn_op op;
	struct qn_dead_letter *items; /* distinct by (partition_id, group), those of kind BESIDE by offset too */
	uint32_t count;
};

/* ---- transaction ------------------------------------------------------------------------------ */

/** How a push lane's repeats of a hash inside the call were treated; its dedup window decides (decisions 13). */
enum qn_txn_repeats {
	QN_TXN_NO_REPEATS,
	QN_TXN_REPEATS_REMOVED, /* right while the queue's window is on */
	QN_TXN_REPEATS_KEPT,    /* right while it is off */
};

/** What became of it; everything but COMMITTED left no trace. */
enum qn_txn_verdict {
	QN_TXN_COMMITTED,
	QN_TXN_DUPLICATE,   /* a push lane holds a message already stored within its window */
	QN_TXN_UNSEALED,    /* a push lane's queue wants encrypted payloads (ST-5) */
	QN_TXN_WINDOW,      /* a push lane's repeats were treated wrongly: see its dedup_window_s, go again */
	QN_TXN_FENCE,       /* a required lease is not held, or ran out */
	QN_TXN_NOT_OWNED,   /* an ack lane is unknown */
	QN_TXN_NO_CONSUMER, /* consumer not found */
	QN_TXN_BAD_LEASE,   /* invalid or expired lease */
	QN_TXN_UNKNOWN,     /* an acked message was never pushed, or its hash is purged */
	QN_TXN_NO_BATCH,    /* a signal on a lane without a recorded batch */
	QN_TXN_POISONED,    /* ack lanes with needs_dead_letter want letters: supply them, go again */
};

/** A prepared dead letter; counts only when the lane's decision is this very offset. */
struct qn_txn_letter {
	uint32_t lane; /* index in acks */
	int64_t offset;
	struct qn_uuid message_id; /* nil when unknown */
	struct qn_span transaction_id, payload, error;
};

/**
 * Pushes and acks that are carried out together or not at all (ST-13). Push lanes are distinct, as
 * are ack lanes. Of the lanes' own results those of push (QUEUED) and settle are set when committed;
 * a refusal sets dedup_window_s (WINDOW) and the poison fields (POISONED). The tenants in the lanes
 * are not looked at.
 */
struct qn_txn_op {
	struct qn_op op;
	/* in */
	struct qn_uuid tenant;
	struct qn_push_lane *pushes;
	const enum qn_txn_repeats *repeats; /* one per push lane */
	uint32_t push_count;
	struct qn_settle_lane *acks;
	uint32_t ack_count;
	const struct qn_span *fences; /* required leases, distinct */
	uint32_t fence_count;
	/** An ack lane without a lease_id is judged by the lease its cursor holds, else by hint (may be empty). */
	bool borrow;
	struct qn_span hint;
	const struct qn_txn_letter *letters; /* at most one per ack lane */
	uint32_t letter_count;
	/* out */
	enum qn_txn_verdict verdict;
	uint32_t refused; /* index of the lane or fence that the verdict is about; POISONED: 0 */
};

/* ---- leases ---------------------------------------------------------------------------------- */

/**
 * Never shortens; an expired lease is not revived. A caller that knows what the lease was granted on
 * names it, and nothing else is looked at; one that does not leaves count 0, and every cursor is searched.
 */
struct qn_extend_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_span lease_id;
	int32_t seconds;       /* >= 1 */
	uint32_t renewed;      /* out: lanes */
	int64_t expires_at_us; /* out: the earliest of them; 0 when none */
	/* in; since minor 1 */
	struct qn_span group;
	const struct qn_uuid *partition_ids;
	uint32_t count; /* of partition_ids */
};

/** Gives a lease back as if the claim had not been: cursor and retry counter untouched. */
struct qn_release_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_span group, lease_id;
	const struct qn_uuid *partition_ids;
	uint32_t count;
	uint32_t released; /* out */
};

/* ---- queues ---------------------------------------------------------------------------------- */

/** Full replace: creates the queue or sets every option. */
struct qn_configure_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_span queue;
	struct qn_queue_options options;
	struct qn_uuid queue_id; /* out */
};

/** Deletes the queue with its lanes, segments, hashes, cursors, dead letters and registrations. */
struct qn_delete_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_span queue;
	bool existed; /* out */
};

struct qn_queue_row {
	struct qn_uuid id;
	struct qn_span name;
	struct qn_queue_options options;
	int64_t created_at_us;
	int64_t partitions, segments;
	int64_t messages;   /* retained: sum of last_offset - log_start + 1 */
	int64_t pending;    /* above the slowest cursor of each lane; all of it where nobody reads */
	int64_t processing; /* in live leases, at most pending */
	int64_t retained_bytes;
};

struct qn_lane_row {
	struct qn_uuid id;
	struct qn_span name;
	int64_t created_at_us;
	int64_t total, pending, processing, completed, dead_letter;
	int64_t oldest_pending_at_us, newest_at_us; /* 0: none */
};

/** Newest queue first. Filters: an empty label or search matches all; search is a substring. */
struct qn_list_op {
	struct qn_op op;
	struct qn_uuid tenant;
	bool one;           /* in: exactly the queue `queue`, with its lanes */
	bool without_sizes; /* in: segments and retained_bytes are not needed, they cost the most; both are 0 */
	struct qn_span queue, name_space, task, search;
	int64_t limit, offset;     /* limit < 0: all */
	struct qn_queue_row *rows; /* out */
	uint32_t row_count;
	struct qn_lane_row *lanes; /* out, with `one`: ordered by name */
	uint32_t lane_count;
};

/* ---- maintenance ----------------------------------------------------------------------------- */

/** A queue with something to be swept; times in microseconds since 1970, INT64_MAX: no such lane. */
struct qn_due_queue {
	struct qn_uuid id;
	struct qn_queue_options options;
	int64_t live_us;   /* the oldest message of any lane */
	int64_t hashes_us; /* the oldest hash of any lane */
	int64_t idle_us;   /* the last push to the lane without both that rests longest */
};

/**
 * Whose turn maintenance is, among all brokers of the storage: fence = 0 asks for it, a fence renews it,
 * and with `end` gives it back. From one beginning to the next passes the shorter of the last holder's
 * period and the asker's. One who has it and falls silent loses it after lease_ms. With the turn come the
 * queues, of all tenants.
 */
struct qn_maintain_op {
	struct qn_op op;
	struct qn_span holder; /* in: names this broker; one name may take over from itself */
	int64_t fence;         /* in, and out: another one for every turn; 0 when not held */
	bool end;
	int32_t period_ms, lease_ms;
	struct qn_uuid after; /* queues above this id, ascending, at most `limit` */
	uint32_t limit;
	bool held;                   /* out */
	int64_t now_us;              /* out: the storage's clock */
	int64_t wait_ms;             /* out: when to ask again, if not held or at the end */
	struct qn_due_queue *queues; /* out */
	uint32_t queue_count;
};

/** What a sweep takes. */
enum qn_sweep_kind {
	QN_SWEEP_RETENTION, /* messages, read or not */
	QN_SWEEP_COMPLETED, /* messages that every group of the lane has read */
	QN_SWEEP_MAX_WAIT,  /* as RETENTION; only the history tells them apart */
	QN_SWEEP_HASHES,
	QN_SWEEP_LANES, /* lanes that hold nothing */
	QN_SWEEP_BOOKS, /* the storage's own history; one rule with a nil queue_id */
};

/** One queue's cut-off and the walk over its due lanes, oldest first; zeroed: at the beginning. */
struct qn_sweep_rule {
	struct qn_uuid queue_id;
	int64_t cutoff_us;    /* what is older goes */
	int64_t at_us;        /* in and out: the place of the walk */
	struct qn_uuid after; /* likewise */
	bool ended;           /* out: no lane is left behind that place */
	uint32_t lanes;       /* out: looked at by this step */
	uint32_t deleted;     /* out: rows: segments, hash rows, lanes, or lines of history */
	int64_t messages;     /* out */
};

/** One bounded step of all rules together, which also renews the turn. Lanes in use are passed over. */
struct qn_sweep_op {
	struct qn_op op;
	int64_t fence;
	int32_t lease_ms;
	enum qn_sweep_kind kind;
	uint32_t batch; /* rows at most; not less than rule_count */
	struct qn_sweep_rule *rules;
	uint32_t rule_count;
	bool held; /* out: false: the turn was lost and nothing done */
};

/** Where a walk over a queue's lanes stands; zeroed: at the beginning. */
struct qn_walk_place {
	struct qn_uuid id;
	int64_t written_us; /* walks of lately written lanes only */
};

/**
 * A page of a queue's lanes: those among the next `limit` that hold messages above the group's cursor,
 * whatever leases, delays and windows say. All lanes, by id; or the lately written ones, by the time of
 * their writing, which is kept to a second. Changes nothing; an unknown queue is empty.
 */
struct qn_walk_op {
	struct qn_op op;
	struct qn_uuid tenant;
	struct qn_span queue, group;
	struct qn_walk_place after; /* in, and out: where the next page begins */
	uint32_t limit;             /* lanes looked at, >= 1 */
	int32_t written_within_s;   /* of the storage's now; 0: all lanes */
	struct qn_uuid *lanes;      /* out, with lane_count */
	uint32_t lane_count;
	bool last; /* out: there is no next page */
};

/** A round trip to the database, for /health. */
struct qn_ping_op {
	struct qn_op op;
};

/** What one broker may have in flight per class; the storage queues nothing beyond it. */
struct qn_storage_slots {
	uint32_t push, claim, settle, query;
};

struct qn_storage_vt {
	struct qn_iface head;
	/** Constant from thread_start on. */
	struct qn_storage_slots (*slots)(void *self);
	void (*push)(void *self, struct qn_push_op *op);               /* class push */
	void (*fetch)(void *self, struct qn_fetch_op *op);             /* class query */
	void (*register_group)(void *self, struct qn_register_op *op); /* class query */
	void (*claim)(void *self, struct qn_claim_op *op);             /* class claim */
	void (*settle)(void *self, struct qn_settle_op *op);           /* class settle */
	void (*dead_letter)(void *self, struct qn_dead_letter_op *op); /* class settle */
	void (*extend)(void *self, struct qn_extend_op *op);           /* class query */
	void (*release)(void *self, struct qn_release_op *op);         /* class query */
	void (*configure)(void *self, struct qn_configure_op *op);     /* class query */
	void (*delete_queue)(void *self, struct qn_delete_op *op);     /* class query */
	void (*list)(void *self, struct qn_list_op *op);               /* class query */
	void (*ping)(void *self, struct qn_ping_op *op);               /* class query */
	void (*cancel)(void *self, struct qn_op *op);
	/** Operations started and not done, for the drain. */
	uint32_t (*inflight)(void *self);
	void (*hashes)(void *self, struct qn_hashes_op *op);     /* class query; since minor 1 */
	void (*transaction)(void *self, struct qn_txn_op *op);   /* class settle; since minor 1 */
	void (*maintain)(void *self, struct qn_maintain_op *op); /* beside the classes: one at a time */
	void (*sweep)(void *self, struct qn_sweep_op *op);       /* likewise */
	void (*walk)(void *self, struct qn_walk_op *op);         /* class query */
};

#ifdef __cplusplus
}
#endif
#endif
