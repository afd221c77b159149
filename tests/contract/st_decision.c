/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision table of acknowledgements (ST-9), one case per row. Before each row: p0 to p9 are
 * done, m10 to m14 are leased to L1 (cursor 9), and m15 came after the claim.
 */
#include "storage_kit.h"

#include <stdlib.h>

enum { LIMIT_0 = 1, DLQ_OFF = 2, MAX_RETRIES_OFF = 4, ALL_OFF = DLQ_OFF | MAX_RETRIES_OFF };

struct row {
	const char *name, *lease, *items, *outcomes;
	int64_t cursor;
	bool released;
	int poison; /* offset; 0: none */
	int options;
};

static const struct row rows[] = {
	{"the last completed completes the batch", L1, "m14:c", "C", 14, true, 0, 0},
	{"a completed one keeps the lease", L1, "m11:c", "C", 11, false, 0, 0},
	{"all completed", L1, "m10:c m11:c m12:c m13:c m14:c", "CCCCC", 14, true, 0, 0},
	{"order of items is free", L1, "m14:c m10:c", "CC", 14, true, 0, 0},
	{"failed clamps and charges", L1, "m10:c m11:f m12:c m13:c m14:c", "CFVVV", 10, true, 0, 0},
	{"failed first", L1, "m10:f", "F", 9, true, 0, 0},
	{"failed completes nothing below it", L1, "m12:f", "F", 9, true, 0, 0},
	{"retry clamps without charge", L1, "m11:r m10:c m12:c", "RCV", 10, true, 0, 0},
	{"only the lowest signal acts", L1, "m10:c m11:r m13:f", "CRV", 10, true, 0, 0},
	{"failed below dlq: nothing is filed", L1, "m11:f m13:d", "FV", 9, true, 0, 0},
	{"retry below dlq: nothing is filed", L1, "m13:d m11:r", "VR", 9, true, 0, 0},
	{"dlq below failed: filed, not charged", L1, "m11:d m13:f", "DV", 9, false, 11, 0},
	{"dlq with a completed prefix", L1, "m10:c m12:d m14:c", "CDV", 10, false, 12, 0},
	{"dlq needs no completed prefix", L1, "m12:d", "D", 9, false, 12, 0},
	{"same offset: dlq before failed before retry", L1, "m11:r m11:f m11:d", "DDD", 9, false, 11, 0},
	{"same offset: failed before retry", L1, "m11:r m11:f", "FF", 9, true, 0, 0},
	{"same id twice completed", L1, "m10:c m10:c", "CC", 10, false, 0, 0},
	{"same id completed and failed", L1, "m10:c m11:c m11:f", "CVF", 10, true, 0, 0},
	{"same id completed and retry", L1, "m10:r m10:c", "RV", 9, true, 0, 0},
	{"same id completed and dlq", L1, "m10:c m10:d", "CD", 9, false, 10, 0},
	{"a ghost does not stop the rest", L1, "ghost:c m10:c", "uC", 10, false, 0, 0},
	{"a failed ghost is no signal", L1, "ghost:f m10:c", "uC", 10, false, 0, 0},
	{"a ghost alone", L1, "ghost:d", "u", 9, false, 0, 0},
	{"completed below the cursor", L1, "p9:c", "N", 9, false, 0, 0},
	{"completed below and inside", L1, "p0:c m14:c", "NC", 14, true, 0, 0},
	{"failed below the cursor", L1, "p9:f", "m", 9, false, 0, 0},
	{"retry and dlq below the cursor", L1, "p3:r p4:d m10:c", "mmC", 10, false, 0, 0},
	{"above the leased batch", L1, "m15:c", "u", 9, false, 0, 0},
	{"a signal above the leased batch", L1, "m15:f m14:c", "uC", 14, true, 0, 0},
	{"without a lease: completed", "", "m14:c", "C", 14, true, 0, 0},
	{"without a lease: partly", "", "m11:c", "C", 11, false, 0, 0},
	{"without a lease: failed", "", "m10:f", "F", 9, true, 0, 0},
	{"without a lease: dlq", "", "m10:d", "D", 9, false, 10, 0},
	{"without a lease: above the batch", "", "m15:c", "u", 9, false, 0, 0},
	{"a foreign lease", L2, "m10:c p9:c m11:f ghost:c", "llll", 9, false, 0, 0},
	{"a lease that is no id", "x", "m10:c", "l", 9, false, 0, 0},
	{"no retries: dead letter", L1, "m10:f", "D", 9, false, 10, LIMIT_0},
	{"no retries: with a prefix", L1, "m10:c m11:c m12:f m13:c", "CCDV", 11, false, 12, LIMIT_0},
	{"no retries: dead letter with one of the flags", L1, "m10:f", "D", 9, false, 10, LIMIT_0 | DLQ_OFF},
	{"no retries: dead letter with the other flag", L1, "m10:f", "D", 9, false, 10, LIMIT_0 | MAX_RETRIES_OFF},
	{"no retries, no dead letters: dropped", L1, "m10:f", "X", 10, true, 0, LIMIT_0 | ALL_OFF},
	{"dropped with a prefix", L1, "m10:c m12:f m13:c", "CXV", 12, true, 0, LIMIT_0 | ALL_OFF},
	{"completed and dropped", L1, "m10:c m10:f", "CX", 10, true, 0, LIMIT_0 | ALL_OFF},
	{"failed with retries left and no dead letters", L1, "m10:f", "F", 9, true, 0, ALL_OFF},
	{"dlq asks for a dead letter whatever the flags", L1, "m10:d", "D", 9, false, 10, ALL_OFF},
	{"retry needs no budget", L1, "m10:r", "R", 9, true, 0, LIMIT_0},
};

