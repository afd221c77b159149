/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, lanes and cursors: finding, making and destroying them.
 *
 * A queue is found by (tenant, name), a lane by (queue, name) and by its id, a cursor by (lane,
 * group). Destroying a queue destroys all below it; a lane alone only when it was made in vain or holds nothing.
 */
#include "memory.h"

#include <string.h>

struct queue_key {
	const struct qn_uuid *tenant;
	struct qn_span name;
};

uint64_t qn_mem_hash(struct qn_mem *m, struct qn_span s)
{
	uint8_t digest[16];
	uint64_t out;

	m->host->hash128(s, digest);
	memcpy(&out, digest, sizeof(out));
	return out;
}

struct qn_span qn_mem_dup(struct qn_mem *m, struct qn_arena *a, struct qn_span s)
{
	void *p;

	if (s.n == 0) {
		return (struct qn_span){"", 0};
	}
	p = m->host->arena_alloc(a, s.n);
	memcpy(p, s.p, s.n);
	return (struct qn_span){p, s.n};
}

/* Copies s to *at, moves *at behind it and returns where it is now. */
static struct qn_span place(char **at, struct qn_span s)
{
	struct qn_span out = {*at, s.n};

	if (s.n > 0) {
		memcpy(*at, s.p, s.n);
		*at += s.n;
	}
	return out;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static uint64_t queue_hash(struct qn_mem *m, const struct qn_uuid *tenant, struct qn_span name)
{
	return qn_mem_hash(m, name) ^ qn_mem_hash(m, (struct qn_span){tenant->b, sizeof(tenant->b)});
}

static bool queue_eq(const struct qn_mem_node *node, const void *key)
{
	const struct qn_mem_queue *q = QN_MEM_OF(node, const struct qn_mem_queue, node);
	const struct queue_key *k = key;

	return memcmp(&q->tenant, k->tenant, sizeof(q->tenant)) == 0 && qn_mem_span_eq(q->name, k->name);
}

struct qn_mem_queue *qn_mem_queue_find(struct qn_mem *m, const struct qn_uuid *tenant, struct qn_span name)
{
	struct queue_key key = {tenant, name};
	struct qn_mem_node *node = qn_mem_table_find(&m->queues, queue_hash(m, tenant, name), queue_eq, &key);

	return node == NULL ? NULL : QN_MEM_OF(node, struct qn_mem_queue, node);
}

/* The text between the first dots of a name: part 0 or 1. */
static struct qn_span dotted(struct qn_span name, int part)
{
	const char *p = name.p, *end = p + name.n;

	for (;;) {
		const char *dot = name.n == 0 ? NULL : memchr(p, '.', (size_t)(end - p));
		const char *stop = dot == NULL ? end : dot;

		if (part == 0) {
			return (struct qn_span){p, (size_t)(stop - p)};
		}
		if (dot == NULL) {
			return (struct qn_span){"", 0};
		}
		p = dot + 1;
		part--;
	}
}

struct qn_mem_queue *qn_mem_queue_create(struct qn_mem *m, const struct qn_uuid *tenant, struct qn_span name)
{
	struct qn_mem_queue *q = m->host->alloc(sizeof(*q) + name.n);
	char *at = q->text;
	const struct qn_queue_options born = {.name_space = dotted(name, 0),
	                                      .task = dotted(name, 1),
#define X(field, json, column, def, lo, hi) .field = def,
	                                      QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) .field = def,
	                                              QN_QUEUE_BOOLS(X)
#undef X
	};

	q->name = place(&at, name);
	q->tenant = *tenant;
	m->host->random(&q->id, sizeof(q->id));
	q->id.b[6] = (uint8_t)((q->id.b[6] & 0x0f) | 0x40);
	q->id.b[8] = (uint8_t)((q->id.b[8] & 0x3f) | 0x80);
	q->serial = ++m->serial;
	q->created_at_us = m->host->now_us();
	qn_mem_queue_set(m, q, &born);
	q->options.lease_time_s = QN_LEASE_IMPLICIT_S;
	qn_mem_table_insert(&m->queues, m->host, &q->node, queue_hash(m, tenant, name));
	return q;
}

void qn_mem_queue_set(struct qn_mem *m, struct qn_mem_queue *q, const struct qn_queue_options *o)
{
	char *labels = m->host->alloc(o->name_space.n + o->task.n), *at = labels;
	struct qn_queue_options fresh = *o;

	fresh.name_space = place(&at, o->name_space);
	fresh.task = place(&at, o->task);
	m->host->free(q->labels);
	q->labels = labels;
	q->options = fresh;
}

