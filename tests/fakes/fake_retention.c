/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A retention that cuts exactly at the seconds asked for, for testing the contract suite.
 *
 * FAKE_IGNORES_THE_FLAG and FAKE_HURRIES_HASHES each break one rule on purpose.
 */
#include <qn/abi.h>
#include <qn/retention.h>

static int64_t before(int64_t now_us, int32_t seconds)
{
	return seconds > 0 ? now_us - seconds * INT64_C(1000000) : QN_KEEP_ALL;
}

static void plan(void *self, const struct qn_queue_options *q, int64_t now_us, struct qn_cutoffs *out)
{
	int32_t hashes_s = 900;
	bool is_on = q->retention_enabled;

	(void)self;
#ifdef FAKE_IGNORES_THE_FLAG
	is_on = true;
#endif
#ifndef FAKE_HURRIES_HASHES
	hashes_s = q->dedup_window_s > hashes_s ? q->dedup_window_s : hashes_s;
	hashes_s = q->completed_retention_s > hashes_s ? q->completed_retention_s : hashes_s;
#endif
	out->all_us = is_on ? before(now_us, q->retention_s) : QN_KEEP_ALL;
	out->completed_us = is_on ? before(now_us, q->completed_retention_s) : QN_KEEP_ALL;
	out->max_wait_us = before(now_us, q->max_wait_time_s);
	out->hashes_us = before(now_us, hashes_s);
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
	QN_MODULE_HEAD,      .name = "fake_retention", .version = QN_VERSION,
	.kind = "retention", .doc = "test subject",    .load = load,
};
QN_MODULE(module);
