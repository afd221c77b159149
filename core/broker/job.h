/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Jobs: what a call sends to the engine, and what comes back.
 *
 * A job is made on an I/O thread in its call's arena, posted to the engine, and posted back exactly
 * once; ownership moves with it. While the engine has it, the I/O thread may only set `gone` (and
 * post the cancellation of a pop). The arena is destroyed on the I/O thread after the answer.
 */
#ifndef QN_BROKER_JOB_H
#define QN_BROKER_JOB_H

#include "heap.h"
#include "list.h"

#include "../app.h"
#include "../arena.h"

enum qn_job_kind {
	QN_JOB_PUSH,
	QN_JOB_POP,
	QN_JOB_ACK,
	QN_JOB_TRANSACTION,
	QN_JOB_QUERY,
	QN_JOB_RELEASE, /* nobody waits: freed when it comes back */
};

struct qn_job {
	struct qn_post post;
	enum qn_job_kind kind;
	struct qn_thread *io; /* its home */
	struct qn_arena *arena;
	struct qn_error error;              /* code 0: done; set by the engine */
	void (*answer)(struct qn_job *job); /* on the home thread when the job comes back */
	struct qn_http_call *call;          /* home thread only, but for http->peer_gone() */
	_Atomic bool gone;                  /* set by the home thread: nobody waits for the answer */
	/* home thread: a cancellation is on its way, the job must outlive it */
	struct qn_post cancel;
	bool cancel_posted, returned;
};

/** Home thread -> engine. */
void qn_job_send(struct qn_job *job);
/** Engine -> home thread; the engine must not touch the job any more. */
void qn_job_return(struct qn_job *job);
/** Home thread: the client is gone. Hurries a parked pop; the job still comes back. */
void qn_job_abandon(struct qn_job *job);

/* ---- push ------------------------------------------------------------------------------------ */

enum qn_item_status { QN_ITEM_PENDING, QN_ITEM_QUEUED, QN_ITEM_DUPLICATE, QN_ITEM_FAILED };

/** One message of a push request. */
struct qn_push_item {
	struct qn_push_item *next;      /* in its lane's queue, or among a leader's followers */
	struct qn_push_item *followers; /* later items with the same hash, waiting for this one's verdict */
	struct qn_push_job *job;
	uint8_t hash[QN_HASH_BYTES];
	struct qn_uuid message_id; /* of the message stored under this transaction id */
	struct qn_span queue, transaction_id;
	struct qn_span frame;
	bool sealed;
	enum qn_item_status status;
};

/** The items of one request for one lane, in body order. */
struct qn_push_group {
	struct qn_uuid tenant;
	struct qn_span queue, partition;
	struct qn_push_item *first, *last;
	bool sealing; /* engine: on the crew before its lane gets it */
};

struct qn_push_job {
	struct qn_job job;
	struct qn_push_item *items;
	uint32_t item_count;
	struct qn_push_group *groups;
	uint32_t group_count;
	size_t bytes;     /* of all frames */
	uint32_t pending; /* engine: items without a verdict */
};

/* ---- pop ------------------------------------------------------------------------------------- */

/** Results of one claim call, shared by the pops it served; read-only, freed by the last. */
struct qn_claim_result {
	_Atomic unsigned refs;
	struct qn_arena *arena;
};

/** Any thread. Accepts NULL. */
void qn_claim_result_unref(struct qn_claim_result *r);

struct qn_gate;
struct qn_gate_group;

enum qn_pop_state { QN_POP_IDLE, QN_POP_REGISTERING, QN_POP_READY, QN_POP_CLAIMING, QN_POP_PARKED };

struct qn_pop_job {
	struct qn_job job;
	/* in */
	struct qn_claim_pop want; /* lease_id points to lease_text, or is empty */
	char lease_text[36];
	bool wait;
	uint64_t deadline_ms; /* qn_mono_ms() */
	/* engine */
	enum qn_pop_state state;
	struct qn_list link; /* ready list, registration's list, or its gate group's parks */
	struct qn_heap_node due;
	struct qn_gate *gate;
	struct qn_gate_group *group;
	uint64_t epoch;         /* of the gate when the running claim began */
	uint64_t hold_until_ms; /* 0, or until when a batch that is not full is held back (minPopWaitTime) */
	int64_t ready;          /* messages it could have by now, while held */
	uint32_t attempts;      /* claims without a delivery since the last wake */
	uint32_t misses;        /* claims of candidates in a row that gave nothing */
	bool was_parked;
	struct qn_error failure; /* of the latest look, while it waits for a better one */
	/* out */
	struct qn_claimed *lanes;
	uint32_t lane_count;
	struct qn_claim_result *result; /* holds lanes */
};

/* ---- ack ------------------------------------------------------------------------------------- */

/** The items of one request for one (lane, group, lease). */
struct qn_ack_unit {
	struct qn_list link;
	struct qn_ack_job *job;
	struct qn_settle_lane lane; /* in and out */
	struct qn_span *item_txns;  /* transaction ids and error texts, for the dead letter */
	struct qn_span *item_errors;
	bool dead_lettered;
};

struct qn_ack_job {
	struct qn_job job;
	struct qn_ack_unit *units;
	uint32_t unit_count;
	uint32_t pending;
};

/* ---- transaction ----------------------------------------------------------------------------- */

/**
 * Pushes and acks that are carried out together or not at all: a push job with units. Its items are
 * QUEUED or DUPLICATE (a repeat inside the call) once it is committed.
 */
struct qn_txn_job {
	struct qn_push_job push; /* push.job is the transaction's */
	struct qn_uuid tenant;
	struct qn_ack_unit *units; /* distinct by (partition_id, group); they have no job of their own */
	uint32_t unit_count;
	struct qn_span *fences; /* required leases, distinct */
	uint32_t fence_count;
	bool borrow; /* see qn_txn_op */
	struct qn_span hint;
	/* out, while push.job.error is clear */
	enum qn_txn_verdict verdict; /* POISONED: the message to be dead-lettered is not readable */
	uint32_t refused;            /* index of the group, unit or fence that the verdict is about */
};

/* ---- queries --------------------------------------------------------------------------------- */

/** A storage operation of class query waiting for its slot. */
struct qn_query {
	struct qn_list link;
	void (*start)(const struct qn_app *app, struct qn_op *op);
	struct qn_op *op;
	uint64_t limit_ms; /* deadline from its start on; 0: that of every storage operation */
};

/** Engine, for applied(): a lane's lease was given back; whoever waits for the lane should look. */
void qn_broker_lane_free(struct qn_broker *b, const struct qn_settle_lane *lane);
/** Engine, before an extend starts: names the lanes of a lease this broker granted. Copies. */
void qn_lease_recall(const struct qn_broker *b, struct qn_extend_op *op);
/** Engine, for applied(): what the broker remembers of a queue is not true any more. */
void qn_broker_forget_queue(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);

/** One such operation on behalf of a call. */
struct qn_query_job {
	struct qn_job job;
	struct qn_query query; /* its op lives in the job's arena */
	/** Engine, after success and before the job returns: invalidate caches. May be NULL. */
	void (*applied)(struct qn_broker *b, struct qn_query_job *q);
	void *context; /* for applied() */
};

#endif
