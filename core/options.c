/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The [core] table, and the environment variables that do not fit a row one to one.
 *
 * Names of variables are the ones operators of the API know. Those that steer mechanisms this
 * broker does not have are accepted, so that a deployment keeps working, and named once in the log.
 */
#include "options.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const level_choices[] = {"error", "warn", "info", "debug", NULL};
static const char *const format_choices[] = {"logfmt", "json", NULL};
static const char *const subscription_choices[] = {"new", "all", NULL};

#define FIELD(f) .offset = offsetof(struct qn_core_options, f)

static const struct qn_option rows[] = {
	{.name = "io_threads",
         .type = QN_OPT_INT,
         .def = "0",
         .min = 0,
         .max = 64,
         FIELD(io_threads),
         .doc = "threads that serve connections; 0: as many as cores, at most 4"},
	{.name = "data_dir",
         .env = "QUEEN_DATA_DIR",
         .type = QN_OPT_STR,
         .def = "data",
         .flags = QN_OPT_REQUIRED,
         FIELD(data_dir),
         .doc = "directory of everything kept on this machine; made when missing"},
	{.name = "module_dir",
         .type = QN_OPT_STR,
         .def = "",
         FIELD(module_dir),
         .doc = "where modules are looked for; empty: `modules` beside the executable, else the installed ones"},
	{.name = "log_level",
         .env = "LOG_LEVEL",
         .type = QN_OPT_ENUM,
         .def = "info",
         .choices = level_choices,
         .flags = QN_OPT_RELOAD,
         FIELD(log_level),
         .doc = "least important level that is logged"},
	{.name = "log_format",
         .env = "QUEEN_LOG_JSON",
         .type = QN_OPT_ENUM,
         .def = "logfmt",
         .choices = format_choices,
         .flags = QN_OPT_RELOAD,
         FIELD(log_format),
         .doc = "shape of a log line; the variable is a boolean and true selects json"},
	{.name = "default_subscription",
         .env = "DEFAULT_SUBSCRIPTION_MODE",
         .type = QN_OPT_ENUM,
         .def = "new",
         .choices = subscription_choices,
         FIELD(default_subscription),
         .doc = "where a named consumer group starts when a pop does not say; other values of the variable mean all"},
	{.name = "pop_timeout",
         .env = "DEFAULT_TIMEOUT|POP_DEFAULT_TIMEOUT_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "30s",
         .min = 1,
         .max = 600000,
         FIELD(pop_timeout_ms),
         .doc = "how long a waiting pop waits by default"},
	{.name = "pop_wait_initial",
         .env = "POP_WAIT_INITIAL_INTERVAL_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "100ms",
         .min = 1,
         .max = 600000,
         FIELD(pop_wait_initial_ms),
         .doc = "first interval after which a waiting pop looks again by itself"},
	{.name = "pop_wait_threshold",
         .env = "POP_WAIT_BACKOFF_THRESHOLD",
         .type = QN_OPT_INT,
         .def = "3",
         .min = 0,
         .max = 1000000,
         FIELD(pop_wait_threshold),
         .doc = "empty looks before that interval grows"},
	{.name = "pop_wait_multiplier",
         .env = "POP_WAIT_BACKOFF_MULTIPLIER",
         .type = QN_OPT_FLOAT,
         .def = "2.0",
         .min = 0,
         .max = 1000,
         FIELD(pop_wait_multiplier),
         .doc = "by which factor it grows"},
	{.name = "pop_wait_max",
         .env = "POP_WAIT_MAX_INTERVAL_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "1s",
         .min = 1,
         .max = 600000,
         FIELD(pop_wait_max_ms),
         .doc = "up to which it grows"},
	{.name = "pop_max",
         .env = "QUEEN_POP_MAX_MB",
         .type = QN_OPT_BYTES,
         .unit = "MiB",
         .def = "16MiB",
         .min = 1024,
         .max = INT64_C(1) << 30,
         FIELD(pop_max_bytes),
         .doc = "payload bytes of one pop's answer; one message always"},
	{.name = "push_memory",
         .env = "QUEEN_PUSH_MEMORY_MB",
         .type = QN_OPT_BYTES,
         .unit = "MiB",
         .def = "256MiB",
         .min = 1 << 20,
         .max = INT64_C(1) << 40,
         FIELD(push_memory_bytes),
         .doc = "bytes accepted and not yet stored above which pushes are answered 429"},
	{.name = "push_lanes_max",
         .type = QN_OPT_INT,
         .def = "1000",
         .min = 1,
         .max = 10000,
         FIELD(push_lanes_max),
         .doc = "partitions stored by one database call"},
	{.name = "statement_timeout",
         .env = "QUEEN_STMT_TIMEOUT_MS",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "30s",
         .min = 100,
         .max = 3600000,
         FIELD(statement_timeout_ms),
         .doc = "how long a storage operation may take"},
	{.name = "zstd_level",
         .env = "QUEEN_V2_ZSTD_LEVEL",
         .type = QN_OPT_INT,
         .def = "3",
         .min = -7,
         .max = 22,
         FIELD(zstd_level),
         .doc = "compression level of stored messages"},
	{.name = "drain_timeout",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "8s",
         .min = 0,
         .max = 3600000,
         FIELD(drain_timeout_ms),
         .doc = "how long a stopping broker waits for requests and connections"},
	{.name = "retention_interval",
         .env = "RETENTION_INTERVAL",
         .type = QN_OPT_DURATION,
         .unit = "ms",
         .def = "5s",
         .min = 1,
         .max = 86400000,
         FIELD(retention_interval_ms),
         .doc = "how often old messages are looked for, by one broker of all on a database"},
	{.name = "retention_batch",
         .env = "RETENTION_BATCH_SIZE",
         .type = QN_OPT_INT,
         .def = "1000",
         .min = 1,
         .max = 100000,
         FIELD(retention_batch),
         .doc = "rows deleted by one database call at most"},
	{.name = "partition_cleanup",
         .env = "QUEEN_PARTITION_CLEANUP_ENABLED",
         .type = QN_OPT_BOOL,
         .def = "true",
         FIELD(partition_cleanup),
         .doc = "delete partitions that hold nothing and are not used any more"},
	{.name = "partition_cleanup_after",
         .env = "PARTITION_CLEANUP_DAYS",
         .type = QN_OPT_DURATION,
         .unit = "d",
         .def = "30d",
         .min = INT64_C(86400000),
         .max = INT64_C(86400000) * 36500,
         FIELD(partition_cleanup_ms),
         .doc = "how long they must have been unused"},
	{.name = "metrics_retention",
         .env = "METRICS_RETENTION_DAYS",
         .type = QN_OPT_DURATION,
         .unit = "d",
         .def = "90d",
         .min = INT64_C(86400000),
         .max = INT64_C(86400000) * 36500,
         FIELD(metrics_retention_ms),
         .doc = "how long the history of deletions is kept"},
	{.name = NULL},
};

