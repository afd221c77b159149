/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed reading of query parameters. The first failure is kept and everything after it is skipped,
 * so a handler reads all it wants and asks once.
 */
#include "params.h"

#include <stdio.h>
#include <string.h>

bool qn_params_read(struct qn_call *c, struct qn_params *p)
{
	const char *why = NULL;

	*p = (struct qn_params){0};
	if (!qn_query_split(c->query, c->arena, &p->list, &p->count, &why)) {
		(void)snprintf(p->why, sizeof(p->why), "invalid query string: %s", why);
		return false;
	}
	return true;
}

void qn_params_fail(struct qn_params *p, const char *key, const char *why)
{
	if (p->why[0] == '\0') {
		(void)snprintf(p->why, sizeof(p->why), "invalid %s: %s", key, why);
	}
}

/** The value of a known key; twice is a failure. */
static bool find(struct qn_params *p, const char *key, struct qn_span *value)
{
	const struct qn_span name = {key, strlen(key)};
	bool found = false;

	if (p->why[0] != '\0') {
		return false;
	}
	for (unsigned i = 0; i < p->count; i++) {
		if (!qn_span_eq(p->list[i].name, name)) {
			continue;
		}
		if (found) {
			qn_params_fail(p, key, "given twice");
			return false;
		}
		*value = p->list[i].value;
		found = true;
	}
	return found;
}

void qn_params_str(struct qn_params *p, const char *key, struct qn_span *out)
{
	struct qn_span v;

	if (find(p, key, &v)) {
		*out = v;
	}
}

void qn_params_bool(struct qn_params *p, const char *key, bool *out)
{
	struct qn_span v;

	if (!find(p, key, &v)) {
		return;
	}
	if (qn_span_eq(v, QN_SPAN_LIT("true"))) {
		*out = true;
	} else if (qn_span_eq(v, QN_SPAN_LIT("false"))) {
		*out = false;
	} else {
		qn_params_fail(p, key, "expected true or false");
	}
}

void qn_params_i32(struct qn_params *p, const char *key, int32_t *out)
{
	struct qn_span v;
	int64_t n;

	if (!find(p, key, &v)) {
		return;
	}
	if (!qn_parse_i64(v, &n) || n < INT32_MIN || n > INT32_MAX) {
		qn_params_fail(p, key, "expected a whole number of 32 bits");
		return;
	}
	*out = (int32_t)n;
}

void qn_params_u64(struct qn_params *p, const char *key, uint64_t *out)
{
	struct qn_span v;
	uint64_t n;

	if (!find(p, key, &v)) {
		return;
	}
	if (!qn_parse_u64(v, &n)) {
		qn_params_fail(p, key, "expected a whole number that is not negative");
		return;
	}
	*out = n;
}
