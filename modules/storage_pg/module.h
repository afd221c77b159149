/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of storage_pg share: the module's object. */
#ifndef QN_PG_MODULE_H
#define QN_PG_MODULE_H

#include "conninfo.h"
#include "options.h"

#include <qn/host.h>

struct qn_pg_pool;
struct qn_pg_embedded;

struct qn_pg {
	const struct qn_host *host;
	struct qn_mod *mod;
	const struct qn_pg_options *options; /* from start() on */
	struct qn_pg_conninfo conninfo;      /* constant while the engine thread runs */
	struct qn_pg_embedded *embedded;     /* NULL with an external server */
	struct qn_pg_pool *pool;             /* the engine thread's */
};

#endif
