/* SPDX-License-Identifier: Apache-2.0 */
/* The rules for names, the same on every route: length, UTF-8, no control characters. */
#include "text.h"

static bool has_control(struct qn_span s)
{
	const uint8_t *p = s.p;

	for (size_t i = 0; i < s.n; i++) {
		if (p[i] < 0x20 || p[i] == 0x7f) {
			return true;
		}
	}
	return false;
}

static const char *common(struct qn_span s, size_t *chars)
{
	if (!qn_utf8_valid(s, chars)) {
		return "not valid UTF-8";
	}
	return has_control(s) ? "control characters are not allowed" : NULL;
}

static const char *characters(struct qn_span s, size_t min)
{
	size_t chars;
	const char *why = common(s, &chars);

	if (why != NULL) {
		return why;
	}
	if (chars < min) {
		return "must not be empty";
	}
	return chars > 255 ? "longer than 255 characters" : NULL;
}

const char *qn_name_queue(struct qn_span s)
{
	return characters(s, 0);
}

const char *qn_name_group(struct qn_span s)
{
	return characters(s, 1);
}

const char *qn_name_label(struct qn_span s)
{
	return characters(s, 0);
}

const char *qn_name_partition(struct qn_span s)
{
	return s.n > 2048 ? "longer than 2048 bytes" : common(s, NULL);
}

const char *qn_name_transaction(struct qn_span s)
{
	return s.n > 65535 ? "longer than 65535 bytes" : common(s, NULL);
}
