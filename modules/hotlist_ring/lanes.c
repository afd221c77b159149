/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lane ids of a queue and their numbers: an array and an open-addressing index over it, at most four
 * fifths full, that costs about 22 bytes a lane. Ids are version 7: their last half is random.
 */
#include "ring.h"

#include <string.h>

bool qn_ring_grow(const struct qn_host *h, void **array, uint32_t *cap, uint32_t n, size_t size)
{
	uint32_t to = *cap < 16 ? 16 : *cap < 4096 ? *cap * 2 : *cap + *cap / 8;
	void *p;

	if (n <= *cap) {
		return true;
	}
	to = to < n ? n : to;
	p = h->try_alloc((size_t)to * size);
	if (p == NULL) {
		return false;
	}
	memset((char *)p + (size_t)*cap * size, 0, (size_t)(to - *cap) * size);
	if (*array != NULL) {
		memcpy(p, *array, (size_t)*cap * size);
		h->free(*array);
	}
	*array = p;
	*cap = to;
	return true;
}

static uint32_t home(const struct qn_ring_lanes *l, const struct qn_uuid *id)
{
	uint64_t h;

	memcpy(&h, id->b + 8, sizeof(h));
	return (uint32_t)((h * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & l->mask;
}

static bool same(const struct qn_uuid *a, const struct qn_uuid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

uint32_t qn_ring_lane_find(const struct qn_ring_lanes *l, const struct qn_uuid *id)
{
	if (l->index == NULL) {
		return QN_RING_NONE;
	}
	for (uint32_t i = home(l, id); l->index[i] != 0; i = (i + 1) & l->mask) {
		if (same(&l->ids[l->index[i] - 1], id)) {
			return l->index[i] - 1;
		}
	}
	return QN_RING_NONE;
}

static void put(struct qn_ring_lanes *l, uint32_t number)
{
	uint32_t i = home(l, &l->ids[number]);

	while (l->index[i] != 0) {
		i = (i + 1) & l->mask;
	}
	l->index[i] = number + 1;
	l->index_used++;
}

static bool rebuild(struct qn_ring_lanes *l, const struct qn_host *h, uint32_t size)
{
	static const struct qn_uuid nil;
	uint32_t *index = h->try_alloc((size_t)size * sizeof(*index));

	if (index == NULL) {
		return false;
	}
	memset(index, 0, (size_t)size * sizeof(*index));
	h->free(l->index);
	l->index = index;
	l->mask = size - 1;
	l->index_used = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		if (!same(&l->ids[i], &nil)) {
			put(l, i);
		}
	}
	return true;
}

uint32_t qn_ring_lane_get(struct qn_ring_lanes *l, const struct qn_host *h, const struct qn_uuid *id)
{
	uint32_t number = qn_ring_lane_find(l, id);

	if (number != QN_RING_NONE) {
		return number;
	}
	if (l->index == NULL || ((uint64_t)l->index_used + 1) * 5 > ((uint64_t)l->mask + 1) * 4) {
		if (!rebuild(l, h, l->index == NULL ? 16 : (l->mask + 1) * 2)) {
			return QN_RING_NONE;
		}
	}
	if (!qn_ring_grow(h, (void **)&l->ids, &l->cap, l->count + 1, sizeof(*l->ids))) {
		return QN_RING_NONE;
	}
	number = l->count;
	l->ids[number] = *id;
	l->count++;
	put(l, number);
	return number;
}

void qn_ring_lane_remove(struct qn_ring_lanes *l, uint32_t number)
{
	uint32_t hole = home(l, &l->ids[number]);

	while (l->index[hole] != number + 1) {
		hole = (hole + 1) & l->mask;
	}
	/* What stands behind moves up, unless that would put it before its home. */
	for (uint32_t i = (hole + 1) & l->mask; l->index[i] != 0; i = (i + 1) & l->mask) {
		uint32_t from = home(l, &l->ids[l->index[i] - 1]);

		if (((i - from) & l->mask) >= ((i - hole) & l->mask)) {
			l->index[hole] = l->index[i];
			hole = i;
		}
	}
	l->index[hole] = 0;
	l->index_used--;
	memset(&l->ids[number], 0, sizeof(l->ids[number]));
	l->gone++;
}

void qn_ring_lanes_fini(struct qn_ring_lanes *l, const struct qn_host *h)
{
	h->free(l->ids);
	h->free(l->index);
	memset(l, 0, sizeof(*l));
}
