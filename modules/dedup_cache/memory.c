/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory under a hard cap, and who leaves when it is short.
 *
 * Everything the module allocates is counted here, as what the allocator takes for it. The tables are
 * sized by the cap once and never grow, so no push ever pays for a rehash.
 */
#include "cache.h"

#include <string.h>

#define BYTES_PER_BUCKET  1024
#define BYTES_PER_EVICTED 4096
#define EVICTIONS_AT_ONCE 256

/* The allocator's chunk: a header of 8 bytes, rounded up to 16; pages of their own from 128 KiB on. */
static size_t chunk(size_t n)
{
	size_t round = n >= (128 << 10) ? 4096 : 16, whole = n + 8 + round - 1;

	whole -= whole % round;
	return whole < 32 ? 32 : whole;
}

void *qn_dc_take(struct qn_dc *c, size_t n, size_t limit)
{
	void *p;

	if (c->used + chunk(n) > limit) {
		return NULL;
	}
	p = c->host->try_alloc(n);
	if (p != NULL) {
		c->used += chunk(n);
	}
	return p;
}

void qn_dc_give(struct qn_dc *c, void *p, size_t n)
{
	if (p != NULL) {
		c->used -= chunk(n);
		c->host->free(p);
	}
}

size_t qn_dc_admission_limit(const struct qn_dc *c)
{
	return c->cap / 10 * 9;
}

uint32_t qn_dc_mono_s(const struct qn_dc *c)
{
	return (uint32_t)(c->host->mono_ms() / 1000);
}

static size_t power_of_two(size_t n)
{
	size_t p = 256;

	while (p * 2 <= n) {
		p *= 2;
	}
	return p;
}

int qn_dc_open(struct qn_dc *c, size_t cap, struct qn_error *e)
{
	c->cap = cap;
	c->bucket_count = power_of_two(cap / BYTES_PER_BUCKET);
	c->evicted_count = power_of_two(cap / BYTES_PER_EVICTED);
	c->buckets = qn_dc_take(c, c->bucket_count * sizeof(struct qn_dc_lane *), cap);
	c->evicted = qn_dc_take(c, c->evicted_count * sizeof(*c->evicted), cap);
	qn_dc_link_init(&c->lru);
	qn_dc_link_init(&c->due);
	for (size_t i = 0; i < QN_DC_WHEEL; i++) {
		qn_dc_link_init(&c->wheel[i]);
	}
	if (c->buckets == NULL || c->evicted == NULL) {
		qn_dc_close(c);
		return QN_ERR(c->host, e, QN_NOMEM, "no memory for the tables of a cache of %zu bytes", cap);
	}
	memset(c->buckets, 0, c->bucket_count * sizeof(struct qn_dc_lane *));
	memset(c->evicted, 0, c->evicted_count * sizeof(*c->evicted));
	return QN_OK;
}

void qn_dc_close(struct qn_dc *c)
{
	while (!qn_dc_link_empty(&c->lru)) {
		qn_dc_lane_drop(c, QN_DC_OF(c->lru.next, struct qn_dc_lane, lru));
	}
	qn_dc_give(c, c->buckets, c->bucket_count * sizeof(struct qn_dc_lane *));
	qn_dc_give(c, c->evicted, c->evicted_count * sizeof(*c->evicted));
	c->buckets = NULL;
	c->evicted = NULL;
}

static struct qn_dc_evicted *evicted_slot(const struct qn_dc *c, const struct qn_uuid *id, uint32_t *print)
{
	uint64_t h;

	memcpy(&h, id->b + sizeof(id->b) - sizeof(h), sizeof(h));
	*print = (uint32_t)(h >> 32);
	return &c->evicted[(uint32_t)h & (c->evicted_count - 1)];
}

bool qn_dc_was_evicted(const struct qn_dc *c, const struct qn_uuid *id)
{
	uint32_t print;
	const struct qn_dc_evicted *slot = evicted_slot(c, id, &print);

	return slot->print == print && slot->until_s > qn_dc_mono_s(c);
}

void qn_dc_evict(struct qn_dc *c, struct qn_dc_lane *l)
{
	uint32_t print;
	struct qn_dc_evicted *slot = evicted_slot(c, &l->id, &print);

	*slot = (struct qn_dc_evicted){print, qn_dc_mono_s(c) + QN_DC_SUPPRESS_S};
	c->evictions++;
	qn_dc_lane_drop(c, l);
}

bool qn_dc_make_room(struct qn_dc *c, size_t n, size_t limit)
{
	uint32_t now_s = qn_dc_mono_s(c);

	for (int i = 0; i < EVICTIONS_AT_ONCE && c->used + chunk(n) > limit; i++) {
		struct qn_dc_lane *oldest = QN_DC_OF(c->lru.next, struct qn_dc_lane, lru);

		if (qn_dc_link_empty(&c->lru) || now_s - oldest->used_s < QN_DC_IDLE_S) {
			return false;
		}
		qn_dc_evict(c, oldest);
	}
	return c->used + chunk(n) <= limit;
}
