/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: finding, admitting and dropping them, and the gap a lane has while a part of it is missing.
 *
 * A lane seen from its first message is complete at once. Others are admitted with a gap in front of
 * what was learned, but only while there is plenty of room: nobody is evicted for them.
 */
#include "cache.h"

#include <string.h>

#define FIRST_BYTES 256 /* a lane, its gap and its first run, about */

/* Ids come from the storage and end in random bytes. */
static struct qn_dc_lane **bucket(const struct qn_dc *c, const struct qn_uuid *id)
{
	uint64_t h;

	memcpy(&h, id->b + sizeof(id->b) - sizeof(h), sizeof(h));
	return &c->buckets[h & (c->bucket_count - 1)];
}

struct qn_dc_lane *qn_dc_lane_find(const struct qn_dc *c, const struct qn_uuid *id)
{
	struct qn_dc_lane *l = *bucket(c, id);

	while (l != NULL && memcmp(&l->id, id, sizeof(*id)) != 0) {
		l = l->next;
	}
	return l;
}

static void gap_drop(struct qn_dc *c, struct qn_dc_lane *l)
{
	if (l->gap != NULL) {
		qn_dc_link_out(&l->gap->due);
		qn_dc_runs_give(c, &l->gap->tail);
		qn_dc_give(c, l->gap, sizeof(*l->gap));
		l->gap = NULL;
	}
}

struct qn_dc_lane *qn_dc_lane_admit(struct qn_dc *c, const struct qn_uuid *id, int64_t base, int64_t created_at_us,
                                    int32_t window_s)
{
	size_t limit = qn_dc_admission_limit(c);
	struct qn_dc_lane **at = bucket(c, id), *l;

	if (qn_dc_was_evicted(c, id) || (base == 0 && !qn_dc_make_room(c, FIRST_BYTES, limit))) {
		return NULL;
	}
	l = qn_dc_take(c, sizeof(*l), limit);
	if (l == NULL) {
		return NULL;
	}
	*l = (struct qn_dc_lane){.id = *id, .next = *at, .window_s = window_s, .next_offset = base};
	l->used_s = qn_dc_mono_s(c);
	qn_dc_link_init(&l->wheel);
	qn_dc_link_before(&c->lru, &l->lru);
	*at = l;
	c->lane_count++;
	if (base > 0 && !qn_dc_gap_open(c, l, base, created_at_us)) {
		qn_dc_lane_drop(c, l);
		return NULL;
	}
	return l;
}

void qn_dc_lane_drop(struct qn_dc *c, struct qn_dc_lane *l)
{
	struct qn_dc_lane **at = bucket(c, &l->id);

	while (*at != l) {
		at = &(*at)->next;
	}
	*at = l->next;
	gap_drop(c, l);
	qn_dc_runs_give(c, &l->runs);
	qn_dc_link_out(&l->wheel);
	qn_dc_link_out(&l->lru);
	qn_dc_give(c, l, sizeof(*l));
	c->lane_count--;
}

bool qn_dc_gap_open(struct qn_dc *c, struct qn_dc_lane *l, int64_t base, int64_t created_at_us)
{
	struct qn_dc_gap *g = l->gap;

	if (g == NULL) {
		g = qn_dc_take(c, sizeof(*g), c->cap);
		if (g == NULL) {
			return false;
		}
		*g = (struct qn_dc_gap){.lane = l,
		                        .good = l->runs == NULL && l->since_us == 0 ? -1 : l->next_offset - 1};
		qn_dc_link_init(&g->due);
		l->gap = g;
	}
	qn_dc_runs_give(c, &g->tail);
	g->from = base;
	g->from_us = created_at_us;
	l->next_offset = base;
	return true;
}

void qn_dc_gap_close(struct qn_dc *c, struct qn_dc_lane *l)
{
	struct qn_dc_run **oldest = &l->gap->tail;

	while (*oldest != NULL) {
		oldest = &(*oldest)->older;
	}
	*oldest = l->runs;
	l->runs = l->gap->tail;
	l->gap->tail = NULL;
	gap_drop(c, l);
}

bool qn_dc_lane_restart(struct qn_dc *c, struct qn_dc_lane *l, int64_t base, int64_t created_at_us)
{
	gap_drop(c, l);
	qn_dc_runs_give(c, &l->runs);
	l->since_us = 0;
	return qn_dc_gap_open(c, l, base, created_at_us);
}
