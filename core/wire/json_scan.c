/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pull side of the JSON scanner: typed values and one level of container at a time, in place.
 * Whole values are passed over by json_skip.c, tokens read by json_lex.c.
 */
#include "json_scan.h"

#include "text.h"

#include "../arena.h"

#include <stdio.h>
#include <string.h>

static void skip_space(struct qn_json *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t')) {
		j->p++;
	}
}

void qn_json_init(struct qn_json *j, struct qn_span text)
{
	*j = (struct qn_json){.start = text.p};
	if (j->start == NULL) {
		j->start = (const uint8_t *)"";
	}
	j->p = j->start;
	j->end = j->start + text.n;
}

bool qn_json_fail(struct qn_json *j, const char *text)
{
	if (j->error == NULL) {
		j->error = text;
		j->at = (size_t)(j->p - j->start);
	}
	return false;
}

const char *qn_json_error(const struct qn_json *j, char *out, size_t n)
{
	size_t line = 1, column = 1;

	for (size_t i = 0; i < j->at && j->start + i < j->end; i++) {
		column++;
		if (j->start[i] == '\n') {
			line++;
			column = 1;
		}
	}
	(void)snprintf(out, n, "%s at line %zu column %zu", j->error == NULL ? "no error" : j->error, line, column);
	return out;
}

enum qn_json_type qn_json_peek(struct qn_json *j)
{
	if (j->error != NULL) {
		return QN_JSON_ERROR;
	}
	skip_space(j);
	if (j->p == j->end) {
		(void)qn_json_fail(j, "unexpected end of input");
		return QN_JSON_ERROR;
	}
	switch (*j->p) {
	case '{':
		return QN_JSON_OBJECT;
	case '[':
		return QN_JSON_ARRAY;
	case '"':
		return QN_JSON_STRING;
	case 't':
	case 'f':
		return QN_JSON_BOOL;
	case 'n':
		return QN_JSON_NULL;
	default:
		if (*j->p == '-' || (*j->p >= '0' && *j->p <= '9')) {
			return QN_JSON_NUMBER;
		}
		(void)qn_json_fail(j, "invalid value");
		return QN_JSON_ERROR;
	}
}

/** The scalar that comes next, of the wanted type. */
static bool scalar(struct qn_json *j, enum qn_json_type type, const char *complaint, struct qn_span *out)
{
	const uint8_t *from;
	const char *e;

	if (qn_json_peek(j) != type) {
		return qn_json_fail(j, complaint);
	}
	from = j->p;
	e = qn_json_lex_scalar(&j->p, j->end);
	if (e != NULL) {
		return qn_json_fail(j, e);
	}
	*out = (struct qn_span){from, (size_t)(j->p - from)};
	return true;
}

bool qn_json_bool(struct qn_json *j, bool *out)
{
	struct qn_span text;

	if (!scalar(j, QN_JSON_BOOL, "boolean expected", &text)) {
		return false;
	}
	*out = *(const char *)text.p == 't';
	return true;
}

bool qn_json_null(struct qn_json *j)
{
	struct qn_span text;

	return scalar(j, QN_JSON_NULL, "null expected", &text);
}

bool qn_json_i64(struct qn_json *j, int64_t *out)
{
	struct qn_span text;

	if (!scalar(j, QN_JSON_NUMBER, "integer expected", &text)) {
		return false;
	}
	if (!qn_parse_i64(text, out)) {
		j->p -= text.n;
		return qn_json_fail(j, "integer expected");
	}
	return true;
}

static unsigned hex4(const uint8_t *p)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++) {
		unsigned c = p[i];

		v = v << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return v;
}

static uint8_t *put_code_point(uint8_t *out, unsigned c)
{
	if (c < 0x80) {
		*out++ = (uint8_t)c;
	} else if (c < 0x800) {
		*out++ = (uint8_t)(0xc0 | c >> 6);
		*out++ = (uint8_t)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*out++ = (uint8_t)(0xe0 | c >> 12);
		*out++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		*out++ = (uint8_t)(0x80 | (c & 0x3f));
	} else {
		*out++ = (uint8_t)(0xf0 | c >> 18);
		*out++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
		*out++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		*out++ = (uint8_t)(0x80 | (c & 0x3f));
	}
	return out;
}

