/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and segments: the exact bytes, round trips, and every kind of damage. */
#include "wire_test.h"

#include "wire/frame.h"

#include <endian.h>
#include <pthread.h>
#include <zstd.h>

static struct qn_frame sample(uint8_t flags)
{
	struct qn_frame f = {.flags = flags,
	                     .transaction_id = text("tx"),
	                     .producer_sub = text("sub"),
	                     .payload = text("{\"a\":1}")};

	memset(f.message_id.b, 0x11, 16);
	memset(f.trace_id.b, 0x22, 16);
	return f;
}

static void the_bytes_are_as_documented(void **state)
{
	static const char want[] = "\x31\0\0\0\x07\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11"
				   "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\x02\0tx\x03\0sub{\"a\":1}";
	struct qn_frame f = sample(QN_FRAME_TRACE | QN_FRAME_SUB | QN_FRAME_SEALED);
	uint8_t out[64];

	(void)state;
	assert_int_equal(qn_frame_size(&f), sizeof(want) - 1);
	qn_frame_write(&f, out);
	assert_memory_equal(out, want, sizeof(want) - 1);
}

static void same_frame(const struct qn_frame *a, const struct qn_frame *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_memory_equal(&a->message_id, &b->message_id, 16);
	if ((a->flags & QN_FRAME_TRACE) != 0) {
		assert_memory_equal(&a->trace_id, &b->trace_id, 16);
	}
	assert_int_equal(a->transaction_id.n, b->transaction_id.n);
	assert_int_equal(a->payload.n, b->payload.n);
	assert_int_equal((a->flags & QN_FRAME_SUB) != 0 ? a->producer_sub.n : 0, b->producer_sub.n);
	if (a->payload.n > 0) {
		assert_memory_equal(a->payload.p, b->payload.p, b->payload.n);
	}
	if (a->transaction_id.n > 0) {
		assert_memory_equal(a->transaction_id.p, b->transaction_id.p, b->transaction_id.n);
	}
}

static void frames_round_trip_and_truncation_fails(void **state)
{
	(void)state;
	for (uint8_t flags = 0; flags < 8; flags++) {
		struct qn_frame f = sample(flags), got;
		size_t size = qn_frame_size(&f), at = 0, passed = 0;
		uint8_t *out = malloc(size);
		struct qn_span raw = {out, size};

		assert_non_null(out);
		qn_frame_write(&f, out);
		assert_true(qn_frame_read(raw, &at, &got));
		assert_int_equal(at, size);
		same_frame(&f, &got);
		assert_true(qn_frame_skip(raw, &passed));
		assert_int_equal(passed, size);
		assert_false(qn_frame_skip(raw, &passed));
		assert_int_equal(passed, size);
		for (size_t n = 0; n < size; n++) {
			struct qn_span cut = exact(out, n);

			at = 0;
			assert_false(qn_frame_read(cut, &at, &got));
			assert_false(qn_frame_skip(cut, &at));
			assert_int_equal(at, 0);
			free_span(cut);
		}
		free(out);
	}
}

static void empty_and_longest_texts(void **state)
{
	char *tid = malloc(QN_FRAME_TXN_MAX);
	struct qn_frame f = {0}, got;
	size_t at = 0;
	uint8_t *out;

	(void)state;
	assert_non_null(tid);
	memset(tid, 't', QN_FRAME_TXN_MAX);
	assert_int_equal(qn_frame_size(&f), 23);
	f.transaction_id = (struct qn_span){tid, QN_FRAME_TXN_MAX};
	out = malloc(qn_frame_size(&f));
	assert_non_null(out);
	qn_frame_write(&f, out);
	assert_true(qn_frame_read((struct qn_span){out, qn_frame_size(&f)}, &at, &got));
	assert_int_equal(got.transaction_id.n, QN_FRAME_TXN_MAX);
	assert_int_equal(got.payload.n, 0);
	free(out);
	free(tid);
}

/** Lengths that lie about what follows, and flags that are not ours. */
static void damaged_frames(void **state)
{
	struct qn_frame f = sample(QN_FRAME_SUB), got;
	uint8_t out[64];
	size_t size = qn_frame_size(&f), at = 0;
	struct qn_span raw = {out, size};

	(void)state;
	for (unsigned bit = 3; bit < 8; bit++) {
		qn_frame_write(&f, out);
		out[4] |= (uint8_t)(1u << bit);
		assert_false(qn_frame_read(raw, &at, &got));
	}
	for (unsigned n = 0; n < 19; n++) {
		qn_frame_write(&f, out);
		out[0] = (uint8_t)n;
		assert_false(qn_frame_read(raw, &at, &got));
		assert_false(qn_frame_skip(raw, &at));
	}
	qn_frame_write(&f, out);
	memset(out, 0xff, 4);
	assert_false(qn_frame_read(raw, &at, &got));
	qn_frame_write(&f, out);
	out[21] = 0xff; /* transaction id */
	assert_false(qn_frame_read(raw, &at, &got));
	qn_frame_write(&f, out);
	out[25] = 11; /* producer sub: one more than is left */
	assert_false(qn_frame_read(raw, &at, &got));
	assert_int_equal(at, 0);
	out[25] = 10;
	assert_true(qn_frame_read(raw, &at, &got));
	assert_int_equal(got.payload.n, 0);
	at = size + 1;
	assert_false(qn_frame_read(raw, &at, &got));
	assert_false(qn_frame_skip(raw, &at));
}

