/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Option tables: one typed row per setting, declared by the module that reads it.
 *
 * The same row drives the module.conf parser, the environment override, the command line,
 * --check-config, --dump-config, --list-options and the tables in the READMEs.
 */
#ifndef QN_OPTION_H
#define QN_OPTION_H

#include <qn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The C type of the field an option is written to is given in brackets. */
enum qn_option_type {
	QN_OPT_STR,      /* [const char *]  never NULL; "" when empty */
	QN_OPT_SECRET,   /* [const char *]  as STR, masked wherever it would be printed */
	QN_OPT_BOOL,     /* [bool]          true/false 1/0 yes/no on/off, any case */
	QN_OPT_INT,      /* [int64_t] */
	QN_OPT_FLOAT,    /* [double]        min and max apply to the truncated value */
	QN_OPT_DURATION, /* [int64_t] ms    suffix ms s m h d; a bare number is in `unit` */
	QN_OPT_BYTES,    /* [int64_t] bytes suffix B KiB MiB GiB; a bare number is in `unit` */
	QN_OPT_ENUM,     /* [int]           index into choices */
};

enum {
	QN_OPT_RELOAD = 1,   /* takes effect on SIGHUP */
	QN_OPT_REQUIRED = 2, /* refuse to start when it is empty */
};

struct qn_option {
	const char *name;           /* key in module.conf; NULL ends the table */
	const char *env;            /* environment name(s), first non-empty wins, separated by '|'; may be NULL */
	const char *def;            /* default as text */
	const char *unit;           /* unit of a bare number: "ms", "s", "MiB", ...; NULL for other types */
	const char *doc;            /* one line */
	const char *const *choices; /* QN_OPT_ENUM: NULL-terminated */
	size_t offset;              /* of the field in the module's options struct */
	int64_t min, max;           /* bounds in base units (ms, bytes); both 0 = unbounded */
	uint32_t type;              /* enum qn_option_type */
	uint32_t flags;
};

#ifdef __cplusplus
}
#endif
#endif
