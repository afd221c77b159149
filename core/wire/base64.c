/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the standard alphabet and padding (RFC 4648 section 4), strict in both directions. */
#include "ident.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t qn_base64_size(size_t n)
{
	return (n + 2) / 3 * 4;
}

void qn_base64_encode(struct qn_span in, char *out)
{
	const uint8_t *p = in.p;

	for (size_t i = 0; i < in.n; i += 3) {
		size_t left = in.n - i;
		uint32_t v = (uint32_t)p[i] << 16;

		v |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
		v |= left > 2 ? p[i + 2] : 0;
		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		*out++ = left > 1 ? alphabet[v >> 6 & 63] : '=';
		*out++ = left > 2 ? alphabet[v & 63] : '=';
	}
}

static int value_of(uint8_t c)
{
	if (c >= 'A' && c <= 'Z') {
		return c - 'A';
	}
	if (c >= 'a' && c <= 'z') {
		return c - 'a' + 26;
	}
	if (c >= '0' && c <= '9') {
		return c - '0' + 52;
	}
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool qn_base64_decode(struct qn_span in, uint8_t *out, size_t *n)
{
	const uint8_t *p = in.p;
	size_t pad = 0, at = 0;

	if (in.n % 4 != 0) {
		return false;
	}
	if (in.n > 0) {
		pad = p[in.n - 1] != '=' ? 0 : p[in.n - 2] != '=' ? 1 : 2;
	}
	for (size_t i = 0; i < in.n; i += 4) {
		size_t digits = i + 4 == in.n ? 4 - pad : 4;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = k < digits ? value_of(p[i + k]) : 0;

			if (d < 0) {
				return false;
			}
			v = v << 6 | (uint32_t)d;
		}
		for (size_t k = 0; k + 1 < digits; k++) {
			out[at++] = (uint8_t)(v >> (16 - 8 * k));
		}
		/* Bits that no byte uses must be zero, or two texts would decode to the same bytes. */
		if ((digits == 3 && (v & 0xff) != 0) || (digits == 2 && (v & 0xffff) != 0)) {
			return false;
		}
	}
	*n = at;
	return true;
}
