/* SPDX-License-Identifier: Apache-2.0 */
/* The wheel and the lane table against models that are too plain to be wrong. */
#include "ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 600
#define LANES 5000

static uint64_t seed = 1;

static uint64_t rnd(uint64_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 20) % below;
}

static void *try_alloc(size_t n)
{
	return malloc(n);
}

static const struct qn_host host = {.try_alloc = try_alloc, .free = free};

/* ---- wheel ----------------------------------------------------------------------------------- */

struct model {
	uint64_t due_ms[NODES];
	bool pending[NODES];
	uint32_t count;
};

/* Each node comes up once, never early, and none that is due stays behind. */
static void expect_due(struct qn_wheel *w, struct model *m, uint64_t now_ms)
{
	struct qn_wheel_node n;

	while (qn_wheel_next(w, now_ms, &n)) {
		assert_true(n.slot < m->count && m->pending[n.slot]);
		assert_true(m->due_ms[n.slot] <= now_ms);
		m->pending[n.slot] = false;
	}
	for (uint32_t i = 0; i < m->count; i++) {
		assert_false(m->pending[i] && m->due_ms[i] <= now_ms);
	}
}

static bool always(void *owner, const struct qn_wheel_node *n)
{
	(void)owner, (void)n;
	return true;
}

/* Steps and delays up to `span` ms, beginning at `tick`. */
static void run_wheel(uint32_t tick, uint64_t span)
{
	static struct model m;
	struct qn_wheel w;
	uint64_t now = 5000000;

	memset(&m, 0, sizeof(m));
	qn_wheel_init(&w, &host, now, always, NULL);
	w.now = tick;
	while (m.count < NODES) {
		for (uint64_t k = rnd(20); k > 0 && m.count < NODES; k--) {
			uint64_t due = now + rnd(span);

			m.due_ms[m.count] = due;
			m.pending[m.count] = true;
			assert_true(qn_wheel_add(&w, 1, m.count, qn_wheel_tick(&w, due)));
			m.count++;
		}
		for (uint32_t i = 0; i < m.count; i++) {
			assert_true(!m.pending[i] || qn_wheel_due_ms(&w) <= (m.due_ms[i] > now ? m.due_ms[i] : now));
		}
		now += rnd(4) == 0 ? rnd(span) : rnd(span / 50 + 2);
		expect_due(&w, &m, now);
	}
	expect_due(&w, &m, now + span);
	assert_int_equal(w.nodes_used, 0);
	assert_int_equal(qn_wheel_due_ms(&w), UINT64_MAX);
	qn_wheel_fini(&w);
}

static void nodes_come_up_when_they_are_due(void **state)
{
	static const uint64_t spans[] = {3, 300, 5000, 70000, 1000000, 20000000, 1500000000};
	static const uint32_t ticks[] = {0, 250, 65530, 16777200, UINT32_MAX - 100, UINT32_MAX - 70000};

	(void)state;
	for (size_t s = 0; s < sizeof(spans) / sizeof(spans[0]); s++) {
		for (size_t t = 0; t < sizeof(ticks) / sizeof(ticks[0]); t++) {
			run_wheel(ticks[t], spans[s]);
		}
	}
}

static void a_time_that_is_over_is_now_and_a_far_one_is_brought_near(void **state)
{
	struct qn_wheel w;

	(void)state;
	qn_wheel_init(&w, &host, 1000, always, NULL);
	assert_int_equal(qn_wheel_tick(&w, 0), 0);
	assert_int_equal(qn_wheel_tick(&w, 1000), 0);
	assert_int_equal(qn_wheel_tick(&w, 1001), 1);
	assert_int_equal(qn_wheel_tick(&w, UINT64_MAX), 1814400000);
	qn_wheel_fini(&w);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static void lanes_keep_their_numbers(void **state)
{
	static struct qn_uuid ids[LANES];
	static uint32_t numbers[LANES];
	struct qn_ring_lanes l = {0};

	(void)state;
	for (uint32_t i = 0; i < LANES; i++) {
		/* Few different hashes, so that long chains form and break. */
		uint64_t half = rnd(200);

		memcpy(ids[i].b, &(uint64_t){i + 1}, 8);
		memcpy(ids[i].b + 8, &half, 8);
		numbers[i] = QN_RING_NONE;
	}
	for (int step = 0; step < 40000; step++) {
		uint32_t i = (uint32_t)rnd(LANES);

		assert_int_equal(qn_ring_lane_find(&l, &ids[i]), numbers[i]);
		if (numbers[i] == QN_RING_NONE) {
			numbers[i] = qn_ring_lane_get(&l, &host, &ids[i]);
			assert_int_not_equal(numbers[i], QN_RING_NONE);
			assert_memory_equal(&l.ids[numbers[i]], &ids[i], sizeof(ids[i]));
		} else if (rnd(3) == 0) {
			qn_ring_lane_remove(&l, numbers[i]);
			numbers[i] = QN_RING_NONE;
		} else {
			assert_int_equal(qn_ring_lane_get(&l, &host, &ids[i]), numbers[i]);
		}
	}
	for (uint32_t i = 0; i < LANES; i++) {
		assert_int_equal(qn_ring_lane_find(&l, &ids[i]), numbers[i]);
	}
	qn_ring_lanes_fini(&l, &host);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(nodes_come_up_when_they_are_due),
		cmocka_unit_test(a_time_that_is_over_is_now_and_a_far_one_is_brought_near),
		cmocka_unit_test(lanes_keep_their_numbers),
	};

	return cmocka_run_group_tests_name("hotlist_ring", cases, NULL, NULL);
}
