/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of kind storage: rules ST-1 to ST-17 and OP-1 to OP-5, one module per run. The place where
 * two storages are shown to give the same answers. Exits with the number of failed cases.
 */
#include "storage_kit.h"

#include <stdio.h>
#include <stdlib.h>

static int run_group(const char *name, const struct CMUnitTest *cases, size_t count)
{
	return _cmocka_run_group_tests(name, cases, count, NULL, NULL);
}

static void count_inflight(void *out)
{
	const struct qn_storage_vt *vt = (const struct qn_storage_vt *)(const void *)ct_service().vt;

	*(uint32_t *)out = vt->inflight(ct_service().self);
}

int main(int argc, char **argv)
{
	struct CMUnitTest *rows;
	size_t row_count;
	uint32_t inflight = 0;
	int failed = 0;

	ct_open("storage", argc, argv);
	failed += run_group("push", push_cases, push_case_count);
	failed += run_group("claim", claim_cases, claim_case_count);
	failed += run_group("visible", visible_cases, visible_case_count);
	failed += run_group("groups", group_cases, group_case_count);
	failed += run_group("walk", walk_cases, walk_case_count);
	rows = decision_cases(&row_count);
	failed += run_group("decisions", rows, row_count);
	free(rows);
	failed += run_group("settle", settle_cases, settle_case_count);
	failed += run_group("letters and leases", letter_cases, letter_case_count);
	failed += run_group("queues", queue_cases, queue_case_count);
	failed += run_group("transactions", transaction_cases, transaction_case_count);
	failed += run_group("sweeps", sweep_cases, sweep_case_count);
	ct_on_engine(count_inflight, &inflight);
	if (inflight != 0) {
		fprintf(stderr, "%u operations left\n", inflight);
		failed++;
	}
	ct_close();
	return failed;
}
