/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UUIDs. A version 7 id here is 48 bits of milliseconds, 12 bits of a counter that starts low in each
 * millisecond, and 62 bits of which the first 20 go on counting and the rest are random per thread
 * and id. A thread whose clock stands still or steps back keeps counting in its last millisecond.
 */
#include "ident.h"

#include "../thread.h"

#include <string.h>

#define POOL_BYTES 4096

struct state {
	uint64_t ms, count; /* 32 bits of count follow the time */
	uint8_t pool[POOL_BYTES];
	size_t pool_left;
};

static _Thread_local struct state state;

static void random_bytes(uint8_t *out, size_t n)
{
	if (state.pool_left < n) {
		qn_random(state.pool, sizeof(state.pool));
		state.pool_left = sizeof(state.pool);
	}
	state.pool_left -= n;
	memcpy(out, state.pool + state.pool_left, n);
}

void qn_uuid7(struct qn_uuid *out)
{
	uint64_t now = (uint64_t)qn_now_us() / 1000;
	uint32_t c;

	if (now > state.ms) {
		uint8_t r[2];

		random_bytes(r, sizeof(r));
		state.ms = now;
		state.count = (uint64_t)(r[0] << 8 | r[1]) << 8; /* room for billions more in this millisecond */
	} else {
		state.count++;
		if (state.count >> 32 != 0) {
			state.ms++;
			state.count = 0;
		}
	}
	c = (uint32_t)state.count;
	for (int i = 0; i < 6; i++) {
		out->b[i] = (uint8_t)(state.ms >> (40 - 8 * i));
	}
	out->b[6] = (uint8_t)(0x70 | c >> 28);
	out->b[7] = (uint8_t)(c >> 20);
	random_bytes(out->b + 8, 8);
	out->b[8] = (uint8_t)(0x80 | (c >> 14 & 0x3f));
	out->b[9] = (uint8_t)(c >> 6);
	out->b[10] = (uint8_t)((c & 0x3f) << 2 | (out->b[10] & 3));
}

void qn_uuid_format(const struct qn_uuid *u, char out[QN_UUID_TEXT])
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;

	for (size_t i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10) {
			out[at++] = '-';
		}
		out[at++] = hex[u->b[i] >> 4];
		out[at++] = hex[u->b[i] & 15];
	}
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9') {
		return c - '0';
	}
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool qn_uuid_parse_loose(struct qn_span text, struct qn_uuid *out)
{
	const char *p = text.p;
	struct qn_uuid u = {{0}};
	size_t digits = 0;

	for (size_t i = 0; i < text.n; i++) {
		int v = hex_value(p[i]);

		if (p[i] == '-') {
			continue;
		}
		if (v < 0 || digits == 32) {
			return false;
		}
		u.b[digits / 2] = (uint8_t)(u.b[digits / 2] << 4 | v);
		digits++;
	}
	if (digits != 32) {
		return false;
	}
	*out = u;
	return true;
}

bool qn_uuid_parse(struct qn_span text, struct qn_uuid *out)
{
	const char *p = text.p;

	if (text.n != QN_UUID_TEXT || p[8] != '-' || p[13] != '-' || p[18] != '-' || p[23] != '-') {
		return false;
	}
	/* 32 digits in 36 characters: the other four are the dashes just seen. */
	return qn_uuid_parse_loose(text, out);
}

bool qn_uuid_is_nil(const struct qn_uuid *u)
{
	static const struct qn_uuid nil;

	return memcmp(u, &nil, sizeof(nil)) == 0;
}
