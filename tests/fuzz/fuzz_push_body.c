/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push body walked as a handler walks it: items with names to check, a payload kept as raw bytes
 * and put into a frame, which must give back exactly those bytes.
 */
#include "fuzz.h"

#include "arena.h"
#include "error.h"
#include "wire/frame.h"
#include "wire/ident.h"
#include "wire/json_scan.h"
#include "wire/text.h"

#include <stdlib.h>

static void through_a_frame(const struct qn_frame *in)
{
	size_t size = qn_frame_size(in), at = 0;
	uint8_t *out = malloc(size);
	struct qn_frame back;

	QN_ASSERT(out != NULL);
	qn_frame_write(in, out);
	QN_ASSERT(qn_frame_read((struct qn_span){out, size}, &at, &back) && at == size);
	QN_ASSERT(qn_span_eq(in->payload, back.payload) && qn_span_eq(in->transaction_id, back.transaction_id));
	free(out);
}

static void item(struct qn_json *j, struct qn_arena *a)
{
	struct qn_frame f = {0};
	struct qn_span key, s;
	bool named = true;

	qn_uuid7(&f.message_id);
	while (qn_json_next_key(j, a, &key)) {
		if (qn_span_eq(key, QN_SPAN_LIT("payload"))) {
			(void)!qn_json_skip(j, &f.payload);
		} else if (qn_span_eq(key, QN_SPAN_LIT("transactionId"))) {
			named = qn_json_string(j, a, &f.transaction_id) &&
			        qn_name_transaction(f.transaction_id) == NULL;
		} else if (qn_span_eq(key, QN_SPAN_LIT("traceId"))) {
			if (qn_json_string(j, a, &s) && qn_uuid_parse_loose(s, &f.trace_id)) {
				f.flags |= QN_FRAME_TRACE;
			}
		} else if (qn_span_eq(key, QN_SPAN_LIT("queue"))) {
			named = named && qn_json_string(j, a, &s) && qn_name_queue(s) == NULL;
		} else {
			(void)!qn_json_skip(j, &s);
		}
	}
	if (j->error == NULL && named) {
		through_a_frame(&f);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_span key, s;
	struct qn_json j;

	qn_json_init(&j, (struct qn_span){p, n});
	if (qn_json_enter_object(&j)) {
		while (qn_json_next_key(&j, a, &key)) {
			if (!qn_span_eq(key, QN_SPAN_LIT("items"))) {
				(void)!qn_json_skip(&j, &s);
			} else if (qn_json_enter_array(&j)) {
				while (qn_json_next_item(&j) && qn_json_enter_object(&j)) {
					item(&j, a);
				}
			}
		}
	}
	if (qn_json_end(&j)) {
		qn_json_init(&j, (struct qn_span){p, n});
		QN_ASSERT(qn_json_skip(&j, &s) && qn_json_end(&j));
	}
	qn_arena_destroy(a);
	return 0;
}
