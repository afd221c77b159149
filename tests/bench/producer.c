/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One producer: its share of the lanes, one body in flight, each body for one lane. A body is sent
 * again, with the same transaction ids, until every item was answered `queued` or `duplicate`; that
 * keeps a lane's order through lost connections and restarts.
 *
 * Open loop: the time a body is due is what its latency is measured from, whether or not the
 * previous answer had come by then.
 */
#include "qbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct producer {
	struct client client;
	struct run *run;
	uv_timer_t pace;
	uint32_t index, lane;
	uint64_t *next_seq; /* per lane of mine */
	uint64_t started_us, due_us;
	double gap_us; /* between bodies; 0: closed loop */
	struct buffer body;
	char *padding;
};

static void send_body(struct producer *p);

static void build_body(struct producer *p)
{
	struct run *r = p->run;
	const struct options *o = &r->o;
	uint64_t t = now_us();

	p->body.n = 0;
	buffer_put(&p->body, "{\"items\":[", 10);
	for (uint32_t i = 0; i < o->batch; i++) {
		unsigned long long seq = p->next_seq[p->lane / o->producers] + i;

		buffer_fmt(&p->body,
		           "%s{\"queue\":\"%s\",\"partition\":\"p%u\",\"transactionId\":\"%s-%u-%u-%llu\","
		           "\"payload\":{\"l\":%u,\"s\":%llu,\"t\":%llu,\"p\":\"",
		           i > 0 ? "," : "", o->queue, p->lane, r->run_id, p->index, p->lane, seq, p->lane, seq,
		           (unsigned long long)t);
		buffer_put(&p->body, p->padding, strlen(p->padding));
		buffer_put(&p->body, "\"}}", 3);
	}
	buffer_put(&p->body, "]}", 2);
}

static void next_lane(struct producer *p)
{
	p->lane += p->run->o.producers;
	if (p->lane >= p->run->o.lanes) {
		p->lane = p->index % p->run->o.lanes;
	}
}

static void on_pace(uv_timer_t *timer)
{
	send_body(timer->data);
}

/** Builds the next body now, or when it is due. */
static void next_body(struct producer *p)
{
	struct run *r = p->run;
	uint64_t now = now_us();

	if (!r->producing) {
		r->producers_busy--;
		return;
	}
	if (p->gap_us > 0) {
		p->due_us += (uint64_t)p->gap_us;
		if (p->due_us > now + 1000) {
			(void)uv_timer_start(&p->pace, on_pace, (p->due_us - now) / 1000, 0);
			return;
		}
	}
	send_body(p);
}

static void send_body(struct producer *p)
{
	struct run *r = p->run;

	if (!r->producing) {
		r->producers_busy--;
		return;
	}
	build_body(p);
	p->started_us = p->gap_us > 0 && p->due_us < now_us() ? p->due_us : now_us();
	client_send(&p->client, "POST", "/api/v1/push", p->body.p, p->body.n);
}

static void send_again(uv_timer_t *timer)
{
	struct producer *p = timer->data;

	client_send(&p->client, "POST", "/api/v1/push", p->body.p, p->body.n);
}

static uint32_t count_of(const char *body, const char *word)
{
	uint32_t n = 0;

	for (const char *at = strstr(body, word); at != NULL; at = strstr(at + 1, word)) {
		n++;
	}
	return n;
}

static void stored(struct producer *p)
{
	struct run *r = p->run;
	uint64_t now = now_us();
	uint64_t *seq = &p->next_seq[p->lane / r->o.producers];

	*seq += r->o.batch;
	if (r->o.verify) {
		for (uint32_t i = 0; i < r->view_count; i++) {
			verify_stored(&r->views[i].verify, p->lane, *seq - 1);
		}
	}
	if (now >= r->begin_us && now < r->end_us) {
		hist_add(&r->push, now - p->started_us);
		r->pushed += r->o.batch;
		r->push_requests++;
	}
	next_lane(p);
	next_body(p);
}

static void on_done(struct client *c, int status, const char *body, size_t n)
{
	struct producer *p = c->user;

	(void)n;
	if (p->run->stopping) {
		return;
	}
	if (status == 201 &&
	    count_of(body, "\"status\":\"queued\"") + count_of(body, "\"status\":\"duplicate\"") == p->run->o.batch) {
		stored(p);
		return;
	}
	if (status == 0) {
		p->run->lost++;
	} else {
		p->run->failed++;
	}
	(void)uv_timer_start(&p->pace, send_again, 50, 0);
}

struct producer *producer_start(struct run *r, uint32_t index)
{
	struct producer *p = calloc(1, sizeof(*p));
	uint32_t bytes = r->o.payload_bytes > 60 ? r->o.payload_bytes - 60 : 1;

	if (p == NULL) {
		perror("calloc");
		exit(1);
	}
	p->run = r;
	p->index = index;
	p->lane = index % r->o.lanes;
	p->next_seq = calloc(r->o.lanes / r->o.producers + 1, sizeof(*p->next_seq));
	p->padding = malloc(bytes + 1);
	if (p->next_seq == NULL || p->padding == NULL) {
		perror("malloc");
		exit(1);
	}
	for (uint32_t i = 0; i < bytes; i++) {
		p->padding[i] = (char)('a' + rand() % 26);
	}
	p->padding[bytes] = '\0';
	if (r->o.rate > 0) {
		p->gap_us = 1e6 * r->o.producers * r->o.batch / r->o.rate;
		p->due_us = now_us() + (uint64_t)(p->gap_us * index / r->o.producers);
	}
	(void)uv_timer_init(r->loop, &p->pace);
	p->pace.data = p;
	client_init(&p->client, r->loop, &r->target, on_done, p);
	r->producers_busy++;
	next_body(p);
	return p;
}

void producer_stop(struct producer *p)
{
	uv_close((uv_handle_t *)&p->pace, NULL);
	client_close(&p->client);
}

void producer_free(struct producer *p)
{
	buffer_fini(&p->body);
	buffer_fini(&p->client.in);
	buffer_fini(&p->client.out);
	buffer_fini(&p->client.response);
	free(p->next_seq);
	free(p->padding);
	free(p);
}