const struct qn_table qn_core_table = {"core", "core", rows, sizeof(struct qn_core_options)};

/* Switches that choose a module: false selects the plain one. */
static const struct {
	const char *variable, *section, *plain;
} switches[] = {
	{"QUEEN_HOTLIST", "hotlist", "hotlist_scan"},
	{"QUEEN_DEDUP_CACHE", "dedup", "dedup_probe"},
};

/* A name that ends with '*' stands for every name that begins so. */
static const char *const ignored[] = {
	"DB_POOL_SIZE",
	"QUEEN_V2_FUSION_SHARDS",
	"QUEEN_V2_FUSION_FRAMES",
	"QUEEN_V2_FUSION_HOLD_MS",
	"QUEEN_V2_BUNDLE_LOG",
	"QUEEN_V2_BUNDLE_MAX",
	"QUEEN_SEG_PUSH_INIT",
	"QUEEN_SEG_PUSH_MIN",
	"QUEEN_SEG_PUSH_MAX",
	"QUEEN_SEG_POP_INIT",
	"QUEEN_SEG_POP_MIN",
	"QUEEN_SEG_POP_MAX",
	"QUEEN_VEGAS_ALPHA",
	"QUEEN_VEGAS_BETA",
	"QUEEN_ACK_FUSION",
	"QUEEN_ACK_FUSION_SHARDS",
	"QUEEN_ACK_FUSION_HOLD_MS",
	"QUEEN_HOTLIST_SHARDS",
	"QUEEN_MESH_PORT",
	"QUEEN_UDP_NOTIFY_PORT",
	"QUEEN_MESH_PEERS",
	"QUEEN_UDP_PEERS",
	"QUEEN_SYNC_ENABLED",
	"QUEEN_SYNC_SECRET",
	"QUEEN_SYNC_HEARTBEAT_MS",
	"QUEEN_SYNC_DEAD_THRESHOLD_MS",
	"RETENTION_PARALLELISM",
	"QUEEN_ADMISSION_*",
	"QUEEN_POP_FUSION",
	"QUEEN_POP_AUTOPILOT*",
};

