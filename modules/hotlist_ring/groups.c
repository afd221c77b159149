/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues and groups of the ring: found by name, dropped when forgotten or not used for long. Whatever
 * is dropped is met anew, by a scan and a walk, when somebody pops it again.
 */
#include "ring.h"

#include <string.h>

static bool span_eq(struct qn_span a, struct qn_span b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static uint64_t queue_hash(const struct qn_ring *r, const struct qn_uuid *tenant, struct qn_span name)
{
	uint8_t h[2][16];
	uint64_t a, b;

	r->host->hash128(name, h[0]);
	r->host->hash128((struct qn_span){tenant->b, sizeof(tenant->b)}, h[1]);
	memcpy(&a, h[0], sizeof(a));
	memcpy(&b, h[1], sizeof(b));
	return a ^ (b * UINT64_C(0x9e3779b97f4a7c15));
}

struct qn_ring_queue *qn_ring_queue_find(struct qn_ring *r, const struct qn_uuid *tenant, struct qn_span name)
{
	uint64_t hash;
	struct qn_ring_queue *q;

	if (r->queue_count == 0) {
		return NULL;
	}
	hash = queue_hash(r, tenant, name);
	q = r->buckets[hash & r->bucket_mask];
	while (q != NULL &&
	       !(q->hash == hash && span_eq(q->name, name) && memcmp(&q->tenant, tenant, sizeof(*tenant)) == 0)) {
		q = q->next;
	}
	return q;
}

static struct qn_ring_group *group_in(struct qn_ring_queue *q, struct qn_span name)
{
	struct qn_ring_group *g = q->groups;

	while (g != NULL && !span_eq(g->name, name)) {
		g = g->next;
	}
	return g;
}

struct qn_ring_group *qn_ring_group_find(struct qn_ring *r, const struct qn_group_key *k)
{
	struct qn_ring_queue *q = qn_ring_queue_find(r, &k->tenant, k->queue);

	return q == NULL ? NULL : group_in(q, k->group);
}

static bool more_buckets(struct qn_ring *r)
{
	uint32_t n = r->buckets == NULL ? 64 : (r->bucket_mask + 1) * 2;
	struct qn_ring_queue **to = r->host->try_alloc(n * sizeof(struct qn_ring_queue *));

	if (to == NULL) {
		return false;
	}
	memset(to, 0, n * sizeof(struct qn_ring_queue *));
	for (uint32_t i = 0; r->buckets != NULL && i <= r->bucket_mask; i++) {
		while (r->buckets[i] != NULL) {
			struct qn_ring_queue *q = r->buckets[i];

			r->buckets[i] = q->next;
			q->next = to[q->hash & (n - 1)];
			to[q->hash & (n - 1)] = q;
		}
	}
	r->host->free(r->buckets);
	r->buckets = to;
	r->bucket_mask = n - 1;
	return true;
}

static struct qn_ring_queue *queue_get(struct qn_ring *r, const struct qn_group_key *k)
{
	struct qn_ring_queue *q = qn_ring_queue_find(r, &k->tenant, k->queue);

	if (q != NULL) {
		return q;
	}
	if ((r->buckets == NULL || r->queue_count > r->bucket_mask) && !more_buckets(r)) {
		return NULL;
	}
	q = r->host->alloc(sizeof(*q) + k->queue.n);
	memcpy(q->text, k->queue.p, k->queue.n);
	q->name = (struct qn_span){q->text, k->queue.n};
	q->tenant = k->tenant;
	q->hash = queue_hash(r, &k->tenant, k->queue);
	q->next = r->buckets[q->hash & r->bucket_mask];
	r->buckets[q->hash & r->bucket_mask] = q;
	r->queue_count++;
	return q;
}

/** A free place in ring->groups; QN_RING_NONE when out of memory. */
static uint32_t free_number(struct qn_ring *r)
{
	uint32_t n = 0;

	while (n < r->group_cap && r->groups[n] != NULL) {
		n++;
	}
	return n < r->group_cap || qn_ring_grow(r->host, (void **)&r->groups, &r->group_cap, n + 1,
	                                        sizeof(struct qn_ring_group *))
	               ? n
	               : QN_RING_NONE;
}

static void queue_free(struct qn_ring *r, struct qn_ring_queue *q)
{
	struct qn_ring_queue **at = &r->buckets[q->hash & r->bucket_mask];

	while (*at != q) {
		at = &(*at)->next;
	}
	*at = q->next;
	r->queue_count--;
	qn_ring_lanes_fini(&q->lanes, r->host);
	r->host->free(q);
}

struct qn_ring_group *qn_ring_group_get(struct qn_ring *r, const struct qn_group_key *k, uint64_t now_ms)
{
	struct qn_ring_queue *q = queue_get(r, k);
	struct qn_ring_group *g = q == NULL ? NULL : group_in(q, k->group);
	uint32_t number;

	if (q == NULL || g != NULL) {
		return g;
	}
	number = free_number(r);
	if (number == QN_RING_NONE) {
		if (q->groups == NULL) {
			queue_free(r, q);
		}
		return NULL;
	}
	g = r->host->alloc(sizeof(*g) + k->group.n);
	memcpy(g->text, k->group.p, k->group.n);
	g->name = (struct qn_span){g->text, k->group.n};
	g->queue = q;
	g->number = number;
	g->head = g->tail = QN_RING_NONE;
	g->used = true;
	g->walk_ms = g->full_ms = now_ms;
	g->next = q->groups;
	q->groups = g;
	r->groups[number] = g;
	return g;
}

void qn_ring_group_drop(struct qn_ring *r, struct qn_ring_group *g)
{
	struct qn_ring_queue *q = g->queue;
	struct qn_ring_group **at = &q->groups;

	for (uint32_t i = 0; i < g->cap; i++) {
		r->waiting -= g->slots[i].state == QN_SLOT_WAITING ? 1 : 0;
	}
	while (*at != g) {
		at = &(*at)->next;
	}
	*at = g->next;
	for (at = &r->fired; *at != NULL && *at != g;) {
		at = &(*at)->fired_next;
	}
	if (*at == g) {
		*at = g->fired_next;
	}
	r->groups[g->number] = NULL;
	r->host->free(g->slots);
	r->host->free(g);
	if (q->groups == NULL) {
		queue_free(r, q);
	}
}

void qn_ring_queue_drop(struct qn_ring *r, struct qn_ring_queue *q)
{
	struct qn_ring_group *next;

	/* The queue goes with its last group. */
	for (struct qn_ring_group *g = q->groups; g != NULL; g = next) {
		next = g->next;
		qn_ring_group_drop(r, g);
	}
}

void qn_ring_sweep(struct qn_ring *r, uint64_t now_ms)
{
	if (now_ms < r->sweep_ms) {
		return;
	}
	r->sweep_ms = now_ms + (uint64_t)r->options->idle_ms;
	for (uint32_t i = 0; i < r->group_cap; i++) {
		struct qn_ring_group *g = r->groups[i];

		if (g == NULL) {
			continue;
		}
		if (!g->used && !g->asked && g->out == 0) {
			qn_ring_group_drop(r, g);
			continue;
		}
		g->used = false;
	}
}

void qn_ring_fini(struct qn_ring *r)
{
	for (uint32_t i = 0; i < r->group_cap; i++) {
		if (r->groups[i] != NULL) {
			qn_ring_group_drop(r, r->groups[i]);
		}
	}
	r->host->free(r->groups);
	r->host->free(r->buckets);
	qn_wheel_fini(&r->wheel);
}
