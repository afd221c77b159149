/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How jobs cross between the I/O threads and the engine.
 *
 * Both mailboxes keep their order, so a cancellation posted after a job is seen after it; the job's
 * memory is given up only when the job and its cancellation have both come back.
 */
#include "job.h"

#include "internal.h"

#include "../error.h"

#include <stdatomic.h>

static void on_engine(struct qn_post *post)
{
	struct qn_job *job = QN_CONTAINER(post, struct qn_job, post);
	struct qn_broker *b = qn_app->broker;

	b->jobs++;
	switch (job->kind) {
	case QN_JOB_PUSH:
		qn_push_accept(b, QN_CONTAINER(job, struct qn_push_job, job));
		break;
	case QN_JOB_POP:
		qn_pop_accept(b, QN_CONTAINER(job, struct qn_pop_job, job));
		break;
	case QN_JOB_ACK:
		qn_ack_accept(b, QN_CONTAINER(job, struct qn_ack_job, job));
		break;
	case QN_JOB_TRANSACTION:
		qn_txn_accept(b, QN_CONTAINER(job, struct qn_txn_job, push.job));
		break;
	case QN_JOB_QUERY:
	case QN_JOB_RELEASE:
		qn_query_accept(b, QN_CONTAINER(job, struct qn_query_job, job));
		break;
	}
}

static void on_home(struct qn_post *post)
{
	struct qn_job *job = QN_CONTAINER(post, struct qn_job, post);

	if (job->cancel_posted) {
		job->returned = true;
		return;
	}
	job->answer(job);
}

static void cancel_on_home(struct qn_post *post)
{
	struct qn_job *job = QN_CONTAINER(post, struct qn_job, cancel);

	job->cancel_posted = false;
	if (job->returned) {
		job->answer(job);
	}
}

static void cancel_on_engine(struct qn_post *post)
{
	struct qn_job *job = QN_CONTAINER(post, struct qn_job, cancel);

	/* Does nothing once the job is on its way back. */
	qn_pop_cancel(qn_app->broker, QN_CONTAINER(job, struct qn_pop_job, job));
	post->fn = cancel_on_home;
	qn_thread_post(job->io, post);
}

void qn_job_send(struct qn_job *job)
{
	job->post.fn = on_engine;
	qn_thread_post(qn_app->engine, &job->post);
}

void qn_job_return(struct qn_job *job)
{
	job->post.fn = on_home;
	qn_thread_post(job->io, &job->post);
}

void qn_job_abandon(struct qn_job *job)
{
	atomic_store_explicit(&job->gone, true, memory_order_release);
	if (job->kind != QN_JOB_POP || job->cancel_posted || job->returned) {
		return;
	}
	job->cancel_posted = true;
	job->cancel.fn = cancel_on_engine;
	qn_thread_post(qn_app->engine, &job->cancel);
}

void qn_claim_result_unref(struct qn_claim_result *r)
{
	/* Release pairs with acquire: the last user sees every other's reads done before it frees. */
	if (r != NULL && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
		qn_arena_destroy(r->arena);
	}
}
