/* SPDX-License-Identifier: Apache-2.0 */
/* Whole decimal numbers, the whole text or nothing. */
#include "text.h"

bool qn_parse_u64(struct qn_span s, uint64_t *out)
{
	const char *p = s.p;
	uint64_t v = 0;
	size_t i = s.n > 1 && p[0] == '+' ? 1 : 0;

	if (s.n == 0) {
		return false;
	}
	for (; i < s.n; i++) {
		if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v)) {
			return false;
		}
	}
	*out = v;
	return true;
}

bool qn_parse_i64(struct qn_span s, int64_t *out)
{
	const char *p = s.p;
	uint64_t v;

	if (s.n > 1 && p[0] == '-' && p[1] != '+') {
		if (!qn_parse_u64((struct qn_span){p + 1, s.n - 1}, &v) || v > (uint64_t)INT64_MAX + 1) {
			return false;
		}
		*out = (int64_t)(0 - v);
		return true;
	}
	if (!qn_parse_u64(s, &v) || v > INT64_MAX) {
		return false;
	}
	*out = (int64_t)v;
	return true;
}
