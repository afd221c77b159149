/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as one JSON value. Skipping and pulling must agree on what is valid; what is valid is
 * UTF-8; every string that can be read survives being written and read again. Jansson is the second
 * opinion: what it takes we must take (it refuses more: deep nesting, huge numbers, lone surrogates).
 */
#include "fuzz.h"

#include "arena.h"
#include "error.h"
#include "wire/bytes.h"
#include "wire/json_scan.h"
#include "wire/text.h"

#include <jansson.h>
#include <string.h>

#define PULL_DEPTH 64

static void again(struct qn_span s, struct qn_arena *a)
{
	struct qn_bytes b = {0};
	struct qn_span back;
	struct qn_json j;

	QN_ASSERT(qn_utf8_valid(s, NULL));
	qn_json_put_str(&b, s);
	qn_json_init(&j, (struct qn_span){b.p, b.n});
	QN_ASSERT(qn_json_string(&j, a, &back));
	QN_ASSERT(qn_json_end(&j) && qn_span_eq(s, back));
	qn_bytes_fini(&b);
}

static void pull_scalar(struct qn_json *j, struct qn_arena *a)
{
	struct qn_span s;
	int64_t v;
	bool b;

	switch (qn_json_peek(j)) {
	case QN_JSON_STRING:
		if (qn_json_string(j, a, &s)) {
			again(s, a);
		}
		break;
	case QN_JSON_NUMBER:
		(void)!qn_json_i64(j, &v);
		break;
	case QN_JSON_BOOL:
		(void)!qn_json_bool(j, &b);
		break;
	case QN_JSON_NULL:
		(void)!qn_json_null(j);
		break;
	default:
		(void)!qn_json_skip(j, &s);
		break;
	}
}

/** Reads the value level by level; whether it was read without an error. */
static bool pull(struct qn_json *j, struct qn_arena *a)
{
	bool is_object[PULL_DEPTH];
	size_t depth = 0;
	struct qn_span s;

	for (;;) {
		enum qn_json_type t = qn_json_peek(j);

		if (depth < PULL_DEPTH && (t == QN_JSON_OBJECT || t == QN_JSON_ARRAY)) {
			is_object[depth] = t == QN_JSON_OBJECT;
			QN_ASSERT(is_object[depth] ? qn_json_enter_object(j) : qn_json_enter_array(j));
			depth++;
		} else {
			pull_scalar(j, a);
		}
		while (depth > 0 && !(is_object[depth - 1] ? qn_json_next_key(j, a, &s) : qn_json_next_item(j))) {
			if (j->error != NULL) {
				return false;
			}
			depth--;
		}
		if (depth == 0 || j->error != NULL) {
			return j->error == NULL && qn_json_end(j);
		}
		if (is_object[depth - 1]) {
			again(s, a);
		}
	}
}

static bool narrower_than_json(const char *error)
{
	return strcmp(error, "integer expected") == 0 || strcmp(error, "lone surrogate in string") == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct qn_arena *a = qn_arena_create();
	struct qn_span text = {p, n}, raw;
	struct qn_json whole, level;
	json_t *other = NULL;
	char message[64];
	bool ok, pulled;

	/* Jansson takes a NUL byte behind a value for the end of the text. */
	if (n > 0 && memchr(p, '\0', n) == NULL) {
		other = json_loadb((const char *)p, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
		                   NULL);
	}
	qn_json_init(&whole, text);
	ok = qn_json_skip(&whole, &raw) && qn_json_end(&whole);
	QN_ASSERT(ok == (whole.error == NULL) && whole.at <= n);
	(void)qn_json_error(&whole, message, sizeof(message));
	QN_ASSERT(!ok || qn_utf8_valid(text, NULL));
	QN_ASSERT(ok || other == NULL);
	qn_json_init(&level, text);
	pulled = pull(&level, a);
	QN_ASSERT(pulled ? ok : (!ok || narrower_than_json(level.error)));
	json_decref(other);
	qn_arena_destroy(a);
	return 0;
}
