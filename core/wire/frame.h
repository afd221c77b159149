/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Frames and segments: the bytes of queen.log_segments.blob (message-plane 13).
 *
 * Frame, little-endian: u32 body_len | u8 flags | 16 B message id | [16 B trace id] | u16 txn_len |
 * txn | [u16 sub_len | sub] | payload to the end of the body. A segment blob is one format byte and
 * the concatenated frames: QN_SEGMENT_RAW as they are, QN_SEGMENT_ZSTD as one zstd frame with its
 * content size.
 */
#ifndef QN_WIRE_FRAME_H
#define QN_WIRE_FRAME_H

#include "bytes.h"

#define QN_FRAME_TXN_MAX 65535

enum { QN_FRAME_TRACE = 1, QN_FRAME_SUB = 2, QN_FRAME_SEALED = 4 };
enum { QN_SEGMENT_RAW = 0, QN_SEGMENT_ZSTD = 1 };

struct qn_frame {
	uint8_t flags;
	struct qn_uuid message_id, trace_id; /* trace_id only with QN_FRAME_TRACE */
	struct qn_span transaction_id;       /* at most QN_FRAME_TXN_MAX bytes */
	struct qn_span producer_sub;         /* only with QN_FRAME_SUB */
	struct qn_span payload;
};

/** Bytes the frame takes. */
size_t qn_frame_size(const struct qn_frame *f);
/** Writes exactly qn_frame_size(f) bytes; texts of at most QN_FRAME_TXN_MAX, a body below 4 GiB. */
void qn_frame_write(const struct qn_frame *f, uint8_t *out);
/** Reads the frame at *at of raw, whose spans then point into raw, and moves *at behind it. False, with *at
 * where it was, for damage and for flags that are not ours. */
bool qn_frame_read(struct qn_span raw, size_t *at, struct qn_frame *out) QN_MUST;
/** Passes over one frame. */
bool qn_frame_skip(struct qn_span raw, size_t *at) QN_MUST;

/** Pieces of a segment, in order. */
struct qn_segment_part {
	const void *p;
	size_t n;
};

/** Seals frames into a blob; compresses at `level` where that pays (never below 256 bytes). */
int qn_segment_seal(const struct qn_segment_part *parts, size_t count, int level, struct qn_bytes *out,
                    struct qn_error *e) QN_MUST;
/** Opens a blob into raw frames, at most max bytes; *raw points into blob (RAW) or into mem (ZSTD), which the caller frees. */
int qn_segment_open(struct qn_span blob, size_t max, struct qn_bytes *mem, struct qn_span *raw,
                    struct qn_error *e) QN_MUST;

#endif
