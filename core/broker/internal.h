/* SPDX-License-Identifier: Apache-2.0 */
/** What the broker's own files share. Everything here belongs to the engine thread. */
#ifndef QN_BROKER_INTERNAL_H
#define QN_BROKER_INTERNAL_H

#include "broker.h"
#include "job.h"
#include "map.h"

#include "../wire/frame.h"

struct qn_broker {
	struct qn_app *app;
	uv_check_t check;  /* sends what this tick made ready */
	uv_timer_t timer;  /* next due of the parks */
	uv_timer_t second; /* clock-driven upkeep */
	struct qn_storage_slots slots;
	struct qn_storage_slots busy; /* operations in flight per class */
	uint64_t jobs;                /* held */
	bool draining;                /* nothing parks any more */
	bool stopping;                /* no storage operation starts any more */
	/* push.c */
	struct qn_map push_lanes;
	struct qn_list push_ready; /* lanes with items and no flush in flight */
	struct qn_map facts;       /* what pushes learned of some queues */
	uint32_t encrypting;       /* facts that say so */
	size_t push_bytes;         /* frames accepted and not stored */
	struct qn_lane_ids *lane_ids;
	/* db_time.c */
	int64_t db_seen_us; /* a time of the storage, and ours when it came; 0: none yet */
	uint64_t db_seen_ms;
	/* pop.c, parks.c, groups.c */
	struct qn_map gates;
	struct qn_map groups;
	struct qn_list claim_ready;
	struct qn_heap dues;
	/* ack.c */
	struct qn_map ack_lanes;
	struct qn_list ack_ready;
	struct qn_list dead_letters; /* waiting for a slot of class settle */
	/* transaction.c */
	struct qn_list txns;   /* waiting for a slot of class settle */
	uint32_t txns_running; /* in flight */
	/* queries.c */
	struct qn_list queries;
	uint32_t rehashing; /* reads under way, rehash.c */
	/* maintenance.c */
	struct qn_maintenance *maintenance;
	/* leases.c */
	struct qn_map leases;
	struct qn_list leases_by_age; /* next to be forgotten first */
	size_t lease_bytes;
};

/** A deadline for a storage operation that starts now. */
uint64_t qn_broker_deadline(const struct qn_broker *b);
/** Returns a job with its error set from e (NULL: none) and counts it out. */
void qn_broker_finish(struct qn_broker *b, struct qn_job *job, const struct qn_error *e);

/* push.c */
/** Counts the job's bytes as waiting; false, with the job finished, when too many wait already. */
bool qn_push_admit(struct qn_broker *b, struct qn_push_job *job) QN_MUST;
/** A lane's segment is stored: dedup, hot list and parks hear of it. */
void qn_push_stored(struct qn_broker *b, const struct qn_push_lane *lane);
/** What the storage's answer says of the lane's queue, for the next time. */
void qn_push_learn(struct qn_broker *b, const struct qn_push_lane *lane, bool has_repeats);
void qn_push_accept(struct qn_broker *b, struct qn_push_job *job);
void qn_push_pump(struct qn_broker *b);
void qn_push_stop(struct qn_broker *b);
/** An item's final verdict, which its followers share; neither may be touched afterwards. */
void qn_push_resolve(struct qn_broker *b, struct qn_push_item *item, enum qn_item_status status);
/** Fails a chain of items. */
void qn_push_fail(struct qn_broker *b, struct qn_push_item *first);
/** Counts one item as decided; with the last one the job is gone. */
void qn_push_conclude(struct qn_broker *b, struct qn_push_job *job);
/* duplicates.c: finds the original ids of items and resolves them as duplicates. [take] items */
struct qn_push_dup_item {
	struct qn_push_item *item;
	int64_t offset;
};
void qn_push_lookup(struct qn_broker *b, const struct qn_uuid *tenant, const struct qn_uuid *partition_id,
                    const struct qn_push_dup_item *items, uint32_t count);

/* seal.c */
/** The items are sealed, or (e) none of them is. */
typedef void qn_sealed_fn(struct qn_broker *b, void *arg, const struct qn_error *e);
/** Seals those of the items that are not, on the crew; then calls done on the engine, maybe inside this call. */
void qn_seal_items(struct qn_broker *b, struct qn_push_item *const *items, uint32_t count, qn_sealed_fn *done,
                   void *arg);
/** Frees what sealing made of an item whose frame is not needed any more. */
void qn_seal_drop(struct qn_push_item *item);

/* lanes.c */
uint64_t qn_lane_hash(const struct qn_uuid *tenant, struct qn_span queue, struct qn_span partition);

/* lane_ids.c: by qn_lane_hash() */
struct qn_lane_ids;
struct qn_lane_ids *qn_lane_ids_create(void);
/** Accepts NULL. */
void qn_lane_ids_destroy(struct qn_lane_ids *ids);
/** Nil when it is not known. A hint: it may be stale, or another lane's. */
struct qn_uuid qn_lane_id_get(const struct qn_broker *b, uint64_t lane);
void qn_lane_id_set(struct qn_broker *b, uint64_t lane, const struct qn_uuid *tenant, struct qn_span queue,
                    const struct qn_uuid *id);
/** The queue was deleted: its lanes leave this memory and the dedup module's, within seconds. */
void qn_lane_ids_forget(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);
/** Once a second. */
void qn_lane_ids_tick(struct qn_broker *b);

/* db_time.c */
/** An estimate of the storage's clock that is behind it, if anything; 0 before anything was stored. */
int64_t qn_db_time_us(const struct qn_broker *b);
/** The storage stored something at created_at_us, in a call that began at sent_ms and has just ended. */
void qn_db_time_seen(struct qn_broker *b, int64_t created_at_us, uint64_t sent_ms);

