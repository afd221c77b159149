/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dedup that keeps every hash of every lane in a list, for testing its contract suite. It vouches
 * only for lanes it has seen from offset 0 without a gap.
 *
 * FAKE_VOUCHES_OVER_GAPS, FAKE_MISSES_REPEATS and FAKE_KEEPS_FORGOTTEN each break one rule on purpose.
 */
#include <qn/abi.h>
#include <qn/dedup.h>
#include <string.h>

struct learned {
	struct learned *next; /* newest first */
	struct qn_uuid lane;
	int64_t base, count;
	bool is_gapless;
	uint8_t hashes[];
};

static const struct qn_host *host;
static struct learned *first;

static const struct learned *newest(const struct qn_uuid *lane)
{
	const struct learned *l = first;

	while (l != NULL && memcmp(&l->lane, lane, sizeof(*lane)) != 0) {
		l = l->next;
	}
	return l;
}

#ifndef FAKE_MISSES_REPEATS
static bool knows(const struct qn_uuid *lane, const uint8_t *hash)
{
	for (const struct learned *l = first; l != NULL; l = l->next) {
		for (int64_t i = 0; memcmp(&l->lane, lane, sizeof(*lane)) == 0 && i < l->count; i++) {
			if (memcmp(l->hashes + i * 16, hash, 16) == 0) {
				return true;
			}
		}
	}
	return false;
}
#endif

static int64_t watermark(void *self, const struct qn_uuid *partition_id, struct qn_span hashes, int64_t now_us,
                         int64_t *since_us)
{
	const struct learned *l = newest(partition_id);

	(void)self, (void)now_us, (void)hashes;
	if (l == NULL || !l->is_gapless) {
		return -1;
	}
#ifndef FAKE_MISSES_REPEATS
	for (size_t i = 0; i < hashes.n; i += 16) {
		if (knows(partition_id, (const uint8_t *)hashes.p + i)) {
			return -1;
		}
	}
#endif
	*since_us = 0;
	return l->base + l->count - 1;
}

static void learn(void *self, const struct qn_uuid *partition_id, int64_t base_offset, struct qn_span hashes,
                  int64_t created_at_us, int32_t window_s)
{
	const struct learned *before = newest(partition_id);
	struct learned *l = host->alloc(sizeof(*l) + hashes.n);

	(void)self, (void)created_at_us, (void)window_s;
	l->lane = *partition_id;
	l->base = base_offset;
	l->count = (int64_t)hashes.n / 16;
	l->is_gapless =
		before == NULL ? base_offset == 0 : before->is_gapless && before->base + before->count == base_offset;
#ifdef FAKE_VOUCHES_OVER_GAPS
	l->is_gapless = true;
#endif
	memcpy(l->hashes, hashes.p, hashes.n);
	l->next = first;
	first = l;
}

static void forget(void *self, const struct qn_uuid *partition_id)
{
	(void)self;
#ifdef FAKE_KEEPS_FORGOTTEN
	(void)partition_id;
#else
	for (struct learned **at = &first; *at != NULL;) {
		struct learned *l = *at;

		if (memcmp(&l->lane, partition_id, sizeof(l->lane)) == 0) {
			*at = l->next;
			host->free(l);
		} else {
			at = &l->next;
		}
	}
#endif
}

static void expire(void *self, int64_t now_us)
{
	(void)self, (void)now_us;
}

static bool read_due(void *self, struct qn_dedup_read *r)
{
	(void)self, (void)r;
	return false;
}

static void read_page(void *self, const struct qn_dedup_read *r, const struct qn_hashes_op *page)
{
	(void)self, (void)r, (void)page;
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

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	host = h;
	*self = NULL;
	return h->provide(m, "dedup", (struct qn_service){&vtable.head, NULL}, e);
}

static void unload(void *self)
{
	(void)self;
	while (first != NULL) {
		struct learned *next = first->next;

		host->free(first);
		first = next;
	}
}

static const struct qn_module module = {
	QN_MODULE_HEAD,        .name = "fake_dedup", .version = QN_VERSION, .kind = "dedup",
	.doc = "test subject", .load = load,         .unload = unload,
};
QN_MODULE(module);
