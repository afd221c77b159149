/* SPDX-License-Identifier: Apache-2.0 */
/** What becomes of a claim on the I/O thread: an answer, or a lease given back. */
#ifndef QN_API_POP_RENDER_H
#define QN_API_POP_RENDER_H

#include "call.h"

/** Answers the call: 200 with messages, or 204. */
void qn_pop_render(struct qn_call *c, struct qn_pop_job *pop);
/** Releases the lease of a claim nobody will hear of (decisions 19). Nothing to do with autoAck. */
void qn_pop_give_back(const struct qn_call *c, const struct qn_pop_job *pop);

#endif