bool qn_mem_queue_matches(const struct qn_mem_queue *q, struct qn_span name_space, struct qn_span task)
{
	return (name_space.n == 0 || qn_mem_span_eq(q->options.name_space, name_space)) &&
	       (task.n == 0 || qn_mem_span_eq(q->options.task, task));
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static bool lane_eq(const struct qn_mem_node *node, const void *key)
{
	return qn_mem_span_eq(QN_MEM_OF(node, const struct qn_mem_lane, by_name)->name, *(const struct qn_span *)key);
}

static bool id_eq(const struct qn_mem_node *node, const void *key)
{
	const struct qn_mem_lane *l = QN_MEM_OF(node, const struct qn_mem_lane, by_id);

	return memcmp(&l->id, key, sizeof(l->id)) == 0;
}

struct qn_mem_lane *qn_mem_lane_find(struct qn_mem *m, struct qn_mem_queue *q, struct qn_span name)
{
	struct qn_mem_node *node = qn_mem_table_find(&q->lanes, qn_mem_hash(m, name), lane_eq, &name);

	return node == NULL ? NULL : QN_MEM_OF(node, struct qn_mem_lane, by_name);
}

struct qn_mem_lane *qn_mem_lane_by_id(struct qn_mem *m, const struct qn_uuid *tenant, const struct qn_uuid *id)
{
	uint64_t hash = qn_mem_hash(m, (struct qn_span){id->b, sizeof(id->b)});
	struct qn_mem_node *node = qn_mem_table_find(&m->lanes, hash, id_eq, id);
	struct qn_mem_lane *l = node == NULL ? NULL : QN_MEM_OF(node, struct qn_mem_lane, by_id);

	return l != NULL && (tenant == NULL || memcmp(&l->queue->tenant, tenant, sizeof(*tenant)) == 0) ? l : NULL;
}

struct qn_mem_lane *qn_mem_lane_create(struct qn_mem *m, struct qn_mem_queue *q, struct qn_span name)
{
	struct qn_mem_lane *l = m->host->alloc(sizeof(*l) + name.n);
	char *at = l->text;

	l->name = place(&at, name);
	l->queue = q;
	l->last_offset = -1;
	l->created_at_us = m->host->now_us();
	m->host->uuid7(&l->id);
	qn_mem_table_insert(&q->lanes, m->host, &l->by_name, qn_mem_hash(m, name));
	qn_mem_table_insert(&m->lanes, m->host, &l->by_id, qn_mem_hash(m, (struct qn_span){l->id.b, sizeof(l->id.b)}));
	return l;
}

/* ---- cursors --------------------------------------------------------------------------------- */

static bool cursor_eq(const struct qn_mem_node *node, const void *key)
{
	return qn_mem_span_eq(QN_MEM_OF(node, const struct qn_mem_cursor, node)->group, *(const struct qn_span *)key);
}

struct qn_mem_cursor *qn_mem_cursor_find(struct qn_mem *m, const struct qn_mem_lane *l, struct qn_span group)
{
	struct qn_mem_node *node = qn_mem_table_find(&l->cursors, qn_mem_hash(m, group), cursor_eq, &group);

	return node == NULL ? NULL : QN_MEM_OF(node, struct qn_mem_cursor, node);
}

struct qn_mem_cursor *qn_mem_cursor_create(struct qn_mem *m, struct qn_mem_lane *l, struct qn_span group,
                                           int64_t committed)
{
	struct qn_mem_cursor *c = m->host->alloc(sizeof(*c) + group.n);
	char *at = c->name;

	c->group = place(&at, group);
	c->committed = committed;
	c->batch_end = -1;
	c->attempt_offset = -1;
	c->created_at_us = m->host->now_us();
	qn_mem_table_insert(&l->cursors, m->host, &c->node, qn_mem_hash(m, group));
	return c;
}

/* ---- destroying ------------------------------------------------------------------------------ */

/* The lane is not in its queue's table any more. */
static void lane_free(struct qn_mem *m, struct qn_mem_lane *l)
{
	struct qn_mem_node *node;

	for (size_t i = 0; i < l->segment_count; i++) {
		qn_mem_segment_destroy(m, l->segments[i]);
	}
	for (node = qn_mem_table_pop(&l->cursors); node != NULL; node = qn_mem_table_pop(&l->cursors)) {
		m->host->free(QN_MEM_OF(node, struct qn_mem_cursor, node));
	}
	while (l->letters != NULL) {
		struct qn_mem_letter *next = l->letters->next;

		m->used_bytes -= (int64_t)l->letters->payload_bytes;
		m->host->free(l->letters);
		l->letters = next;
	}
	qn_mem_table_fini(&l->cursors, m->host);
	qn_mem_table_remove(&m->lanes, &l->by_id);
	m->host->free(l->segments);
	m->host->free(l->slots);
	m->host->free(l);
}

void qn_mem_lane_destroy(struct qn_mem *m, struct qn_mem_lane *l)
{
	qn_mem_table_remove(&l->queue->lanes, &l->by_name);
	lane_free(m, l);
}

void qn_mem_queue_destroy(struct qn_mem *m, struct qn_mem_queue *q)
{
	struct qn_mem_node *node;

	for (node = qn_mem_table_pop(&q->lanes); node != NULL; node = qn_mem_table_pop(&q->lanes)) {
		lane_free(m, QN_MEM_OF(node, struct qn_mem_lane, by_name));
	}
	for (node = qn_mem_table_pop(&q->groups); node != NULL; node = qn_mem_table_pop(&q->groups)) {
		m->host->free(QN_MEM_OF(node, struct qn_mem_registration, node));
	}
	qn_mem_table_fini(&q->lanes, m->host);
	qn_mem_table_fini(&q->groups, m->host);
	qn_mem_table_remove(&m->queues, &q->node);
	m->host->free(q->labels);
	m->host->free(q);
}

void qn_mem_clear(struct qn_mem *m)
{
	struct qn_mem_node *node;

	for (node = qn_mem_table_next(&m->queues, NULL); node != NULL; node = qn_mem_table_next(&m->queues, NULL)) {
		qn_mem_queue_destroy(m, QN_MEM_OF(node, struct qn_mem_queue, node));
	}
	while (m->labels != NULL) {
		struct qn_mem_registration *next = m->labels->next;

		m->host->free(m->labels);
		m->labels = next;
	}
	qn_mem_table_fini(&m->queues, m->host);
	qn_mem_table_fini(&m->lanes, m->host);
}
