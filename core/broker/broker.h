/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The broker: every piece of mutable state of the message plane, on the engine thread.
 *
 * I/O threads reach it only through jobs (job.h).
 */
#ifndef QN_BROKER_BROKER_H
#define QN_BROKER_BROKER_H

#include "../app.h"

struct qn_broker;

/** After every module's thread_start on the engine. Sets app->broker. [engine] */
int qn_broker_start(struct qn_app *app, struct qn_error *e) QN_MUST;
/** Parked pops are answered empty at once and nothing parks any more; work in flight goes on. [engine] */
void qn_broker_drain(struct qn_broker *b);
/** True when no job is held and no storage operation is in flight. [engine] */
bool qn_broker_idle(const struct qn_broker *b);
/** Fails what is queued, starts nothing more and closes its handles. Before the modules' thread_stop. [engine] */
void qn_broker_stop(struct qn_broker *b);
/** After the modules' thread_stop, when no operation can come back any more. Accepts NULL. [engine, main] */
void qn_broker_destroy(struct qn_broker *b);

#endif
