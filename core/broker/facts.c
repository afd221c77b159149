/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the broker remembers of a queue between pushes, for the few queues where it matters.
 *
 * Dedup window: push.c may hold repeats back until their leader's verdict while the window is on; it
 * must send them one after the other when the window may be off (decisions 13). Believed for 30 s, a
 * window that is off for 1 s. Encryption: payloads are sealed before the first try instead of after a
 * refusal. Both are hints, learned from the storage's answers; the storage alone judges, so a wrong
 * one costs a round trip and nothing else.
 */
#include "internal.h"

#include "../error.h"
#include "../wire/text.h"

#include <stdlib.h>
#include <string.h>

#define ON_TTL_MS   30000
#define OFF_TTL_MS  1000
#define ENTRIES_MAX 4096

struct facts {
	struct qn_map_node node;
	struct qn_uuid tenant;
	struct qn_span queue;
	int32_t window_s;
	uint64_t window_until_ms;
	bool encrypts;
	char name[];
};

struct facts_key {
	const struct qn_uuid *tenant;
	struct qn_span queue;
};

static uint64_t key_hash(const struct facts_key *k)
{
	const struct qn_span parts[] = {{k->tenant->b, sizeof(k->tenant->b)}, k->queue};

	return qn_key_hash(parts, 2);
}

static bool key_eq(const struct qn_map_node *node, const void *key)
{
	const struct facts *f = QN_CONTAINER(node, const struct facts, node);
	const struct facts_key *k = key;

	return qn_span_eq(f->queue, k->queue) && memcmp(&f->tenant, k->tenant, sizeof(f->tenant)) == 0;
}

static struct facts *find(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct facts_key k = {tenant, queue};
	struct qn_map_node *node = qn_map_find(&b->facts, key_hash(&k), key_eq, &k);

	return node == NULL ? NULL : QN_CONTAINER(node, struct facts, node);
}

static void drop(struct qn_map_node *node, void *arg)
{
	struct qn_broker *b = arg;
	struct facts *f = QN_CONTAINER(node, struct facts, node);

	b->encrypting -= f->encrypts ? 1 : 0;
	qn_map_remove(&b->facts, node);
	free(f);
}

static struct facts *get(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct facts_key k = {tenant, queue};
	struct facts *f = find(b, tenant, queue);

	if (f != NULL) {
		return f;
	}
	if (b->facts.count >= ENTRIES_MAX) {
		qn_map_each(&b->facts, drop, b);
	}
	f = calloc(1, sizeof(*f) + queue.n);
	QN_ASSERT(f != NULL);
	memcpy(f->name, queue.p, queue.n);
	f->queue = (struct qn_span){f->name, queue.n};
	f->tenant = *tenant;
	qn_map_insert(&b->facts, &f->node, key_hash(&k));
	return f;
}

int32_t qn_facts_window(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct facts *f = find(b, tenant, queue);

	return f == NULL || f->window_until_ms < qn_mono_ms() ? -1 : f->window_s;
}

void qn_facts_set_window(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, int32_t window_s)
{
	struct facts *f = get(b, tenant, queue);

	f->window_s = window_s;
	f->window_until_ms = qn_mono_ms() + (window_s > 0 ? ON_TTL_MS : OFF_TTL_MS);
}

bool qn_facts_encrypts(const struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct facts *f = b->encrypting == 0 ? NULL : find(b, tenant, queue);

	return f != NULL && f->encrypts;
}

void qn_facts_set_encrypts(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue, bool on)
{
	struct facts *f = on ? get(b, tenant, queue) : find(b, tenant, queue);

	if (f != NULL && f->encrypts != on) {
		f->encrypts = on;
		b->encrypting += on ? 1 : -1;
	}
}

void qn_facts_forget(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	struct facts *f = find(b, tenant, queue);

	if (f != NULL) {
		drop(&f->node, b);
	}
}

void qn_facts_stop(struct qn_broker *b)
{
	qn_map_each(&b->facts, drop, b);
	qn_map_fini(&b->facts);
}