static struct qn_uuid prepare(struct ct *c, int options)
{
	struct qn_queue_options o = options_default();
	struct qn_uuid lane;

	o.retry_limit = (options & LIMIT_0) != 0 ? 0 : 3;
	o.dead_letter_queue = (options & DLQ_OFF) == 0;
	o.dlq_after_max_retries = (options & MAX_RETRIES_OFF) == 0;
	configure(c, "q", o);
	lane = push(c, "p0 p1 p2 p3 p4 p5 p6 p7 p8 p9").lane_id;
	take(c, "", 0, 9);
	push(c, "m10 m11 m12");
	push(c, "m13 m14");
	take(c, L1, 10, 14);
	push(c, "m15");
	return lane;
}

static void check_poison(const struct row *r, const struct qn_settle_lane *s)
{
	assert_int_equal(s->needs_dead_letter, r->poison != 0);
	if (r->poison == 0) {
		return;
	}
	assert_int_equal(s->poison_offset, r->poison);
	assert_int_equal(s->items[s->poison_item].outcome, QN_OUT_DEAD_LETTERED);
	assert_int_equal(s->retry_count, 0);
	assert_true(s->poison.found);
	assert_int_equal(s->poison.base_offset, r->poison < 13 ? 10 : 13);
	assert_int_equal(s->poison.count, r->poison < 13 ? 3 : 2);
	assert_memory_equal(s->poison.blob.p, "m1", 2);
}

static void st9_decides(void **state)
{
	struct ct *c = *state;
	const struct row *r = c->row;
	struct qn_uuid lane = prepare(c, r->options);
	struct qn_settle_lane s = ack(c, lane, r->lease, r->items, r->outcomes);

	assert_int_equal(s.committed, r->cursor);
	assert_int_equal(s.lease_released, r->released);
	assert_int_equal(s.has_more, r->released);
	assert_int_equal(s.queue.n, 1);
	assert_int_equal(s.partition.n, 1);
	check_poison(r, &s);
	if (r->released) {
		take(c, L2, r->cursor + 1, 15);
	} else {
		assert_int_equal(claim(c, pop_of(c, L2)).lane_count, 0);
	}
}

struct CMUnitTest *decision_cases(size_t *count)
{
	struct CMUnitTest *out = calloc(CT_COUNT(rows), sizeof(*out));

	QN_ASSERT(out != NULL);
	*count = CT_COUNT(rows);
	for (size_t i = 0; i < CT_COUNT(rows); i++) {
		out[i] = (struct CMUnitTest){.name = rows[i].name,
		                             .test_func = st9_decides,
		                             .setup_func = ct_setup,
		                             .teardown_func = ct_teardown,
		                             .initial_state = (void *)(uintptr_t)&rows[i]};
	}
	return out;
}
