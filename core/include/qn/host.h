/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the core gives a module. A module links against nothing of ours: it is handed this table.
 *
 * Thread marks: [any] may be called from every thread, [main] only before thread_start or after
 * thread_stop, [thread] only on the thread it names.
 */
#ifndef QN_HOST_H
#define QN_HOST_H

#include <qn/base.h>
#include <qn/log.h>
#include <qn/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s;
struct qn_mod;    /* the core's handle on one loaded module */
struct qn_thread; /* one thread with an event loop */
struct qn_http_call;

/** First member of every vtable: what the provider was built with. */
struct qn_iface {
	uint32_t size;
	uint16_t major, minor;
};

/** A provided kind: its vtable and the provider's object. */
struct qn_service {
	const struct qn_iface *vt;
	void *self;
};

/** True if the provider was built with this member and fills it. */
#define QN_HAS(vt, type, member) \
	((vt)->head.size >= offsetof(type, member) + sizeof(((type *)0)->member) && (vt)->member != NULL)

enum qn_thread_kind { QN_THREAD_ENGINE, QN_THREAD_IO };

/** Intrusive mailbox entry: owned by the receiver's queue from post() until fn runs. */
struct qn_post {
	struct qn_post *next;
	void (*fn)(struct qn_post *post);
};

struct qn_host {
	struct qn_iface head;

	/** Registers self as the provider of a kind. Only inside load(). Refuses a second provider. [main] */
	int (*provide)(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e) QN_MUST;
	/** The provider of a kind this module `needs`; its major must match. Only from start() on. [main] */
	int (*require)(struct qn_mod *m, const char *kind, uint16_t major, struct qn_service *out,
	               struct qn_error *e) QN_MUST;

	/** Zero-filled memory; aborts when out of memory. For small, fixed sizes. [any] */
	void *(*alloc)(size_t n);
	/** As malloc: may return NULL. For sizes that input decides. [any] */
	void *(*try_alloc)(size_t n);
	void (*free)(void *p);

	/** Bump allocator with cleanups; one thread at a time. alloc aborts when out of memory. */
	struct qn_arena *(*arena_create)(void);
	void *(*arena_alloc)(struct qn_arena *a, size_t n);
	/** Runs fn(arg) when the arena is destroyed, last registered first. */
	void (*arena_defer)(struct qn_arena *a, void (*fn)(void *arg), void *arg);
	void (*arena_destroy)(struct qn_arena *a);

	/** Fills e (when not NULL and not yet set) and returns code. Use the QN_ERR macro. [any] */
	int (*error)(struct qn_error *e, const char *file, int line, int code, const char *fmt, ...) QN_FMT(5, 6);
	/** Writes one line. [any] */
	void (*log)(const struct qn_mod *m, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n);
	bool (*log_enabled)(enum qn_level level);

	enum qn_thread_kind (*thread_kind)(const struct qn_thread *t);
	/** 0 for the engine; 0..n-1 for I/O threads. */
	unsigned (*thread_index)(const struct qn_thread *t);
	/** The thread's loop. Handles may be added and closed on that thread only. */
	struct uv_loop_s *(*thread_loop)(struct qn_thread *t);
	/** Runs p->fn on the thread; entries posted by one thread keep their order. [any] */
	void (*post)(struct qn_thread *t, struct qn_post *p);
	/** Calls op->done(op, e) on the current thread's next tick (e is copied). [thread] */
	void (*defer)(struct qn_op *op, const struct qn_error *e);

	/** Microseconds since 1970, UTC; replaceable by tests. [any] */
	int64_t (*now_us)(void);
	/** Milliseconds of a monotonic clock. [any] */
	uint64_t (*mono_ms)(void);
	/** Cryptographically strong random bytes. [any] */
	void (*random)(void *p, size_t n);
	/** A new UUIDv7; ids made by one process sort in the order they were made. [any] */
	void (*uuid7)(struct qn_uuid *out);
	/** XXH3-128 of the bytes, canonical big-endian. [any] */
	void (*hash128)(struct qn_span bytes, uint8_t out[16]);

	/** Absolute path of the data directory (option data_dir). [any] */
	const char *(*data_dir)(void);
	/**
	 * Hands one complete HTTP request to the router. [thread: the call's I/O thread]
	 * The http module guarantees what struct qn_http_call promises; the core answers with exactly
	 * one reply() later or inside the call.
	 */
	void (*dispatch)(struct qn_http_call *call);
	/** The embedded SQL files and the like stay the module's; counters are the core's. [any] */
	void (*counter)(const char *name, uint64_t add);
};

#define QN_ERR(host, e, code, ...) (host)->error((e), __FILE__, __LINE__, (code), __VA_ARGS__)
#define QN_LOG(host, mod, level, event, ...)                                                              \
	do {                                                                                              \
		if ((host)->log_enabled(level)) {                                                         \
			const struct qn_kv qn_kv_[] = {__VA_ARGS__};                                      \
			(host)->log((mod), (level), (event), qn_kv_, sizeof(qn_kv_) / sizeof(qn_kv_[0])); \
		}                                                                                         \
	} while (0)

#ifdef __cplusplus
}
#endif
#endif
