/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dedup_cache: kind dedup with the hashes of every lane's window in memory.
 *
 * It vouches for a lane only while it has every message of the window since some time, or all of them
 * up to a gap, and says so with the watermark; a hash it knows makes the watermark -1, so that the
 * storage finds the original. What it does not know costs a search in the storage, never a verdict.
 */
#include "cache.h"

#include <qn/abi.h>

#include <string.h>

#define EXPIRE_A_TICK  16384 /* lanes looked at in one call of expire() */
#define EXPIRE_A_LEARN 4     /* and with every push, so that expiry keeps up with traffic */

static void touch(struct qn_dc *c, struct qn_dc_lane *l)
{
	uint32_t now_s = qn_dc_mono_s(c);

	if (l->used_s != now_s) {
		l->used_s = now_s;
		qn_dc_link_out(&l->lru);
		qn_dc_link_before(&c->lru, &l->lru);
	}
}

static bool knows_any(const struct qn_dc_run *r, struct qn_span hashes)
{
	const uint8_t *p = hashes.p;

	for (; r != NULL; r = r->older) {
		for (size_t i = 0; i < hashes.n; i += QN_HASH_BYTES) {
			const struct qn_dc_key k = qn_dc_key_of(p + i);

			if (qn_dc_run_has(r, &k)) {
				return true;
			}
		}
	}
	return false;
}

int64_t qn_dc_watermark(struct qn_dc *c, const struct qn_uuid *id, struct qn_span hashes, int64_t now_us,
                        int64_t *since_us)
{
	struct qn_dc_lane *l = qn_dc_lane_find(c, id);

	c->now_us = now_us;
	if (l == NULL) {
		return -1;
	}
	touch(c, l);
	if (l->gap != NULL) {
		qn_dc_want_read(c, l);
	}
	*since_us = l->since_us;
	if ((l->gap != NULL && l->gap->good < 0) || knows_any(l->runs, hashes) ||
	    (l->gap != NULL && knows_any(l->gap->tail, hashes))) {
		return -1;
	}
	return l->gap != NULL ? l->gap->good : l->next_offset - 1;
}

/* The lane, ready to take messages at base; NULL when it is not admitted. */
static struct qn_dc_lane *lane_at(struct qn_dc *c, const struct qn_uuid *id, int64_t base, int64_t created_at_us,
                                  int32_t window_s)
{
	struct qn_dc_lane *l = qn_dc_lane_find(c, id);
	bool ok = true;

	if (l != NULL && (window_s == 0 || base < l->next_offset)) {
		qn_dc_lane_drop(c, l);
		l = NULL;
	}
	if (window_s == 0) {
		return NULL;
	}
	if (l == NULL) {
		return qn_dc_lane_admit(c, id, base, created_at_us, window_s);
	}
	touch(c, l);
	if (l->since_us > created_at_us - window_s * QN_DC_SECOND_US) {
		ok = qn_dc_lane_restart(c, l, base, created_at_us); /* the window was widened */
	} else if (base > l->next_offset) {
		ok = qn_dc_gap_open(c, l, base, created_at_us);
	}
	if (!ok) {
		qn_dc_evict(c, l);
		return NULL;
	}
	if (l->window_s != window_s) {
		l->window_s = window_s;
		qn_dc_link_out(&l->wheel); /* filed anew when the hashes are in */
	}
	return l;
}

/* A run of these hashes; NULL at the cap, when nobody idle makes room. */
static struct qn_dc_run *run_of(struct qn_dc *c, struct qn_span hashes, int64_t created_at_us)
{
	uint32_t count = (uint32_t)(hashes.n / QN_HASH_BYTES);
	struct qn_dc_run *r = qn_dc_run_take(c, count, c->cap);

	if (r == NULL && qn_dc_make_room(c, sizeof(*r) + hashes.n * 2, c->cap)) {
		r = qn_dc_run_take(c, count, c->cap);
	}
	if (r != NULL) {
		memcpy(r->keys, hashes.p, hashes.n);
		r->newest_us = created_at_us;
		qn_dc_run_seal(r);
	}
	return r;
}

/* Calls for one lane may come back in another order than they were stored in: is this the missing one? */
static bool is_inside_gap(const struct qn_dc_lane *l, int64_t base, uint32_t count)
{
	return l != NULL && l->gap != NULL && base > l->gap->good && base + count <= l->gap->from;
}

