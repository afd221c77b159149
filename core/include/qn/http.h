/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "http": sockets, TLS, HTTP/1.1 and HTTP/2, timers and limits. It knows nothing of queues: it
 * hands complete requests to host->dispatch() and sends the reply.
 *
 * Rules (HT-n):
 *  HT-1 A call is dispatched once, on the I/O thread that read it, with the whole body in memory.
 *  HT-2 Head and framing were checked strictly; a request that fails is answered by the module itself.
 *  HT-3 Method, target and body stay valid until reply() or until on_gone() returns, whichever is first.
 *  HT-4 reply() is called exactly once per call, on its I/O thread, also after on_gone(): it then
 *       sends nothing and frees. The call is invalid afterwards.
 *  HT-5 on_gone() is called at most once, before reply(), on the I/O thread, when the module learns
 *       that nobody waits any more.
 *  HT-6 peer_gone() may be called from any thread until reply().
 *  HT-7 HEAD: the core answers as for GET, the module sends no body. 204: no body, no Content-Length.
 */
#ifndef QN_HTTP_H
#define QN_HTTP_H

#include <qn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_HTTP_MAJOR 1
#define QN_HTTP_MINOR 0

struct qn_http_vt;

struct qn_http_call {
	const struct qn_http_vt *vt;
	struct qn_thread *thread;
	struct qn_span method; /* as sent: "GET", "HEAD", ... */
	struct qn_span path;   /* raw target up to '?', not decoded; "/" at least */
	struct qn_span query;  /* raw, after '?'; n = 0 when none */
	struct qn_span body;
	uint16_t version; /* 0x100, 0x101, 0x200 */
	bool tls;
	/* set by the core */
	void *user;
	void (*on_gone)(struct qn_http_call *call); /* may be NULL */
};

struct qn_http_header {
	struct qn_span name, value;
};

struct qn_http_reply {
	int status;
	struct qn_span content_type;          /* n = 0: none */
	const struct qn_http_header *headers; /* [borrow] more of them */
	uint32_t header_count;
	struct qn_buf body; /* [take] also when nobody listens any more */
};

struct qn_http_vt {
	struct qn_iface head;
	/** Opens this thread's listeners. After every module's thread_start. [thread] */
	int (*listen)(void *self, void *tself, struct qn_error *e) QN_MUST;
	void (*reply)(struct qn_http_call *call, const struct qn_http_reply *reply);
	/** The client has closed its side or reset the stream. [any] */
	bool (*peer_gone)(struct qn_http_call *call);
	/** First header of that lower-case name; false when absent. [thread] */
	bool (*header)(struct qn_http_call *call, struct qn_span name, struct qn_span *value);
	/** Connections still open on this thread, for the drain. [thread] */
	uint32_t (*connections)(void *self, void *tself);
	/** True when listen() binds an address other than loopback. [any, after start] */
	bool (*is_public)(void *self);
};

#ifdef __cplusplus
}
#endif
#endif
