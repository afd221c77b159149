/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qbench: load generator and verifier for any broker that speaks the queue's HTTP API.
 *
 *   qbench push [options]     producers only
 *   qbench e2e [options]      producers and consumers; --verify checks every lane's sequence
 *
 * With --groups N there are N consumer groups, named G-0, G-1, ...; with --forward Q the last of them
 * settles by transactions that push what they acknowledge to the queue Q, which has a group of its own.
 * All share the consumers. A run with --forward wants both queues to be new.
 *
 * Prints one line of key=value pairs. With --verify the exit status is 0 only when nothing was
 * duplicated, lost or out of order.
 */
#include "qbench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARMUP_US 500000

uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static const struct option long_options[] = {
	{"url", required_argument, NULL, 'u'},
	{"queue", required_argument, NULL, 'q'},
	{"group", required_argument, NULL, 'g'},
	{"groups", required_argument, NULL, 'n'},
	{"forward", required_argument, NULL, 'f'},
	{"lanes", required_argument, NULL, 'l'},
	{"producers", required_argument, NULL, 'p'},
	{"consumers", required_argument, NULL, 'c'},
	{"batch", required_argument, NULL, 'b'},
	{"pop-batch", required_argument, NULL, 'B'},
	{"partitions", required_argument, NULL, 'P'},
	{"payload-bytes", required_argument, NULL, 'y'},
	{"seconds", required_argument, NULL, 's'},
	{"lease", required_argument, NULL, 'L'},
	{"rate", required_argument, NULL, 'r'},
	{"h2", no_argument, NULL, '2'},
	{"autoack", no_argument, NULL, 'a'},
	{"verify", no_argument, NULL, 'v'},
	{NULL, 0, NULL, 0},
};

static void usage(void)
{
	(void)fprintf(stderr, "usage: qbench push|e2e [--url http://127.0.0.1:6632] [--queue Q] [--group G]\n"
	                      "  [--groups N] [--forward Q]\n"
	                      "  [--lanes N] [--producers N] [--consumers N] [--batch N] [--pop-batch N]\n"
	                      "  [--partitions N] [--payload-bytes N] [--seconds N] [--lease S] [--rate MSG/S]\n"
	                      "  [--h2] [--autoack] [--verify]\n");
	exit(2);
}

static uint32_t number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || n > 100000000) {
		usage();
	}
	return (uint32_t)n;
}

static void parse_option(struct options *o, int opt)
{
	switch (opt) {
	case 'u':
		o->url = optarg;
		break;
	case 'q':
		o->queue = optarg;
		break;
	case 'g':
		o->group = optarg;
		break;
	case 'n':
		o->groups = number(optarg);
		break;
	case 'f':
		o->forward = optarg;
		break;
	case 'l':
		o->lanes = number(optarg);
		break;
	case 'p':
		o->producers = number(optarg);
		break;
	case 'c':
		o->consumers = number(optarg);
		break;
	case 'b':
		o->batch = number(optarg);
		break;
	case 'B':
		o->pop_batch = number(optarg);
		break;
	case 'P':
		o->pop_partitions = number(optarg);
		break;
	case 'y':
		o->payload_bytes = number(optarg);
		break;
	case 's':
		o->seconds = number(optarg);
		break;
	case 'L':
		o->lease_s = number(optarg);
		break;
	case 'r':
		o->rate = number(optarg);
		break;
	case '2':
		o->h2 = true;
		break;
	case 'a':
		o->auto_ack = true;
		break;
	case 'v':
		o->verify = true;
		break;
	default:
		usage();
	}
}