static const char *level_of(const char *text)
{
	static const char *const words[][2] = {{"trace", "debug"}, {"warning", "warn"}, {"err", "error"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i][0]) == 0) {
			return words[i][1];
		}
	}
	for (size_t i = 0; level_choices[i] != NULL; i++) {
		if (strcasecmp(text, level_choices[i]) == 0) {
			return level_choices[i];
		}
	}
	return "info";
}

/* 1: set to *value, 0: not set, negative: error. */
static int env_bool(const char *variable, struct qn_arena *a, bool *value, struct qn_error *e)
{
	const char *name, *text = qn_option_env(variable, a, &name);

	if (text == NULL) {
		return 0;
	}
	if (!qn_option_bool(text, value)) {
		return QN_FAIL(e, QN_INVALID, "%s=\"%s\" is not a boolean (expected true/false, 1/0, yes/no, on/off)",
		               name, text);
	}
	return 1;
}

int qn_core_imply(struct qn_conf *c, struct qn_error *e)
{
	const char *name, *text = qn_option_env("LOG_LEVEL", c->arena, &name);
	bool on;
	int rc;

	if (text != NULL) {
		qn_conf_imply(c, "core", "log_level", level_of(text), name);
	}
	text = qn_option_env("DEFAULT_SUBSCRIPTION_MODE", c->arena, &name);
	if (text != NULL) {
		qn_conf_imply(c, "core", "default_subscription", strcasecmp(text, "new") == 0 ? "new" : "all", name);
	}
	rc = env_bool("QUEEN_LOG_JSON", c->arena, &on, e);
	if (rc > 0) {
		qn_conf_imply(c, "core", "log_format", on ? "json" : "logfmt", "QUEEN_LOG_JSON");
	}
	for (size_t i = 0; rc >= 0 && i < sizeof(switches) / sizeof(switches[0]); i++) {
		rc = env_bool(switches[i].variable, c->arena, &on, e);
		if (rc > 0 && !on) {
			qn_conf_imply(c, switches[i].section, "use", switches[i].plain, switches[i].variable);
		}
	}
	return rc < 0 ? rc : QN_OK;
}

static bool is_ignored(const char *variable, size_t n)
{
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
		size_t len = strlen(ignored[i]);

		if (ignored[i][len - 1] == '*' ? n >= len - 1 && memcmp(variable, ignored[i], len - 1) == 0
		                               : n == len && memcmp(variable, ignored[i], len) == 0) {
			return true;
		}
	}
	return false;
}

const char *qn_core_ignored(struct qn_arena *a)
{
	size_t n = 0;
	char *names, *to;

	for (char **v = environ; *v != NULL; v++) {
		n += strcspn(*v, "=") + 1;
	}
	names = qn_arena_alloc(a, n + 1);
	to = names;
	for (char **v = environ; *v != NULL; v++) {
		size_t len = strcspn(*v, "=");

		if (is_ignored(*v, len)) {
			if (to > names) {
				*to++ = ',';
			}
			memcpy(to, *v, len);
			to += len;
		}
	}
	*to = '\0';
	return names;
}
