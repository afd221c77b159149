/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The correctness walk of a group: what makes every other loss of a mark harmless.
 *
 * The first walk, and one every full_walk_ms, goes over all lanes; those in between only over lanes
 * written to lately. It goes in pages, at most 200 at a time, and begins walk_ms after the last one
 * ended, plus up to half of that by chance, so that groups do not walk in step.
 */
#include "ring.h"

#define PAGE_LANES 10000
#define PAGES_MAX  200
#define LATELY_S   120
#define RETRY_MS   1000

bool qn_ring_walk_due(struct qn_ring *r, struct qn_ring_group *g, struct qn_walk *w, uint64_t now_ms)
{
	int64_t lately_s = 4 * r->options->walk_ms / 1000;

	/* Somebody waits for the group, or just took from it. */
	g->used = true;
	if (g->asked || now_ms < g->walk_ms) {
		return false;
	}
	if (!g->walking) {
		g->walking = true;
		g->full = !g->walked || now_ms >= g->full_ms;
		g->place = (struct qn_walk_place){0};
	}
	g->asked = true;
	g->ticket = ++r->tickets;
	lately_s = lately_s < LATELY_S ? LATELY_S : lately_s;
	*w = (struct qn_walk){.after = g->place,
	                      .limit = PAGE_LANES,
	                      .written_within_s = g->full ? 0 : (int32_t)lately_s,
	                      .ticket = g->ticket};
	return true;
}

static void seen(struct qn_ring *r, struct qn_ring_group *g, const struct qn_uuid *id, uint64_t now_ms)
{
	uint32_t lane = qn_ring_lane_get(&g->queue->lanes, r->host, id);
	struct qn_ring_slot *s = qn_ring_slot(r, g, lane);

	if (s == NULL) {
		return;
	}
	s->messages += s->messages == 0 ? 1 : 0;
	if (s->state == QN_SLOT_OUT) {
		s->flags |= QN_SLOT_MARKED;
	} else if (s->state == QN_SLOT_WAITING && (s->flags & QN_SLOT_LEASED) != 0) {
		qn_ring_noticed(r, g, lane, now_ms);
	} else if (s->state == QN_SLOT_IDLE && g->queue->window_s > 0) {
		s->flags = QN_SLOT_WINDOW;
		qn_ring_wait(r, g, lane, now_ms + (uint64_t)g->queue->window_s * 1000);
	} else if (s->state == QN_SLOT_IDLE) {
		qn_ring_ready(r, g, lane);
	}
}

static uint64_t next_walk(const struct qn_ring *r, uint64_t now_ms)
{
	uint64_t chance, period = (uint64_t)r->options->walk_ms;

	r->host->random(&chance, sizeof(chance));
	return now_ms + period + chance % (period / 2 + 1);
}

void qn_ring_walk_page(struct qn_ring *r, struct qn_ring_group *g, const struct qn_walk_page *page, uint64_t now_ms)
{
	if (!g->asked || (page != NULL && page->ticket != g->ticket)) {
		return;
	}
	g->asked = false;
	if (page == NULL) {
		g->walk_ms = now_ms + RETRY_MS;
		return;
	}
	for (uint32_t i = 0; i < page->count; i++) {
		seen(r, g, &page->lanes[i], now_ms);
	}
	g->place = page->next;
	g->pages++;
	if (page->last) {
		g->walking = false;
		g->full_ms = g->full ? now_ms + (uint64_t)r->options->full_walk_ms : g->full_ms;
		g->walked = true;
	}
	if (page->last || g->pages >= PAGES_MAX) {
		g->pages = 0;
		g->walk_ms = next_walk(r, now_ms);
	}
}
