/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qbench-direct: the storage's SQL functions driven straight through libpq, as the floor a broker can
 * be measured against: no HTTP, no JSON, no scheduling, bundles of a fixed size.
 *
 *   qbench-direct CONNINFO SECONDS LANES BATCH CONNECTIONS
 *
 * Each connection pushes BATCH messages to each of its share of LANES per call for SECONDS, then
 * claims and settles what was pushed. Prints one Markdown row: messages/s pushed and consumed.
 */
#include <endian.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES 160
#define OID_BOOL    16
#define OID_BYTEA   17
#define OID_INT8    20
#define OID_INT4    23
#define OID_TEXT    25
#define OID_UUID    2950
#define PARAMS_MAX  19

struct args {
	const char *conninfo;
	unsigned seconds, lanes, batch, connections;
};

struct worker {
	pthread_t thread;
	const struct args *args;
	unsigned index, lanes;
	uint64_t pushed, consumed;
	double push_s, consume_s;
};

struct bytes {
	char *p;
	size_t n, cap;
};

/** Values of one call, in binary. */
struct call {
	struct bytes data[PARAMS_MAX];
	Oid types[PARAMS_MAX];
	int count;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "qbench-direct: %s\n", what);
	exit(1);
}

static void put(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->p = realloc(b->p, b->cap);
		if (b->p == NULL) {
			die("out of memory");
		}
	}
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static void put32(struct bytes *b, int32_t v)
{
	int32_t be = (int32_t)htobe32((uint32_t)v);

	put(b, &be, sizeof(be));
}

static void put64(struct bytes *b, int64_t v)
{
	int64_t be = (int64_t)htobe64((uint64_t)v);

	put(b, &be, sizeof(be));
}

/** Begins an array parameter of n elements. */
static struct bytes *array(struct call *c, Oid type, Oid element, unsigned n)
{
	struct bytes *b = &c->data[c->count];

	c->types[c->count] = type;
	c->count++;
	b->n = 0;
	put32(b, n > 0 ? 1 : 0);
	put32(b, 0);
	put32(b, (int32_t)element);
	if (n > 0) {
		put32(b, (int32_t)n);
		put32(b, 1);
	}
	return b;
}

static void element(struct bytes *b, const void *p, size_t n)
{
	put32(b, (int32_t)n);
	put(b, p, n);
}

static void element32(struct bytes *b, int32_t v)
{
	put32(b, 4);
	put32(b, v);
}

static void element64(struct bytes *b, int64_t v)
{
	put32(b, 8);
	put64(b, v);
}

static void same32(struct call *c, unsigned n, int32_t v)
{
	struct bytes *b = array(c, 1007, OID_INT4, n);

	for (unsigned i = 0; i < n; i++) {
		element32(b, v);
	}
}

static void same64(struct call *c, unsigned n, int64_t v)
{
	struct bytes *b = array(c, 1016, OID_INT8, n);

	for (unsigned i = 0; i < n; i++) {
		element64(b, v);
	}
}

static void same_text(struct call *c, unsigned n, const char *text)
{
	struct bytes *b = array(c, 1009, OID_TEXT, n);

	for (unsigned i = 0; i < n; i++) {
		element(b, text, strlen(text));
	}
}

static const char tenant[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static const char nil[16];

static void same_uuid(struct call *c, unsigned n, const char *uuid)
{
	struct bytes *b = array(c, 2951, OID_UUID, n);

	for (unsigned i = 0; i < n; i++) {
		element(b, uuid, 16);
	}
}

static PGresult *run(PGconn *db, struct call *c, const char *sql)
{
	const char *values[PARAMS_MAX];
	int lengths[PARAMS_MAX], formats[PARAMS_MAX];
	PGresult *r;

	for (int i = 0; i < c->count; i++) {
		values[i] = c->data[i].p;
		lengths[i] = (int)c->data[i].n;
		formats[i] = 1;
	}
	r = PQexecParams(db, sql, c->count, c->types, values, lengths, formats, 1);
	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		die(PQerrorMessage(db));
	}
	c->count = 0;
	return r;
}

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void random_bytes(struct bytes *b, size_t n)
{
	static __thread uint64_t x;

	if (x == 0) {
		x = (uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)&x ^ 88172645463325252u;
	}
	b->n = 0;
	for (size_t i = 0; i < n; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		put(b, &x, sizeof(x));
	}
	b->n = n;
}

