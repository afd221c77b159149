/* SPDX-License-Identifier: Apache-2.0 */
/** The handlers of the message plane. Each takes the call and answers it, now or later. */
#ifndef QN_API_HANDLERS_H
#define QN_API_HANDLERS_H

#include "call.h"

void qn_api_push(struct qn_call *c);
void qn_api_pop_queue(struct qn_call *c);
void qn_api_pop_lane(struct qn_call *c);
void qn_api_pop_discovery(struct qn_call *c);
void qn_api_ack(struct qn_call *c);
void qn_api_ack_batch(struct qn_call *c);
void qn_api_transaction(struct qn_call *c);
void qn_api_lease_extend(struct qn_call *c);
void qn_api_configure(struct qn_call *c);
void qn_api_queue_delete(struct qn_call *c);
void qn_api_queue_get(struct qn_call *c);
void qn_api_namespaces(struct qn_call *c);
void qn_api_tasks(struct qn_call *c);
void qn_api_queue_list(struct qn_call *c);
void qn_api_health(struct qn_call *c);
void qn_api_status(struct qn_call *c);

#endif