static void parse(struct options *o, int argc, char **argv)
{
	bool push;
	int opt;

	*o = (struct options){.url = "http://127.0.0.1:6632",
	                      .queue = "qbench",
	                      .group = "qbench",
	                      .groups = 1,
	                      .lanes = 1000,
	                      .producers = 32,
	                      .consumers = 16,
	                      .batch = 10,
	                      .pop_batch = 100,
	                      .pop_partitions = 10,
	                      .payload_bytes = 100,
	                      .seconds = 5,
	                      .lease_s = 30};
	if (argc < 2 || (strcmp(argv[1], "push") != 0 && strcmp(argv[1], "e2e") != 0)) {
		usage();
	}
	push = strcmp(argv[1], "push") == 0;
	optind = 2;
	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		parse_option(o, opt);
	}
	if (push) {
		o->consumers = 0;
	}
	/* The verifier wants one producer for each lane. */
	if (o->producers > o->lanes && o->verify) {
		o->producers = o->lanes;
	}
	if (o->groups == 0 || o->groups >= VIEWS_MAX || (!push && o->consumers < o->groups + (o->forward != NULL))) {
		usage();
	}
	if (optind != argc || o->lanes == 0 || o->producers == 0 || o->batch == 0 || o->seconds == 0) {
		usage();
	}
}

struct verdict {
	uint64_t duplicates, disorders, redelivered, gaps, unsettled;
	uint64_t faults; /* whatever must not be */
};

static void add_views(struct run *r)
{
	const struct options *o = &r->o;

	for (uint32_t i = 0; i < o->groups; i++) {
		struct view *v = &r->views[r->view_count++];

		v->queue = o->queue;
		v->forwards = o->forward != NULL && i == o->groups - 1;
		if (o->groups == 1) {
			(void)snprintf(v->group, sizeof(v->group), "%s", o->group);
		} else {
			(void)snprintf(v->group, sizeof(v->group), "%s-%u", o->group, i);
		}
		verify_init(&v->verify, o->lanes);
	}
	if (o->forward != NULL) {
		struct view *v = &r->views[r->view_count++];

		v->queue = o->forward;
		(void)snprintf(v->group, sizeof(v->group), "%s", o->group);
		verify_init(&v->verify, o->lanes);
	}
}

/** The sum of all views; unsettled is what was not surely acknowledged at the end. */
static struct verdict verdict(const struct run *r)
{
	struct verdict sum = {.faults = r->displaced};

	for (uint32_t i = 0; i < r->view_count; i++) {
		const struct verify *v = &r->views[i].verify;

		sum.duplicates += v->duplicates;
		sum.disorders += v->disorders;
		sum.redelivered += v->redelivered;
		sum.gaps += verify_gaps(v);
		sum.unsettled += verify_unsettled(v);
	}
	sum.faults += sum.duplicates + sum.disorders + sum.gaps + attempts_phantoms(&r->attempts) +
	              attempts_missing(&r->attempts);
	return sum;
}

static void report_verdict(const struct run *r)
{
	struct verdict v = verdict(r);

	(void)printf(" duplicates=%llu gaps=%llu disorders=%llu redelivered=%llu unsettled=%llu",
	             (unsigned long long)v.duplicates, (unsigned long long)v.gaps, (unsigned long long)v.disorders,
	             (unsigned long long)v.redelivered, (unsigned long long)v.unsettled);
	if (r->o.forward != NULL) {
		(void)printf(" displaced=%llu transactions=%llu committed=%llu rolled_back=%llu in_doubt=%llu "
		             "phantoms=%llu missing=%llu",
		             (unsigned long long)r->displaced, (unsigned long long)r->attempts.n,
		             (unsigned long long)attempts_count(&r->attempts, ATTEMPT_COMMITTED),
		             (unsigned long long)attempts_count(&r->attempts, ATTEMPT_ROLLED_BACK),
		             (unsigned long long)r->in_doubt, (unsigned long long)attempts_phantoms(&r->attempts),
		             (unsigned long long)attempts_missing(&r->attempts));
	}
}

static void report(const struct run *r)
{
	double s = (double)(r->end_us - r->begin_us) / 1e6;

	(void)printf(
		"pushed_per_s=%.0f popped_per_s=%.0f push_p50_us=%llu push_p99_us=%llu push_p999_us=%llu "
		"pop_p50_us=%llu pop_p99_us=%llu pop_p999_us=%llu pushed_total=%llu popped=%llu acked=%llu "
		"push_requests=%llu pop_requests=%llu failed=%llu lost=%llu unacked=%llu",
		(double)r->pushed / s, (double)r->popped_in_window / s,
		(unsigned long long)hist_quantile(&r->push, 0.5), (unsigned long long)hist_quantile(&r->push, 0.99),
		(unsigned long long)hist_quantile(&r->push, 0.999), (unsigned long long)hist_quantile(&r->pop, 0.5),
		(unsigned long long)hist_quantile(&r->pop, 0.99), (unsigned long long)hist_quantile(&r->pop, 0.999),
		(unsigned long long)r->pushed, (unsigned long long)r->popped, (unsigned long long)r->acked,
		(unsigned long long)r->push_requests, (unsigned long long)r->pop_requests,
		(unsigned long long)r->failed, (unsigned long long)r->lost, (unsigned long long)r->unacked);
	if (r->o.verify) {
		report_verdict(r);
	}
	(void)printf("\n");
}

