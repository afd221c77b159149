/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The composed process: options of the core, the six kinds, the threads. Built by main, constant
 * while threads run.
 */
#ifndef QN_CORE_APP_H
#define QN_CORE_APP_H

#include "thread.h"

#include <qn/dedup.h>
#include <qn/encryption.h>
#include <qn/hotlist.h>
#include <qn/http.h>
#include <qn/retention.h>
#include <qn/storage.h>

/** Written from the table in options.c, section [core]. */
struct qn_core_options {
	int64_t io_threads;            /* 0: min(cores, 4) */
	const char *data_dir;          /* QUEEN_DATA_DIR */
	const char *module_dir;        /* where `use = name` is looked for */
	int log_level, log_format;     /* LOG_LEVEL; QUEEN_LOG_JSON selects json */
	int default_subscription;      /* DEFAULT_SUBSCRIPTION_MODE: choices new, all (unknown value: all) */
	int64_t pop_timeout_ms;        /* DEFAULT_TIMEOUT | POP_DEFAULT_TIMEOUT_MS, 30000 */
	int64_t pop_wait_initial_ms;   /* POP_WAIT_INITIAL_INTERVAL_MS, 100 */
	int64_t pop_wait_threshold;    /* POP_WAIT_BACKOFF_THRESHOLD, 3 */
	double pop_wait_multiplier;    /* POP_WAIT_BACKOFF_MULTIPLIER, 2.0 */
	int64_t pop_wait_max_ms;       /* POP_WAIT_MAX_INTERVAL_MS, 1000 */
	int64_t pop_max_bytes;         /* QUEEN_POP_MAX_MB, 16 MiB */
	int64_t push_memory_bytes;     /* QUEEN_PUSH_MEMORY_MB, 256 MiB */
	int64_t push_lanes_max;        /* lanes in one flush, 1000 */
	int64_t statement_timeout_ms;  /* QUEEN_STMT_TIMEOUT_MS, 30000 */
	int64_t zstd_level;            /* QUEEN_V2_ZSTD_LEVEL, 3 */
	int64_t drain_timeout_ms;      /* 8000 */
	int64_t retention_interval_ms; /* RETENTION_INTERVAL, 5000 */
	int64_t retention_batch;       /* RETENTION_BATCH_SIZE, 1000 */
	bool partition_cleanup;        /* QUEEN_PARTITION_CLEANUP_ENABLED, true */
	int64_t partition_cleanup_ms;  /* PARTITION_CLEANUP_DAYS, 30 */
	int64_t metrics_retention_ms;  /* METRICS_RETENTION_DAYS, 90 */
};

#define QN_SERVICE(type)               \
	struct {                       \
		const struct type *vt; \
		void *self;            \
	}

struct qn_broker;

struct qn_app {
	struct qn_core_options options;
	QN_SERVICE(qn_storage_vt) storage;
	QN_SERVICE(qn_hotlist_vt) hotlist;
	QN_SERVICE(qn_dedup_vt) dedup;
	QN_SERVICE(qn_retention_vt) retention;
	QN_SERVICE(qn_encryption_vt) encryption;
	QN_SERVICE(qn_http_vt) http;
	struct qn_thread *engine;
	struct qn_broker *broker; /* engine thread's; others only through jobs */
	_Atomic bool draining;    /* set before the drain begins */
};

/** The one app of the process; set before any thread starts. */
extern struct qn_app *qn_app;

#endif