static void fill(uint8_t *p, size_t n, bool noise)
{
	uint32_t x = 12345;

	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = noise ? (uint8_t)(x >> 24) : (uint8_t) "queend "[i % 7];
	}
}

/** Seals n bytes in parts of different sizes and opens them again; the format it chose. */
static uint8_t seal_and_open(size_t n, bool noise)
{
	uint8_t *p = malloc(n + 1);
	struct qn_segment_part parts[4] = {{p, n / 3}, {p + n / 3, 0}, {NULL, 0}, {p + n / 3, n - n / 3}};
	struct qn_bytes blob = {0}, mem = {0};
	struct qn_error e = {0};
	struct qn_span raw, exact_blob;
	uint8_t format;

	assert_non_null(p);
	fill(p, n, noise);
	assert_int_equal(qn_segment_seal(parts, 4, 3, &blob, &e), QN_OK);
	format = blob.p[0];
	assert_true(blob.n <= n + 1);
	exact_blob = exact(blob.p, blob.n);
	assert_int_equal(qn_segment_open(exact_blob, n, &mem, &raw, &e), QN_OK);
	assert_int_equal(raw.n, n);
	if (n > 0) {
		assert_memory_equal(raw.p, p, n);
		assert_int_equal(qn_segment_open(exact_blob, n - 1, &mem, &raw, &e), QN_TOO_BIG);
	}
	free_span(exact_blob);
	qn_bytes_fini(&blob);
	qn_bytes_fini(&mem);
	free(p);
	return format;
}

static void compresses_where_it_pays(void **state)
{
	(void)state;
	assert_int_equal(seal_and_open(0, false), QN_SEGMENT_RAW);
	assert_int_equal(seal_and_open(1, false), QN_SEGMENT_RAW);
	assert_int_equal(seal_and_open(255, false), QN_SEGMENT_RAW);
	assert_int_equal(seal_and_open(256, false), QN_SEGMENT_ZSTD);
	assert_int_equal(seal_and_open(100000, false), QN_SEGMENT_ZSTD);
	assert_int_equal(seal_and_open(256, true), QN_SEGMENT_RAW);
	assert_int_equal(seal_and_open(100000, true), QN_SEGMENT_RAW);
}

/** Noise with a compressible tail: kept only from a sixteenth saved on. */
static void a_sixteenth_must_be_saved(void **state)
{
	enum { N = 64000 };
	uint8_t *p = malloc(N);

	(void)state;
	assert_non_null(p);
	for (size_t tail = 0; tail < N / 8; tail += 500) {
		struct qn_segment_part part = {p, N};
		struct qn_bytes blob = {0};

		fill(p, N, true);
		memset(p + N - tail, 'x', tail);
		assert_int_equal(qn_segment_seal(&part, 1, 3, &blob, NULL), QN_OK);
		if (blob.p[0] == QN_SEGMENT_ZSTD) {
			assert_true(blob.n - 1 <= N - N / 16);
			assert_true(tail >= N / 16);
		} else {
			assert_int_equal(blob.n, N + 1);
			assert_true(tail < N / 16 + 500);
		}
		qn_bytes_fini(&blob);
	}
	free(p);
}

static void seals_behind_what_is_there_and_within_its_maximum(void **state)
{
	uint8_t p[1000];
	struct qn_segment_part part = {p, sizeof(p)};
	struct qn_bytes blob = {.max = 1003};
	struct qn_error e = {0};

	(void)state;
	fill(p, sizeof(p), true);
	qn_bytes_put(&blob, "ab", 2);
	assert_int_equal(qn_segment_seal(&part, 1, 3, &blob, &e), QN_OK);
	assert_int_equal(blob.n, 1003);
	assert_memory_equal(blob.p, "ab\0", 3);
	qn_bytes_fini(&blob);
	blob.max = 1000;
	assert_int_equal(qn_segment_seal(&part, 1, 3, &blob, &e), QN_NOMEM);
	assert_string_equal(e.msg, "out of memory while sealing 1000 bytes");
	qn_bytes_fini(&blob);
}

