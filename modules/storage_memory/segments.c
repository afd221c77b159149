/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a lane: an array of segments in offset order, and an index from hash to offsets.
 *
 * Offsets are dense and nothing is ever removed from a lane, so segments[i] ends where segments[i + 1]
 * begins and created_at_us never decreases along the array. The index is open addressing with linear
 * probing; equal hashes (deduplication off, or a window that passed) simply take several slots.
 */
#include "memory.h"

#include <string.h>

#define SLOTS_MIN 16

size_t qn_mem_segment_at(const struct qn_mem_lane *l, int64_t offset)
{
	size_t low = 0, high = l->segment_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct qn_mem_segment *s = l->segments[mid];

		if (s->base_offset + (int64_t)s->count <= offset) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low;
}

int64_t qn_mem_before_time(const struct qn_mem_lane *l, int64_t from_us)
{
	size_t low = 0, high = l->segment_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->segments[mid]->created_at_us < from_us) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low < l->segment_count ? l->segments[low]->base_offset - 1 : l->last_offset;
}

static size_t slot_of(const struct qn_mem_lane *l, const uint8_t *hash)
{
	uint64_t h;

	memcpy(&h, hash, sizeof(h));
	return (size_t)h & (l->slot_count - 1);
}

static void index_add(struct qn_mem_lane *l, const uint8_t *hash, int64_t offset)
{
	size_t i = slot_of(l, hash);

	while (l->slots[i].offset_plus_1 != 0) {
		i = (i + 1) & (l->slot_count - 1);
	}
	memcpy(l->slots[i].hash, hash, QN_HASH_BYTES);
	l->slots[i].offset_plus_1 = offset + 1;
	l->slot_used++;
}

/* Room for `more` hashes at a load of at most one half. */
static int index_reserve(struct qn_mem *m, struct qn_mem_lane *l, size_t more, struct qn_error *e)
{
	struct qn_mem_slot *old = l->slots;
	size_t old_count = l->slot_count, count = old_count == 0 ? SLOTS_MIN : old_count;
	struct qn_mem_slot *slots;

	while ((l->slot_used + more) * 2 > count) {
		count *= 2;
	}
	if (count == old_count) {
		return QN_OK;
	}
	slots = m->host->try_alloc(count * sizeof(*slots));
	if (slots == NULL) {
		return QN_ERR(m->host, e, QN_NOMEM, "no memory for %zu hashes", count);
	}
	memset(slots, 0, count * sizeof(*slots));
	l->slots = slots;
	l->slot_count = count;
	l->slot_used = 0;
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].offset_plus_1 != 0) {
			index_add(l, old[i].hash, old[i].offset_plus_1 - 1);
		}
	}
	m->host->free(old);
	return QN_OK;
}

static int array_reserve(struct qn_mem *m, struct qn_mem_lane *l, struct qn_error *e)
{
	size_t cap = l->segment_cap == 0 ? 8 : l->segment_cap * 2;
	struct qn_mem_segment **bigger;

	if (l->segment_count < l->segment_cap) {
		return QN_OK;
	}
	bigger = m->host->try_alloc(cap * sizeof(struct qn_mem_segment *));
	if (bigger == NULL) {
		return QN_ERR(m->host, e, QN_NOMEM, "no memory for %zu segments", cap);
	}
	if (l->segment_count > 0) {
		memcpy(bigger, l->segments, l->segment_count * sizeof(struct qn_mem_segment *));
	}
	m->host->free(l->segments);
	l->segments = bigger;
	l->segment_cap = cap;
	return QN_OK;
}

struct qn_mem_segment *qn_mem_segment_create(struct qn_mem *m, struct qn_mem_lane *l, const struct qn_push_lane *p,
                                             struct qn_error *e)
{
	size_t bytes = p->blob.n + p->hashes.n;
	struct qn_mem_segment *s;

	if (m->used_bytes + (int64_t)bytes > m->options->max_bytes) {
		(void)QN_ERR(m->host, e, QN_LIMIT, "storage_memory is full: max_mb allows %lld bytes",
		             (long long)m->options->max_bytes);
		return NULL;
	}
	if (index_reserve(m, l, p->count, e) != QN_OK || array_reserve(m, l, e) != QN_OK) {
		return NULL;
	}
	s = m->host->try_alloc(sizeof(*s) + bytes);
	if (s == NULL) {
		(void)QN_ERR(m->host, e, QN_NOMEM, "no memory for a segment of %zu bytes", bytes);
		return NULL;
	}
	*s = (struct qn_mem_segment){.count = p->count, .raw_bytes = p->raw_bytes, .blob_bytes = p->blob.n};
	if (p->blob.n > 0) {
		memcpy(s->bytes, p->blob.p, p->blob.n);
	}
	memcpy(s->bytes + p->blob.n, p->hashes.p, p->hashes.n);
	m->used_bytes += (int64_t)bytes;
	return s;
}

void qn_mem_segment_destroy(struct qn_mem *m, struct qn_mem_segment *s)
{
	m->used_bytes -= (int64_t)(s->blob_bytes + (size_t)s->count * QN_HASH_BYTES);
	m->host->free(s);
}

void qn_mem_segment_append(struct qn_mem_lane *l, struct qn_mem_segment *s, int64_t at_us)
{
	s->base_offset = l->last_offset + 1;
	s->created_at_us = at_us;
	for (uint32_t i = 0; i < s->count; i++) {
		index_add(l, s->bytes + s->blob_bytes + (size_t)i * QN_HASH_BYTES, s->base_offset + i);
	}
	l->segments[l->segment_count++] = s;
	l->last_offset += s->count;
	l->newest_at_us = at_us;
}

void qn_mem_each_offset(const struct qn_mem_lane *l, const uint8_t *hash, qn_mem_offset_fn *fn, void *arg)
{
	if (l->slot_count == 0) {
		return;
	}
	for (size_t i = slot_of(l, hash); l->slots[i].offset_plus_1 != 0; i = (i + 1) & (l->slot_count - 1)) {
		if (memcmp(l->slots[i].hash, hash, QN_HASH_BYTES) == 0) {
			fn(l->slots[i].offset_plus_1 - 1, arg);
		}
	}
}

void qn_mem_fetch_one(struct qn_mem *m, struct qn_arena *a, const struct qn_mem_lane *l, struct qn_fetch *f)
{
	size_t at = qn_mem_segment_at(l, f->offset);
	const struct qn_mem_segment *s;

	f->found = f->offset >= 0 && at < l->segment_count;
	if (!f->found) {
		return;
	}
	s = l->segments[at];
	f->base_offset = s->base_offset;
	f->created_at_us = s->created_at_us;
	f->count = s->count;
	f->blob = qn_mem_dup(m, a, (struct qn_span){s->bytes, s->blob_bytes});
}
