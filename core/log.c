/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one event, one line, one write(2), as logfmt or JSON.
 *
 * A line is built in a fixed buffer on the caller's stack. Long text values are cut, pairs that do
 * not fit are left out and the line says so with cut=true; it is always whole and valid. Bytes that
 * are not UTF-8 are shown as the code points of the same number.
 *
 * Repeats of an event above DEBUG are limited: 10, then one a second that tells how many were
 * dropped; 10 quiet seconds start afresh. Events share a slot only when their names' hashes do.
 */
#include "log.h"

#include "thread.h"
#include "wire/ident.h"
#include "wire/text.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES  8192
#define LINE_TAIL       64 /* room for dropped=, cut= and the end of the line */
#define VALUE_MAX_BYTES 2048
#define SLOTS           1024
#define BURST           10
#define QUIET_MS        10000

struct line {
	bool json, overflow, cut;
	size_t n, limit;
	char text[LINE_MAX_BYTES];
};

struct slot {
	uint64_t last_ms, written_ms;
	unsigned count;
	uint64_t dropped;
};

static _Atomic int log_level = QN_INFO;
static _Atomic int log_format = QN_LOG_LOGFMT;
static _Atomic int log_fd = STDERR_FILENO;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot slots[SLOTS];

static void put(struct line *l, const char *p, size_t n)
{
	if (l->overflow || n > l->limit - l->n) {
		l->overflow = true;
		return;
	}
	memcpy(l->text + l->n, p, n);
	l->n += n;
}

static void put_str(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

static void put_escaped(struct line *l, uint8_t c, bool utf8)
{
	static const char names[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	char hex[8];

	if (c == '"' || c == '\\') {
		put(l, (const char[]){'\\', (char)c}, 2);
	} else if (c < sizeof(names) && names[c] != 0) {
		put(l, (const char[]){'\\', names[c]}, 2);
	} else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
		(void)snprintf(hex, sizeof(hex), "\\u%04x", c);
		put(l, hex, 6);
	} else {
		put(l, (const char *)&c, 1);
	}
}

static bool is_bare(struct qn_span s)
{
	const uint8_t *p = s.p;

	for (size_t i = 0; i < s.n; i++) {
		if (p[i] <= ' ' || p[i] >= 0x7f || p[i] == '"' || p[i] == '=' || p[i] == '\\') {
			return false;
		}
	}
	return s.n > 0;
}

static void put_value(struct line *l, struct qn_span s)
{
	const uint8_t *p = s.p;
	bool utf8;

	if (s.n > VALUE_MAX_BYTES) {
		s.n = VALUE_MAX_BYTES;
		while (s.n > 0 && (p[s.n] & 0xc0) == 0x80) {
			s.n--;
		}
		l->cut = true;
	}
	if (!l->json && is_bare(s)) {
		put(l, s.p, s.n);
		return;
	}
	utf8 = qn_utf8_valid(s, NULL);
	put(l, "\"", 1);
	for (size_t i = 0; i < s.n; i++) {
		put_escaped(l, p[i], utf8);
	}
	put(l, "\"", 1);
}

static void put_key(struct line *l, const char *key)
{
	if (l->json) {
		put_str(l, l->n == 1 ? "\"" : ",\"");
		put_str(l, key);
		put_str(l, "\":");
	} else {
		put_str(l, l->n == 0 ? "" : " ");
		put_str(l, key);
		put_str(l, "=");
	}
}

static void put_text(struct line *l, const char *key, const char *value)
{
	put_key(l, key);
	put_value(l, (struct qn_span){value, strlen(value)});
}

static void put_number(struct line *l, const struct qn_kv *kv)
{
	char text[40];

	switch (kv->type) {
	case QN_KV_U64:
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)kv->v.u);
		break;
	case QN_KV_I64:
		(void)snprintf(text, sizeof(text), "%lld", (long long)kv->v.i);
		break;
	case QN_KV_F64:
		(void)snprintf(text, sizeof(text), isfinite(kv->v.f) ? "%.6g" : "null", kv->v.f);
		break;
	default:
		(void)snprintf(text, sizeof(text), "%s", kv->v.b ? "true" : "false");
		break;
	}
	put_str(l, text);
}

