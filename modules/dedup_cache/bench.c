/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dedup_cache_bench: what a hash costs in memory and time. Prints a line per load; no option.
 *
 * Bytes are those of everything the cache allocates; `malloc` is what the allocator took for them. Times are
 * processor time.
 */
#include "test_host.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define T0 INT64_C(1700000000000000)

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t since;

/* Pushes of `batch` messages to the lanes in turns, spread over the window, as the core makes them. */
static void run(size_t lanes, size_t total, uint32_t batch)
{
	static struct qn_dc c;
	static uint8_t bytes[4096 * QN_HASH_BYTES];
	struct qn_span h = {bytes, (size_t)batch * QN_HASH_BYTES};
	struct qn_error e = {0};
	double start, most = 0, ask;
	uint64_t vouched = 0, pushes = total / batch;

	memset(&c, 0, sizeof(c));
	c.host = &th_host;
	if (qn_dc_open(&c, (size_t)512 << 20, &e) != QN_OK) {
		fprintf(stderr, "no memory\n");
		return;
	}
	start = seconds();
	for (uint64_t p = 0; p < pushes; p++) {
		struct qn_uuid id = th_lane(p % lanes);
		double before;

		for (uint32_t i = 0; i < batch; i++) {
			th_hash(p * batch + i, bytes + (size_t)i * QN_HASH_BYTES);
		}
		before = seconds();
		vouched += qn_dc_watermark(&c, &id, h, T0, &since) >= 0;
		qn_dc_learn(&c, &id, (int64_t)(p / lanes * batch), h, T0 + (int64_t)(p * 3500000000 / pushes), 3600);
		before = seconds() - before;
		most = before > most ? before : most;
	}
	start = seconds() - start;
	ask = seconds();
	for (uint64_t i = 0; i < 100000; i++) {
		struct qn_uuid id = th_lane(i % lanes);

		th_hash((UINT64_C(1) << 40) + i, bytes);
		vouched += qn_dc_watermark(&c, &id, (struct qn_span){bytes, QN_HASH_BYTES}, T0, &since) >= 0;
	}
	ask = seconds() - ask;
	printf("lanes %7zu  hashes %8zu  pushes of %4u: %5.2f bytes a hash (malloc %5.2f), %4zu MiB; "
	       "%6.0f ns a hash, slowest push %5.2f ms, look-up %5.2f us; vouched %llu\n",
	       lanes, total, batch, (double)c.used / (double)total, (double)th_bytes / (double)total, c.used >> 20,
	       start * 1e9 / (double)total, most * 1e3, ask * 10, (unsigned long long)vouched);
	qn_dc_close(&c);
}

int main(void)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	run(1, 1000000, 1);
	run(1, 10000000, 100);
	run(1, 10000000, 4000);
	run(1000, 10000000, 1);
	run(1000, 10000000, 100);
	run(1000000, 1000000, 1);
	return 0;
}
