/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One option value: from its text to the typed field.
 *
 * Numbers are whole but for FLOAT, which must be finite; a unit is one of the suffixes of its type,
 * directly behind the number or after spaces, or the row's own when there is none. Overflow counts
 * as out of bounds. Messages name the value but never that of a secret.
 */
#include "option.h"

#include "error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit durations[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const struct unit sizes[] = {
	{"B", 1}, {"KiB", INT64_C(1) << 10}, {"MiB", INT64_C(1) << 20}, {"GiB", INT64_C(1) << 30}, {NULL, 0}};

bool qn_option_bool(const char *text, bool *out)
{
	static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2 == 1;
			return true;
		}
	}
	return false;
}

static int64_t factor_of(const struct unit *units, const char *name)
{
	for (; units->name != NULL; units++) {
		if (strcasecmp(units->name, name) == 0) {
			return units->factor;
		}
	}
	return 0;
}

static int check_bounds(const struct qn_option *o, const char *text, int64_t v, struct qn_error *e)
{
	if (o->min == 0 && o->max == 0) {
		return QN_OK;
	}
	if (v < o->min) {
		return QN_FAIL(e, QN_INVALID, "%s is below the minimum %" PRId64, text, o->min);
	}
	if (v > o->max) {
		return QN_FAIL(e, QN_INVALID, "%s is above the maximum %" PRId64, text, o->max);
	}
	return QN_OK;
}

static int parse_whole(const struct qn_option *o, const char *text, int64_t *out, struct qn_error *e)
{
	const struct unit *units = o->type == QN_OPT_DURATION ? durations : o->type == QN_OPT_BYTES ? sizes : NULL;
	int64_t factor = 1;
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || text[0] == ' ') {
		return QN_FAIL(e, QN_INVALID, "\"%s\" is not a whole number%s", text,
		               units != NULL ? " with a unit" : "");
	}
	while (*end == ' ') {
		end++;
	}
	if (units != NULL) {
		factor = factor_of(units, *end != '\0' ? end : o->unit != NULL ? o->unit : units[0].name);
		if (factor == 0) {
			return QN_FAIL(e, QN_INVALID, "\"%s\": unit is none of %s", text,
			               units == durations ? "ms s m h d" : "B KiB MiB GiB");
		}
	} else if (*end != '\0') {
		return QN_FAIL(e, QN_INVALID, "\"%s\" is not a whole number", text);
	}
	if (errno == ERANGE || __builtin_mul_overflow((int64_t)v, factor, &v)) {
		return QN_FAIL(e, QN_INVALID, "%s is out of range", text);
	}
	*out = v;
	return check_bounds(o, text, v, e);
}

static int parse_float(const struct qn_option *o, const char *text, double *out, struct qn_error *e)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end != '\0' || !isfinite(v) || fabs(v) > 9e18) {
		return QN_FAIL(e, QN_INVALID, "\"%s\" is not a number", text);
	}
	*out = v;
	return check_bounds(o, text, (int64_t)v, e);
}

static int parse_enum(const struct qn_option *o, const char *text, int *out, struct qn_error *e)
{
	const char *near;

	for (int i = 0; o->choices[i] != NULL; i++) {
		if (strcasecmp(o->choices[i], text) == 0) {
			*out = i;
			return QN_OK;
		}
	}
	near = qn_conf_nearest(text, o->choices);
	if (near != NULL) {
		return QN_FAIL(e, QN_INVALID, "\"%s\" is not a choice, did you mean %s?", text, near);
	}
	return QN_FAIL(e, QN_INVALID, "\"%s\" is not a choice, the first is %s", text, o->choices[0]);
}

int qn_option_parse(const struct qn_option *o, const char *text, void *out, struct qn_error *e)
{
	void *field = (char *)out + o->offset;

	switch ((enum qn_option_type)o->type) {
	case QN_OPT_STR:
	case QN_OPT_SECRET:
		if (text[0] == '\0' && (o->flags & QN_OPT_REQUIRED) != 0) {
			return QN_FAIL(e, QN_INVALID, "a value is required");
		}
		*(const char **)field = text;
		return QN_OK;
	case QN_OPT_BOOL:
		if (!qn_option_bool(text, field)) {
			return QN_FAIL(e, QN_INVALID,
			               "\"%s\" is not a boolean (expected true/false, 1/0, yes/no, on/off)", text);
		}
		return QN_OK;
	case QN_OPT_INT:
	case QN_OPT_DURATION:
	case QN_OPT_BYTES:
		return parse_whole(o, text, field, e);
	case QN_OPT_FLOAT:
		return parse_float(o, text, field, e);
	case QN_OPT_ENUM:
		return parse_enum(o, text, field, e);
	}
	return QN_FAIL(e, QN_ABI, "option type %u is unknown", o->type);
}

const char *qn_option_env(const char *names, struct qn_arena *a, const char **name)
{
	while (*names != '\0') {
		size_t n = strcspn(names, "|");
		const char *one = qn_arena_dup(a, (struct qn_span){names, n}).p;
		const char *value = getenv(one);

		if (value != NULL && value[strspn(value, " \t")] != '\0') {
			size_t skip = strspn(value, " \t"), len = strlen(value + skip);

			while (value[skip + len - 1] == ' ' || value[skip + len - 1] == '\t') {
				len--;
			}
			*name = one;
			return qn_arena_dup(a, (struct qn_span){value + skip, len}).p;
		}
		names += names[n] == '|' ? n + 1 : n;
	}
	return NULL;
}

bool qn_option_same(const struct qn_option *o, const void *a, const void *b)
{
	const char *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;

	switch ((enum qn_option_type)o->type) {
	case QN_OPT_STR:
	case QN_OPT_SECRET:
		return strcmp(*(const char *const *)(const void *)x, *(const char *const *)(const void *)y) == 0;
	case QN_OPT_BOOL:
		return *(const bool *)x == *(const bool *)y;
	case QN_OPT_ENUM:
		return memcmp(x, y, sizeof(int)) == 0;
	case QN_OPT_INT:
	case QN_OPT_FLOAT:
	case QN_OPT_DURATION:
	case QN_OPT_BYTES:
		break;
	}
	return memcmp(x, y, sizeof(int64_t)) == 0;
}
