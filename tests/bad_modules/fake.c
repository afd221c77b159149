/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One module in many shapes, chosen by macros: a minimal provider of a kind, or a plugin with one
 * defect. Every life cycle step it takes is logged as events fake.STEP, which is what the tests read.
 *
 *   FAKE_NAME  its name           FAKE_KIND     its kind
 *   FAKE_NEED  a kind it needs    FAKE_PROVIDE  a kind it provides
 *   FAKE_CASE  which defect, an enum fake_case
 */
#include <qn/abi.h>
#include <qn/dedup.h>
#include <qn/encryption.h>
#include <qn/hotlist.h>
#include <qn/http.h>
#include <qn/retention.h>
#include <qn/storage.h>

#include <stdio.h>
#include <string.h>

enum fake_case {
	GOOD,
	NULL_DESCRIPTOR,
	BAD_MAGIC,
	BAD_MAJOR,
	NEWER_MINOR,
	SHORT_SIZE,
	BAD_SIG,
	BAD_OP_SIZE,
	LOAD_FAILS,
	START_FAILS,
	THREAD_START_FAILS_ON_SECOND,
	PROVIDES_TWICE,
	NEVER_CALLS_DONE,
};

struct fake {
	const struct qn_host *host;
	struct qn_mod *mod;
	unsigned threads;
	struct qn_thread *thread;
	struct qn_http_call call;
};

struct fake_options {
	int64_t size;
	const char *word;
};

/* Everything the core reads of a vtable starts with this. */
union vtable {
	struct qn_iface head;
	struct qn_storage_vt storage;
	struct qn_hotlist_vt hotlist;
	struct qn_dedup_vt dedup;
	struct qn_retention_vt retention;
	struct qn_encryption_vt encryption;
	struct qn_http_vt http;
};

static struct fake fake;
static union vtable vtable;

static void step(const char *what, const struct qn_thread *t)
{
	const char *where = t == NULL                                       ? "main"
	                    : fake.host->thread_kind(t) == QN_THREAD_ENGINE ? "engine"
	                    : fake.host->thread_index(t) == 0               ? "io-0"
	                                                                    : "io-1";
	char event[32];

	/* An event of its own per step: repeats of one event are limited. */
	(void)snprintf(event, sizeof(event), "fake.%s", what);
	QN_LOG(fake.host, fake.mod, QN_INFO, event, QN_S("step", what), QN_S("on", where));
}

static struct qn_storage_slots storage_slots(void *self)
{
	(void)self;
	return (struct qn_storage_slots){1, 1, 1, 1};
}

static void storage_ping(void *self, struct qn_ping_op *op)
{
	(void)self;
	step("ping", NULL);
	if (FAKE_CASE != NEVER_CALLS_DONE) {
		fake.host->defer(&op->op, NULL);
	}
}

/* It never is this broker's turn. */
static void storage_maintain(void *self, struct qn_maintain_op *op)
{
	(void)self;
	op->held = false;
	op->fence = 0;
	op->wait_ms = 86400000;
	fake.host->defer(&op->op, NULL);
}

static uint32_t storage_inflight(void *self)
{
	(void)self;
	return 0;
}

static bool dedup_read_due(void *self, struct qn_dedup_read *r)
{
	(void)self, (void)r;
	return false;
}

static void dedup_expire(void *self, int64_t now_us)
{
	(void)self;
	(void)now_us;
}

/* The one request this server makes up asks for a round trip to the storage. */
static int http_listen(void *self, void *tself, struct qn_error *e)
{
	(void)self;
	(void)e;
	step("listen", tself);
	if (fake.host->thread_index(tself) == 0) {
		fake.call.vt = &vtable.http;
		fake.call.thread = tself;
		fake.call.method = QN_SPAN_LIT("GET");
		fake.call.path = QN_SPAN_LIT("/health");
		fake.call.version = 0x101;
		fake.host->dispatch(&fake.call);
	}
	return QN_OK;
}

static void http_reply(struct qn_http_call *call, const struct qn_http_reply *reply)
{
	(void)call;
	step("reply", NULL);
	if (reply->body.free != NULL) {
		reply->body.free(reply->body.p, reply->body.ctx);
	}
}

static bool http_peer_gone(struct qn_http_call *call)
{
	(void)call;
	return false;
}

static bool http_header(struct qn_http_call *call, struct qn_span name, struct qn_span *value)
{
	(void)call;
	(void)name;
	(void)value;
	return false;
}

static uint32_t http_connections(void *self, void *tself)
{
	(void)self;
	(void)tself;
	return 0;
}

static uint64_t hotlist_next_due_ms(void *self)
{
	(void)self;
	return UINT64_MAX;
}

static bool http_is_public(void *self)
{
	(void)self;
	return true;
}

