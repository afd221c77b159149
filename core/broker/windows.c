/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dedup windows of queues whose producers repeat transaction ids inside one flush.
 *
 * Only the storage judges duplicates; this memory merely tells push.c whether repeats may be held
 * back until their leader's verdict (window on) or have to be sent one after the other because the
 * window may be off (decisions 13). An entry lives 30 s, that of a window that is off 1 s.
 */
#include "internal.h"

#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define ON_TTL_MS   30000
#define OFF_TTL_MS  1000
#define ENTRIES_MAX 4096

struct window {
	struct qn_map_node node;
	struct qn_uuid tenant;
	struct qn_span queue;
	int32_t window_s;
	uint64_t until_ms;
	char name[];
};

struct window_key {
	const struct qn_uuid *tenant;
	struct qn_span queue;
};

static uint64_t key_hash(const struct window_key *k)
{
	const struct qn_span parts[] = {{k->tenant->b, sizeof(k->tenant->b)}, k->queue};

	return qn_key_hash(parts, 2);
}

static bool key_eq(const struct qn_map_node *node, const void *key)
{
	const struct window *w = QN_CONTAINER(node, const struct window, node);
	const struct window_key *k = key;

	return qn_span_eq(w->queue, k->queue) && memcmp(&w->tenant, k->tenant, sizeof(w->tenant)) == 0;
}

static void drop(struct qn_map_node *node, void *arg)
{
	struct qn_broker *b = arg;

	qn_map_remove(&b->windows, node);
	free(QN_CONTAINER(node, struct window, node));
}

int32_t qn_window_get(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct window_key k = {tenant, queue};
	struct qn_map_node *node = qn_map_find(&b->windows, key_hash(&k), key_eq, &k);

	if (node == NULL || QN_CONTAINER(node, struct window, node)->until_ms < qn_mono_ms()) {
		return -1;
	}
	return QN_CONTAINER(node, struct window, node)->window_s;
}

void qn_window_set(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, int32_t window_s)
{
	const struct window_key k = {tenant, queue};
	uint64_t hash = key_hash(&k);
	struct qn_map_node *node = qn_map_find(&b->windows, hash, key_eq, &k);
	struct window *w;

	if (node == NULL) {
		if (b->windows.count >= ENTRIES_MAX) {
			qn_map_each(&b->windows, drop, b);
		}
		w = calloc(1, sizeof(*w) + queue.n);
		if (w == NULL) {
			return;
		}
		memcpy(w->name, queue.p, queue.n);
		w->queue = (struct qn_span){w->name, queue.n};
		w->tenant = *tenant;
		qn_map_insert(&b->windows, &w->node, hash);
	} else {
		w = QN_CONTAINER(node, struct window, node);
	}
	w->window_s = window_s;
	w->until_ms = qn_mono_ms() + (window_s > 0 ? ON_TTL_MS : OFF_TTL_MS);
}

void qn_window_forget(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct window_key k = {tenant, queue};
	struct qn_map_node *node = qn_map_find(&b->windows, key_hash(&k), key_eq, &k);

	if (node != NULL) {
		drop(node, b);
	}
}

void qn_window_stop(struct qn_broker *b)
{
	qn_map_each(&b->windows, drop, b);
	qn_map_fini(&b->windows);
}
