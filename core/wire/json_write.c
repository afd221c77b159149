/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON. Strings are copied in runs between the bytes that must be escaped: the quote, the
 * backslash and everything below 0x20.
 */
#include "bytes.h"
#include "ident.h"

#include <string.h>

#if defined(__SSE2__) && !defined(QN_NO_SIMD)
#include <emmintrin.h>
#endif

/** Length of the prefix that needs no escape. */
static size_t plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

#if defined(__SSE2__) && !defined(QN_NO_SIMD)
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), last = _mm_set1_epi8(0x1f);

	for (; i + 16 <= n; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
		__m128i low = _mm_cmpeq_epi8(_mm_max_epu8(v, last), last);
		__m128i bad = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
		int mask;

		mask = _mm_movemask_epi8(_mm_or_si128(bad, low));
		if (mask != 0) {
			return i + (size_t)__builtin_ctz((unsigned)mask);
		}
	}
#endif
	while (i < n && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\') {
		i++;
	}
	return i;
}

static void put_escape(struct qn_bytes *b, uint8_t c)
{
	static const char hex[] = "0123456789abcdef";
	static const char *const named[0x20] = {
		['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
	char text[6] = {'\\', 'u', '0', '0', 0, 0};

	if (c == '"' || c == '\\') {
		const char two[2] = {'\\', (char)c};

		qn_bytes_put(b, two, 2);
	} else if (named[c] != NULL) {
		qn_bytes_put(b, named[c], 2);
	} else {
		text[4] = hex[c >> 4];
		text[5] = hex[c & 15];
		qn_bytes_put(b, text, sizeof(text));
	}
}

void qn_json_put_str(struct qn_bytes *b, struct qn_span s)
{
	const uint8_t *p = s.p;
	size_t left = s.n;

	QN_PUT_LIT(b, "\"");
	while (left > 0) {
		size_t run = plain_run(p, left);

		qn_bytes_put(b, p, run);
		p += run;
		left -= run;
		if (left > 0) {
			put_escape(b, *p);
			p++;
			left--;
		}
	}
	QN_PUT_LIT(b, "\"");
}

void qn_json_put_cstr(struct qn_bytes *b, const char *s)
{
	qn_json_put_str(b, (struct qn_span){s, strlen(s)});
}

void qn_json_put_i64(struct qn_bytes *b, int64_t v)
{
	char text[24];
	size_t at = sizeof(text);
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	do {
		at--;
		text[at] = (char)('0' + u % 10);
		u /= 10;
	} while (u > 0);
	if (v < 0) {
		at--;
		text[at] = '-';
	}
	qn_bytes_put(b, text + at, sizeof(text) - at);
}

void qn_json_put_bool(struct qn_bytes *b, bool v)
{
	if (v) {
		QN_PUT_LIT(b, "true");
	} else {
		QN_PUT_LIT(b, "false");
	}
}

void qn_json_put_uuid(struct qn_bytes *b, const struct qn_uuid *u)
{
	char text[QN_UUID_TEXT + 2];

	text[0] = '"';
	qn_uuid_format(u, text + 1);
	text[QN_UUID_TEXT + 1] = '"';
	qn_bytes_put(b, text, sizeof(text));
}

static void put_time(struct qn_bytes *b, int64_t at_us, int digits)
{
	char text[48];
	size_t n = qn_time_format(at_us, digits, text + 1);

	text[0] = '"';
	text[n + 1] = '"';
	qn_bytes_put(b, text, n + 2);
}

void qn_json_put_time_us(struct qn_bytes *b, int64_t at_us)
{
	put_time(b, at_us, 6);
}

void qn_json_put_time_ms(struct qn_bytes *b, int64_t at_us)
{
	put_time(b, at_us, 3);
}
