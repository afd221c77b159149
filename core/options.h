/* SPDX-License-Identifier: Apache-2.0 */
/** The options of the core itself: section [core]. */
#ifndef QN_CORE_OPTIONS_H
#define QN_CORE_OPTIONS_H

#include "app.h"
#include "option.h"

/** Fills struct qn_core_options. */
extern const struct qn_table qn_core_table;
/** Adds what environment variables with a meaning of their own imply. A bad boolean is an error. */
int qn_core_imply(struct qn_conf *c, struct qn_error *e) QN_MUST;
/** The variables of the environment that are known and mean nothing here, comma-separated; "" if none. */
const char *qn_core_ignored(struct qn_arena *a);

#endif
