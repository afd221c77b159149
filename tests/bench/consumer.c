/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One consumer: pop (long poll), note what came, acknowledge all of it in one batch, again. The
 * response is scanned for the members it needs, in the order they stand in a message.
 */
#include "qbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen {
	uint32_t lane;
	uint64_t seq;
};

struct consumer {
	struct client client;
	struct run *run;
	uv_timer_t pause;
	char path[512];
	bool acking;
	struct buffer ack;
	struct seen *batch;
	size_t count, cap;
};

static void pop(struct consumer *c)
{
	c->acking = false;
	client_send(&c->client, "GET", c->path, "", 0);
}

static void on_pause(uv_timer_t *timer)
{
	struct consumer *c = timer->data;

	if (c->acking) {
		client_send(&c->client, "POST", "/api/v1/ack/batch", c->ack.p, c->ack.n);
	} else {
		pop(c);
	}
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
	if (r->o.verify) {
		verify_delivered(&r->verify, lane, seq);
	}
	if (now >= r->begin_us && now < r->end_us) {
		r->popped_in_window++;
		hist_add(&r->pop, now > sent_us ? now - sent_us : 0);
	}
}

static void read_messages(struct consumer *c, const char *body)
{
	const char *at = strstr(body, "\"messages\":["), *lease = "", *head = body, *txn, *pid = "";
	size_t lease_bytes = quoted(&head, "\"leaseId\":\"", &lease);

	c->count = 0;
	c->ack.n = 0;
	buffer_fmt(&c->ack, "{\"consumerGroup\":\"%s\",\"acknowledgments\":[", c->run->o.group);
	while (at != NULL) {
		size_t txn_bytes = quoted(&at, "\"transactionId\":\"", &txn), pid_bytes;
		unsigned long long seq, sent;
		unsigned lane;
		const char *data;

		if (txn_bytes == 0) {
			break;
		}
		data = strstr(at, "\"data\":{\"l\":");
		if (data == NULL || sscanf(data, "\"data\":{\"l\":%u,\"s\":%llu,\"t\":%llu", &lane, &seq, &sent) != 3) {
			c->run->verify.disorders++;
			break;
		}
		pid_bytes = quoted(&at, "\"partitionId\":\"", &pid);
		buffer_fmt(&c->ack,
		           "%s{\"transactionId\":\"%.*s\",\"partitionId\":\"%.*s\",\"leaseId\":\"%.*s\","
		           "\"status\":\"completed\"}",
		           c->count > 0 ? "," : "", (int)txn_bytes, txn, (int)pid_bytes, pid, (int)lease_bytes, lease);
		note(c, lane, seq, sent);
	}
	buffer_put(&c->ack, "]}", 2);
}

static void acknowledged(struct consumer *c, const char *body)
{
	struct run *r = c->run;
	bool all = strstr(body, "\"success\":false") == NULL;

	if (all) {
		r->acked += c->count;
		for (size_t i = 0; r->o.verify && i < c->count; i++) {
			verify_acked(&r->verify, c->batch[i].lane, c->batch[i].seq);
		}
	} else {
		r->unacked += c->count;
	}
	pop(c);
}

static void on_done(struct client *cl, int status, const char *body, size_t n)
{
	struct consumer *c = cl->user;

	(void)n;
	if (c->run->stopping) {
		return;
	}
	if (c->acking && status == 200) {
		acknowledged(c, body);
	} else if (c->acking && status == 0) {
		c->run->lost++;
		(void)uv_timer_start(&c->pause, on_pause, 50, 0);
	} else if (!c->acking && status == 200) {
		c->run->pop_requests++;
		read_messages(c, body);
		if (c->run->o.auto_ack) {
			pop(c);
			return;
		}
		c->acking = true;
		client_send(&c->client, "POST", "/api/v1/ack/batch", c->ack.p, c->ack.n);
	} else if (!c->acking && status == 204) {
		c->run->pop_requests++;
		pop(c);
	} else {
		if (status == 0) {
			c->run->lost++;
		} else {
			c->run->failed++;
		}
		c->acking = false;
		(void)uv_timer_start(&c->pause, on_pause, 50, 0);
	}
}

struct consumer *consumer_start(struct run *r, uint32_t index)
{
	struct consumer *c = calloc(1, sizeof(*c));
	const struct options *o = &r->o;

	(void)index;
	if (c == NULL) {
		perror("calloc");
		exit(1);
	}
	c->run = r;
	(void)snprintf(c->path, sizeof(c->path),
	               "/api/v1/pop/queue/%s?batch=%u&wait=true&timeout=2000&consumerGroup=%s&partitions=%u"
	               "&subscriptionMode=all&leaseSeconds=%u%s",
	               o->queue, o->pop_batch, o->group, o->pop_partitions, o->lease_s,
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
	buffer_fini(&c->ack);
	buffer_fini(&c->client.in);
	buffer_fini(&c->client.out);
	buffer_fini(&c->client.response);
	free(c->batch);
	free(c);
}