/** Everything was delivered and, unless the broker does it itself, acknowledged. */
static bool drained(const struct run *r)
{
	struct verdict v = verdict(r);

	return v.gaps == 0 && (r->o.auto_ack || v.unsettled == 0);
}

/** Drives the phases: produce, then let the consumers drain while they get anything, then stop. */
static void on_tick(uv_timer_t *timer)
{
	struct run *r = timer->data;
	uint64_t now = now_us();
	uint64_t patience_us = ((uint64_t)r->o.lease_s * 2 + 30) * 1000000;
	bool patient = now < (r->moved_us > r->end_us ? r->moved_us : r->end_us) + patience_us;

	if (now < r->end_us) {
		return;
	}
	r->producing = false;
	if (patient && (r->producers_busy > 0 || (r->o.verify && r->o.consumers > 0 && !drained(r)))) {
		return;
	}
	r->stopping = true;
	uv_close((uv_handle_t *)timer, NULL);
	uv_stop(r->loop);
}

static void drive(struct run *r, uv_loop_t *loop)
{
	struct producer **producers = calloc(r->o.producers, sizeof(struct producer *));
	struct consumer **consumers = calloc((size_t)r->o.consumers + 1, sizeof(struct consumer *));
	uv_timer_t tick;

	if (producers == NULL || consumers == NULL) {
		perror("calloc");
		exit(1);
	}
	(void)uv_timer_init(loop, &tick);
	tick.data = r;
	(void)uv_timer_start(&tick, on_tick, 20, 20);
	for (uint32_t i = 0; i < r->o.consumers; i++) {
		consumers[i] = consumer_start(r, i);
	}
	for (uint32_t i = 0; i < r->o.producers; i++) {
		producers[i] = producer_start(r, i);
	}
	(void)uv_run(loop, UV_RUN_DEFAULT);
	for (uint32_t i = 0; i < r->o.producers; i++) {
		producer_stop(producers[i]);
	}
	for (uint32_t i = 0; i < r->o.consumers; i++) {
		consumer_stop(consumers[i]);
	}
	(void)uv_run(loop, UV_RUN_DEFAULT);
	for (uint32_t i = 0; i < r->o.producers; i++) {
		producer_free(producers[i]);
	}
	for (uint32_t i = 0; i < r->o.consumers; i++) {
		consumer_free(consumers[i]);
	}
	free(producers);
	free(consumers);
}

int main(int argc, char **argv)
{
	static struct run r;
	uv_loop_t loop;
	int status = 0;

	parse(&r.o, argc, argv);
	if (!target_parse(&r.target, r.o.url, r.o.h2)) {
		(void)fprintf(stderr, "qbench: cannot use %s\n", r.o.url);
		return 2;
	}
	(void)uv_loop_init(&loop);
	r.loop = &loop;
	(void)snprintf(r.run_id, sizeof(r.run_id), "%llx", (unsigned long long)now_us() ^ (unsigned)getpid());
	add_views(&r);
	r.producing = true;
	r.begin_us = now_us() + WARMUP_US;
	r.end_us = r.begin_us + (uint64_t)r.o.seconds * 1000000;
	drive(&r, &loop);
	report(&r);
	if (r.o.verify && verdict(&r).faults > 0) {
		status = 1;
	}
	for (uint32_t i = 0; i < r.view_count; i++) {
		verify_fini(&r.views[i].verify);
	}
	attempts_fini(&r.attempts);
	(void)uv_loop_close(&loop);
	return status;
}
