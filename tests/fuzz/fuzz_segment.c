/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a segment blob, and the same bytes as frames. Reading and skipping must agree on where
 * a frame ends, a frame that was read writes itself again, and what is sealed opens to itself.
 */
#include "fuzz.h"

#include "error.h"
#include "wire/frame.h"
#include "wire/text.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RAW ((size_t)1 << 20)

static void rewritten(const struct qn_frame *f, struct qn_span raw, size_t from, size_t size)
{
	uint8_t *out = malloc(size);

	QN_ASSERT(out != NULL && qn_frame_size(f) == size);
	qn_frame_write(f, out);
	QN_ASSERT(memcmp(out, (const uint8_t *)raw.p + from, size) == 0);
	free(out);
}

static void frames(struct qn_span raw)
{
	struct qn_frame f;
	size_t at = 0, from = 0, skipped = 0;

	while (qn_frame_read(raw, &at, &f)) {
		QN_ASSERT(qn_frame_skip(raw, &skipped) && skipped == at && at > from && at <= raw.n);
		rewritten(&f, raw, from, at - from);
		from = at;
	}
	QN_ASSERT(at == from);
}

static void sealed(struct qn_span raw)
{
	struct qn_segment_part parts[2] = {{raw.p, raw.n / 2}, {(const uint8_t *)raw.p + raw.n / 2, raw.n - raw.n / 2}};
	struct qn_bytes blob = {0}, mem = {0};
	struct qn_span back;
	struct qn_error e = {0};

	QN_ASSERT(qn_segment_seal(parts, 2, 1, &blob, &e) == QN_OK);
	QN_ASSERT(blob.n <= raw.n + 1);
	QN_ASSERT(qn_segment_open((struct qn_span){blob.p, blob.n}, raw.n, &mem, &back, &e) == QN_OK);
	QN_ASSERT(qn_span_eq(back, raw));
	qn_bytes_fini(&blob);
	qn_bytes_fini(&mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct qn_span blob = {p, n}, raw;
	struct qn_bytes mem = {0};
	struct qn_error e = {0};

	if (qn_segment_open(blob, MAX_RAW, &mem, &raw, &e) == QN_OK) {
		QN_ASSERT(raw.n <= MAX_RAW);
		frames(raw);
	} else {
		QN_ASSERT(e.msg[0] != '\0');
	}
	qn_bytes_fini(&mem);
	if (n > 0) {
		frames(blob);
		sealed(blob);
	}
	return 0;
}
