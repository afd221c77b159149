/* SPDX-License-Identifier: Apache-2.0 */
/* The trivial retention: keeps everything for ever, whatever a queue's options say. Pure, any thread. */
#include <qn/abi.h>
#include <qn/retention.h>

static void plan(void *self, const struct qn_queue_options *q, int64_t now_us, struct qn_cutoffs *out)
{
	(void)self, (void)q, (void)now_us;
	*out = (struct qn_cutoffs){QN_KEEP_ALL, QN_KEEP_ALL, QN_KEEP_ALL, QN_KEEP_ALL};
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
	.name = "retention_none",
	.version = QN_VERSION,
	.kind = "retention",
	.doc = "keeps every message for ever",
	.load = load,
};
QN_MODULE(module);
