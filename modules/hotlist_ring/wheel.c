/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical timing wheel of 1 ms ticks: four levels of 256 buckets. Adding is O(1); each node is
 * moved every 16 seconds at the latest, and dropped then when its owner does not want it any more. Nodes
 * live in one array; who wants another time adds another node, and the old one is found stale.
 */
#include "ring.h"

#include <string.h>

#define BITS   8
#define FAR_MS UINT64_C(1814400000) /* less than half of 2^32: ticks are compared modulo that */
#define HOP_MS UINT32_C(16384)      /* more than a finest bucket, so that a hop is never taken for the time itself */
#define IN(x)  ((x) & (QN_WHEEL_BUCKETS - 1))

void qn_wheel_init(struct qn_wheel *w, const struct qn_host *host, uint64_t now_ms, qn_wheel_wanted *wanted,
                   void *owner)
{
	memset(w, 0, sizeof(*w));
	w->host = host;
	w->wanted = wanted;
	w->owner = owner;
	w->now_ms = now_ms;
	w->free = QN_RING_NONE;
	memset(w->heads, 0xff, sizeof(w->heads));
}

void qn_wheel_fini(struct qn_wheel *w)
{
	w->host->free(w->nodes);
}

uint32_t qn_wheel_tick(const struct qn_wheel *w, uint64_t at_ms)
{
	if (at_ms <= w->now_ms) {
		return w->now;
	}
	return w->now + (uint32_t)(at_ms - w->now_ms < FAR_MS ? at_ms - w->now_ms : FAR_MS);
}

/** Puts a node where it belongs, seen from now. */
static void place(struct qn_wheel *w, uint32_t n)
{
	struct qn_wheel_node *node = &w->nodes[n];
	uint32_t at = node->due - w->now > HOP_MS ? w->now + HOP_MS : node->due;
	uint32_t differs = at ^ w->now;
	unsigned level = differs == 0 ? 0 : (31 - (unsigned)__builtin_clz(differs)) / BITS;
	uint32_t bucket = IN(at >> (level * BITS));

	node->next = w->heads[level][bucket];
	w->heads[level][bucket] = n;
	w->used[level][bucket / 64] |= UINT64_C(1) << (bucket % 64);
}

bool qn_wheel_add(struct qn_wheel *w, uint32_t group, uint32_t slot, uint32_t due)
{
	uint32_t n = w->free;

	if (n == QN_RING_NONE) {
		uint32_t old = w->node_cap;

		if (!qn_ring_grow(w->host, (void **)&w->nodes, &w->node_cap, old + 1, sizeof(*w->nodes))) {
			return false;
		}
		for (uint32_t i = w->node_cap; i > old; i--) {
			w->nodes[i - 1].next = w->free;
			w->free = i - 1;
		}
		n = w->free;
	}
	w->free = w->nodes[n].next;
	w->nodes[n].group = group;
	w->nodes[n].slot = slot;
	w->nodes[n].due = due;
	w->nodes_used++;
	place(w, n);
	return true;
}

static void release(struct qn_wheel *w, uint32_t n)
{
	w->nodes[n].next = w->free;
	w->free = n;
	w->nodes_used--;
}

/** Spreads the bucket that the wheel has reached on a coarser level over the finer ones. */
static void cascade(struct qn_wheel *w)
{
	for (unsigned level = 1; level < QN_WHEEL_LEVELS; level++) {
		uint32_t bucket = IN(w->now >> (level * BITS));
		uint32_t n = w->heads[level][bucket];

		w->heads[level][bucket] = QN_RING_NONE;
		w->used[level][bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
		while (n != QN_RING_NONE) {
			uint32_t next = w->nodes[n].next;

			if (w->wanted(w->owner, &w->nodes[n])) {
				place(w, n);
			} else {
				release(w, n);
			}
			n = next;
		}
		if (bucket != 0) {
			break;
		}
	}
}

/** First bucket of the level from `from` on that is not empty; QN_WHEEL_BUCKETS: none. */
static uint32_t next_used(const struct qn_wheel *w, unsigned level, uint32_t from)
{
	for (uint32_t word = from / 64; word < QN_WHEEL_BUCKETS / 64; word++) {
		uint64_t bits = w->used[level][word] & (word == from / 64 ? UINT64_MAX << (from % 64) : UINT64_MAX);

		if (bits != 0) {
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
		}
	}
	return QN_WHEEL_BUCKETS;
}

/** Ticks until the next bucket that holds something is reached, on whatever level. There is one. */
static uint32_t next_step(const struct qn_wheel *w)
{
	uint32_t bucket = next_used(w, 0, IN(w->now));

	for (unsigned level = 0; level < QN_WHEEL_LEVELS; level++) {
		if (bucket < QN_WHEEL_BUCKETS) {
			return (bucket << (level * BITS)) + (w->now & ~(UINT32_MAX >> (32 - (level + 1) * BITS))) -
			       w->now;
		}
		bucket = level + 1 == QN_WHEEL_LEVELS ? bucket
		                                      : next_used(w, level + 1, IN(w->now >> ((level + 1) * BITS)) + 1);
	}
	/* Behind the end of the ticks' range. */
	return (next_used(w, QN_WHEEL_LEVELS - 1, 0) << ((QN_WHEEL_LEVELS - 1) * BITS)) - w->now;
}

bool qn_wheel_next(struct qn_wheel *w, uint64_t now_ms, struct qn_wheel_node *out)
{
	while (now_ms > w->now_ms || w->nodes_used > 0) {
		uint64_t left = now_ms > w->now_ms ? now_ms - w->now_ms : 0;
		uint32_t step = w->nodes_used > 0 ? next_step(w) : UINT32_MAX;
		uint32_t bucket, n;

		if (step > left || w->nodes_used == 0) {
			w->now_ms += left;
			w->now += (uint32_t)left;
			return false;
		}
		w->now_ms += step;
		w->now += step;
		if (IN(w->now) == 0) {
			cascade(w);
		}
		bucket = IN(w->now);
		n = w->heads[0][bucket];
		if (n == QN_RING_NONE) {
			continue;
		}
		*out = w->nodes[n];
		w->heads[0][bucket] = out->next;
		if (out->next == QN_RING_NONE) {
			w->used[0][bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
		}
		release(w, n);
		return true;
	}
	return false;
}

uint64_t qn_wheel_due_ms(const struct qn_wheel *w)
{
	return w->nodes_used == 0 ? UINT64_MAX : w->now_ms + next_step(w);
}
