/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expiry by the storage's clock: a wheel of seconds in which every lane stands once, under the time at
 * which something of it is next out of the window.
 *
 * Nobody has to use a lane for it to expire, and a tick looks only at lanes whose time has come. What
 * is dropped raises the lane's since_us, so a clock that was wrong costs a search, never a duplicate.
 */
#include "cache.h"

/* Drops what is older than cutoff_us and notes what was lost. */
static void expire_runs(struct qn_dc *c, struct qn_dc_lane *l, struct qn_dc_run **list, int64_t cutoff_us)
{
	struct qn_dc_run **at = list;

	while (*at != NULL && (*at)->newest_us >= cutoff_us) {
		at = &(*at)->older;
	}
	if (*at != NULL) {
		l->since_us = (*at)->newest_us >= l->since_us ? (*at)->newest_us + 1 : l->since_us;
		qn_dc_runs_give(c, at);
	}
}

static int64_t oldest_us(const struct qn_dc_run *r)
{
	while (r->older != NULL) {
		r = r->older;
	}
	return r->newest_us;
}

/* When something of the lane is next out of the window. */
static int64_t due_us(const struct qn_dc_lane *l)
{
	int64_t oldest = l->gap != NULL ? l->gap->from_us : INT64_MAX;

	if (l->runs != NULL && oldest_us(l->runs) < oldest) {
		oldest = oldest_us(l->runs);
	}
	return oldest + l->window_s * QN_DC_SECOND_US + QN_DC_SLACK_US;
}

void qn_dc_place(struct qn_dc *c, struct qn_dc_lane *l)
{
	int64_t at_s = due_us(l) / QN_DC_SECOND_US + 1;

	if (c->wheel_s == 0) {
		c->wheel_s = at_s - l->window_s - 2 * QN_DC_SLACK_US / QN_DC_SECOND_US;
	}
	if (at_s <= c->wheel_s) {
		at_s = c->wheel_s + 1;
	} else if (at_s >= c->wheel_s + QN_DC_WHEEL) {
		at_s = c->wheel_s + QN_DC_WHEEL - 1;
	}
	qn_dc_link_out(&l->wheel);
	qn_dc_link_before(&c->wheel[at_s & (QN_DC_WHEEL - 1)], &l->wheel);
}

static void expire_lane(struct qn_dc *c, struct qn_dc_lane *l)
{
	int64_t cutoff_us = c->now_us - l->window_s * QN_DC_SECOND_US - QN_DC_SLACK_US;

	if (l->gap != NULL && l->gap->from_us < cutoff_us) {
		/* What is missing is no younger than the first message behind it. */
		qn_dc_runs_give(c, &l->runs);
		l->since_us = l->gap->from_us >= l->since_us ? l->gap->from_us + 1 : l->since_us;
		qn_dc_gap_close(c, l);
	}
	expire_runs(c, l, &l->runs, cutoff_us);
	if (l->runs == NULL && l->gap == NULL) {
		qn_dc_lane_drop(c, l);
	} else {
		qn_dc_place(c, l);
	}
}

void qn_dc_expire(struct qn_dc *c, unsigned budget)
{
	int64_t now_s = c->now_us / QN_DC_SECOND_US;

	if (c->wheel_s == 0 || c->now_us == 0) {
		return;
	}
	if (now_s < c->wheel_s) {
		c->wheel_s = now_s; /* the storage's clock was set back */
	} else if (now_s > c->wheel_s + QN_DC_WHEEL) {
		c->wheel_s = now_s - QN_DC_WHEEL;
	}
	while (c->wheel_s < now_s) {
		struct qn_dc_link *slot = &c->wheel[(c->wheel_s + 1) & (QN_DC_WHEEL - 1)];

		while (!qn_dc_link_empty(slot)) {
			struct qn_dc_lane *l = QN_DC_OF(slot->next, struct qn_dc_lane, wheel);

			if (budget == 0) {
				return;
			}
			budget--;
			expire_lane(c, l);
		}
		c->wheel_s++;
	}
}