static void push_once(struct worker *w, PGconn *db, struct call *c, struct bytes *hashes, struct bytes *blob)
{
	unsigned batch = w->args->batch, n = w->lanes;
	char name[32];
	struct bytes *b;
	bool sealed = false;

	same_uuid(c, n, tenant);
	same_text(c, n, "bench-direct");
	b = array(c, 1009, OID_TEXT, n);
	for (unsigned i = 0; i < n; i++) {
		int len = snprintf(name, sizeof(name), "c%u-%u", w->index, i);

		element(b, name, (size_t)len);
	}
	same_uuid(c, n, nil);
	same32(c, n, (int32_t)batch);
	same32(c, n, (int32_t)(batch * FRAME_BYTES));
	b = array(c, 1000, OID_BOOL, n);
	for (unsigned i = 0; i < n; i++) {
		element(b, &sealed, 1);
	}
	b = array(c, 1001, OID_BYTEA, n);
	for (unsigned i = 0; i < n; i++) {
		random_bytes(hashes, (size_t)batch * 16);
		element(b, hashes->p, hashes->n);
	}
	same64(c, n, -1);
	b = array(c, 1001, OID_BYTEA, n);
	for (unsigned i = 0; i < n; i++) {
		element(b, blob->p, blob->n);
	}
	same64(c, n, 0);
	PQclear(run(db, c, "SELECT * FROM queen.push_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)"));
	w->pushed += (uint64_t)batch * n;
}

static PGresult *claim(PGconn *db, struct call *c, const char *lease)
{
	same_uuid(c, 1, tenant);
	same32(c, 1, 0);
	same_text(c, 1, "bench-direct");
	for (int i = 0; i < 3; i++) {
		same_text(c, 1, "");
	}
	same_text(c, 1, "direct");
	same32(c, 1, 0);
	same64(c, 1, 0);
	same_text(c, 1, lease);
	same32(c, 1, 60);
	same32(c, 1, 10000);
	same64(c, 1, 16 << 20);
	same32(c, 1, 100);
	(void)array(c, 1007, OID_INT4, 0);
	(void)array(c, 2951, OID_UUID, 0);
	c->types[c->count] = OID_BOOL;
	c->data[c->count].n = 0;
	put(&c->data[c->count], "\1", 1);
	c->count++;
	for (int i = 0; i < 2; i++) {
		put32(array(c, 1000, OID_BOOL, 1), 1);
		put(&c->data[c->count - 1], "\0", 1);
	}
	return run(db, c,
	           "SELECT * FROM queen.claim_v1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)");
}

