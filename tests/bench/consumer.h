/* SPDX-License-Identifier: Apache-2.0 */
/** A consumer's state, for the two ways to settle a batch: acknowledgments (consumer.c), transactions (forward.c). */
#ifndef QBENCH_CONSUMER_H
#define QBENCH_CONSUMER_H

#include "qbench.h"

struct seen {
	uint32_t lane;
	uint64_t seq;
};

struct consumer {
	struct client client;
	struct run *run;
	struct view *view;
	uv_timer_t pause;
	char path[512];
	bool settling;
	struct buffer items; /* acknowledgments of the batch, comma-separated */
	struct buffer body;  /* of the call that settles it */
	struct seen *batch;
	size_t count, cap;
	char last_partition[40];
	uint64_t transactions, attempt;
	bool in_doubt, spoiled; /* the attempt */
};

/** Sends c->body; the answer comes to settled() or forward_answered(). */
void consumer_settle(struct consumer *c);
/** The same body again, a little later. */
void consumer_settle_again(struct consumer *c);
/** The batch is acknowledged. */
void consumer_acked(struct consumer *c);
/** The batch was not, or not surely, acknowledged: what is left of it will be delivered again. */
void consumer_gave_up(struct consumer *c);

/** Settles the batch in a transaction that also pushes it to the queue run->o.forward. */
void forward_begin(struct consumer *c);
void forward_answered(struct consumer *c, int status, const char *body);

#endif
