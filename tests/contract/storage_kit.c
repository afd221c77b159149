/* SPDX-License-Identifier: Apache-2.0 */
/* The words of storage_kit.h. Arenas of finished operations are destroyed with the case's own. */
#include "storage_kit.h"

static const struct qn_storage_vt *vt(void)
{
	return (const struct qn_storage_vt *)(const void *)ct_service().vt;
}

/* ---- a case ---------------------------------------------------------------------------------- */

int ct_setup(void **state)
{
	struct qn_arena *mem = qn_arena_create();
	struct ct *c = qn_arena_zalloc(mem, sizeof(*c));

	c->mem = mem;
	c->row = *state;
	qn_uuid7(&c->tenant);
	*state = c;
	return 0;
}

int ct_teardown(void **state)
{
	qn_arena_destroy(((struct ct *)*state)->mem);
	return 0;
}

void *ct_alloc(struct ct *c, size_t n)
{
	return qn_arena_zalloc(c->mem, n > 0 ? n : 1);
}

static void destroy_arena(void *a)
{
	qn_arena_destroy(a);
}

void ct_keep(struct ct *c, struct qn_arena *a)
{
	qn_arena_defer(c->mem, destroy_arena, a);
}

bool same_id(struct qn_uuid a, struct qn_uuid b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void run(struct ct *c, struct qn_op *op, ct_start_fn *start)
{
	struct qn_error e = {0};
	int rc = ct_run(op, start, op, &e);

	ct_keep(c, op->arena);
	if (rc != QN_OK) {
		fail_msg("operation failed with %s: %s", qn_code_name(rc), e.msg);
	}
}

#define OP(name, type, call)                               \
	static void start_##name(void *op)                 \
	{                                                  \
		vt()->call(ct_service().self, op);         \
	}                                                  \
	void ct_##name##_op(struct ct *c, struct type *op) \
	{                                                  \
		run(c, &op->op, start_##name);             \
	}
OP(push, qn_push_op, push)
OP(fetch, qn_fetch_op, fetch)
OP(hashes, qn_hashes_op, hashes)
OP(register, qn_register_op, register_group)
OP(walk, qn_walk_op, walk)
OP(claim, qn_claim_op, claim)
OP(settle, qn_settle_op, settle)
OP(dead_letter, qn_dead_letter_op, dead_letter)
OP(extend, qn_extend_op, extend)
OP(release, qn_release_op, release)
OP(configure, qn_configure_op, configure)
OP(delete, qn_delete_op, delete_queue)
OP(list, qn_list_op, list)
OP(txn, qn_txn_op, transaction)
OP(maintain, qn_maintain_op, maintain)
OP(sweep, qn_sweep_op, sweep)
#undef OP

/* ---- push ------------------------------------------------------------------------------------ */

/* The next word of *at, or an empty span at the end. */
static struct qn_span next_word(const char **at)
{
	const char *from = *at + strspn(*at, " ");
	size_t n = strcspn(from, " ");

	*at = from + n;
	return (struct qn_span){from, n};
}

struct qn_push_lane lane_of(struct ct *c, const char *queue, const char *partition, const char *ids)
{
	struct qn_push_lane l = {.tenant = c->tenant,
	                         .queue = ct_span(queue),
	                         .partition = ct_span(partition),
	                         .verified = -1,
	                         .blob = ct_span(ids)};
	uint8_t *hashes = ct_alloc(c, strlen(ids) * QN_HASH_BYTES + QN_HASH_BYTES);
	const char *at = ids;

	for (struct qn_span w = next_word(&at); w.n > 0; w = next_word(&at)) {
		qn_hash128(w, hashes + (size_t)l.count++ * QN_HASH_BYTES);
	}
	l.hashes = (struct qn_span){hashes, (size_t)l.count * QN_HASH_BYTES};
	l.raw_bytes = 100 * l.count;
	return l;
}

struct qn_push_lane push_lane(struct ct *c, struct qn_push_lane lane)
{
	struct qn_push_op *op = ct_alloc(c, sizeof(*op));

	op->lanes = ct_alloc(c, sizeof(lane));
	op->lanes[0] = lane;
	op->lane_count = 1;
	ct_push_op(c, op);
	return op->lanes[0];
}

struct qn_push_lane push_to(struct ct *c, const char *queue, const char *partition, const char *ids)
{
	struct qn_push_lane l = push_lane(c, lane_of(c, queue, partition, ids));

	assert_int_equal(l.status, QN_PUSH_QUEUED);
	return l;
}

struct qn_push_lane push(struct ct *c, const char *ids)
{
	return push_to(c, "q", "p", ids);
}

/* ---- claim ----------------------------------------------------------------------------------- */

struct qn_claim_pop pop_of(struct ct *c, const char *lease)
{
	return (struct qn_claim_pop){.tenant = c->tenant,
	                             .from = QN_CLAIM_QUEUE,
	                             .queue = ct_span("q"),
	                             .partition = ct_span("p"),
	                             .group = ct_span("g"),
	                             .lease_id = ct_span(lease),
	                             .lease_s = 60,
	                             .budget = 100,
	                             .budget_bytes = 1 << 20,
	                             .max_lanes = 1};
}

struct qn_claim_pop claim(struct ct *c, struct qn_claim_pop pop)
{
	struct qn_claim_op *op = ct_alloc(c, sizeof(*op));

	op->pops = ct_alloc(c, sizeof(pop));
	op->pops[0] = pop;
	op->pop_count = 1;
	ct_claim_op(c, op);
	return op->pops[0];
}

struct qn_claimed take(struct ct *c, const char *lease, int64_t first, int64_t end)
{
	struct qn_claim_pop p = claim(c, pop_of(c, lease));

	assert_int_equal(p.lane_count, 1);
	assert_int_equal(p.lanes[0].first_offset, first);
	assert_int_equal(p.lanes[0].batch_end, end);
	return p.lanes[0];
}

/* ---- settle ---------------------------------------------------------------------------------- */

static enum qn_ack_status status_of(char letter)
{
	switch (letter) {
	case 'c':
		return QN_ACK_COMPLETED;
	case 'f':
		return QN_ACK_FAILED;
	case 'r':
		return QN_ACK_RETRY;
	default:
		return QN_ACK_DLQ;
	}
}

struct qn_settle_lane ack_of(struct ct *c, struct qn_uuid lane, const char *lease, const char *items)
{
	struct qn_settle_lane s = {
		.tenant = c->tenant, .partition_id = lane, .group = ct_span("g"), .lease_id = ct_span(lease)};
	const char *at = items;

	s.items = ct_alloc(c, strlen(items) * sizeof(*s.items));
	for (struct qn_span w = next_word(&at); w.n > 2; w = next_word(&at)) {
		struct qn_ack_item *item = &s.items[s.item_count++];

		item->status = status_of(((const char *)w.p)[w.n - 1]);
		qn_hash128((struct qn_span){w.p, w.n - 2}, item->hash);
	}
	return s;
}

struct qn_settle_lane settle(struct ct *c, struct qn_settle_lane lane)
{
	struct qn_settle_op *op = ct_alloc(c, sizeof(*op));

	op->lanes = ct_alloc(c, sizeof(lane));
	op->lanes[0] = lane;
	op->lane_count = 1;
	ct_settle_op(c, op);
	return op->lanes[0];
}

const char *outcomes(struct ct *c, const struct qn_settle_lane *lane)
{
	static const char by_outcome[] = "CNRFDXV?", by_reason[] = "?lnumbsd";
	char *out = ct_alloc(c, lane->item_count + 1);

	for (uint32_t i = 0; i < lane->item_count; i++) {
		const struct qn_ack_item *item = &lane->items[i];

		out[i] = item->outcome == QN_OUT_REJECTED ? by_reason[item->reason] : by_outcome[item->outcome];
		if (item->outcome != QN_OUT_REJECTED) {
			assert_int_equal(item->reason, QN_ACK_OK);
		}
	}
	return out;
}

struct qn_settle_lane ack(struct ct *c, struct qn_uuid lane, const char *lease, const char *items, const char *expected)
{
	struct qn_settle_lane s = settle(c, ack_of(c, lane, lease, items));

	assert_string_equal(outcomes(c, &s), expected);
	return s;
}

struct qn_dead_letter bury(struct ct *c, const struct qn_settle_lane *s)
{
	struct qn_dead_letter_op *op = ct_alloc(c, sizeof(*op));

	op->items = ct_alloc(c, sizeof(*op->items));
	op->items[0] = (struct qn_dead_letter){.tenant = s->tenant,
	                                       .partition_id = s->partition_id,
	                                       .group = s->group,
	                                       .lease_id = s->lease_id,
	                                       .offset = s->poison_offset,
	                                       .count = 1,
	                                       .transaction_id = ct_span("t"),
	                                       .payload = ct_span("{\"a\":\"\\u0000\"}"),
	                                       .error = ct_span("broken"),
	                                       .retry_count = s->retry_count};
	op->count = 1;
	ct_dead_letter_op(c, op);
	assert_true(op->items[0].filed);
	return op->items[0];
}

/* ---- groups, queues -------------------------------------------------------------------------- */

bool registers(struct ct *c, const char *queue, const char *group, enum qn_start mode, int64_t from_us)
{
	struct qn_register_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->queue = ct_span(queue);
	op->name_space = op->task = ct_span("");
	op->group = ct_span(group);
	op->start = (struct qn_subscription){mode, from_us};
	ct_register_op(c, op);
	return op->registered;
}

struct qn_queue_options options_default(void)
{
	return (struct qn_queue_options){.name_space = ct_span(""),
	                                 .task = ct_span(""),
#define X(field, json, column, def, lo, hi) .field = def,
	                                 QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) .field = def,
	                                         QN_QUEUE_BOOLS(X)
#undef X
	};
}

void configure(struct ct *c, const char *queue, struct qn_queue_options o)
{
	struct qn_configure_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->queue = ct_span(queue);
	op->options = o;
	ct_configure_op(c, op);
	assert_false(qn_uuid_is_nil(&op->queue_id));
}

struct qn_list_op list_one(struct ct *c, const char *queue)
{
	struct qn_list_op *op = ct_alloc(c, sizeof(*op));

	op->tenant = c->tenant;
	op->one = true;
	op->queue = ct_span(queue);
	op->name_space = op->task = op->search = ct_span("");
	op->limit = -1;
	ct_list_op(c, op);
	return *op;
}
