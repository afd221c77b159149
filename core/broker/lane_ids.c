/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids of lanes pushed to lately, by name: lanes.c forgets a lane when it has nothing to do.
 *
 * A table of fixed size, four places to choose from for each lane, so that a million lanes cost a
 * bounded amount and no push waits for it to grow. Names are kept as hashes: a wrong or stale id is
 * only a hint that the storage refuses. When a queue is deleted its lanes are looked for in slices.
 */
#include "internal.h"

#include "../error.h"

#include <stdlib.h>
#include <string.h>

#define SETS       ((size_t)1 << 18)
#define WAYS       4
#define SLICE_SETS ((size_t)1 << 15) /* a second */
#define SWEEPS_MAX 64

struct lane_id {
	uint64_t lane; /* hash of its names */
	uint32_t queue;
	bool used;
	struct qn_uuid id;
};

struct sweep {
	uint32_t queue;
	size_t at;
};

struct qn_lane_ids {
	struct lane_id (*sets)[WAYS]; /* zero pages until they are used */
	struct sweep sweeps[SWEEPS_MAX];
	unsigned sweep_count;
};

static uint32_t queue_print(const struct qn_uuid *tenant, struct qn_span queue)
{
	const struct qn_span parts[] = {{tenant->b, sizeof(tenant->b)}, queue};

	return (uint32_t)qn_key_hash(parts, 2);
}

struct qn_lane_ids *qn_lane_ids_create(void)
{
	struct qn_lane_ids *ids = calloc(1, sizeof(*ids));

	QN_ASSERT(ids != NULL);
	ids->sets = calloc(SETS, sizeof(*ids->sets));
	QN_ASSERT(ids->sets != NULL);
	return ids;
}

void qn_lane_ids_destroy(struct qn_lane_ids *ids)
{
	if (ids != NULL) {
		free(ids->sets);
		free(ids);
	}
}

struct qn_uuid qn_lane_id_get(const struct qn_broker *b, uint64_t lane)
{
	const struct lane_id *set = b->lane_ids->sets[lane & (SETS - 1)];

	for (int i = 0; i < WAYS; i++) {
		if (set[i].used && set[i].lane == lane) {
			return set[i].id;
		}
	}
	return (struct qn_uuid){{0}};
}

void qn_lane_id_set(struct qn_broker *b, uint64_t lane, const struct qn_uuid *tenant, struct qn_span queue,
                    const struct qn_uuid *id)
{
	struct lane_id *set = b->lane_ids->sets[lane & (SETS - 1)];
	struct lane_id *place = &set[(lane >> 32) % WAYS];

	for (int i = WAYS - 1; i >= 0; i--) {
		if (!set[i].used) {
			place = &set[i];
		}
	}
	for (int i = 0; i < WAYS; i++) {
		if (set[i].used && set[i].lane == lane) {
			place = &set[i];
		}
	}
	if (!place->used || place->lane != lane || memcmp(&place->id, id, sizeof(*id)) != 0) {
		*place = (struct lane_id){lane, queue_print(tenant, queue), true, *id};
	}
}

void qn_lane_ids_forget(struct qn_broker *b, const struct qn_uuid *tenant, struct qn_span queue)
{
	struct qn_lane_ids *ids = b->lane_ids;

	/* Beyond that, lanes of deleted queues go when they are pushed to, or by the clock. */
	if (ids->sweep_count < SWEEPS_MAX) {
		ids->sweeps[ids->sweep_count++] = (struct sweep){.queue = queue_print(tenant, queue)};
	}
}

void qn_lane_ids_tick(struct qn_broker *b)
{
	struct qn_lane_ids *ids = b->lane_ids;
	struct sweep *s = &ids->sweeps[0];
	size_t end = s->at + SLICE_SETS;

	if (ids->sweep_count == 0) {
		return;
	}
	for (; s->at < end; s->at++) {
		for (int i = 0; i < WAYS; i++) {
			struct lane_id *l = &ids->sets[s->at][i];

			if (l->used && l->queue == s->queue) {
				b->app->dedup.vt->forget(b->app->dedup.self, &l->id);
				*l = (struct lane_id){0};
			}
		}
	}
	if (s->at == SETS) {
		ids->sweep_count--;
		memmove(&ids->sweeps[0], &ids->sweeps[1], ids->sweep_count * sizeof(*s));
	}
}