/* rehash.c */
void qn_rehash_pump(struct qn_broker *b);

/* facts.c */
/** The queue's dedup window if it was learned lately, else -1. */
int32_t qn_facts_window(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);
void qn_facts_set_window(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, int32_t window_s);
/** True when the queue's pushes were lately wanted sealed. */
bool qn_facts_encrypts(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);
void qn_facts_set_encrypts(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, bool on);
void qn_facts_forget(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);
void qn_facts_stop(struct qn_broker *b);

/* pop.c */
void qn_pop_accept(struct qn_broker *b, struct qn_pop_job *pop);
void qn_pop_cancel(struct qn_broker *b, struct qn_pop_job *pop);
/** Puts a pop into the line for a claim. */
void qn_pop_ready(struct qn_broker *b, struct qn_pop_job *pop);
/** Ends a pop: e NULL with lanes or without (empty). */
void qn_pop_finish(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_error *e);
/** The storage could not look: a pop that may wait tries again later, if that can help. */
void qn_pop_failed(struct qn_broker *b, struct qn_pop_job *pop, const struct qn_error *e);
void qn_pop_pump(struct qn_broker *b);
void qn_pop_stop(struct qn_broker *b);

/* parks.c */
/** Ties a pop to the gate of what it waits for; before its first claim. */
void qn_gate_enter(struct qn_broker *b, struct qn_pop_job *pop);
void qn_gate_leave(struct qn_broker *b, struct qn_pop_job *pop);
uint64_t qn_gate_epoch(const struct qn_pop_job *pop);
void qn_park(struct qn_broker *b, struct qn_pop_job *pop, uint64_t due_ms);
void qn_unpark(struct qn_broker *b, struct qn_pop_job *pop);
/** The waiter of a discovery group came back with work: let the next one look. */
void qn_gate_cascade(struct qn_broker *b, struct qn_pop_job *pop);
/** Messages have appeared in a lane: wakes one waiter of every group that could take them. */
void qn_gate_mark(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, struct qn_span partition,
                  uint32_t messages);
/** As qn_gate_mark for one group: a lease of the lane was given back. */
void qn_gate_mark_group(struct qn_broker *b, const struct qn_settle_lane *lane);
/** Lanes of a (queue, group) may have work: wakes one of its queue-wide waiters. */
void qn_gate_ready(struct qn_broker *b, const struct qn_group_key *g);
/** Once a second: walks that are due for groups somebody waits for. */
void qn_parks_walk(struct qn_broker *b);
void qn_parks_drain(struct qn_broker *b);
void qn_parks_arm(struct qn_broker *b);

/* hot.c */
/** Starts a page of the group's walk when its hot list wants one. */
void qn_hot_walk(struct qn_broker *b, const struct qn_group_key *g);
/** Wakes the waiters of groups that got ready lanes by the clock. */
void qn_hot_tick(struct qn_broker *b);

/* groups.c */
/** True when the pop's group is registered; else the pop waits for it and comes back by qn_pop_ready. */
bool qn_group_known(struct qn_broker *b, struct qn_pop_job *pop);
void qn_group_forget_queue(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue);
void qn_group_stop(struct qn_broker *b);

/* ack.c, deadletter.c */
void qn_ack_accept(struct qn_broker *b, struct qn_ack_job *job);
void qn_ack_pump(struct qn_broker *b);
void qn_ack_stop(struct qn_broker *b);
/** The hot list and the parks hear that the lane's lease ended. */
void qn_ack_wake(struct qn_broker *b, const struct qn_settle_lane *lane);
/** The unit's lane is decided and its results are final. */
void qn_ack_finish_unit(struct qn_broker *b, struct qn_ack_unit *unit);
/** Files the poison message of a unit, then finishes the unit. */
void qn_dead_letter_begin(struct qn_broker *b, struct qn_ack_unit *unit);
void qn_dead_letter_pump(struct qn_broker *b);
/** Any thread: the lane's poison message from its segment; false when it is gone or damaged. *store holds it. */
bool qn_dead_letter_read(const struct qn_settle_lane *lane, struct qn_bytes *store, struct qn_frame *out) QN_MUST;
/** The text filed with the poison. */
struct qn_span qn_dead_letter_error(const struct qn_ack_unit *unit);

/* transaction.c */
void qn_txn_accept(struct qn_broker *b, struct qn_txn_job *job);
void qn_txn_pump(struct qn_broker *b);
void qn_txn_stop(struct qn_broker *b);

/* leases.c */
/** Remembers what a pop was granted; nothing with auto_ack. */
void qn_lease_granted(struct qn_broker *b, const struct qn_claim_pop *pop);
/** The lane's lease is over. */
void qn_lease_lane_ended(struct qn_broker *b, const struct qn_settle_lane *lane);
void qn_leases_stop(struct qn_broker *b);

/* queries.c */
void qn_query_submit(struct qn_broker *b, struct qn_query *q);
/** Every done() of a submitted query calls this first. */
void qn_query_done(struct qn_broker *b);
void qn_query_accept(struct qn_broker *b, struct qn_query_job *job);
void qn_query_pump(struct qn_broker *b);
void qn_query_stop(struct qn_broker *b);

/* maintenance.c */
int qn_maintenance_start(struct qn_broker *b, struct qn_error *e) QN_MUST;
/** After b->draining is set: gives the turn back as soon as the step in flight is done. */
void qn_maintenance_drain(struct qn_broker *b);
bool qn_maintenance_idle(const struct qn_broker *b);
void qn_maintenance_stop(struct qn_broker *b);
/** When the storage's thread has stopped. */
void qn_maintenance_destroy(struct qn_broker *b);

#endif
