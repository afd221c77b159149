/* SPDX-License-Identifier: Apache-2.0 */
/** The embedded server's process, watched by a thread of its own. */
#ifndef QN_PG_SUPERVISE_H
#define QN_PG_SUPERVISE_H

#include "cluster.h"

struct qn_pg_embedded;

/** Opens the cluster and returns when it accepts connections. Blocks; main thread. */
int qn_pg_embedded_start(struct qn_pg *pg, struct qn_pg_embedded **out, struct qn_error *e) QN_MUST;
const struct qn_pg_cluster *qn_pg_embedded_cluster(const struct qn_pg_embedded *s);
/** Fast shutdown, then immediate when that takes too long. Blocks; accepts NULL. */
void qn_pg_embedded_stop(struct qn_pg_embedded *s);

#endif
