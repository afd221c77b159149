/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's frame: its start and end, its pumps, its clock.
 *
 * Everything that happens on the engine's loop only changes queues; the check handle, which runs
 * right after each poll for I/O, then sends what has become ready. So requests that arrive in one
 * tick share storage calls without any timer.
 */
#include "internal.h"

#include "../error.h"
#include "../log.h"

#include <stdlib.h>

static void pump(struct qn_broker *b)
{
	if (b->stopping) {
		return;
	}
	qn_push_pump(b);
	qn_txn_pump(b);
	qn_ack_pump(b);
	qn_query_pump(b);
	qn_rehash_pump(b);
	qn_pop_pump(b);
	qn_parks_arm(b);
}

static void on_check(uv_check_t *check)
{
	pump(check->data);
}

static void on_second(uv_timer_t *timer)
{
	struct qn_broker *b = timer->data;

	b->app->dedup.vt->expire(b->app->dedup.self, qn_db_time_us(b));
	qn_lane_ids_tick(b);
	qn_parks_walk(b);
	pump(b);
}

uint64_t qn_broker_deadline(const struct qn_broker *b)
{
	return qn_mono_ms() + (uint64_t)b->app->options.statement_timeout_ms;
}

void qn_broker_finish(struct qn_broker *b, struct qn_job *job, const struct qn_error *e)
{
	if (e != NULL) {
		job->error = *e;
	}
	b->jobs--;
	qn_job_return(job);
}

int qn_broker_start(struct qn_app *app, struct qn_error *e)
{
	struct qn_broker *b = calloc(1, sizeof(*b));
	uv_loop_t *loop = qn_thread_loop(app->engine);

	if (b == NULL) {
		return QN_FAIL(e, QN_NOMEM, "out of memory");
	}
	b->app = app;
	b->lane_ids = qn_lane_ids_create();
	b->slots = app->storage.vt->slots(app->storage.self);
	qn_list_init(&b->push_ready);
	qn_list_init(&b->claim_ready);
	qn_list_init(&b->ack_ready);
	qn_list_init(&b->dead_letters);
	qn_list_init(&b->txns);
	qn_list_init(&b->queries);
	qn_list_init(&b->leases_by_age);
	b->check.data = b;
	b->timer.data = b;
	b->second.data = b;
	(void)uv_check_init(loop, &b->check);
	(void)uv_check_start(&b->check, on_check);
	(void)uv_timer_init(loop, &b->timer);
	(void)uv_timer_init(loop, &b->second);
	(void)uv_timer_start(&b->second, on_second, 1000, 1000);
	app->broker = b;
	return qn_maintenance_start(b, e);
}

void qn_broker_drain(struct qn_broker *b)
{
	b->draining = true;
	qn_parks_drain(b);
	qn_maintenance_drain(b);
	pump(b);
}

bool qn_broker_idle(const struct qn_broker *b)
{
	return b->jobs == 0 && b->busy.push == 0 && b->busy.claim == 0 && b->busy.settle == 0 && b->busy.query == 0 &&
	       qn_maintenance_idle(b);
}

void qn_broker_stop(struct qn_broker *b)
{
	if (!qn_broker_idle(b)) {
		qn_log(QN_WARN, "broker.unfinished", QN_U("jobs", b->jobs));
	}
	b->stopping = true;
	qn_parks_drain(b);
	qn_push_stop(b);
	qn_ack_stop(b);
	qn_txn_stop(b);
	qn_pop_stop(b);
	qn_query_stop(b);
	qn_maintenance_stop(b);
	uv_close((uv_handle_t *)&b->check, NULL);
	uv_close((uv_handle_t *)&b->timer, NULL);
	uv_close((uv_handle_t *)&b->second, NULL);
}

void qn_broker_destroy(struct qn_broker *b)
{
	if (b == NULL) {
		return;
	}
	qn_maintenance_destroy(b);
	qn_group_stop(b);
	qn_facts_stop(b);
	qn_leases_stop(b);
	qn_lane_ids_destroy(b->lane_ids);
	qn_map_fini(&b->push_lanes);
	qn_map_fini(&b->ack_lanes);
	qn_map_fini(&b->gates);
	qn_heap_fini(&b->dues);
	b->app->broker = NULL;
	free(b);
}
