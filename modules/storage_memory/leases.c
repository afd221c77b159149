/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases by themselves: holding, ending, extending, giving back; and dead letters, which end one.
 *
 * A lease ends by an ack (remembered, so that its repetition can be told), by being given back, or by
 * nobody doing anything: an expired one stays on record until the next claim takes the batch.
 */
#include "memory.h"

#include <string.h>

bool qn_mem_lease_is(const struct qn_mem_lease *l, struct qn_span id)
{
	return l->n > 0 && l->n == id.n && memcmp(l->text, id.p, id.n) == 0;
}

bool qn_mem_is_leased(const struct qn_mem_cursor *c, int64_t now_us)
{
	return c->lease.n > 0 && c->lease_expires_at_us > now_us;
}

bool qn_mem_has_more(const struct qn_mem_lane *l, const struct qn_mem_cursor *c, int64_t now_us)
{
	return l->last_offset > qn_mem_passed(l, c->committed) && !qn_mem_is_leased(c, now_us);
}

void qn_mem_lease_set(struct qn_mem_cursor *c, struct qn_span id)
{
	c->lease.n = id.n < sizeof(c->lease.text) ? id.n : sizeof(c->lease.text);
	memcpy(c->lease.text, id.p, c->lease.n);
}

void qn_mem_lease_drop(struct qn_mem_cursor *c)
{
	c->lease.n = 0;
	c->lease_expires_at_us = 0;
	c->batch_end = -1;
}

void qn_mem_lease_end(struct qn_mem_cursor *c)
{
	if (c->lease.n > 0) {
		c->last_lease = c->lease;
	}
	qn_mem_lease_drop(c);
}

void qn_mem_counters_reset(struct qn_mem_cursor *c)
{
	c->retry_count = 0;
	c->attempt_offset = -1;
	c->attempt_count = 0;
}

/* ---- dead letters ---------------------------------------------------------------------------- */

static void file_letter(struct qn_mem *m, struct qn_mem_lane *l, const struct qn_dead_letter *d)
{
	const struct qn_span parts[] = {d->group, d->transaction_id, d->payload, d->error};
	struct qn_mem_letter *letter =
		m->host->alloc(sizeof(*letter) + parts[0].n + parts[1].n + parts[2].n + parts[3].n);
	uint8_t *at = letter->bytes;

	for (size_t i = 0; i < 4; i++) {
		if (parts[i].n > 0) {
			memcpy(at, parts[i].p, parts[i].n);
			at += parts[i].n;
		}
	}
	letter->offset = d->offset;
	letter->count = d->count;
	letter->retry_count = d->retry_count;
	letter->message_id = d->message_id;
	letter->group_bytes = parts[0].n;
	letter->transaction_bytes = parts[1].n;
	letter->payload_bytes = parts[2].n;
	letter->error_bytes = parts[3].n;
	letter->next = l->letters;
	l->letters = letter;
	l->letter_count += d->count;
	m->used_bytes += (int64_t)parts[2].n;
}

static bool is_filed(const struct qn_mem_lane *l, struct qn_span group, int64_t offset)
{
	for (const struct qn_mem_letter *letter = l->letters; letter != NULL; letter = letter->next) {
		if (offset >= letter->offset && offset < letter->offset + letter->count &&
		    letter->group_bytes == group.n && memcmp(letter->bytes, group.p, group.n) == 0) {
			return true;
		}
	}
	return false;
}

/** What is there already is not filed again; the rest is, in one letter for each run. */
static void file_missing(struct qn_mem *m, struct qn_mem_lane *l, const struct qn_dead_letter *d)
{
	struct qn_dead_letter run = *d;

	run.count = 0;
	for (uint32_t i = 0; i < d->count; i++) {
		if (!is_filed(l, d->group, d->offset + i)) {
			run.offset = run.count == 0 ? d->offset + i : run.offset;
			run.count++;
		} else if (run.count > 0) {
			file_letter(m, l, &run);
			run.count = 0;
		}
	}
	if (run.count > 0) {
		file_letter(m, l, &run);
	}
}

/** A letter whose lease holds. */
static void carry_out(struct qn_mem *m, struct qn_mem_lane *l, struct qn_mem_cursor *c, const struct qn_dead_letter *d)
{
	int64_t end = d->offset + d->count - 1;

	if (d->kind == QN_LETTER_DEFER) {
		c->batch_end = c->batch_end >= d->offset ? d->offset - 1 : c->batch_end;
		return;
	}
	if (d->kind == QN_LETTER_HEAD) {
		file_missing(m, l, d);
	} else {
		file_letter(m, l, d);
	}
	c->committed = end < l->last_offset ? end : l->last_offset;
	qn_mem_lease_end(c);
	qn_mem_counters_reset(c);
}

