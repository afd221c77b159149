/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Module ABI: the descriptor a module exports, and how the core checks it.
 *
 * ABI changelog
 *   1.0  first version
 * Rule: something appended raises the minor, something removed or changed raises the major.
 *
 * A module exports exactly one function, qn_module_entry(), returning a const descriptor. The core
 * loads it with RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE and compares magic, major, minor, build
 * signature and op size, in that order; the refusal names what differs and both values.
 *
 * Life cycle (only load, start, thread_start and reload may fail; a failing step cleans up after
 * itself and the core undoes the steps before it):
 *   load          register services; no I/O, no threads, no options yet          [main]
 *   start         options of all modules are valid; may block (connect, migrate)  [main]
 *   thread_start  once on the engine thread, then once on each I/O thread         [that thread]
 *   drain         take no new work; called once on each thread                    [that thread]
 *   thread_stop   exact reverse of thread_start; must leave no open uv handle     [that thread]
 *   stop, unload  exact reverse of start and load                                 [main]
 */
#ifndef QN_ABI_H
#define QN_ABI_H

#include <qn/base.h>
#include <qn/host.h>
#include <qn/op.h>
#include <qn/option.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_ABI_MAGIC 0x514e4d44u /* "QNMD" */
#define QN_ABI_MAJOR 1
#define QN_ABI_MINOR 0

#define QN_STR_(x) #x
#define QN_STR(x)  QN_STR_(x)
#if defined(__SANITIZE_THREAD__)
#define QN_BUILD_SAN "tsan"
#elif defined(__SANITIZE_ADDRESS__)
#define QN_BUILD_SAN "asan"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QN_BUILD_SAN "tsan"
#elif __has_feature(address_sanitizer)
#define QN_BUILD_SAN "asan"
#else
#define QN_BUILD_SAN "plain"
#endif
#else
#define QN_BUILD_SAN "plain"
#endif
/** Options of the build that change the meaning of a struct or of memory: compared as text. */
#define QN_BUILD_SIG "p" QN_STR(__SIZEOF_POINTER__) ",l" QN_STR(__SIZEOF_LONG__) "," QN_BUILD_SAN

struct qn_module {
	uint32_t magic;
	uint16_t abi_major, abi_minor;
	uint32_t size;            /* sizeof(struct qn_module) when built; members beyond it read as zero */
	uint32_t op_size;         /* sizeof(struct qn_op) when built */
	const char *build_sig;    /* QN_BUILD_SIG */
	const char *name;         /* "storage_pg": the name `use` gives it */
	const char *version;      /* "1.0.0" */
	const char *kind;         /* section of module.conf: "storage", "http", ...; "plugin" for plugins */
	const char *doc;          /* one line for --list-options */
	const char *const *needs; /* kinds that must be provided and started before; NULL-terminated, may be NULL */
	const struct qn_option *options; /* ends with name NULL; may be NULL */
	size_t options_size;             /* bytes of the struct the options are written into */

	/** *self is passed back to every later call. */
	int (*load)(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e);
	/** options: [borrow] the filled struct; stays valid and unchanged until unload. */
	int (*start)(void *self, const void *options, struct qn_error *e);
	/** *tself is this module's object on this thread. May be NULL: nothing to do. */
	int (*thread_start)(void *self, struct qn_thread *t, void **tself, struct qn_error *e);
	/** A whole new options struct with the reloadable rows changed. May be NULL. [main] */
	int (*reload)(void *self, const void *options, struct qn_error *e);
	void (*drain)(void *self, struct qn_thread *t, void *tself);
	void (*thread_stop)(void *self, struct qn_thread *t, void *tself);
	void (*stop)(void *self);
	void (*unload)(void *self);
};

typedef const struct qn_module *qn_module_entry_fn(void);

#define QN_MODULE_HEAD                                                                                                 \
	.magic = QN_ABI_MAGIC, .abi_major = QN_ABI_MAJOR, .abi_minor = QN_ABI_MINOR, .size = sizeof(struct qn_module), \
	.op_size = sizeof(struct qn_op), .build_sig = QN_BUILD_SIG

/** Writes the one exported function. */
#define QN_MODULE(var)                                           \
	QN_EXPORT const struct qn_module *qn_module_entry(void); \
	const struct qn_module *qn_module_entry(void)            \
	{                                                        \
		return &(var);                                   \
	}                                                        \
	struct qn_swallow_semicolon

#ifdef __cplusplus
}
#endif
#endif
