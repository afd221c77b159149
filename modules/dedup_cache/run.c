/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: sorted arrays of hashes, 16 bytes each, with a filter of 16 bits per hash on large ones.
 *
 * A list of runs is kept short by merging: a run is joined with the one before it while that is less
 * than about twice as large, so a lane of n hashes has about log2(n) runs, plus one for every 64 Ki
 * hashes, where merging ends so that no merge takes longer than about a millisecond. A run is dropped
 * as a whole when its newest hash is out of the window; so that little outlives the window by much,
 * runs far apart in time are not joined.
 *
 * Hashes are chosen by clients in the end (they choose the ids): searching and sorting stay
 * logarithmic whatever they are.
 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#define RUN_MAX        65536 /* keys */
#define FILTER_FROM    2048  /* keys; smaller runs are searched as fast */
#define FILTER_PROBES  6
#define LINE_BYTES     64
#define KEYS_PER_LINE  32 /* 16 bits a key */
#define SPANS_A_WINDOW 8

struct line {
	uint64_t words[LINE_BYTES / sizeof(uint64_t)];
};

struct qn_dc_key qn_dc_key_of(const uint8_t *hash)
{
	struct qn_dc_key k;

	memcpy(&k, hash, sizeof(k));
	return k;
}

static bool less(const struct qn_dc_key *a, const struct qn_dc_key *b)
{
	return a->hi < b->hi || (a->hi == b->hi && a->lo < b->lo);
}

static int compare(const void *a, const void *b)
{
	return less(a, b) ? -1 : (int)less(b, a);
}

static size_t filter_lines(uint32_t count)
{
	return count < FILTER_FROM ? 0 : (count + KEYS_PER_LINE - 1) / KEYS_PER_LINE;
}

static size_t run_bytes(uint32_t count)
{
	return sizeof(struct qn_dc_run) + count * sizeof(struct qn_dc_key) + filter_lines(count) * LINE_BYTES;
}

static size_t scale(uint64_t h, size_t n)
{
	return (size_t)(((unsigned __int128)h * n) >> 64);
}

/* Order and place in the filter must not depend on the same bits. */
static struct line *line_of(const struct qn_dc_run *r, const struct qn_dc_key *k)
{
	const struct line *lines = (const struct line *)(const void *)(r->keys + r->count);

	return (struct line *)(uintptr_t)&lines[scale(k->lo, filter_lines(r->count))];
}

static void filter_add(struct qn_dc_run *r, const struct qn_dc_key *k)
{
	struct line *l = line_of(r, k);

	for (unsigned i = 0, bits = 0; i < FILTER_PROBES; i++, bits += 9) {
		unsigned at = (unsigned)(k->hi >> bits) & 511;

		l->words[at / 64] |= UINT64_C(1) << (at % 64);
	}
}

static bool filter_may_have(const struct qn_dc_run *r, const struct qn_dc_key *k)
{
	const struct line *l = line_of(r, k);

	for (unsigned i = 0, bits = 0; i < FILTER_PROBES; i++, bits += 9) {
		unsigned at = (unsigned)(k->hi >> bits) & 511;

		if ((l->words[at / 64] & UINT64_C(1) << (at % 64)) == 0) {
			return false;
		}
	}
	return true;
}

struct qn_dc_run *qn_dc_run_take(struct qn_dc *c, uint32_t count, size_t limit)
{
	struct qn_dc_run *r = qn_dc_take(c, run_bytes(count), limit);

	if (r != NULL) {
		*r = (struct qn_dc_run){.count = count};
	}
	return r;
}

void qn_dc_run_give(struct qn_dc *c, struct qn_dc_run *r)
{
	qn_dc_give(c, r, run_bytes(r->count));
}

static void build_filter(struct qn_dc_run *r)
{
	if (filter_lines(r->count) > 0) {
		memset(r->keys + r->count, 0, filter_lines(r->count) * LINE_BYTES);
		for (uint32_t i = 0; i < r->count; i++) {
			filter_add(r, &r->keys[i]);
		}
	}
}

void qn_dc_run_seal(struct qn_dc_run *r)
{
	if (r->count > 1) {
		qsort(r->keys, r->count, sizeof(r->keys[0]), compare);
	}
	build_filter(r);
}

/* Index of the first key that is not less: hashes are even, so it is near where its value puts it. */
static size_t lower_bound(const struct qn_dc_key *keys, size_t n, const struct qn_dc_key *k)
{
	size_t at = scale(k->hi, n), step = 8, low = 0, high = n;

	if (less(&keys[at], k)) {
		low = at + 1;
		while (low + step < n && less(&keys[low + step], k)) {
			low += step + 1;
			step *= 4;
		}
		high = low + step < n ? low + step : n;
	} else {
		high = at;
		while (high >= step && !less(&keys[high - step], k)) {
			high -= step;
			step *= 4;
		}
		low = high >= step ? high - step + 1 : 0;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (less(&keys[middle], k)) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

bool qn_dc_run_has(const struct qn_dc_run *r, const struct qn_dc_key *key)
{
	size_t at;

	if (filter_lines(r->count) > 0 && !filter_may_have(r, key)) {
		return false;
	}
	at = lower_bound(r->keys, r->count, key);
	return at < r->count && r->keys[at].hi == key->hi && r->keys[at].lo == key->lo;
}

static bool may_join(const struct qn_dc_run *older, const struct qn_dc_run *newer, int32_t window_s)
{
	int64_t span_ms = (newer->newest_us - older->newest_us) / 1000 + older->span_ms;
	int64_t most_ms = window_s * INT64_C(1000) / SPANS_A_WINDOW;

	return older->count <= (uint64_t)newer->count * 2 && older->count + newer->count <= RUN_MAX &&
	       span_ms <= (most_ms < 1000 ? 1000 : most_ms);
}

static struct qn_dc_run *join(struct qn_dc *c, const struct qn_dc_run *older, const struct qn_dc_run *newer)
{
	struct qn_dc_run *r = qn_dc_run_take(c, older->count + newer->count, c->cap);
	uint32_t a = 0, b = 0;

	if (r == NULL) {
		return NULL;
	}
	for (uint32_t i = 0; i < r->count; i++) {
		bool from_older = b == newer->count || (a < older->count && less(&older->keys[a], &newer->keys[b]));

		r->keys[i] = from_older ? older->keys[a++] : newer->keys[b++];
	}
	r->newest_us = newer->newest_us;
	r->span_ms = (uint32_t)((newer->newest_us - older->newest_us + 999) / 1000) + older->span_ms;
	r->older = older->older;
	build_filter(r);
	return r;
}

void qn_dc_runs_add(struct qn_dc *c, struct qn_dc_run **list, struct qn_dc_run *r, int32_t window_s)
{
	r->older = *list;
	*list = r;
	while (r->older != NULL && may_join(r->older, r, window_s)) {
		struct qn_dc_run *older = r->older, *both = join(c, older, r);

		if (both == NULL) {
			return; /* at the cap: correct, only slower to search */
		}
		qn_dc_run_give(c, older);
		qn_dc_run_give(c, r);
		*list = both;
		r = both;
	}
}

void qn_dc_runs_give(struct qn_dc *c, struct qn_dc_run **list)
{
	while (*list != NULL) {
		struct qn_dc_run *r = *list;

		*list = r->older;
		qn_dc_run_give(c, r);
	}
}
