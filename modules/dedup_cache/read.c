/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading gaps back: page by page from gap->good on, until the tail is reached.
 *
 * Only lanes that are pushed to are read, one pause apart, since a lane that two brokers write in turns
 * has a gap every time; until then the storage searches behind gap->good only. A page is dropped when
 * the gap it was for is not there any more (its ticket). Nobody is evicted for what is read.
 */
#include "cache.h"

void qn_dc_want_read(struct qn_dc *c, struct qn_dc_lane *l)
{
	if (l->gap->reading == QN_DC_IDLE && qn_dc_mono_s(c) >= l->read_s) {
		l->gap->reading = QN_DC_DUE;
		qn_dc_link_before(&c->due, &l->gap->due);
	}
}

bool qn_dc_read_due(struct qn_dc *c, struct qn_dedup_read *r)
{
	while (!qn_dc_link_empty(&c->due)) {
		struct qn_dc_gap *g = QN_DC_OF(c->due.next, struct qn_dc_gap, due);

		if (c->used + 2 * QN_DC_PAGE_BYTES > qn_dc_admission_limit(c)) {
			qn_dc_evict(c, g->lane);
			continue;
		}
		qn_dc_link_out(&g->due);
		g->reading = QN_DC_READING;
		c->ticket = c->ticket == UINT32_MAX ? 1 : c->ticket + 1;
		g->ticket = c->ticket;
		*r = (struct qn_dedup_read){.partition_id = g->lane->id,
		                            .after_offset = g->good,
		                            .byte_limit = QN_DC_PAGE_BYTES,
		                            .ticket = g->ticket};
		return true;
	}
	return false;
}

/* The part of a row inside the gap: index of its first key, and how many. */
static uint32_t wanted(const struct qn_dc_gap *g, const struct qn_hash_row *row, uint32_t *first)
{
	int64_t from = row->base_offset > g->good ? row->base_offset : g->good + 1;
	int64_t until = row->base_offset + row->count;

	until = until < g->from ? until : g->from;
	*first = (uint32_t)(from - row->base_offset);
	return until > from ? (uint32_t)(until - from) : 0;
}

/* Rows [at, end) of the page become one run. */
static bool add_run(struct qn_dc *c, struct qn_dc_lane *l, const struct qn_hash_row *at, const struct qn_hash_row *end)
{
	uint32_t count = 0, first, n;
	struct qn_dc_run *r;

	for (const struct qn_hash_row *row = at; row < end; row++) {
		count += wanted(l->gap, row, &first);
	}
	if (count == 0) {
		return true;
	}
	r = qn_dc_run_take(c, count, qn_dc_admission_limit(c));
	if (r == NULL) {
		return false;
	}
	count = 0;
	for (const struct qn_hash_row *row = at; row < end; row++) {
		n = wanted(l->gap, row, &first);
		for (uint32_t i = first; i < first + n; i++) {
			r->keys[count++] = qn_dc_key_of((const uint8_t *)row->hashes.p + (size_t)i * QN_HASH_BYTES);
		}
	}
	r->newest_us = end[-1].created_at_us;
	r->span_ms = (uint32_t)((r->newest_us - at->created_at_us + 999) / 1000);
	qn_dc_run_seal(r);
	qn_dc_runs_add(c, &l->runs, r, l->window_s);
	return true;
}

/* Rows near in time go into one run, so that each can expire when it should. */
static bool add_rows(struct qn_dc *c, struct qn_dc_lane *l, const struct qn_hashes_op *page)
{
	const struct qn_hash_row *at = page->rows, *all = page->rows + page->row_count;
	int64_t span_us = l->window_s * QN_DC_SECOND_US / 16;

	while (at < all) {
		const struct qn_hash_row *end = at + 1;

		while (end < all && end->created_at_us - at->created_at_us <= span_us) {
			end++;
		}
		if (!add_run(c, l, at, end)) {
			return false;
		}
		at = end;
	}
	return true;
}

static void take_page(struct qn_dc *c, struct qn_dc_lane *l, const struct qn_hashes_op *page)
{
	const struct qn_hash_row *last = page->rows + page->row_count;
	int64_t upto = page->more ? last[-1].base_offset + last[-1].count - 1 : page->last_offset;
	struct qn_dc_gap *g = l->gap;

	l->window_s = page->dedup_window_s;
	if (!add_rows(c, l, page)) {
		qn_dc_evict(c, l);
		return;
	}
	l->since_us = page->since_us > l->since_us ? page->since_us : l->since_us;
	g->good = upto < g->from ? upto : g->from - 1;
	if (g->good == g->from - 1) {
		l->read_s = qn_dc_mono_s(c) + QN_DC_READ_PAUSE_S;
		qn_dc_gap_close(c, l);
	} else {
		g->reading = QN_DC_DUE;
		qn_dc_link_before(c->due.next, &g->due);
	}
	if (l->gap == NULL && l->runs == NULL) {
		qn_dc_lane_drop(c, l);
	} else {
		qn_dc_place(c, l);
	}
}

void qn_dc_read_page(struct qn_dc *c, const struct qn_dedup_read *r, const struct qn_hashes_op *page)
{
	struct qn_dc_lane *l = qn_dc_lane_find(c, &r->partition_id);

	if (l == NULL || l->gap == NULL || l->gap->reading != QN_DC_READING || l->gap->ticket != r->ticket) {
		return;
	}
	l->gap->reading = QN_DC_IDLE;
	if (page == NULL) {
		l->read_s = qn_dc_mono_s(c) + QN_DC_READ_RETRY_S;
	} else if (!page->found || page->dedup_window_s == 0 || (page->more && page->row_count == 0) ||
	           (!page->more && page->last_offset < l->gap->from - 1)) {
		/* Not the lane we learned of, or nothing to remember of it. */
		qn_dc_lane_drop(c, l);
	} else {
		take_page(c, l, page);
	}
}