static void learn_inside_gap(struct qn_dc *c, struct qn_dc_lane *l, int64_t base, struct qn_span hashes,
                             int64_t created_at_us)
{
	struct qn_dc_run *r;

	touch(c, l); /* or making room might take this lane */
	r = base == l->gap->good + 1 ? run_of(c, hashes, created_at_us) : NULL;
	if (r == NULL) {
		return; /* it will be read back */
	}
	qn_dc_runs_add(c, &l->runs, r, l->window_s);
	l->gap->good += (int64_t)(hashes.n / QN_HASH_BYTES);
	if (l->gap->good == l->gap->from - 1) {
		qn_dc_gap_close(c, l);
	}
	qn_dc_place(c, l);
}

void qn_dc_learn(struct qn_dc *c, const struct qn_uuid *id, int64_t base, struct qn_span hashes, int64_t created_at_us,
                 int32_t window_s)
{
	uint32_t count = (uint32_t)(hashes.n / QN_HASH_BYTES);
	struct qn_dc_lane *l = qn_dc_lane_find(c, id);
	struct qn_dc_run *r;

	if (window_s > 0 && is_inside_gap(l, base, count)) {
		learn_inside_gap(c, l, base, hashes, created_at_us);
		return;
	}
	l = lane_at(c, id, base, created_at_us, window_s);
	r = l != NULL ? run_of(c, hashes, created_at_us) : NULL;
	if (r == NULL) {
		if (l != NULL) {
			qn_dc_evict(c, l);
		}
		return;
	}
	qn_dc_runs_add(c, l->gap != NULL ? &l->gap->tail : &l->runs, r, window_s);
	l->next_offset = base + count;
	if (qn_dc_link_empty(&l->wheel)) {
		qn_dc_place(c, l); /* it is new */
	}
	qn_dc_expire(c, EXPIRE_A_LEARN);
}

static int64_t watermark(void *self, const struct qn_uuid *partition_id, struct qn_span hashes, int64_t now_us,
                         int64_t *since_us)
{
	return qn_dc_watermark(self, partition_id, hashes, now_us, since_us);
}

static void learn(void *self, const struct qn_uuid *partition_id, int64_t base_offset, struct qn_span hashes,
                  int64_t created_at_us, int32_t window_s)
{
	qn_dc_learn(self, partition_id, base_offset, hashes, created_at_us, window_s);
}

static void forget(void *self, const struct qn_uuid *partition_id)
{
	struct qn_dc_lane *l = qn_dc_lane_find(self, partition_id);

	if (l != NULL) {
		qn_dc_lane_drop(self, l);
	}
}

static void expire(void *self, int64_t now_us)
{
	struct qn_dc *c = self;

	c->now_us = now_us;
	qn_dc_expire(c, EXPIRE_A_TICK);
}

static bool read_due(void *self, struct qn_dedup_read *r)
{
	return qn_dc_read_due(self, r);
}

static void read_page(void *self, const struct qn_dedup_read *r, const struct qn_hashes_op *page)
{
	qn_dc_read_page(self, r, page);
}

static const struct qn_dedup_vt vtable = {
	.head = {sizeof(vtable), QN_DEDUP_MAJOR, QN_DEDUP_MINOR},
	.watermark = watermark,
	.learn = learn,
	.forget = forget,
	.expire = expire,
	.read_due = read_due,
	.read_page = read_page,
};

static const struct qn_option options[] = {
	{.name = "memory",
         .env = "QUEEN_DEDUP_CACHE_MB",
         .type = QN_OPT_BYTES,
         .unit = "MiB",
         .def = "512",
         .min = 1 << 20,
         .max = INT64_C(1) << 40,
         .offset = offsetof(struct qn_dc_options, memory_bytes),
         .doc = "most the cache takes, about 18 bytes a message of the window; beyond it the storage searches"},
	{.name = NULL},
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct qn_dc *c = h->alloc(sizeof(*c));
	int rc = h->provide(m, "dedup", (struct qn_service){&vtable.head, c}, e);

	if (rc != QN_OK) {
		h->free(c);
		return rc;
	}
	c->host = h;
	c->mod = m;
	*self = c;
	return QN_OK;
}

static int start(void *self, const void *opts, struct qn_error *e)
{
	return qn_dc_open(self, (size_t)((const struct qn_dc_options *)opts)->memory_bytes, e);
}

static void stop(void *self)
{
	qn_dc_close(self);
}

static void unload(void *self)
{
	((const struct qn_dc *)self)->host->free(self);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "dedup_cache",
	.version = QN_VERSION,
	.kind = "dedup",
	.doc = "the hashes of the deduplication window in memory: the storage searches only what is new to it",
	.options = options,
	.options_size = sizeof(struct qn_dc_options),
	.load = load,
	.start = start,
	.stop = stop,
	.unload = unload,
};
QN_MODULE(module);
