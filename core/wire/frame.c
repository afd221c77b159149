/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame codec. Reading trusts nothing: every length is checked against what is left, so that a
 * damaged segment ends in an error and never outside its bytes.
 */
#include "frame.h"

#include "../error.h"

#include <endian.h>
#include <string.h>

#define LEN_BYTES 4
#define MIN_BODY  (1 + 16 + 2)
#define FLAGS     (QN_FRAME_TRACE | QN_FRAME_SUB | QN_FRAME_SEALED)

static size_t body_size(const struct qn_frame *f)
{
	size_t n = MIN_BODY + f->transaction_id.n + f->payload.n;

	n += (f->flags & QN_FRAME_TRACE) != 0 ? 16 : 0;
	n += (f->flags & QN_FRAME_SUB) != 0 ? 2 + f->producer_sub.n : 0;
	return n;
}

size_t qn_frame_size(const struct qn_frame *f)
{
	return LEN_BYTES + body_size(f);
}

static uint8_t *put(uint8_t *out, const void *p, size_t n)
{
	if (n > 0) {
		memcpy(out, p, n);
	}
	return out + n;
}

static uint8_t *put_text(uint8_t *out, struct qn_span s)
{
	uint16_t n = htole16((uint16_t)s.n);

	QN_ASSERT(s.n <= QN_FRAME_TXN_MAX);
	return put(put(out, &n, sizeof(n)), s.p, s.n);
}

void qn_frame_write(const struct qn_frame *f, uint8_t *out)
{
	size_t size = body_size(f);
	uint32_t n = htole32((uint32_t)size);

	QN_ASSERT(size <= UINT32_MAX);
	out = put(out, &n, sizeof(n));
	*out++ = f->flags;
	out = put(out, f->message_id.b, 16);
	if ((f->flags & QN_FRAME_TRACE) != 0) {
		out = put(out, f->trace_id.b, 16);
	}
	out = put_text(out, f->transaction_id);
	if ((f->flags & QN_FRAME_SUB) != 0) {
		out = put_text(out, f->producer_sub);
	}
	(void)put(out, f->payload.p, f->payload.n);
}

/** The body of the frame at *at; moves *at behind it. */
static bool body(struct qn_span raw, size_t *at, struct qn_span *out)
{
	const uint8_t *p;
	uint32_t n;

	if (*at > raw.n || raw.n - *at < LEN_BYTES) {
		return false;
	}
	p = (const uint8_t *)raw.p + *at;
	memcpy(&n, p, sizeof(n));
	n = le32toh(n);
	if (n < MIN_BODY || n > raw.n - *at - LEN_BYTES) {
		return false;
	}
	*out = (struct qn_span){p + LEN_BYTES, n};
	*at += LEN_BYTES + n;
	return true;
}

bool qn_frame_skip(struct qn_span raw, size_t *at)
{
	struct qn_span ignored;

	return body(raw, at, &ignored);
}

static bool take(struct qn_span *b, void *out, size_t n)
{
	if (b->n < n) {
		return false;
	}
	memcpy(out, b->p, n);
	b->p = (const uint8_t *)b->p + n;
	b->n -= n;
	return true;
}

static bool take_text(struct qn_span *b, struct qn_span *out)
{
	uint16_t n;

	if (!take(b, &n, sizeof(n)) || le16toh(n) > b->n) {
		return false;
	}
	*out = (struct qn_span){b->p, le16toh(n)};
	b->p = (const uint8_t *)b->p + out->n;
	b->n -= out->n;
	return true;
}

bool qn_frame_read(struct qn_span raw, size_t *at, struct qn_frame *out)
{
	struct qn_span b;
	size_t next = *at;

	*out = (struct qn_frame){0};
	if (!body(raw, &next, &b) || !take(&b, &out->flags, 1) || !take(&b, out->message_id.b, 16)) {
		return false;
	}
	/* A flag from the future changes the layout of what follows. */
	if ((out->flags & ~FLAGS) != 0) {
		return false;
	}
	if ((out->flags & QN_FRAME_TRACE) != 0 && !take(&b, out->trace_id.b, 16)) {
		return false;
	}
	if (!take_text(&b, &out->transaction_id)) {
		return false;
	}
	if ((out->flags & QN_FRAME_SUB) != 0 && !take_text(&b, &out->producer_sub)) {
		return false;
	}
	out->payload = b;
	*at = next;
	return true;
}
