/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "hotlist": which lanes of a (queue, group) may have work. Memory only, engine thread only,
 * synchronous. It may be wrong towards excess work, never towards missed work: whatever it forgets,
 * the correctness walk brings back.
 *
 * Rules (HL-n, cited by the contract tests):
 *  HL-1 A lane marked and not yet taken is in a later take() of every group of its queue, unless
 *       take() answers QN_TAKE_SCAN. EMPTY is an answer to clients: a group whose first walk is not over
 *       answers SCAN instead.
 *  HL-2 take() never returns more than max_lanes lanes and stops early once the marked messages
 *       reach the budget.
 *  HL-3 A lane taken is not taken again for that group before settle() or promote() gave it back.
 *  HL-4 A mark between take() and settle() is never lost: an `empty` verdict does not clear it.
 *  HL-5 A leased lane comes back by itself no later than its expiry, and by promote() at once.
 *  HL-6 forget_queue() and forget_group() leave nothing behind; the page of a walk that was asked for
 *       before is then ignored.
 *  HL-7 Lanes of a walk's page are marked. Between a true walk_due() and its walk_page() the group's
 *       walk is not due.
 *  HL-8 A lane that becomes ready by itself is announced by due(), not before next_due_ms() said.
 */
#ifndef QN_HOTLIST_H
#define QN_HOTLIST_H

#include <qn/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_HOTLIST_MAJOR 1
#define QN_HOTLIST_MINOR 0

/** A (tenant, queue, group); spans are borrowed for the call. */
struct qn_group_key {
	struct qn_uuid tenant;
	struct qn_span queue, group;
};

struct qn_lane_mark {
	struct qn_uuid tenant;
	struct qn_span queue;
	struct qn_uuid partition_id;
	uint32_t messages;         /* just committed */
	int64_t last_offset;       /* of the lane after it */
	int32_t delay_s, window_s; /* the queue's delayedProcessing and windowBuffer, 0 when unknown */
};

enum qn_take {
	QN_TAKE_LANES, /* the lanes returned */
	QN_TAKE_EMPTY, /* nothing now: park or answer without touching the storage */
	QN_TAKE_SCAN,  /* cannot tell: let the storage scan for candidates */
};

/** A page the correctness walk wants; the core reads it with the storage's walk. */
struct qn_walk {
	struct qn_walk_place after;
	uint32_t limit;           /* lanes looked at */
	int32_t written_within_s; /* 0: every lane */
	uint64_t ticket;          /* goes into the page */
};

struct qn_walk_page {
	const struct qn_uuid *lanes; /* of the page, those that may have work */
	uint32_t count;
	struct qn_walk_place next; /* where the next page begins */
	bool last;                 /* there is none */
	uint64_t ticket; /* of the walk it answers: one a forgotten group asked for is told from its successor's */
};

struct qn_hotlist_vt {
	struct qn_iface head;
	void (*mark)(void *self, const struct qn_lane_mark *mark, uint64_t now_tick_ms);
	enum qn_take (*take)(void *self, const struct qn_group_key *g, uint32_t max_lanes, uint32_t budget,
	                     struct qn_uuid *out, uint32_t *count, uint64_t now_tick_ms);
	/** now_us: the clock by which the verdicts' times were taken. */
	void (*settle)(void *self, const struct qn_group_key *g, const struct qn_verdict *verdicts, uint32_t count,
	               int64_t now_us, uint64_t now_tick_ms);
	/** The lane's cursor moved and its lease is free; has_more: messages above the cursor. */
	void (*promote)(void *self, const struct qn_group_key *g, const struct qn_uuid *partition_id, bool has_more,
	                uint64_t now_tick_ms);
	/** True and fills *w when the group's walk needs a page now. Asked after each take() and page. */
	bool (*walk_due)(void *self, const struct qn_group_key *g, struct qn_walk *w, uint64_t now_tick_ms);
	/** The page asked for; NULL: it could not be read. */
	void (*walk_page)(void *self, const struct qn_group_key *g, const struct qn_walk_page *page,
	                  uint64_t now_tick_ms);
	void (*forget_queue)(void *self, const struct qn_uuid *tenant, struct qn_span queue);
	void (*forget_group)(void *self, const struct qn_group_key *g);
	/** Loop time at which due() has something to say; UINT64_MAX when nothing is to come. Asked often. */
	uint64_t (*next_due_ms)(void *self);
	/** Fills *g with a group that got ready lanes by the clock and was not named since; false: no more.
	 * The spans stay valid until the next call of the module. */
	bool (*due)(void *self, struct qn_group_key *g, uint64_t now_tick_ms);
	/** True when lanes taken from this queue have waited for its windowBuffer, so that a claim need not look. */
	bool (*keeps_window)(void *self, const struct qn_group_key *g);
};

#ifdef __cplusplus
}
#endif
#endif