/** Completes every lane of a claim by its last offset, found through the hash rows. */
static uint64_t settle(PGconn *db, const char *lease)
{
	const char *values[] = {lease};
	PGresult *r = PQexecParams(
		db,
		"WITH c AS (SELECT c.partition_id, c.batch_end, c.committed, row_number() OVER () - 1 AS lane "
		"           FROM queen.log_consumers c WHERE c.worker_id = $1), "
		"h AS (SELECT c.*, substring(t.hashes FROM (16 * (c.batch_end - t.base_offset))::int + 1 FOR 16) AS hash "
		"      FROM c JOIN queen.log_txns t ON t.partition_id = c.partition_id "
		"       AND t.base_offset <= c.batch_end AND t.end_offset >= c.batch_end) "
		"SELECT sum(batch_end - committed), array_agg(partition_id ORDER BY lane), "
		"       string_agg(hash, ''::bytea ORDER BY lane), array_agg(lane::int ORDER BY lane), count(*) FROM h",
		1, NULL, values, NULL, NULL, 0);
	uint64_t n;
	PGresult *done;

	if (PQresultStatus(r) != PGRES_TUPLES_OK) {
		die(PQerrorMessage(db));
	}
	n = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
	if (n > 0) {
		const char *p[] = {PQgetvalue(r, 0, 1), lease, PQgetvalue(r, 0, 3), PQgetvalue(r, 0, 2)};

		done = PQexecParams(
			db,
			"SELECT * FROM queen.settle_v1("
			"(SELECT array_agg('00000000-0000-0000-0000-000000000001'::uuid) FROM unnest($1::uuid[])), "
			"$1::uuid[], (SELECT array_agg('direct'::text) FROM unnest($1::uuid[])), "
			"(SELECT array_agg($2::text) FROM unnest($1::uuid[])), $3::int[], $4::bytea, "
			"(SELECT array_agg(0) FROM unnest($1::uuid[])))",
			4, NULL, p, NULL, NULL, 0);
		if (PQresultStatus(done) != PGRES_TUPLES_OK) {
			die(PQerrorMessage(db));
		}
		PQclear(done);
	}
	PQclear(r);
	return n;
}

static void consume(struct worker *w, PGconn *db, struct call *c, double until)
{
	for (unsigned i = 0; now_s() < until; i++) {
		char lease[40];
		uint64_t n;

		(void)snprintf(lease, sizeof(lease), "%08x-0000-7000-8000-%012x", w->index + 1, i);
		PQclear(claim(db, c, lease));
		n = settle(db, lease);
		if (n == 0) {
			return;
		}
		w->consumed += n;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	PGconn *db = PQconnectdb(w->args->conninfo);
	static __thread struct call c;
	struct bytes hashes = {0}, blob = {0};
	double begin = now_s();

	if (PQstatus(db) != CONNECTION_OK) {
		die(PQerrorMessage(db));
	}
	random_bytes(&blob, (size_t)w->args->batch * FRAME_BYTES / 2);
	while (now_s() < begin + w->args->seconds) {
		push_once(w, db, &c, &hashes, &blob);
	}
	w->push_s = now_s() - begin;
	begin = now_s();
	consume(w, db, &c, begin + w->args->seconds);
	w->consume_s = now_s() - begin;
	for (int i = 0; i < PARAMS_MAX; i++) {
		free(c.data[i].p);
	}
	free(hashes.p);
	free(blob.p);
	PQfinish(db);
	return NULL;
}

int main(int argc, char **argv)
{
	struct args a;
	struct worker *w;
	double pushed = 0, consumed = 0;

	if (argc != 6) {
		die("usage: qbench-direct CONNINFO SECONDS LANES BATCH CONNECTIONS");
	}
	a = (struct args){argv[1], (unsigned)strtoul(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10),
	                  (unsigned)strtoul(argv[4], NULL, 10), (unsigned)strtoul(argv[5], NULL, 10)};
	if (a.seconds == 0 || a.lanes == 0 || a.batch == 0 || a.connections == 0) {
		die("every number must be positive");
	}
	w = calloc(a.connections, sizeof(*w));
	if (w == NULL) {
		die("out of memory");
	}
	for (unsigned i = 0; i < a.connections; i++) {
		w[i].args = &a;
		w[i].index = i;
		w[i].lanes = a.lanes < a.connections ? 1 : a.lanes / a.connections;
		if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0) {
			die("cannot start a thread");
		}
	}
	for (unsigned i = 0; i < a.connections; i++) {
		(void)pthread_join(w[i].thread, NULL);
		pushed += (double)w[i].pushed / w[i].push_s;
		consumed += (double)w[i].consumed / w[i].consume_s;
	}
	(void)printf("%u lanes x %u messages a call, %u connections | %.0f | %.0f | | |\n", w[0].lanes, a.batch,
	             a.connections, pushed, consumed);
	free(w);
	return 0;
}