static void opening(struct qn_span blob, int code, const char *why)
{
	struct qn_span s = exact(blob.p, blob.n), raw;
	struct qn_bytes mem = {0};
	struct qn_error e = {0};

	assert_int_equal(qn_segment_open(s, 1 << 20, &mem, &raw, &e), code);
	if (strncmp(e.msg, why, strlen(why)) != 0) {
		fail_msg("%s, not %s", e.msg, why);
	}
	qn_bytes_fini(&mem);
	free_span(s);
}

static void damaged_segments(void **state)
{
	uint8_t p[4096], blob[8192];
	size_t n;

	(void)state;
	fill(p, sizeof(p), false);
	blob[0] = QN_SEGMENT_ZSTD;
	n = 1 + ZSTD_compress(blob + 1, sizeof(blob) - 1, p, sizeof(p), 3);
	opening((struct qn_span){NULL, 0}, QN_INVALID, "empty segment");
	opening((struct qn_span){"\x02xx", 3}, QN_INVALID, "unknown segment format 2");
	opening((struct qn_span){"{\"a\":1}", 7}, QN_INVALID, "unknown segment format 123");
	opening((struct qn_span){"\x01", 1}, QN_INVALID, "not a compressed segment");
	opening((struct qn_span){"\x01garbage", 8}, QN_INVALID, "not a compressed segment");
	/* A frame that zstd skips, with four bytes in it. */
	opening((struct qn_span){"\x01\x50\x2a\x4d\x18\x04\0\0\0abcd", 13}, QN_INVALID, "not a compressed segment");
	opening((struct qn_span){blob, n}, QN_OK, "");
	for (size_t cut = 1; cut < n; cut++) {
		opening((struct qn_span){blob, cut}, QN_INVALID, "");
	}
	blob[n] = 0;
	opening((struct qn_span){blob, n + 1}, QN_INVALID, "bytes behind the compressed segment");
	memcpy(blob + n, blob + 1, n - 1);
	opening((struct qn_span){blob, 2 * n - 1}, QN_INVALID, "bytes behind the compressed segment");
}

static void wrong_content_size_and_bombs(void **state)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	uint8_t p[4096], blob[8192];
	size_t n;

	(void)state;
	assert_non_null(c);
	fill(p, sizeof(p), false);
	blob[0] = QN_SEGMENT_ZSTD;
	(void)ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
	n = 1 + ZSTD_compress2(c, blob + 1, sizeof(blob) - 1, p, sizeof(p));
	opening((struct qn_span){blob, n}, QN_INVALID, "not a compressed segment");
	ZSTD_freeCCtx(c);
	/* Two bytes of content size, less 256, behind magic and descriptor. */
	n = 1 + ZSTD_compress(blob + 1, sizeof(blob) - 1, p, sizeof(p), 3);
	assert_int_equal(blob[6] | blob[7] << 8, sizeof(p) - 256);
	blob[6]++;
	opening((struct qn_span){blob, n}, QN_INVALID, "damaged segment: ");
	blob[6]--;
	blob[7]--;
	opening((struct qn_span){blob, n}, QN_INVALID, "damaged segment: ");
	/* An 8-byte content size of 2^62 in a frame of a few bytes. */
	opening((struct qn_span){"\x01\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x40\x01\0\0", 17}, QN_TOO_BIG,
	        "segment of 4611686018427387904 bytes");
}

static void *seal_in_a_thread(void *arg)
{
	for (int i = 0; i < 50; i++) {
		if (seal_and_open(5000, false) != QN_SEGMENT_ZSTD) {
			return NULL;
		}
	}
	return arg;
}

/** Contexts belong to their thread and end with it: the leak checker watches. */
static void threads_have_their_own_contexts(void **state)
{
	pthread_t t[4];

	(void)state;
	for (size_t i = 0; i < COUNT(t); i++) {
		assert_int_equal(pthread_create(&t[i], NULL, seal_in_a_thread, t), 0);
	}
	for (size_t i = 0; i < COUNT(t); i++) {
		void *result;

		assert_int_equal(pthread_join(t[i], &result), 0);
		assert_ptr_equal(result, t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_as_documented),
		cmocka_unit_test(frames_round_trip_and_truncation_fails),
		cmocka_unit_test(empty_and_longest_texts),
		cmocka_unit_test(damaged_frames),
		cmocka_unit_test(compresses_where_it_pays),
		cmocka_unit_test(a_sixteenth_must_be_saved),
		cmocka_unit_test(seals_behind_what_is_there_and_within_its_maximum),
		cmocka_unit_test(damaged_segments),
		cmocka_unit_test(wrong_content_size_and_bombs),
		cmocka_unit_test(threads_have_their_own_contexts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