/** One \uXXXX, or a pair of them; NULL for a lone surrogate. The text was validated. */
static const uint8_t *unescape_u(const uint8_t *p, const uint8_t *end, uint8_t **out)
{
	unsigned c = hex4(p + 2), low;

	p += 6;
	if (c >= 0xdc00 && c <= 0xdfff) {
		return NULL;
	}
	if (c >= 0xd800 && c <= 0xdbff) {
		if (end - p < 6 || p[0] != '\\' || p[1] != 'u') {
			return NULL;
		}
		low = hex4(p + 2);
		if (low < 0xdc00 || low > 0xdfff) {
			return NULL;
		}
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}
	*out = put_code_point(*out, c);
	return p;
}

static bool unescape(struct qn_json *j, struct qn_arena *a, struct qn_span in, struct qn_span *out)
{
	const uint8_t *p = in.p, *end = p + in.n;
	uint8_t *start = qn_arena_try_alloc(a, in.n), *to = start;

	if (start == NULL) {
		return qn_json_fail(j, "out of memory");
	}
	while (p < end) {
		static const char from[] = "bfnrt", into[] = "\b\f\n\r\t";
		const uint8_t *next = memchr(p, '\\', (size_t)(end - p));
		const char *named;

		next = next == NULL ? end : next;
		memcpy(to, p, (size_t)(next - p));
		to += next - p;
		p = next;
		if (p == end) {
			break;
		}
		if (p[1] == 'u') {
			p = unescape_u(p, end, &to);
			if (p == NULL) {
				return qn_json_fail(j, "lone surrogate in string");
			}
			continue;
		}
		named = strchr(from, p[1]);
		*to++ = named == NULL ? p[1] : (uint8_t)into[named - from];
		p += 2;
	}
	*out = (struct qn_span){start, (size_t)(to - start)};
	return true;
}

bool qn_json_string(struct qn_json *j, struct qn_arena *a, struct qn_span *out)
{
	const uint8_t *from;
	bool escaped;
	const char *e;

	if (qn_json_peek(j) != QN_JSON_STRING) {
		return qn_json_fail(j, "string expected");
	}
	from = j->p + 1;
	e = qn_json_lex_string(&j->p, j->end, &escaped);
	if (e != NULL) {
		return qn_json_fail(j, e);
	}
	*out = (struct qn_span){from, (size_t)(j->p - 1 - from)};
	return !escaped || unescape(j, a, *out, out);
}

static bool enter(struct qn_json *j, enum qn_json_type type, const char *complaint)
{
	if (qn_json_peek(j) != type) {
		return qn_json_fail(j, complaint);
	}
	j->p++;
	j->first = true;
	return true;
}

bool qn_json_enter_object(struct qn_json *j)
{
	return enter(j, QN_JSON_OBJECT, "object expected");
}

bool qn_json_enter_array(struct qn_json *j)
{
	return enter(j, QN_JSON_ARRAY, "array expected");
}

/** True when another element follows; at the end the container is left. */
static bool next(struct qn_json *j, uint8_t close, const char *complaint)
{
	bool first = j->first;

	j->first = false;
	if (j->error != NULL) {
		return false;
	}
	skip_space(j);
	if (j->p == j->end) {
		return qn_json_fail(j, "unexpected end of input");
	}
	if (*j->p == close) {
		j->p++;
		return false;
	}
	if (first) {
		return true;
	}
	if (*j->p != ',') {
		return qn_json_fail(j, complaint);
	}
	j->p++;
	return true;
}

bool qn_json_next_key(struct qn_json *j, struct qn_arena *a, struct qn_span *key)
{
	if (!next(j, '}', "expected `,` or `}`")) {
		return false;
	}
	skip_space(j);
	if (j->p < j->end && *j->p != '"') {
		return qn_json_fail(j, "key must be a string");
	}
	if (!qn_json_string(j, a, key)) {
		return false;
	}
	skip_space(j);
	if (j->p == j->end) {
		return qn_json_fail(j, "unexpected end of input");
	}
	if (*j->p != ':') {
		return qn_json_fail(j, "expected `:`");
	}
	j->p++;
	return true;
}

bool qn_json_next_item(struct qn_json *j)
{
	return next(j, ']', "expected `,` or `]`");
}

bool qn_json_end(struct qn_json *j)
{
	if (j->error != NULL) {
		return false;
	}
	skip_space(j);
	return j->p == j->end || qn_json_fail(j, "trailing text");
}
