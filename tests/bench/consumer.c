/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One consumer: pop (long poll), note what came, settle all of it in one call, again. The response
 * is scanned for the members it needs, in the order they stand in a message.
 */
#include "consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pop(struct consumer *c)
{
	c->settling = false;
	client_send(&c->client, "GET", c->path, "", 0);
}

void consumer_settle(struct consumer *c)
{
	c->settling = true;
	client_send(&c->client, "POST", c->view->forwards ? "/api/v1/transaction" : "/api/v1/ack/batch", c->body.p,
	            c->body.n);
}

static void on_pause(uv_timer_t *timer)
{
	struct consumer *c = timer->data;

	if (c->settling) {
		consumer_settle(c);
	} else {
		pop(c);
	}
}

void consumer_settle_again(struct consumer *c)
{
	(void)uv_timer_start(&c->pause, on_pause, 50, 0);
}

/** The text between prefix and the next quote, searched from *at; moves *at behind it. */
static size_t quoted(const char **at, const char *prefix, const char **out)
{
	const char *p = strstr(*at, prefix);
	const char *end;

	if (p == NULL) {
		return 0;
	}
	*out = p + strlen(prefix);
	end = strchr(*out, '"');
	if (end == NULL) {
		return 0;
	}
	*at = end;
	return (size_t)(end - *out);
}

static void note(struct consumer *c, uint32_t lane, uint64_t seq, uint64_t sent_us)
{
	struct run *r = c->run;
	uint64_t now = now_us();

	if (c->count == c->cap) {
		c->cap = c->cap == 0 ? 256 : c->cap * 2;
		c->batch = realloc(c->batch, c->cap * sizeof(*c->batch));
		if (c->batch == NULL) {
			perror("realloc");
			exit(1);
		}
	}
	c->batch[c->count] = (struct seen){lane, seq};
	c->count++;
	r->popped++;
	r->moved_us = now;
	if (r->o.verify) {
		verify_delivered(&c->view->verify, lane, seq);
		if (c->count > 1 && c->batch[c->count - 2].lane == lane && c->batch[c->count - 2].seq + 1 != seq) {
			c->view->verify.disorders++;
		}
	}
	if (now >= r->begin_us && now < r->end_us) {
		r->popped_in_window++;
		hist_add(&r->pop, now > sent_us ? now - sent_us : 0);
	}
}

/** With a second queue, a lane holds nothing but what this run pushed, once: its offsets are its sequence. */
static void note_offset(struct consumer *c, const char *member, uint64_t seq)
{
	if (member == NULL || strtoull(member + strlen("\"offset\":"), NULL, 10) != seq) {
		c->run->displaced++;
	}
}

/** Reads the message from *at on and moves *at into its end; false when there is none. */
static bool read_message(struct consumer *c, const char **at, const char *lease, size_t lease_bytes)
{
	const char *txn, *pid = "", *data;
	size_t txn_bytes = quoted(at, "\"transactionId\":\"", &txn), pid_bytes;
	unsigned long long seq, sent, attempt;
	unsigned lane;
	int n;

	if (txn_bytes == 0) {
		return false;
	}
	data = strstr(*at, "\"data\":{\"l\":");
	n = data == NULL
	            ? 0
	            : sscanf(data, "\"data\":{\"l\":%u,\"s\":%llu,\"t\":%llu,\"a\":%llu", &lane, &seq, &sent, &attempt);
	if (n < 3) {
		c->view->verify.disorders++;
		return false;
	}
	pid_bytes = quoted(at, "\"partitionId\":\"", &pid);
	buffer_fmt(&c->items,
	           "%s{\"type\":\"ack\",\"transactionId\":\"%.*s\",\"partitionId\":\"%.*s\",\"leaseId\":\"%.*s\","
	           "\"consumerGroup\":\"%s\",\"status\":\"completed\"}",
	           c->count > 0 ? "," : "", (int)txn_bytes, txn, (int)pid_bytes, pid, (int)lease_bytes, lease,
	           c->view->group);
	(void)snprintf(c->last_partition, sizeof(c->last_partition), "%.*s", (int)pid_bytes, pid);
	note(c, lane, seq, sent);
	if (c->run->o.forward != NULL) {
		note_offset(c, strstr(*at, "\"offset\":"), seq);
	}
	if (n == 4) {
		attempts_mark(&c->run->attempts, attempt, ATTEMPT_SEEN);
		/* What was pushed was acknowledged with it, whatever was answered. */
		verify_acked(&c->run->views[c->run->o.groups - 1].verify, lane, seq);
	}
	return true;
}

