/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trivial dedup: it vouches for nothing, so the storage probes the whole window of every push.
 * Exact by itself, since the storage is the judge. All functions run on the engine thread.
 */
#include <qn/abi.h>
#include <qn/dedup.h>

static int64_t watermark(void *self, const struct qn_uuid *partition_id, struct qn_span hashes, int64_t now_us,
                         int64_t *since_us)
{
	(void)self, (void)partition_id, (void)hashes, (void)now_us, (void)since_us;
	return -1;
}

static void learn(void *self, const struct qn_uuid *partition_id, int64_t base_offset, struct qn_span hashes,
                  int64_t created_at_us, int32_t window_s)
{
	(void)self, (void)partition_id, (void)base_offset, (void)hashes, (void)created_at_us, (void)window_s;
}

static void forget(void *self, const struct qn_uuid *partition_id)
{
	(void)self, (void)partition_id;
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
	*self = NULL;
	return h->provide(m, "dedup", (struct qn_service){&vtable.head, NULL}, e);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "dedup_probe",
	.version = QN_VERSION,
	.kind = "dedup",
	.doc = "no memory: the storage probes the whole window of every push",
	.load = load,
};
QN_MODULE(module);
