/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storage_pg: kind storage on PostgreSQL.
 *
 * start() brings the server up when it is ours, and the schema; thread_start() on the engine creates
 * the pool, whose connections come up on the loop. Operations are the op_*.c files; this one only
 * binds them to the pool and to the life cycle.
 */
#include "module.h"

#include "ops.h"
#include "schema.h"
#include "supervise.h"

#include <qn/abi.h>
#include <qn/storage.h>

static struct qn_storage_slots slots(void *self)
{
	const struct qn_pg_options *o = ((const struct qn_pg *)self)->options;
	return (struct qn_storage_slots){.push = (uint32_t)o->push_connections,
	                                 .claim = (uint32_t)o->claim_connections,
	                                 .settle = (uint32_t)o->settle_connections,
	                                 .query = (uint32_t)o->query_connections};
}

#define BIND(name, type, to)                                \
	static void name(void *self, struct type *op)       \
	{                                                   \
		to(((const struct qn_pg *)self)->pool, op); \
	}
BIND(push, qn_push_op, qn_pg_push)
BIND(fetch, qn_fetch_op, qn_pg_fetch)
BIND(register_group, qn_register_op, qn_pg_register)
BIND(walk, qn_walk_op, qn_pg_walk)
BIND(claim, qn_claim_op, qn_pg_claim)
BIND(settle, qn_settle_op, qn_pg_settle)
BIND(dead_letter, qn_dead_letter_op, qn_pg_dead_letter)
BIND(transaction, qn_txn_op, qn_pg_transaction)
BIND(extend, qn_extend_op, qn_pg_extend)
BIND(release, qn_release_op, qn_pg_release)
BIND(configure, qn_configure_op, qn_pg_configure)
BIND(delete_queue, qn_delete_op, qn_pg_delete)
BIND(list, qn_list_op, qn_pg_list)
BIND(ping, qn_ping_op, qn_pg_ping)
BIND(hashes, qn_hashes_op, qn_pg_hashes)
BIND(cancel, qn_op, qn_pg_pool_cancel)
BIND(maintain, qn_maintain_op, qn_pg_maintain)
BIND(sweep, qn_sweep_op, qn_pg_sweep)
#undef BIND

static uint32_t inflight(void *self)
{
	const struct qn_pg *pg = self;
	return pg->pool != NULL ? qn_pg_pool_inflight(pg->pool) : 0;
}

static const struct qn_storage_vt vt = {
	.head = {.size = sizeof(struct qn_storage_vt), .major = QN_STORAGE_MAJOR, .minor = QN_STORAGE_MINOR},
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

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	struct qn_pg *pg = h->alloc(sizeof(*pg));
	pg->host = h;
	pg->mod = m;
	int rc = h->provide(m, "storage", (struct qn_service){.vt = &vt.head, .self = pg}, e);
	if (rc != QN_OK) {
		h->free(pg);
		return rc;
	}
	*self = pg;
	return QN_OK;
}

static bool wants_embedded(const struct qn_pg_options *o)
{
	return o->embedded == QN_PG_EMBEDDED_ON ||
	       (o->embedded == QN_PG_EMBEDDED_AUTO && o->dsn[0] == '\0' && o->host[0] == '\0');
}

static int reach_server(struct qn_pg *pg, struct qn_error *e)
{
	if (!wants_embedded(pg->options)) {
		return qn_pg_conninfo_external(&pg->conninfo, pg->host, pg->options, e);
	}
	int rc = qn_pg_embedded_start(pg, &pg->embedded, e);
	if (rc == QN_OK) {
		const struct qn_pg_cluster *c = qn_pg_embedded_cluster(pg->embedded);
		qn_pg_conninfo_local(&pg->conninfo, pg->host, pg->options, c->socket_dir, c->password);
	}
	return rc;
}

static void stop(void *self)
{
	struct qn_pg *pg = self;
	if (pg->conninfo.host != NULL) {
		qn_pg_conninfo_fini(&pg->conninfo);
	}
	qn_pg_embedded_stop(pg->embedded);
	pg->embedded = NULL;
}

static int start(void *self, const void *options, struct qn_error *e)
{
	struct qn_pg *pg = self;
	pg->options = options;
	qn_pg_statements_init();
	int rc = reach_server(pg, e);
	if (rc == QN_OK) {
		rc = qn_pg_schema_apply(pg, e);
	}
	if (rc != QN_OK) {
		stop(pg);
	}
	return rc;
}

static int thread_start(void *self, struct qn_thread *t, void **tself, struct qn_error *e)
{
	struct qn_pg *pg = self;
	(void)e;
	*tself = NULL;
	if (pg->host->thread_kind(t) == QN_THREAD_ENGINE) {
		pg->pool = qn_pg_pool_create(pg, pg->host->thread_loop(t));
	}
	return QN_OK;
}

static void thread_stop(void *self, struct qn_thread *t, void *tself)
{
	struct qn_pg *pg = self;
	(void)tself;
	if (pg->host->thread_kind(t) == QN_THREAD_ENGINE && pg->pool != NULL) {
		qn_pg_pool_close(pg->pool);
		pg->pool = NULL;
	}
}

static void unload(void *self)
{
	struct qn_pg *pg = self;
	pg->host->free(pg);
}

static const struct qn_module module = {
	QN_MODULE_HEAD,
	.name = "storage_pg",
	.version = "0.1.0",
	.kind = "storage",
	.doc = "PostgreSQL, embedded or elsewhere",
	.options = qn_pg_option_table,
	.options_size = sizeof(struct qn_pg_options),
	.load = load,
	.start = start,
	.thread_start = thread_start,
	.thread_stop = thread_stop,
	.stop = stop,
	.unload = unload,
};

QN_MODULE(module);