static void read_messages(struct consumer *c, const char *body)
{
	const char *at = strstr(body, "\"messages\":["), *lease = "", *head = body;
	size_t lease_bytes = quoted(&head, "\"leaseId\":\"", &lease);

	c->count = 0;
	c->items.n = 0;
	while (at != NULL && read_message(c, &at, lease, lease_bytes)) {
	}
}

static void settle(struct consumer *c)
{
	if (c->view->forwards) {
		forward_begin(c);
		return;
	}
	c->body.n = 0;
	buffer_fmt(&c->body, "{\"consumerGroup\":\"%s\",\"acknowledgments\":[", c->view->group);
	buffer_put(&c->body, c->items.p, c->items.n);
	buffer_put(&c->body, "]}", 2);
	consumer_settle(c);
}

void consumer_acked(struct consumer *c)
{
	struct run *r = c->run;

	r->acked += c->count;
	for (size_t i = 0; r->o.verify && i < c->count; i++) {
		verify_acked(&c->view->verify, c->batch[i].lane, c->batch[i].seq);
	}
	pop(c);
}

void consumer_gave_up(struct consumer *c)
{
	c->run->unacked += c->count;
	pop(c);
}

static void settled(struct consumer *c, int status, const char *body)
{
	if (status == 0) {
		c->run->lost++;
		consumer_settle_again(c);
	} else if (status != 200) {
		c->run->failed++;
		c->settling = false;
		(void)uv_timer_start(&c->pause, on_pause, 50, 0);
	} else if (strstr(body, "\"success\":false") == NULL) {
		consumer_acked(c);
	} else if (strstr(body, "\"ack flush failed") != NULL) {
		c->run->failed++; /* in doubt; with the same lease it may be told again */
		consumer_settle_again(c);
	} else {
		consumer_gave_up(c);
	}
}

static void popped(struct consumer *c, int status, const char *body)
{
	struct run *r = c->run;

	if (status != 200 && status != 204) {
		*(status == 0 ? &r->lost : &r->failed) += 1;
		(void)uv_timer_start(&c->pause, on_pause, 50, 0);
		return;
	}
	r->pop_requests++;
	if (status == 200) {
		read_messages(c, body);
	}
	if (status == 204 || r->o.auto_ack) {
		pop(c);
	} else {
		settle(c);
	}
}

static void on_done(struct client *cl, int status, const char *body, size_t n)
{
	struct consumer *c = cl->user;

	(void)n;
	if (c->run->stopping) {
		return;
	}
	if (!c->settling) {
		popped(c, status, body);
	} else if (c->view->forwards) {
		forward_answered(c, status, body);
	} else {
		settled(c, status, body);
	}
}

struct consumer *consumer_start(struct run *r, uint32_t index)
{
	struct consumer *c = calloc(1, sizeof(*c));
	const struct options *o = &r->o;

	if (c == NULL) {
		perror("calloc");
		exit(1);
	}
	c->run = r;
	c->view = &r->views[index % r->view_count];
	(void)snprintf(c->path, sizeof(c->path),
	               "/api/v1/pop/queue/%s?batch=%u&wait=true&timeout=2000&consumerGroup=%s&partitions=%u"
	               "&subscriptionMode=all&leaseSeconds=%u%s",
	               c->view->queue, o->pop_batch, c->view->group, o->pop_partitions, o->lease_s,
	               o->auto_ack ? "&autoAck=true" : "");
	(void)uv_timer_init(r->loop, &c->pause);
	c->pause.data = c;
	client_init(&c->client, r->loop, &r->target, on_done, c);
	pop(c);
	return c;
}

void consumer_stop(struct consumer *c)
{
	uv_close((uv_handle_t *)&c->pause, NULL);
	client_close(&c->client);
}

void consumer_free(struct consumer *c)
{
	buffer_fini(&c->items);
	buffer_fini(&c->body);
	buffer_fini(&c->client.in);
	buffer_fini(&c->client.out);
	buffer_fini(&c->client.response);
	free(c->batch);
	free(c);
}
