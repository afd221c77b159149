/* SPDX-License-Identifier: Apache-2.0 */
/** What becomes of a claim on the I/O thread: an answer, or a lease given back. */
#ifndef QN_API_POP_RENDER_H
#define QN_API_POP_RENDER_H

#include "call.h"

/** Answers the call, at once or when its dead letters are filed: 200 with messages, 204, or 5xx. */
void qn_pop_render(struct qn_call *c, struct qn_pop_job *pop);
/** Releases the lease of a claim nobody will hear of (decisions 19). Nothing to do with autoAck. */
void qn_pop_give_back(const struct qn_call *c, const struct qn_pop_job *pop);

/* pop_letters.c */
/** Messages that cannot be delivered, in the call's arena. */
struct qn_pop_letters {
	struct qn_dead_letter *items;
	uint32_t count, cap;
};

#define QN_POP_NOTHING UINT32_MAX

/** One more, of one message, without ids and with payload null; the caller fills in the rest. */
struct qn_dead_letter *qn_pop_letter(struct qn_call *c, const struct qn_pop_job *pop, struct qn_pop_letters *l,
                                     const struct qn_claimed *lane);
/**
 * The letters from `first` on are those of a lane that is through: decides what they do to its cursor.
 * behind: how many letters there were at its last delivered message, QN_POP_NOTHING when there is none.
 */
void qn_pop_letters_of_lane(struct qn_pop_letters *l, const struct qn_pop_job *pop, uint32_t first, uint32_t behind);
/** Files them and then answers the call. answer: [take], empty: 204. */
void qn_pop_file(struct qn_call *c, struct qn_pop_job *pop, const struct qn_pop_letters *l, struct qn_bytes *answer);

#endif
