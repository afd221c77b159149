/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames and groups of push items. A payload is copied once, from the body into its frame; items are
 * grouped by lane and keep their order there. Names have been checked.
 */
#include "push_build.h"

#include "../wire/frame.h"
#include "../wire/ident.h"

#include <stdio.h>
#include <string.h>

bool qn_push_names_ok(const struct qn_push_input *in, uint32_t index, char text[QN_PUSH_FAULT])
{
	const char *why = qn_name_queue(in->queue);
	const char *field = "queue";

	if (in->transaction_id.n > QN_FRAME_TXN_MAX) {
		(void)snprintf(text, QN_PUSH_FAULT, "transactionId of item %u exceeds the 65535-byte limit", index);
		return false;
	}
	if (why == NULL) {
		field = "partition";
		why = qn_name_partition(in->partition);
	}
	if (why == NULL) {
		field = "transactionId";
		why = qn_name_transaction(in->transaction_id);
	}
	if (why != NULL) {
		(void)snprintf(text, QN_PUSH_FAULT, "%s of item %u: %s", field, index, why);
	}
	return why == NULL;
}

void qn_push_set_trace(struct qn_push_input *in, struct qn_span text)
{
	in->has_trace = qn_uuid_parse_loose(text, &in->trace_id);
}

static void build_item(struct qn_push_job *job, struct qn_arena *a, struct qn_push_item *out,
                       const struct qn_push_input *in)
{
	struct qn_frame f = {.payload = in->payload};
	uint8_t *bytes;

	qn_uuid7(&out->message_id);
	out->job = job;
	if (in->has_transaction) {
		out->transaction_id = qn_arena_dup(a, in->transaction_id);
	} else {
		char *text = qn_arena_alloc(a, QN_UUID_TEXT);

		qn_uuid_format(&out->message_id, text);
		out->transaction_id = (struct qn_span){text, QN_UUID_TEXT};
	}
	qn_hash128(out->transaction_id, out->hash);
	f.message_id = out->message_id;
	f.transaction_id = out->transaction_id;
	if (in->has_trace) {
		f.flags |= QN_FRAME_TRACE;
		f.trace_id = in->trace_id;
	}
	out->frame.n = qn_frame_size(&f);
	bytes = qn_arena_alloc(a, out->frame.n);
	qn_frame_write(&f, bytes);
	out->frame.p = bytes;
	job->bytes += out->frame.n;
}

struct lane_table {
	struct qn_push_group **slots;
	size_t mask;
};

static struct qn_push_group *group_of(struct qn_push_job *job, struct qn_arena *a, const struct lane_table *t,
                                      struct qn_span queue, struct qn_span partition)
{
	uint8_t h[16];
	uint64_t mix;
	struct qn_push_group *g;
	size_t i;

	qn_hash128(partition, h);
	memcpy(&mix, h, sizeof(mix));
	for (i = (mix + queue.n) & t->mask; t->slots[i] != NULL; i = (i + 1) & t->mask) {
		if (qn_span_eq(t->slots[i]->partition, partition) && qn_span_eq(t->slots[i]->queue, queue)) {
			return t->slots[i];
		}
	}
	g = &job->groups[job->group_count];
	job->group_count++;
	g->queue = qn_arena_dup(a, queue);
	g->partition = qn_arena_dup(a, partition);
	t->slots[i] = g;
	return g;
}

void qn_push_build(struct qn_push_job *job, struct qn_arena *a, const struct qn_uuid *tenant,
                   const struct qn_push_input *inputs, uint32_t count)
{
	struct lane_table t;
	size_t size = 4;

	while (size < (size_t)count * 2) {
		size *= 2;
	}
	t.slots = qn_arena_zalloc(a, size * sizeof(struct qn_push_group *));
	t.mask = size - 1;
	job->items = qn_arena_zalloc(a, (count + 1) * sizeof(*job->items));
	job->item_count = count;
	job->groups = qn_arena_zalloc(a, (count + 1) * sizeof(*job->groups));
	for (uint32_t i = 0; i < count; i++) {
		struct qn_push_item *item = &job->items[i];
		struct qn_span partition = inputs[i].has_partition ? inputs[i].partition : QN_SPAN_LIT("Default");
		struct qn_push_group *g = group_of(job, a, &t, inputs[i].queue, partition);

		build_item(job, a, item, &inputs[i]);
		item->queue = g->queue;
		g->tenant = *tenant;
		if (g->first == NULL) {
			g->first = item;
		} else {
			g->last->next = item;
		}
		g->last = item;
	}
}
