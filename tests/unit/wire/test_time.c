/* SPDX-License-Identifier: Apache-2.0 */
/* Timestamps: formatting and reading, against the C library's calendar and at the extremes. */
#include "wire_test.h"

#include "wire/ident.h"

#include <stdio.h>
#include <time.h>

#define US INT64_C(1000000)

#define FIRST_US (INT64_C(-62135596800) * US)
#define LAST_US  (INT64_C(253402300800) * US - 1)

static void formatted(int64_t at_us, int digits, const char *want)
{
	char out[40];
	size_t n = qn_time_format(at_us, digits, out);

	assert_int_equal(n, strlen(want));
	assert_memory_equal(out, want, n);
}

static void formats(void **state)
{
	(void)state;
	formatted(0, 6, "1970-01-01T00:00:00.000000Z");
	formatted(0, 3, "1970-01-01T00:00:00.000Z");
	formatted(-1, 6, "1969-12-31T23:59:59.999999Z");
	formatted(-1, 3, "1969-12-31T23:59:59.999Z");
	formatted(1709251199999999, 6, "2024-02-29T23:59:59.999999Z");
	formatted(1709251199999999, 3, "2024-02-29T23:59:59.999Z");
	formatted(951782400123456, 6, "2000-02-29T00:00:00.123456Z");
	formatted(FIRST_US, 6, "0001-01-01T00:00:00.000000Z");
	formatted(LAST_US, 6, "9999-12-31T23:59:59.999999Z");
	formatted(FIRST_US - 1, 6, "0000-12-31T23:59:59.999999Z");
	formatted(LAST_US + 1, 3, "010000-01-01T00:00:00.000Z");
	formatted(INT64_MAX, 6, "294247-01-10T04:00:54.775807Z");
	formatted(INT64_MIN, 6, "-290308-12-21T19:59:05.224192Z");
}

/** Instants some 45 days apart through all years: as gmtime_r says, and back. */
static void agrees_with_the_c_library(void **state)
{
	(void)state;
	for (int64_t at = FIRST_US; at <= LAST_US; at += INT64_C(3880969999903)) {
		int64_t back = 0, s = at / US - (at % US < 0 ? 1 : 0);
		time_t t = (time_t)s;
		struct tm tm;
		char want[64], out[40];
		size_t n = qn_time_format(at, 6, out);

		assert_non_null(gmtime_r(&t, &tm));
		(void)snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900,
		               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(at - s * US));
		assert_int_equal(n, strlen(want));
		assert_memory_equal(out, want, n);
		assert_true(qn_time_parse((struct qn_span){out, n}, &back));
		assert_true(back == at);
	}
}

static void accepted(void **state)
{
	static const struct {
		const char *in;
		int64_t us;
	} cases[] = {
		{"1970-01-01", 0},
		{"1970-01-01T00:00", 0},
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01t00:00:01z", US},
		{"1970-01-01 00:00:01", US},
		{"1970-01-01T00:00:00.5Z", US / 2},
		{"1970-01-01T00:00:00.000001", 1},
		{"1970-01-01T00:00:00.123456789Z", 123456},
		{"1970-01-01T00:00:00.999999999999Z", 999999},
		{"1970-01-01T01:00:00+01:00", 0},
		{"1970-01-01T01:00:00+0100", 0},
		{"1970-01-01T01:00:00+01", 0},
		{"1969-12-31T14:30:00-09:30", 0},
		{"1970-01-01T01:00+01", 0},
		{"2024-02-29", INT64_C(1709164800) * US},
		{"2000-02-29T00:00:00Z", INT64_C(951782400) * US},
		{"0001-01-01T00:00:00Z", FIRST_US},
		{"9999-12-31T23:59:59.999999Z", LAST_US},
		{"1700000000", INT64_C(1700000000) * US},
		{"17000000000", INT64_C(17000000000) * US},
		{"170000000000", INT64_C(170000000000) * 1000},
		{"1700000000000", INT64_C(1700000000) * US},
		{"17000000000000", INT64_C(17000000000) * US},
		{"170000000000000", INT64_C(170000000) * US},
		{"1700000000000001", INT64_C(1700000000) * US + 1},
		{"0000000000", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct qn_span in = exact(cases[i].in, strlen(cases[i].in));
		int64_t got = -1;

		if (!qn_time_parse(in, &got) || got != cases[i].us) {
			fail_msg("%s: %lld, not %lld", cases[i].in, (long long)got, (long long)cases[i].us);
		}
		free_span(in);
	}
}

static void refused(void **state)
{
	static const char *const cases[] = {"",
	                                    "x",
	                                    "now",
	                                    "infinity",
	                                    "1970",
	                                    "1970-01",
	                                    "1970-1-1",
	                                    "1970-01-01T",
	                                    "1970-01-01T00",
	                                    "1970-01-01T00:0",
	                                    "1970-01-01T00:00:",
	                                    "1970-01-01T00:00:0",
	                                    "1970-01-01T00:00:00.",
	                                    "1970-01-01T00:00:00.Z",
	                                    "1970-01-01T00:00:00.1234567890123Z",
	                                    "1970-01-01T00:00:00Zx",
	                                    "1970-01-01T00:00:00+",
	                                    "1970-01-01T00:00:00+1",
	                                    "1970-01-01T00:00:00+01:",
	                                    "1970-01-01T00:00:00+01:0",
	                                    "1970-01-01T00:00:00+16",
	                                    "1970-01-01T00:00:00+01:60",
	                                    "1970-01-01T00:00:00 Z",
	                                    "1970-01-01T24:00:00Z",
	                                    "1970-01-01T00:60:00Z",
	                                    "1970-01-01T00:00:61Z",
	                                    "1970-13-01",
	                                    "1970-00-01",
	                                    "1970-01-00",
	                                    "1970-01-32",
	                                    "1970-04-31",
	                                    "2023-02-29",
	                                    "1900-02-29",
	                                    "2100-02-29",
	                                    "0000-01-01",
	                                    "0001-01-01T00:00:00+00:01",
	                                    "9999-12-31T23:59:59-00:01",
	                                    "10000-01-01",
	                                    "-001-01-01",
	                                    " 1970-01-01",
	                                    "1970-01-01 ",
	                                    "1970/01/01",
	                                    "99999999-01-01",
	                                    "123456789",
	                                    "17000000000000000",
	                                    "+1700000000",
	                                    "-1700000000",
	                                    "-000000000",
	                                    "+000000000",
	                                    "1700000000.5",
	                                    "170000000a"};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct qn_span in = exact(cases[i], strlen(cases[i]));
		int64_t got = 77;

		if (qn_time_parse(in, &got)) {
			fail_msg("accepted: %s", cases[i]);
		}
		assert_int_equal(got, 77);
		free_span(in);
	}
	assert_false(qn_time_parse((struct qn_span){NULL, 0}, &(int64_t){0}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats),
		cmocka_unit_test(agrees_with_the_c_library),
		cmocka_unit_test(accepted),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