/* Whole or not at all: half a pair would break the line. */
static void put_pair(struct line *l, const struct qn_kv *kv)
{
	size_t before = l->n;

	put_key(l, kv->key);
	if (kv->type == QN_KV_STR) {
		put_value(l, kv->v.s);
	} else {
		put_number(l, kv);
	}
	if (l->overflow) {
		l->overflow = false;
		l->cut = true;
		l->n = before;
	}
}

static void put_thread(struct line *l)
{
	const struct qn_thread *t = qn_thread_self();
	char name[24];

	if (t == NULL) {
		put_text(l, "thread", "main");
	} else if (qn_thread_kind(t) == QN_THREAD_ENGINE) {
		put_text(l, "thread", "engine");
	} else {
		(void)snprintf(name, sizeof(name), "io-%u", qn_thread_index(t));
		put_text(l, "thread", name);
	}
}

/* True when the line is to be written; *dropped is what was held back since the last one. */
static bool admit(const char *module, const char *event, uint64_t *dropped)
{
	uint64_t now_ms = qn_mono_ms();
	uint32_t hash = 2166136261u;
	struct slot *s;
	bool pass;

	for (const char *p = module; *p != '\0'; p++) {
		hash = (hash ^ (uint8_t)*p) * 16777619u;
	}
	for (const char *p = event; *p != '\0'; p++) {
		hash = (hash ^ (uint8_t)*p) * 16777619u;
	}
	s = &slots[(hash ^ (hash >> 16)) % SLOTS];
	(void)pthread_mutex_lock(&slots_lock);
	if (now_ms - s->last_ms > QUIET_MS) {
		s->count = 0;
	}
	s->last_ms = now_ms;
	pass = s->count < BURST || now_ms - s->written_ms >= 1000;
	if (pass) {
		s->count += s->count < BURST ? 1 : 0;
		s->written_ms = now_ms;
		*dropped = s->dropped;
		s->dropped = 0;
	} else {
		s->dropped++;
	}
	(void)pthread_mutex_unlock(&slots_lock);
	return pass;
}

void qn_log_setup(enum qn_level level, enum qn_log_format format, int fd)
{
	atomic_store(&log_level, (int)level);
	atomic_store(&log_format, (int)format);
	atomic_store(&log_fd, fd);
}

bool qn_log_enabled(enum qn_level level)
{
	return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void qn_log_write(const char *module, enum qn_level level, const char *event, const struct qn_kv *kv, size_t n)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	struct line l;
	uint64_t dropped = 0;
	char ts[40];

	if (!qn_log_enabled(level) || (level != QN_DEBUG && !admit(module, event, &dropped))) {
		return;
	}
	l.json = atomic_load(&log_format) == QN_LOG_JSON;
	l.overflow = false;
	l.cut = false;
	l.n = 0;
	l.limit = sizeof(l.text) - LINE_TAIL;
	ts[qn_time_format(qn_now_us(), 3, ts)] = '\0';
	put_str(&l, l.json ? "{" : "");
	put_text(&l, "ts", ts);
	put_text(&l, "level", names[level]);
	put_text(&l, "event", event);
	put_text(&l, "module", module);
	put_thread(&l);
	for (size_t i = 0; i < n; i++) {
		put_pair(&l, &kv[i]);
	}
	l.limit = sizeof(l.text);
	if (dropped > 0) {
		put_pair(&l, &(struct qn_kv)QN_U("dropped", dropped));
	}
	if (l.cut) {
		put_pair(&l, &(struct qn_kv)QN_BOOL("cut", true));
	}
	put_str(&l, l.json ? "}\n" : "\n");
	/* Nothing sensible can be done when the log itself cannot be written. */
	(void)!write(atomic_load(&log_fd), l.text, l.n);
}
