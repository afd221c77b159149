/* SPDX-License-Identifier: Apache-2.0 */
/** The run of the load generator: options, counters, workers. One thread, one loop. */
#ifndef QBENCH_QBENCH_H
#define QBENCH_QBENCH_H

#include "attempts.h"
#include "client.h"
#include "hist.h"
#include "verify.h"

#define VIEWS_MAX 10

struct options {
	const char *url, *queue, *group;
	const char *forward; /* second queue, or NULL */
	uint32_t groups, lanes, producers, consumers, batch, pop_batch, pop_partitions, payload_bytes, seconds, lease_s;
	double rate; /* messages/s over all producers; 0: closed loop */
	bool h2, auto_ack, verify;
};

/** What one group is to get of one queue, and got. */
struct view {
	const char *queue;
	char group[64];
	bool forwards; /* settles by transactions that push to the second queue */
	struct verify verify;
};

struct run {
	struct options o;
	struct target target;
	uv_loop_t *loop;
	char run_id[24];
	uint64_t begin_us, end_us; /* of the measured window */
	uint64_t moved_us;         /* last delivery */
	bool producing, stopping;
	struct view views[VIEWS_MAX];
	uint32_t view_count;
	struct attempts attempts;
	struct hist push, pop; /* request latency; push to pop */
	uint64_t pushed, popped, acked, push_requests, pop_requests, failed, lost, unacked;
	uint64_t producers_busy;
	uint64_t in_doubt;  /* tries of transactions that ended without a verdict */
	uint64_t displaced; /* offset differs from sequence */
	uint64_t popped_in_window;
};

uint64_t now_us(void);

struct producer;
struct consumer;
struct producer *producer_start(struct run *r, uint32_t index);
struct consumer *consumer_start(struct run *r, uint32_t index);
void producer_stop(struct producer *p);
void consumer_stop(struct consumer *c);
/** After the loop has ended. */
void producer_free(struct producer *p);
void consumer_free(struct consumer *c);

#endif
