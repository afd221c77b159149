/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assembling and sealing a flush.
 *
 * A segment holds at most 4096 frames and 1 MiB of frames (one larger message goes alone), so that a
 * reader never has to open much more than it wants. Flushes above 32 KiB are compressed on libuv's
 * thread pool, smaller ones at once: a hand-over would cost more than the work.
 *
 * The frames belong to the jobs of the items, which live until their verdict; hashes, parts and
 * blobs belong to the flush.
 */
#include "flush.h"

#include "../error.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_FRAMES_MAX 4096
#define SEGMENT_BYTES_MAX  ((size_t)1 << 20)

struct qn_flush *qn_flush_create(struct qn_broker *b, uint32_t lane_max)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_flush *f = qn_arena_zalloc(a, sizeof(*f));

	f->broker = b;
	f->lane_max = lane_max;
	f->push.op.arena = a;
	return f;
}

void qn_seen_init(struct qn_seen *s, struct qn_arena *a, size_t items)
{
	size_t size = 4;

	while (size < items * 2) {
		size *= 2;
	}
	s->slots = qn_arena_zalloc(a, size * sizeof(struct qn_push_item *));
	s->mask = size - 1;
}

struct qn_push_item **qn_seen_slot(const struct qn_seen *s, const struct qn_push_item *item)
{
	uint64_t h;
	size_t i;

	memcpy(&h, item->hash, sizeof(h));
	for (i = h & s->mask; s->slots[i] != NULL; i = (i + 1) & s->mask) {
		if (memcmp(s->slots[i]->hash, item->hash, QN_HASH_BYTES) == 0) {
			break;
		}
	}
	return &s->slots[i];
}

/** How many waiting items a segment could take, repeats not considered. */
static uint32_t count_items(const struct qn_push_queue *lane)
{
	const struct qn_push_item *item = lane->first;
	uint32_t n = 0;
	size_t bytes = 0;

	while (item != NULL && n < SEGMENT_FRAMES_MAX && (n == 0 || bytes + item->frame.n <= SEGMENT_BYTES_MAX)) {
		bytes += item->frame.n;
		n++;
		item = item->next;
	}
	return n;
}

static void follow(struct qn_push_item *leader, struct qn_push_item *item)
{
	struct qn_push_item **at = &leader->followers;

	while (*at != NULL) {
		at = &(*at)->next;
	}
	item->next = NULL;
	*at = item;
}

/** Moves items from the lane's queue into lf->items; a repeated hash follows its leader or ends the segment. */
static void take_items(struct qn_flush *f, struct qn_lane_flush *lf, uint32_t limit)
{
	struct qn_push_queue *lane = lf->lane;
	struct qn_seen s;
	int32_t window = -2; /* not asked yet */

	qn_seen_init(&s, f->push.op.arena, limit);
	for (uint32_t i = 0; i < limit; i++) {
		struct qn_push_item *item = lane->first;
		struct qn_push_item **slot = qn_seen_slot(&s, item);

		if (*slot != NULL) {
			lf->has_repeats = true;
			if (window == -2) {
				window = qn_facts_window(f->broker, &lane->tenant, lane->queue);
			}
			if (window <= 0) {
				break;
			}
			lane->first = item->next;
			follow(*slot, item);
			continue;
		}
		*slot = item;
		lane->first = item->next;
		item->next = NULL;
		lf->items[lf->count] = item;
		lf->count++;
	}
}

size_t qn_segment_describe(struct qn_broker *b, struct qn_arena *a, struct qn_push_item *const *items, uint32_t count,
                           struct qn_push_lane *out)
{
	const struct qn_app *app = b->app;
	uint8_t *hashes = qn_arena_alloc(a, (size_t)count * QN_HASH_BYTES);
	size_t raw = 0;
	bool sealed = true;