static void dead_letter(struct qn_mem *m, struct qn_arena *a, struct qn_dead_letter *d)
{
	struct qn_mem_lane *l = qn_mem_lane_by_id(m, &d->tenant, &d->partition_id);
	struct qn_mem_cursor *c = l == NULL ? NULL : qn_mem_cursor_find(m, l, d->group);

	d->filed = d->has_more = false;
	d->queue = d->partition = (struct qn_span){NULL, 0};
	if (l == NULL) {
		return;
	}
	d->queue = qn_mem_dup(m, a, l->queue->name);
	d->partition = qn_mem_dup(m, a, l->name);
	if (d->kind == QN_LETTER_BESIDE) {
		d->filed = d->offset <= l->last_offset;
		if (d->filed) {
			file_missing(m, l, d);
		}
	} else if (c != NULL) {
		/* An expired lease will do, as long as nobody else was given the lane. */
		d->filed = c->committed < d->offset && d->offset <= l->last_offset &&
		           (d->lease_id.n == 0 || qn_mem_lease_is(&c->lease, d->lease_id));
		if (d->filed) {
			carry_out(m, l, c, d);
		}
	}
	d->has_more = c != NULL && qn_mem_has_more(l, c, m->host->now_us());
}

void qn_mem_dead_letter(struct qn_mem *m, struct qn_dead_letter_op *op)
{
	for (uint32_t i = 0; i < op->count; i++) {
		dead_letter(m, op->op.arena, &op->items[i]);
	}
}

/* ---- extend, release ------------------------------------------------------------------------- */

static void extend(struct qn_extend_op *op, struct qn_mem_cursor *c, int64_t now_us)
{
	int64_t until_us = now_us + op->seconds * QN_MEM_SECOND_US;

	if (!qn_mem_lease_is(&c->lease, op->lease_id) || !qn_mem_is_leased(c, now_us)) {
		return;
	}
	if (until_us > c->lease_expires_at_us) {
		c->lease_expires_at_us = until_us;
	}
	if (op->renewed == 0 || c->lease_expires_at_us < op->expires_at_us) {
		op->expires_at_us = c->lease_expires_at_us;
	}
	op->renewed++;
}

static void extend_everywhere(struct qn_mem *m, struct qn_extend_op *op, int64_t now_us)
{
	for (struct qn_mem_node *n = qn_mem_table_next(&m->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&m->lanes, n)) {
		struct qn_mem_lane *l = QN_MEM_OF(n, struct qn_mem_lane, by_id);

		if (memcmp(&l->queue->tenant, &op->tenant, sizeof(op->tenant)) != 0) {
			continue;
		}
		for (struct qn_mem_node *k = qn_mem_table_next(&l->cursors, NULL); k != NULL;
		     k = qn_mem_table_next(&l->cursors, k)) {
			extend(op, QN_MEM_OF(k, struct qn_mem_cursor, node), now_us);
		}
	}
}

void qn_mem_extend(struct qn_mem *m, struct qn_extend_op *op)
{
	int64_t now_us = m->host->now_us();

	op->renewed = 0;
	op->expires_at_us = 0;
	for (uint32_t i = 0; i < op->count; i++) {
		struct qn_mem_lane *l = qn_mem_lane_by_id(m, &op->tenant, &op->partition_ids[i]);
		struct qn_mem_cursor *c = l == NULL ? NULL : qn_mem_cursor_find(m, l, op->group);

		if (c != NULL) {
			extend(op, c, now_us);
		}
	}
	if (op->count == 0) {
		extend_everywhere(m, op, now_us);
	}
}

void qn_mem_release(struct qn_mem *m, struct qn_release_op *op)
{
	op->released = 0;
	for (uint32_t i = 0; i < op->count; i++) {
		struct qn_mem_lane *l = qn_mem_lane_by_id(m, &op->tenant, &op->partition_ids[i]);
		struct qn_mem_cursor *c = l == NULL ? NULL : qn_mem_cursor_find(m, l, op->group);

		if (c == NULL || !qn_mem_lease_is(&c->lease, op->lease_id)) {
			continue;
		}
		qn_mem_lease_drop(c);
		/* The delivery did not happen: the next one has its number again. */
		if (c->attempt_count > 0) {
			c->attempt_count--;
		}
		op->released++;
	}
}
