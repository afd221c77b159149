/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage_memory: kind storage in this process's memory, for tests and demonstrations.
 *
 * It gives the answers the durable storage gives and forgets everything at stop. An operation has its
 * result when the starting call returns; done() comes on the next tick (OP-1), so cancel() and
 * deadlines are always too late. Nothing is locked: everything runs on the engine thread.
 */
#include "memory.h"

#include <qn/abi.h>
#include <string.h>

static void on_done(struct qn_op *op, const struct qn_error *e)
{
	struct qn_mem *m = op->impl[0];

	memcpy(&op->done, &op->impl[1], sizeof(op->done));
	m->inflight--;
	op->done(op, e);
}

/* done() of the caller is put aside until the tick, so that inflight() counts the operation. */
static void finish(struct qn_mem *m, struct qn_op *op, const struct qn_error *e)
{
	op->impl[0] = m;
	memcpy(&op->impl[1], &op->done, sizeof(op->done));
	op->done = on_done;
	m->inflight++;
	m->host->defer(op, e);
}

static struct qn_storage_slots slots(void *self)
{
	(void)self;
	return (struct qn_storage_slots){.push = 64, .claim = 64, .settle = 64, .query = 64};
}

#define BIND(name, type, to)                          \
	static void name(void *self, struct type *op) \
	{                                             \
		to(self, op);                         \
		finish(self, &op->op, NULL);          \
	}
BIND(push, qn_push_op, qn_mem_push)
BIND(fetch, qn_fetch_op, qn_mem_fetch)
BIND(hashes, qn_hashes_op, qn_mem_hashes)
BIND(register_group, qn_register_op, qn_mem_register)
BIND(walk, qn_walk_op, qn_mem_walk)
BIND(claim, qn_claim_op, qn_mem_claim)
BIND(settle, qn_settle_op, qn_mem_settle)
BIND(dead_letter, qn_dead_letter_op, qn_mem_dead_letter)
BIND(extend, qn_extend_op, qn_mem_extend)
BIND(release, qn_release_op, qn_mem_release)
BIND(configure, qn_configure_op, qn_mem_configure)
BIND(delete_queue, qn_delete_op, qn_mem_delete)
BIND(list, qn_list_op, qn_mem_list)
BIND(maintain, qn_maintain_op, qn_mem_maintain)
BIND(sweep, qn_sweep_op, qn_mem_sweep)
#undef BIND

static void ping(void *self, struct qn_ping_op *op)
{
	finish(self, &op->op, NULL);
}

static void transaction(void *self, struct qn_txn_op *op)
{
	struct qn_error e = {0};
	int rc = qn_mem_transaction(self, op, &e);

	finish(self, &op->op, rc == QN_OK ? NULL : &e);
}

static void cancel(void *self, struct qn_op *op)
{
	(void)self, (void)op;
}

static uint32_t inflight(void *self)
{
	return ((const struct qn_mem *)self)->inflight;
}

static const struct qn_storage_vt vtable = {
	.head = {sizeof(vtable), QN_STORAGE_MAJOR, QN_STORAGE_MINOR},
	.slots = slots,
	.push = push,
	.fetch = fetch,
	.register_group = register_group,
	.claim = claim,
	.settle = settle,
	.dead_letter = dead_letter,
	.extend = extend,
	.release = release,
	.configure = configure,
	.delete_queue = delete_queue,
	.list = list,
	.ping = ping,
	.cancel = cancel,
	.inflight = inflight,
	.hashes = hashes,
	.transaction = transaction,
	.maintain = maintain,
	.sweep = sweep,
	.walk = walk,
};

static const struct qn_option options[] = {
	{.name = "max_mb",
         .type = QN_OPT_BYTES,
         .def = "512",
         .unit = "MiB",
         .min = 1 << 20,
         .max = INT64_C(1) << 40,
         .offset = offsetof(struct qn_mem_options, max_bytes),
         .doc = "messages and dead letters kept at most; a push beyond it fails"},
	{.name = NULL},
};

static int load(struct qn_mod *mod, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct qn_mem *m = h->alloc(sizeof(*m));
	int rc = h->provide(mod, "storage", (struct qn_service){&vtable.head, m}, e);

	if (rc != QN_OK) {
		h->free(m);
		return rc;
	}
	m->host = h;
	m->mod = mod;
	*self = m;
	return QN_OK;
}

static int start(void *self, const void *opts, struct qn_error *e)
{
	struct qn_mem *m = self;

	(void)e;
	m->options = opts;
	QN_LOG(m->host, m->mod, QN_WARN, "storage.volatile", QN_S("doc", "messages are lost when this process ends"));
	return QN_OK;
}

static void stop(void *self)
{
	qn_mem_clear(self);
}

static void unload(void *self)
{
	((const struct qn_mem *)self)->host->free(self);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "storage_memory",
	.version = QN_VERSION,
	.kind = "storage",
	.doc = "this process's memory: nothing survives it",
	.options = options,
	.options_size = sizeof(struct qn_mem_options),
	.load = load,
	.start = start,
	.stop = stop,
	.unload = unload,
};
QN_MODULE(module);
