/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing frames into a blob and opening it again. Compression is tried from 256 bytes on and kept
 * when it saves at least a sixteenth. Each thread keeps its zstd contexts until it ends.
 */
#include "frame.h"

#include "../error.h"

#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define COMPRESS_MIN 256

struct contexts {
	ZSTD_CCtx *c;
	ZSTD_DCtx *d;
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void free_contexts(void *p)
{
	struct contexts *x = p;

	(void)ZSTD_freeCCtx(x->c);
	(void)ZSTD_freeDCtx(x->d);
	free(x);
}

static void make_key(void)
{
	QN_ASSERT(pthread_key_create(&key, free_contexts) == 0);
}

static struct contexts *contexts(void)
{
	struct contexts *x;

	(void)pthread_once(&key_once, make_key);
	x = pthread_getspecific(key);
	if (x == NULL) {
		x = calloc(1, sizeof(*x));
		if (x == NULL || pthread_setspecific(key, x) != 0) {
			free(x);
			return NULL;
		}
	}
	return x;
}

/** The format byte and the compressed frame, or QN_CONFLICT when that would not save a sixteenth. */
static int compress(const uint8_t *raw, size_t n, int level, struct qn_bytes *out)
{
	struct contexts *x = contexts();
	size_t room = n - n / 16, before = out->n, got;
	uint8_t *at;

	if (x == NULL) {
		return QN_NOMEM;
	}
	if (x->c == NULL) {
		x->c = ZSTD_createCCtx();
	}
	at = qn_bytes_grow(out, 1 + room);
	if (x->c == NULL || at == NULL) {
		return QN_NOMEM;
	}
	at[0] = QN_SEGMENT_ZSTD;
	/* With no more room than what would be kept, zstd itself gives up on what does not compress. */
	got = ZSTD_compressCCtx(x->c, at + 1, room, raw, n, level);
	if (ZSTD_isError(got)) {
		out->n = before;
		return QN_CONFLICT;
	}
	out->n = before + 1 + got;
	return QN_OK;
}

static void store(const struct qn_segment_part *parts, size_t count, struct qn_bytes *out)
{
	const uint8_t format = QN_SEGMENT_RAW;

	qn_bytes_put(out, &format, 1);
	for (size_t i = 0; i < count; i++) {
		qn_bytes_put(out, parts[i].p, parts[i].n);
	}
}

static int seal_compressed(const struct qn_segment_part *parts, size_t count, size_t n, int level, struct qn_bytes *out)
{
	uint8_t *raw, *at;
	int code;

	if (count == 1) {
		return compress(parts[0].p, n, level, out);
	}
	raw = malloc(n);
	if (raw == NULL) {
		return QN_NOMEM;
	}
	at = raw;
	for (size_t i = 0; i < count; i++) {
		if (parts[i].n > 0) {
			memcpy(at, parts[i].p, parts[i].n);
			at += parts[i].n;
		}
	}
	code = compress(raw, n, level, out);
	free(raw);
	return code;
}

int qn_segment_seal(const struct qn_segment_part *parts, size_t count, int level, struct qn_bytes *out,
                    struct qn_error *e)
{
	size_t n = 0;
	int code = QN_CONFLICT;

	for (size_t i = 0; i < count; i++) {
		n += parts[i].n;
	}
	if (n >= COMPRESS_MIN) {
		code = seal_compressed(parts, count, n, level, out);
	}
	if (code == QN_CONFLICT) {
		store(parts, count, out);
	}
	if (code == QN_NOMEM || out->failed) {
		return QN_FAIL(e, QN_NOMEM, "out of memory while sealing %zu bytes", n);
	}
	return QN_OK;
}

static int decompress(struct qn_span in, size_t max, struct qn_bytes *mem, struct qn_span *raw, struct qn_error *e)
{
	struct contexts *x = contexts();
	unsigned long long size = ZSTD_getFrameContentSize(in.p, in.n);
	uint32_t magic = 0;
	size_t got;
	uint8_t *at;

	/* zstd takes frames that only ask to be skipped for empty ones. */
	memcpy(&magic, in.p, in.n < sizeof(magic) ? in.n : sizeof(magic));
	if (le32toh(magic) != ZSTD_MAGICNUMBER || size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
		return QN_FAIL(e, QN_INVALID, "not a compressed segment");
	}
	if (size > max) {
		return QN_FAIL(e, QN_TOO_BIG, "segment of %llu bytes, at most %zu are allowed", size, max);
	}
	if (ZSTD_findFrameCompressedSize(in.p, in.n) != in.n) {
		return QN_FAIL(e, QN_INVALID, "bytes behind the compressed segment");
	}
	if (x != NULL && x->d == NULL) {
		x->d = ZSTD_createDCtx();
	}
	mem->n = 0;
	at = qn_bytes_grow(mem, (size_t)size + 1);
	if (x == NULL || x->d == NULL || at == NULL) {
		return QN_FAIL(e, QN_NOMEM, "out of memory while opening %llu bytes", size);
	}
	got = ZSTD_decompressDCtx(x->d, at, (size_t)size, in.p, in.n);
	if (ZSTD_isError(got) || got != size) {
		return QN_FAIL(e, QN_INVALID, "damaged segment: %s",
		               ZSTD_isError(got) ? ZSTD_getErrorName(got) : "wrong size");
	}
	*raw = (struct qn_span){at, got};
	return QN_OK;
}

int qn_segment_open(struct qn_span blob, size_t max, struct qn_bytes *mem, struct qn_span *raw, struct qn_error *e)
{
	const uint8_t *p = blob.p;
	struct qn_span rest;

	if (blob.n == 0) {
		return QN_FAIL(e, QN_INVALID, "empty segment");
	}
	rest = (struct qn_span){p + 1, blob.n - 1};
	switch (p[0]) {
	case QN_SEGMENT_RAW:
		if (rest.n > max) {
			return QN_FAIL(e, QN_TOO_BIG, "segment of %zu bytes, at most %zu are allowed", rest.n, max);
		}
		*raw = rest;
		return QN_OK;
	case QN_SEGMENT_ZSTD:
		return decompress(rest, max, mem, raw, e);
	default:
		return QN_FAIL(e, QN_INVALID, "unknown segment format %u", p[0]);
	}
}