	for (uint32_t i = 0; i < count; i++) {
		memcpy(hashes + (size_t)i * QN_HASH_BYTES, items[i]->hash, QN_HASH_BYTES);
		raw += items[i]->frame.n;
		sealed = sealed && items[i]->sealed;
	}
	out->count = count;
	out->raw_bytes = (uint32_t)raw;
	out->sealed = sealed;
	out->hashes = (struct qn_span){hashes, (size_t)count * QN_HASH_BYTES};
	out->verified = app->dedup.vt->watermark(app->dedup.self, &out->partition_id, out->hashes, qn_db_time_us(b),
	                                         &out->verified_since_us);
	return raw;
}

size_t qn_flush_add(struct qn_flush *f, struct qn_push_queue *lane)
{
	struct qn_arena *a = f->push.op.arena;
	uint32_t limit = count_items(lane);
	struct qn_lane_flush *lf;
	struct qn_push_lane *out;
	size_t before = f->raw_bytes;

	if (f->lanes == NULL) {
		f->lanes = qn_arena_zalloc(a, f->lane_max * sizeof(*f->lanes));
		f->push.lanes = qn_arena_zalloc(a, f->lane_max * sizeof(*f->push.lanes));
	}
	lf = &f->lanes[f->lane_count];
	lf->lane = lane;
	lf->items = qn_arena_alloc(a, limit * sizeof(struct qn_push_item *));
	take_items(f, lf, limit);
	out = &f->push.lanes[f->lane_count];
	out->tenant = lane->tenant;
	out->queue = lane->queue;
	out->partition = lane->partition;
	out->partition_id = lane->id;
	f->raw_bytes += qn_segment_describe(f->broker, a, lf->items, lf->count, out);
	f->lane_count++;
	f->push.lane_count = f->lane_count;
	return f->raw_bytes - before;
}

int qn_segment_pack(struct qn_push_item *const *items, uint32_t count, int level, struct qn_bytes *out,
                    struct qn_error *e)
{
	struct qn_segment_part *parts = calloc(count, sizeof(*parts));
	int rc;

	if (parts == NULL) {
		return QN_FAIL(e, QN_NOMEM, "out of memory while packing %u frames", count);
	}
	for (uint32_t i = 0; i < count; i++) {
		parts[i] = (struct qn_segment_part){items[i]->frame.p, items[i]->frame.n};
	}
	rc = qn_segment_seal(parts, count, level, out, e);
	free(parts);
	return rc;
}

/** On the crew or the engine; touches nothing but the flush and the frames. */
static void seal_all(struct qn_flush *f)
{
	int level = (int)f->broker->app->options.zstd_level;

	for (uint32_t i = 0; i < f->lane_count && f->seal_error.code == 0; i++) {
		struct qn_lane_flush *lf = &f->lanes[i];

		(void)!qn_segment_pack(lf->items, lf->count, level, &lf->blob, &f->seal_error);
		f->push.lanes[i].blob = (struct qn_span){lf->blob.p, lf->blob.n};
	}
}

static void work(uv_work_t *w)
{
	seal_all(QN_CONTAINER(w, struct qn_flush, work));
}

static void after_work(uv_work_t *w, int status)
{
	struct qn_flush *f = QN_CONTAINER(w, struct qn_flush, work);

	(void)status; /* never canceled */
	f->sealed(f, f->seal_error.code == 0 ? NULL : &f->seal_error);
}

void qn_flush_seal(struct qn_flush *f, void (*sealed)(struct qn_flush *f, const struct qn_error *e))
{
	f->sealed = sealed;
	if (f->raw_bytes <= QN_CREW_BYTES ||
	    uv_queue_work(qn_thread_loop(f->broker->app->engine), &f->work, work, after_work) != 0) {
		seal_all(f);
		sealed(f, f->seal_error.code == 0 ? NULL : &f->seal_error);
	}
}

void qn_flush_destroy(struct qn_flush *f)
{
	for (uint32_t i = 0; i < f->lane_count; i++) {
		qn_bytes_fini(&f->lanes[i].blob);
	}
	qn_arena_destroy(f->push.op.arena);
}
