/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settling by transaction: the acknowledgments of a batch, and one push for each of its messages to
 * the same lane of a second queue. A transaction is sent again, unchanged, until its outcome is known;
 * every eighth is spoiled by an acknowledgment that cannot succeed, and tried again without it under a
 * new number. Each push carries the number, so that whoever pops it can tell where it came from.
 */
#include "consumer.h"

#include <string.h>

#define SPOILED_EVERY 8

static void build(struct consumer *c)
{
	const struct run *r = c->run;
	unsigned long long attempt = c->attempt;

	c->body.n = 0;
	buffer_fmt(&c->body, "{\"operations\":[{\"type\":\"push\",\"items\":[");
	for (size_t i = 0; i < c->count; i++) {
		unsigned long long seq = c->batch[i].seq;
		unsigned lane = c->batch[i].lane;

		buffer_fmt(&c->body,
		           "%s{\"queue\":\"%s\",\"partition\":\"p%u\",\"transactionId\":\"%s-%llu-%u-%llu\","
		           "\"payload\":{\"l\":%u,\"s\":%llu,\"t\":%llu,\"a\":%llu}}",
		           i > 0 ? "," : "", r->o.forward, lane, r->run_id, attempt, lane, seq, lane, seq,
		           (unsigned long long)now_us(), attempt);
	}
	buffer_put(&c->body, "]},", 3);
	buffer_put(&c->body, c->items.p, c->items.n);
	if (c->spoiled) {
		buffer_fmt(&c->body,
		           ",{\"type\":\"ack\",\"transactionId\":\"never-pushed\",\"partitionId\":\"%s\","
		           "\"consumerGroup\":\"%s\"}",
		           c->last_partition, c->view->group);
	}
	buffer_put(&c->body, "]}", 2);
}

static void attempt(struct consumer *c, bool spoiled)
{
	c->attempt = attempts_add(&c->run->attempts);
	c->in_doubt = false;
	c->spoiled = spoiled;
	if (spoiled) {
		attempts_mark(&c->run->attempts, c->attempt, ATTEMPT_ROLLED_BACK);
	}
	build(c);
	consumer_settle(c);
}

void forward_begin(struct consumer *c)
{
	c->transactions++;
	attempt(c, c->transactions % SPOILED_EVERY == 0);
}

static void committed(struct consumer *c)
{
	attempts_mark(&c->run->attempts, c->attempt, ATTEMPT_COMMITTED);
	consumer_acked(c);
}

void forward_answered(struct consumer *c, int status, const char *body)
{
	struct run *r = c->run;

	if (status == 200 && strstr(body, "\"success\":false") == NULL) {
		committed(c);
	} else if (status != 200 || strstr(body, "\"reason\":\"db_error\"") != NULL) {
		*(status == 0 ? &r->lost : &r->failed) += 1;
		r->in_doubt++;
		c->in_doubt = true;
		consumer_settle_again(c);
	} else if (c->in_doubt && strstr(body, "\"reason\":\"duplicate\"") != NULL) {
		committed(c); /* by the try whose answer did not come */
	} else if (c->spoiled) {
		attempt(c, false);
	} else {
		/* In doubt, the lease may be gone because an earlier try was committed. */
		if (!c->in_doubt) {
			attempts_mark(&r->attempts, c->attempt, ATTEMPT_ROLLED_BACK);
		}
		consumer_gave_up(c);
	}
}
