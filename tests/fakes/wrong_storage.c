/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A storage that does one thing wrong: a layer over a right one that is linked in, whose entry is
 * called wrapped_entry. One of FAKE_CHARGES_RETRIES, FAKE_MISSES_DUPLICATES, FAKE_IGNORES_LEASES and
 * FAKE_DONE_AT_ONCE says which.
 */
#include <qn/abi.h>
#include <qn/storage.h>

const struct qn_module *wrapped_entry(void);
const struct qn_module *qn_module_entry(void);

static const struct qn_host *host;
static const struct qn_storage_vt *right;
static struct qn_storage_vt wrong;
static struct qn_module module;

#if defined(FAKE_CHARGES_RETRIES)
static void settle(void *self, struct qn_settle_op *op)
{
	for (uint32_t i = 0; i < op->lane_count; i++) {
		for (uint32_t k = 0; k < op->lanes[i].item_count; k++) {
			if (op->lanes[i].items[k].status == QN_ACK_RETRY) {
				op->lanes[i].items[k].status = QN_ACK_FAILED;
			}
		}
	}
	right->settle(self, op);
}
#elif defined(FAKE_MISSES_DUPLICATES)
static void push(void *self, struct qn_push_op *op)
{
	for (uint32_t i = 0; i < op->lane_count; i++) {
		void *fresh = host->arena_alloc(op->op.arena, op->lanes[i].hashes.n);

		host->random(fresh, op->lanes[i].hashes.n);
		op->lanes[i].hashes.p = fresh;
	}
	right->push(self, op);
}
#elif defined(FAKE_IGNORES_LEASES)
static void settle(void *self, struct qn_settle_op *op)
{
	for (uint32_t i = 0; i < op->lane_count; i++) {
		op->lanes[i].lease_id = (struct qn_span){"", 0};
	}
	right->settle(self, op);
}
#elif defined(FAKE_DONE_AT_ONCE)
static void ping(void *self, struct qn_ping_op *op)
{
	(void)self;
	op->op.done(&op->op, NULL);
}
#endif

static int provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e)
{
	right = (const struct qn_storage_vt *)(const void *)s.vt;
	wrong = *right;
#if defined(FAKE_MISSES_DUPLICATES)
	wrong.push = push;
#elif defined(FAKE_DONE_AT_ONCE)
	wrong.ping = ping;
#else
	wrong.settle = settle;
#endif
	return host->provide(m, kind, (struct qn_service){&wrong.head, s.self}, e);
}

static int load(struct qn_mod *m, const struct qn_host *h, void **self, struct qn_error *e)
{
	static struct qn_host between;

	host = h;
	between = *h;
	between.provide = provide;
	return wrapped_entry()->load(m, &between, self, e);
}

QN_EXPORT const struct qn_module *qn_module_entry(void)
{
	module = *wrapped_entry();
	module.name = "wrong_storage";
	module.load = load;
	return &module;
}
