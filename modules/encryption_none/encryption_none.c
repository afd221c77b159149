/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trivial encryption: it has no key, so it is never ready, seals nothing and knows no envelope. A
 * queue that asks for encryption is refused; nothing is ever stored in plain form instead. Any thread.
 */
#include <qn/abi.h>
#include <qn/encryption.h>

static const struct qn_host *host;

static bool ready(void *self)
{
	(void)self;
	return false;
}

static bool is_sealed(void *self, struct qn_span stored)
{
	(void)self, (void)stored;
	return false;
}

static int seal(void *self, struct qn_arena *a, struct qn_span plain, struct qn_span *out, struct qn_error *e)
{
	(void)self, (void)a, (void)plain, (void)out;
	return QN_ERR(host, e, QN_UNAVAIL, "no encryption key is set");
}

static int open_sealed(void *self, struct qn_arena *a, struct qn_span stored, struct qn_span *out, struct qn_error *e)
{
	(void)self, (void)a, (void)stored, (void)out;
	return QN_ERR(host, e, QN_UNAVAIL, "no encryption key is set");
}

static const struct qn_encryption_vt vtable = {
	.head = {sizeof(vtable), QN_ENCRYPTION_MAJOR, QN_ENCRYPTION_MINOR},
	.ready = ready,
	.is_sealed = is_sealed,
	.seal = seal,
	.open = open_sealed,
};

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	host = h;
	*self = NULL;
	return h->provide(m, "encryption", (struct qn_service){&vtable.head, NULL}, e);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "encryption_none",
	.version = QN_VERSION,
	.kind = "encryption",
	.doc = "no key: queues that ask for encryption are refused",
	.load = load,
};
QN_MODULE(module);
