/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Structured log: one event is one line is one write(2). An event is `area.verb` plus typed pairs.
 *
 * ERROR: a human must act. WARN: degraded but handled. INFO: life cycle and configuration.
 * DEBUG: per request. The request path logs nothing at INFO.
 */
#ifndef QN_LOG_H
#define QN_LOG_H

#include <qn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum qn_level { QN_ERROR, QN_WARN, QN_INFO, QN_DEBUG };

enum qn_kv_type { QN_KV_STR, QN_KV_U64, QN_KV_I64, QN_KV_F64, QN_KV_BOOL };

struct qn_kv {
	const char *key;
	enum qn_kv_type type;
	union {
		struct qn_span s;
		uint64_t u;
		int64_t i;
		double f;
		bool b;
	} v;
};

#define QN_S(k, text)                                                                        \
	{                                                                                    \
		.key = (k), .type = QN_KV_STR, .v = {.s = {(text), __builtin_strlen(text)} } \
	}
#define QN_SP(k, span)                                             \
	{                                                          \
		.key = (k), .type = QN_KV_STR, .v = {.s = (span) } \
	}
#define QN_U(k, value)                                                        \
	{                                                                     \
		.key = (k), .type = QN_KV_U64, .v = {.u = (uint64_t)(value) } \
	}
#define QN_I(k, value)                                                       \
	{                                                                    \
		.key = (k), .type = QN_KV_I64, .v = {.i = (int64_t)(value) } \
	}
#define QN_F(k, value)                                              \
	{                                                           \
		.key = (k), .type = QN_KV_F64, .v = {.f = (value) } \
	}
#define QN_BOOL(k, value)                                            \
	{                                                            \
		.key = (k), .type = QN_KV_BOOL, .v = {.b = (value) } \
	}

#ifdef __cplusplus
}
#endif
#endif
