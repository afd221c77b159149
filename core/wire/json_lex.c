/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lexer under the JSON scanner: one string, number or word at a time, validated to the letter of
 * RFC 8259. Strings go in blocks of 16 bytes until a quote, a backslash, a control byte or the first
 * byte that is not ASCII.
 */
#include "json_scan.h"
#include "text.h"

#include <string.h>

#if defined(__SSE2__) && !defined(QN_NO_SIMD)
#include <emmintrin.h>
#endif

/** First byte that is a quote, a backslash, a control byte or not ASCII. */
static const uint8_t *plain_end(const uint8_t *p, const uint8_t *end)
{
#if defined(__SSE2__) && !defined(QN_NO_SIMD)
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);

	for (; end - p >= 16; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		/* Signed: bytes from 0x80 up are negative, so this finds control bytes and non-ASCII at once. */
		__m128i bad = _mm_cmplt_epi8(v, space);
		int mask;

		bad = _mm_or_si128(bad, _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
		mask = _mm_movemask_epi8(bad);
		if (mask != 0) {
			return p + __builtin_ctz((unsigned)mask);
		}
	}
#endif
	while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
		p++;
	}
	return p;
}

static bool is_hex(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *lex_escape(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *p = *at;

	if (end - p < 2) {
		*at = end;
		return "unexpected end of input";
	}
	if (p[1] == 'u') {
		for (int i = 2; i < 6; i++) {
			if (p + i >= end) {
				*at = end;
				return "unexpected end of input";
			}
			if (!is_hex(p[i])) {
				return "invalid escape";
			}
		}
		*at = p + 6;
		return NULL;
	}
	if (p[1] == '\0' || strchr("\"\\/bfnrt", p[1]) == NULL) {
		return "invalid escape";
	}
	*at = p + 2;
	return NULL;
}

/** Behind the well-formed sequences at p: text that is not ASCII rarely comes alone. */
static const uint8_t *sequences(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p >= 0x80) {
		size_t n = qn_utf8_sequence(p, (size_t)(end - p));

		if (n == 0) {
			break;
		}
		p += n;
	}
	return p;
}

const char *qn_json_lex_string(const uint8_t **at, const uint8_t *end, bool *escaped)
{
	const uint8_t *p = *at + 1;

	*escaped = false;
	for (;;) {
		p = plain_end(p, end);
		*at = p;
		if (p == end) {
			return "unexpected end of input";
		}
		if (*p == '"') {
			*at = p + 1;
			return NULL;
		}
		if (*p == '\\') {
			const char *e = lex_escape(at, end);

			if (e != NULL) {
				return e;
			}
			*escaped = true;
			p = *at;
		} else if (*p < 0x20) {
			return "control character in string";
		} else {
			p = sequences(p, end);
			if (p < end && *p >= 0x80) {
				*at = p;
				return "invalid UTF-8";
			}
		}
	}
}

static const uint8_t *digits(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p >= '0' && *p <= '9') {
		p++;
	}
	return p;
}

static const char *lex_number(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *p = *at, *from;

	p += *p == '-' ? 1 : 0;
	from = p;
	p = digits(p, end);
	if (p == from || (*from == '0' && p - from > 1)) {
		return "invalid number";
	}
	if (p < end && *p == '.') {
		from = p + 1;
		p = digits(from, end);
		if (p == from) {
			return "invalid number";
		}
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p += p < end && (*p == '+' || *p == '-') ? 1 : 0;
		from = p;
		p = digits(from, end);
		if (p == from) {
			return "invalid number";
		}
	}
	*at = p;
	return NULL;
}

static const char *lex_word(const uint8_t **at, const uint8_t *end, const char *word, size_t n)
{
	if ((size_t)(end - *at) < n || memcmp(*at, word, n) != 0) {
		return "invalid value";
	}
	*at += n;
	return NULL;
}

const char *qn_json_lex_scalar(const uint8_t **at, const uint8_t *end)
{
	if (*at == end) {
		return "unexpected end of input";
	}
	switch (**at) {
	case 't':
		return lex_word(at, end, "true", 4);
	case 'f':
		return lex_word(at, end, "false", 5);
	case 'n':
		return lex_word(at, end, "null", 4);
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		return lex_number(at, end);
	default:
		return "invalid value";
	}
}
