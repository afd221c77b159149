/* SPDX-License-Identifier: Apache-2.0 */
/** One request on its I/O thread: its memory, its way to the engine, its answer. */
#ifndef QN_API_CALL_H
#define QN_API_CALL_H

#include "../app.h"
#include "../arena.h"
#include "../broker/job.h"
#include "../wire/bytes.h"
#include "../wire/json_scan.h"
#include "../wire/text.h"

/** Tenant of every request while tenancy is off. */
extern const struct qn_uuid qn_default_tenant;

struct qn_call {
	struct qn_http_call *http;
	struct qn_arena *arena;
	struct qn_uuid tenant;
	struct qn_path path;  /* decoded, in the arena */
	struct qn_span query; /* raw, in the arena */
	struct qn_job *job;   /* on its way, or NULL */
	bool gone;            /* nobody waits; method, target and body are not valid any more */
};

/** Ties a call to the request. */
struct qn_call *qn_call_create(struct qn_http_call *http);

/** A growing array in an arena: makes room for one more element of `size`; *p may move. */
void *qn_arena_push(struct qn_arena *a, void **p, uint32_t *n, uint32_t *cap, size_t size);

/** Sends the job on behalf of the call; answer(job) runs on this thread when it is back. */
void qn_call_send(struct qn_call *c, struct qn_job *job, enum qn_job_kind kind, void (*answer)(struct qn_job *job));
/** The call of a job that came back; the job is not tied to it any more. */
struct qn_call *qn_call_of(struct qn_job *job);

/* Each of these answers and ends the call: c is invalid afterwards. */
/** body: [take]; empty: no content type either. A body that failed to build answers 500. */
void qn_call_reply(struct qn_call *c, int status, struct qn_bytes *body);
void qn_call_reply_headers(struct qn_call *c, int status, struct qn_bytes *body, const struct qn_http_header *headers,
                           uint32_t count);
/** {"error":"text"} */
void qn_call_error(struct qn_call *c, int status, const char *fmt, ...) QN_FMT(3, 4);
/** 429: more bytes of pushes wait than may (decisions 20). */
void qn_call_busy(struct qn_call *c);
/** 400 {"error":"bad body: <text> at line L column C"} */
void qn_call_bad_body(struct qn_call *c, const struct qn_json *j);
/**
 * A storage failure: 5xx with a stable sentence and a requestId, the details in the log. `what`
 * names the operation ("pop failed"); an unreachable database says "pool", as clients know it.
 */
void qn_call_failed(struct qn_call *c, const struct qn_error *e, const char *what);

#endif
