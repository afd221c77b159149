/* SPDX-License-Identifier: Apache-2.0 */
/** Modules as the core sees them: loading one, composing all, what each has reached. */
#ifndef QN_CORE_MODULE_H
#define QN_CORE_MODULE_H

#include "app.h"
#include "option.h"

#include <qn/abi.h>

#define QN_IO_THREADS_MAX 64
#define QN_MODULES_MAX    64
#define QN_SERVICES_MAX   64

/** What a module is to be: from which file, under which name and kind. */
struct qn_module_want {
	const char *path; /* absolute */
	const char *name; /* NULL: whatever it says */
	const char *kind;
};

struct qn_mod {
	struct qn_module d; /* a copy, zero beyond what the module was built with */
	struct qn_composition *all;
	const char *section, *path;
	void *self;
	void *options; /* d.options_size bytes */
	bool is_loaded, is_started;
	uint8_t mark; /* of the ordering walk */
	/* by qn_mod_slot() */
	bool on_thread[QN_IO_THREADS_MAX + 1];
	void *tself[QN_IO_THREADS_MAX + 1];
};

struct qn_provided {
	const char *kind;
	struct qn_mod *mod;
	struct qn_service service;
};

/** All modules of the process. Zeroed but for the arena is a valid empty one. [main] */
struct qn_composition {
	struct qn_arena *arena;
	struct qn_mod *mods[QN_MODULES_MAX];  /* as loaded */
	struct qn_mod *order[QN_MODULES_MAX]; /* as started: providers before those that need them */
	size_t count;
	struct qn_provided provided[QN_SERVICES_MAX];
	size_t provided_count;
	struct qn_mod *loading; /* whose load() is running */
	bool is_resolved;
};

/** Slot of a thread in a module's arrays: the engine is 0, I/O thread i is i + 1. */
static inline unsigned qn_mod_slot(const struct qn_thread *t)
{
	return qn_thread_kind(t) == QN_THREAD_ENGINE ? 0 : qn_thread_index(t) + 1;
}

/* loader.c */
/** Opens the file and checks it against the ABI; *out is a full-size copy. Nothing of it has run yet. */
int qn_module_open(const struct qn_module_want *want, struct qn_module *out, struct qn_error *e) QN_MUST;
/** The directory `use = name` is looked for in: the option, or found from the executable. */
const char *qn_module_dir(const char *option, struct qn_arena *a);

/* compose.c */
/** Opens and loads what the sections name, in their order. On failure nothing stays loaded. */
int qn_compose_load(struct qn_composition *c, const struct qn_conf *conf, const char *module_dir,
                    struct qn_error *e) QN_MUST;
/** Fills and checks the options of all modules. */
int qn_compose_options(struct qn_composition *c, const struct qn_conf *conf, struct qn_error *e) QN_MUST;
/** Every kind is there and every need met; fixes the order of start. Fills the six kinds of app. */
int qn_compose_resolve(struct qn_composition *c, struct qn_app *app, struct qn_error *e) QN_MUST;
/** Unloads in reverse. */
void qn_compose_unload(struct qn_composition *c);
/** What `use` says in a section; kinds fall back to the shipped composition. */
const char *qn_compose_use(const struct qn_conf *conf, const char *section);
/** The option table of a module. */
struct qn_table qn_mod_table(const struct qn_mod *m);
/** Behind host->provide and host->require. */
int qn_compose_provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e) QN_MUST;
int qn_compose_require(struct qn_mod *m, const char *kind, uint16_t major, struct qn_service *out,
                       struct qn_error *e) QN_MUST;

/* host.c */
extern const struct qn_host qn_host;
/** Before any module starts; borrowed for the life of the process. */
void qn_host_set_data_dir(const char *path);
/** Value of a counter modules add to; 0 for one that was never named. [any] */
uint64_t qn_host_counter(const char *name);

#endif
