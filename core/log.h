/* SPDX-License-Identifier: Apache-2.0 */
/** The log's core side: see qn/log.h for the vocabulary. Usable from every thread. */
#ifndef QN_CORE_LOG_H
#define QN_CORE_LOG_H

#include <qn/log.h>

enum qn_log_format { QN_LOG_LOGFMT, QN_LOG_JSON };

void qn_log_setup(enum qn_level level, enum qn_log_format format, int fd);
bool qn_log_enabled(enum qn_level level);
/** module: "core", "storage_pg", ... Repeats of one event are limited: 10, then one a second with dropped=N. */
void qn_log_write(const char *module, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n);

#define qn_log(level, event, ...)                                                                           \
	do {                                                                                                \
		if (qn_log_enabled(level)) {                                                                \
			const struct qn_kv qn_kv_[] = {__VA_ARGS__};                                        \
			qn_log_write("core", (level), (event), qn_kv_, sizeof(qn_kv_) / sizeof(qn_kv_[0])); \
		}                                                                                           \
	} while (0)

#endif