static void fill_vtable(const char *kind)
{
	if (strcmp(kind, "storage") == 0) {
		vtable.head = (struct qn_iface){sizeof(vtable.storage), QN_STORAGE_MAJOR, QN_STORAGE_MINOR};
		vtable.storage.slots = storage_slots;
		vtable.storage.ping = storage_ping;
		vtable.storage.inflight = storage_inflight;
		vtable.storage.maintain = storage_maintain;
	} else if (strcmp(kind, "dedup") == 0) {
		vtable.head = (struct qn_iface){sizeof(vtable.dedup), QN_DEDUP_MAJOR, QN_DEDUP_MINOR};
		vtable.dedup.expire = dedup_expire;
		vtable.dedup.read_due = dedup_read_due;
	} else if (strcmp(kind, "hotlist") == 0) {
		vtable.head = (struct qn_iface){sizeof(vtable.hotlist), QN_HOTLIST_MAJOR, QN_HOTLIST_MINOR};
		vtable.hotlist.next_due_ms = hotlist_next_due_ms;
	} else if (strcmp(kind, "http") == 0) {
		vtable.head = (struct qn_iface){sizeof(vtable.http), QN_HTTP_MAJOR, QN_HTTP_MINOR};
		vtable.http.listen = http_listen;
		vtable.http.reply = http_reply;
		vtable.http.peer_gone = http_peer_gone;
		vtable.http.header = http_header;
		vtable.http.connections = http_connections;
		vtable.http.is_public = http_is_public;
	} else {
		vtable.head = (struct qn_iface){sizeof(vtable), 1, 0};
	}
}

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	static const char *const provides[] = {FAKE_PROVIDE, NULL};
	int rc = QN_OK;

	fake.host = h;
	fake.mod = m;
	*self = &fake;
	step("load", NULL);
	if (FAKE_CASE == LOAD_FAILS) {
		return QN_ERR(h, e, QN_UNAVAIL, "the fake does not load");
	}
	if (provides[0] != NULL) {
		fill_vtable(provides[0]);
		rc = h->provide(m, provides[0], (struct qn_service){&vtable.head, &fake}, e);
	}
	if (rc == QN_OK && FAKE_CASE == PROVIDES_TWICE) {
		rc = h->provide(m, provides[0], (struct qn_service){&vtable.head, &fake}, e);
	}
	return rc;
}

static int start(void *self, const void *options, struct qn_error *e)
{
	const struct fake_options *o = options;

	(void)self;
	step("start", NULL);
	QN_LOG(fake.host, fake.mod, QN_INFO, "fake.options", QN_I("size", o->size), QN_S("word", o->word));
	return FAKE_CASE == START_FAILS ? QN_ERR(fake.host, e, QN_UNAVAIL, "the fake does not start") : QN_OK;
}

static int thread_start(void *self, struct qn_thread *t, void **tself, struct qn_error *e)
{
	(void)self;
	*tself = t;
	step("thread_start", t);
	fake.threads++;
	if (FAKE_CASE == THREAD_START_FAILS_ON_SECOND && fake.threads == 2) {
		return QN_ERR(fake.host, e, QN_UNAVAIL, "the fake does not enter a second thread");
	}
	return QN_OK;
}

static int reload(void *self, const void *options, struct qn_error *e)
{
	const struct fake_options *o = options;

	(void)self;
	(void)e;
	QN_LOG(fake.host, fake.mod, QN_INFO, "fake.reloaded", QN_I("size", o->size), QN_S("word", o->word));
	return QN_OK;
}

static void drain(void *self, struct qn_thread *t, void *tself)
{
	(void)self;
	(void)tself;
	step("drain", t);
}

static void thread_stop(void *self, struct qn_thread *t, void *tself)
{
	(void)self;
	(void)tself;
	step("thread_stop", t);
}

static void stop(void *self)
{
	(void)self;
	step("stop", NULL);
}

static void unload(void *self)
{
	(void)self;
	step("unload", NULL);
}

static const struct qn_option options[] = {
	{.name = "size",
         .env = "FAKE_SIZE",
         .type = QN_OPT_BYTES,
         .unit = "KiB",
         .def = "1KiB",
         .min = 1,
         .max = 1 << 20,
         .offset = offsetof(struct fake_options, size),
         .doc = "a size"},
	{.name = "word",
         .type = QN_OPT_STR,
         .def = "none",
         .flags = QN_OPT_RELOAD,
         .offset = offsetof(struct fake_options, word),
         .doc = "a word"},
	{.name = NULL},
};

static const char *const needs[] = {FAKE_NEED, NULL};

static const struct qn_module descriptor = {
	.magic = FAKE_CASE == BAD_MAGIC ? 0x12345678 : QN_ABI_MAGIC,
	.abi_major = FAKE_CASE == BAD_MAJOR ? QN_ABI_MAJOR + 6 : QN_ABI_MAJOR,
	.abi_minor = FAKE_CASE == NEWER_MINOR ? QN_ABI_MINOR + 9 : QN_ABI_MINOR,
	.size = FAKE_CASE == SHORT_SIZE ? 40 : sizeof(struct qn_module),
	.op_size = FAKE_CASE == BAD_OP_SIZE ? 8 : sizeof(struct qn_op),
	.build_sig = FAKE_CASE == BAD_SIG ? "p4,l4,plain" : QN_BUILD_SIG,
	.name = FAKE_NAME,
	.version = "1.0.0",
	.kind = FAKE_KIND,
	.doc = "For tests",
	.needs = needs,
	.options = options,
	.options_size = sizeof(struct fake_options),
	.load = load,
	.start = start,
	.thread_start = thread_start,
	.reload = reload,
	.drain = drain,
	.thread_stop = thread_stop,
	.stop = stop,
	.unload = unload,
};

QN_EXPORT const struct qn_module *qn_module_entry(void);

const struct qn_module *qn_module_entry(void)
{
	return FAKE_CASE == NULL_DESCRIPTOR ? NULL : &descriptor;
}
