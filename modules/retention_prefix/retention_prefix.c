/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retention_prefix: the API's retention rules as cut-offs (seed: queue options, retentionEnabled to
 * maxWaitTimeSeconds, dedupWindowSeconds). Pure, any thread.
 *
 * A rule that is off keeps everything. What was stored exactly as long ago as an option says stays: the
 * storage takes what is older than a cut-off. Hashes have no switch, only a floor.
 */
#include <qn/abi.h>
#include <qn/retention.h>

#define SECOND_US    INT64_C(1000000)
#define HASH_FLOOR_S 900 /* how long an id can be acknowledged whatever the options say */

static int64_t before(int64_t now_us, bool is_on, int32_t seconds)
{
	return is_on && seconds > 0 ? now_us - seconds * SECOND_US : QN_KEEP_ALL;
}

static int32_t longest(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

static void plan(void *self, const struct qn_queue_options *q, int64_t now_us, struct qn_cutoffs *out)
{
	int32_t hashes_s = longest(longest(q->dedup_window_s, q->completed_retention_s), HASH_FLOOR_S);

	(void)self;
	out->all_us = before(now_us, q->retention_enabled, q->retention_s);
	out->completed_us = before(now_us, q->retention_enabled, q->completed_retention_s);
	out->max_wait_us = before(now_us, true, q->max_wait_time_s);
	out->hashes_us = before(now_us, true, hashes_s);
}

static const struct qn_retention_vt vtable = {
	.head = {sizeof(vtable), QN_RETENTION_MAJOR, QN_RETENTION_MINOR},
	.plan = plan,
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	*self = NULL;
	return h->provide(m, "retention", (struct qn_service){&vtable.head, NULL}, e);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "retention_prefix",
	.version = QN_VERSION,
	.kind = "retention",
	.doc = "deletes from the front of each partition what the queue's options call old",
	.load = load,
};
QN_MODULE(module);
