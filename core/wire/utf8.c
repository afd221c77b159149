/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 validation: ASCII in blocks of 16, everything else by the table of well-formed sequences
 * (Unicode 3.9, table 3-7).
 */
#include "text.h"

#include <string.h>

#if defined(__SSE2__) && !defined(QN_NO_SIMD)
#include <emmintrin.h>
#endif

static size_t ascii_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

#if defined(__SSE2__) && !defined(QN_NO_SIMD)
	for (; i + 16 <= n; i += 16) {
		int mask = _mm_movemask_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + i)));

		if (mask != 0) {
			return i + (size_t)__builtin_ctz((unsigned)mask);
		}
	}
#endif
	while (i < n && p[i] < 0x80) {
		i++;
	}
	return i;
}

size_t qn_utf8_sequence(const uint8_t *p, size_t n)
{
	uint8_t c = p[0], lo = 0x80, hi = 0xbf;
	size_t len;

	if (c >= 0xc2 && c <= 0xdf) {
		len = 2;
	} else if (c >= 0xe0 && c <= 0xef) {
		len = 3;
		lo = c == 0xe0 ? 0xa0 : lo;
		hi = c == 0xed ? 0x9f : hi;
	} else if (c >= 0xf0 && c <= 0xf4) {
		len = 4;
		lo = c == 0xf0 ? 0x90 : lo;
		hi = c == 0xf4 ? 0x8f : hi;
	} else {
		return 0;
	}
	if (n < len || p[1] < lo || p[1] > hi) {
		return 0;
	}
	for (size_t i = 2; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			return 0;
		}
	}
	return len;
}

bool qn_utf8_valid(struct qn_span s, size_t *chars)
{
	const uint8_t *p = s.p;
	size_t n = s.n, count = 0;

	while (n > 0) {
		size_t run = ascii_run(p, n);

		count += run;
		p += run;
		n -= run;
		if (n > 0) {
			size_t len = qn_utf8_sequence(p, n);

			if (len == 0) {
				return false;
			}
			count++;
			p += len;
			n -= len;
		}
	}
	if (chars != NULL) {
		*chars = count;
	}
	return true;
}
