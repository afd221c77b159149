/* SPDX-License-Identifier: Apache-2.0 */
/** How push and ack lanes look in parameters and rows: shared by their operations and by transaction. */
#ifndef QN_PG_LANES_H
#define QN_PG_LANES_H

#include "params.h"
#include "rows.h"

#include <qn/storage.h>

/** Columns of a push lane's row. */
struct qn_pg_push_columns {
	int status, partition_id, base_offset, created_at_us, dedup, encryption, delay, buffer;
};

/** Columns of an ack lane's row. */
struct qn_pg_settle_columns {
	int lease_released, committed, has_more, queue, partition, outcomes, reasons, poison_item, poison_offset,
		retry_count, seg_base, seg_count, seg_created_at_us, seg_blob;
};

/** Queue to the time verified since: ten parameters. */
void qn_pg_encode_push_lanes(struct qn_pg_params *p, const struct qn_push_lane *l, uint32_t n);
/** All but the duplicates. */
void qn_pg_read_push_lane(struct qn_pg_rows *r, int row, const struct qn_pg_push_columns *c, struct qn_push_lane *l);
/** Partition id to item status: six parameters. */
void qn_pg_encode_settle_lanes(struct qn_pg_params *p, const struct qn_settle_lane *l, uint32_t n);
void qn_pg_read_settle_lane(struct qn_pg_rows *r, int row, const struct qn_pg_settle_columns *c,
                            struct qn_settle_lane *l);

#endif
