/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a lane: an array of segments in offset order, and an index from hash to offsets.
 *
 * Offsets are dense and segments go from the front only, so segments[i] ends where segments[i + 1]
 * begins and created_at_us never decreases along the array. Messages are those from `live` on, hashes
 * those from `hashed` on; a segment without both leaves the array. The index is open addressing with
 * linear probing; equal hashes (deduplication off, or a window that passed) simply take several slots.
 */
#include "memory.h"

#include <string.h>

#define SLOTS_MIN 16

/* The first of segments[low..] whose last offset is >= offset. */
static size_t search(const struct qn_mem_lane *l, size_t low, int64_t offset)
{
	size_t high = l->segment_count;

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

size_t qn_mem_segment_at(const struct qn_mem_lane *l, int64_t offset)
{
	return search(l, l->live, offset);
}

size_t qn_mem_hashed_at(const struct qn_mem_lane *l, int64_t offset)
{
	return search(l, l->hashed, offset);
}

int64_t qn_mem_stored_at(const struct qn_mem_lane *l, int64_t offset)
{
	return l->segments[qn_mem_hashed_at(l, offset)]->created_at_us;
}

int64_t qn_mem_log_start(const struct qn_mem_lane *l)
{
	return l->live < l->segment_count ? l->segments[l->live]->base_offset : l->last_offset + 1;
}

int64_t qn_mem_passed(const struct qn_mem_lane *l, int64_t committed)
{
	int64_t start = qn_mem_log_start(l);

	return committed < start - 1 ? start - 1 : committed;
}

/* Offset before the first of segments[low..] that is not older than from_us. */
static int64_t before_time(const struct qn_mem_lane *l, size_t low, int64_t from_us)
{
	size_t high = l->segment_count;

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

int64_t qn_mem_before_time(const struct qn_mem_lane *l, int64_t from_us)
{
	return before_time(l, l->live, from_us);
}

int64_t qn_mem_hashed_before(const struct qn_mem_lane *l, int64_t from_us)
{
	return before_time(l, l->hashed, from_us);
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

static void index_remove(struct qn_mem_lane *l, const uint8_t *hash, int64_t offset)
{
	size_t mask = l->slot_count - 1, hole = slot_of(l, hash);

	while (l->slots[hole].offset_plus_1 != offset + 1) {
		hole = (hole + 1) & mask;
	}
	/* What was pushed past the hole moves back into it, so that no search ends there. */
	for (size_t i = (hole + 1) & mask; l->slots[i].offset_plus_1 != 0; i = (i + 1) & mask) {
		size_t home = slot_of(l, l->slots[i].hash);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			l->slots[hole] = l->slots[i];
			hole = i;
		}
	}
	l->slots[hole].offset_plus_1 = 0;
	l->slot_used--;
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

static struct qn_mem_segment *segment_alloc(struct qn_mem *m, const struct qn_push_lane *p)
{
	struct qn_mem_segment *s = m->host->try_alloc(sizeof(*s));
	uint8_t *blob = m->host->try_alloc(p->blob.n > 0 ? p->blob.n : 1);
	uint8_t *hashes = m->host->try_alloc(p->hashes.n);

	if (s == NULL || blob == NULL || hashes == NULL) {
		m->host->free(s);
		m->host->free(blob);
		m->host->free(hashes);
		return NULL;
	}
	if (p->blob.n > 0) {
		memcpy(blob, p->blob.p, p->blob.n);
	}
	memcpy(hashes, p->hashes.p, p->hashes.n);
	*s = (struct qn_mem_segment){
		.count = p->count, .raw_bytes = p->raw_bytes, .blob_bytes = p->blob.n, .blob = blob, .hashes = hashes};
	return s;
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
	s = segment_alloc(m, p);
	if (s == NULL) {
		(void)QN_ERR(m->host, e, QN_NOMEM, "no memory for a segment of %zu bytes", bytes);
		return NULL;
	}
	m->used_bytes += (int64_t)bytes;
	return s;
}

void qn_mem_segment_destroy(struct qn_mem *m, struct qn_mem_segment *s)
{
	m->used_bytes -= s->blob != NULL ? (int64_t)s->blob_bytes : 0;
	m->used_bytes -= s->hashes != NULL ? (int64_t)s->count * QN_HASH_BYTES : 0;
	m->host->free(s->blob);
	m->host->free(s->hashes);
	m->host->free(s);
}

void qn_mem_segment_append(struct qn_mem_lane *l, struct qn_mem_segment *s, int64_t at_us)
{
	s->base_offset = l->last_offset + 1;
	s->created_at_us = at_us;
	for (uint32_t i = 0; i < s->count; i++) {
		index_add(l, s->hashes + (size_t)i * QN_HASH_BYTES, s->base_offset + i);
	}
	l->segments[l->segment_count++] = s;
	l->last_offset += s->count;
	l->newest_at_us = at_us;
}

/* Forgets leading segments that are neither needed for messages nor for hashes. */
static void trim(struct qn_mem *m, struct qn_mem_lane *l)
{
	size_t n = l->live < l->hashed ? l->live : l->hashed;

	if (n == 0) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		m->host->free(l->segments[i]);
	}
	l->segment_count -= n;
	l->live -= n;
	l->hashed -= n;
	memmove(l->segments, l->segments + n, l->segment_count * sizeof(struct qn_mem_segment *));
}

void qn_mem_drop_messages(struct qn_mem *m, struct qn_mem_lane *l)
{
	struct qn_mem_segment *s = l->segments[l->live++];

	m->used_bytes -= (int64_t)s->blob_bytes;
	m->host->free(s->blob);
	s->blob = NULL;
	trim(m, l);
}

void qn_mem_drop_hashes(struct qn_mem *m, struct qn_mem_lane *l)
{
	struct qn_mem_segment *s = l->segments[l->hashed++];

	for (uint32_t i = 0; i < s->count; i++) {
		index_remove(l, s->hashes + (size_t)i * QN_HASH_BYTES, s->base_offset + i);
	}
	m->used_bytes -= (int64_t)s->count * QN_HASH_BYTES;
	m->host->free(s->hashes);
	s->hashes = NULL;
	trim(m, l);
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

	f->found = f->offset >= 0 && at < l->segment_count && l->segments[at]->base_offset <= f->offset;
	if (!f->found) {
		return;
	}
	s = l->segments[at];
	f->base_offset = s->base_offset;
	f->created_at_us = s->created_at_us;
	f->count = s->count;
	f->blob = qn_mem_dup(m, a, (struct qn_span){s->blob, s->blob_bytes});
}
