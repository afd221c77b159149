/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and rows as bytes: what is sent, and that no answer makes the reader leave its bounds. */
#include "fake_host.h"
#include "params.h"
#include "rows.h"

#include <string.h>

static struct qn_span span(const char *text)
{
	return (struct qn_span){text, strlen(text)};
}

static void scalars_and_nulls(void **state)
{
	(void)state;
	struct qn_pg_params p;
	struct qn_error e = {0};
	qn_pg_params_init(&p, &fake_host);
	qn_pg_put_int4(&p, -2);
	qn_pg_put_null(&p, QN_PG_TEXT);
	qn_pg_put_int8(&p, INT64_C(0x0102030405060708));
	qn_pg_put_text(&p, span(""));
	qn_pg_put_bool(&p, true);
	qn_pg_put_bytea(&p, span("ab"));
	qn_pg_more(&p, "cd", 2);
	assert_int_equal(qn_pg_params_finish(&p, &e), QN_OK);
	assert_int_equal(p.count, 6);
	assert_int_equal(p.lengths[0], 4);
	assert_memory_equal(p.values[0], "\xff\xff\xff\xfe", 4);
	assert_null(p.values[1]);
	assert_int_equal(p.lengths[2], 8);
	assert_memory_equal(p.values[2], "\1\2\3\4\5\6\7\10", 8);
	assert_non_null(p.values[3]);
	assert_int_equal(p.lengths[3], 0);
	assert_int_equal(p.lengths[4], 1);
	assert_int_equal(p.lengths[5], 4);
	assert_memory_equal(p.values[5], "abcd", 4);
	qn_pg_params_fini(&p);
}

static void array_bytes(void **state)
{
	(void)state;
	static const struct qn_uuid nil;
	static const char want[] = "\0\0\0\1\0\0\0\1\0\0\x0b\x86\0\0\0\2\0\0\0\1"
				   "\0\0\0\20AAAAAAAAAAAAAAAA\xff\xff\xff\xff";
	struct qn_pg_params p;
	struct qn_uuid u;
	memset(u.b, 'A', sizeof(u.b));
	qn_pg_params_init(&p, &fake_host);
	qn_pg_array(&p, QN_PG_UUIDS, 2);
	qn_pg_elem_uuid(&p, &u);
	qn_pg_elem_uuid(&p, &nil);
	qn_pg_array(&p, QN_PG_INT4S, 0);
	assert_int_equal(qn_pg_params_finish(&p, NULL), QN_OK);
	assert_int_equal(p.lengths[0], sizeof(want) - 1);
	assert_memory_equal(p.values[0], want, sizeof(want) - 1);
	assert_int_equal(p.lengths[1], 12);
	assert_memory_equal(p.values[1], "\0\0\0\0\0\0\0\0\0\0\0\27", 12);
	qn_pg_params_fini(&p);
}

static void wrong_use_and_size_fail_at_the_end(void **state)
{
	(void)state;
	struct qn_pg_params p;
	struct qn_error e = {0};
	qn_pg_params_init(&p, &fake_host);
	qn_pg_array(&p, QN_PG_INT4S, 2);
	qn_pg_elem_int4(&p, 1);
	assert_int_equal(qn_pg_params_finish(&p, &e), QN_TOO_BIG);
	qn_pg_params_fini(&p);
	qn_pg_params_init(&p, &fake_host);
	qn_pg_put_bytea(&p, (struct qn_span){"", QN_PG_PARAMS_MAX + 1});
	assert_int_equal(qn_pg_params_finish(&p, NULL), QN_TOO_BIG);
	qn_pg_params_fini(&p);
}

/* One row, one binary column of the type with these bytes. */
static PGresult *result(unsigned type, const char *bytes, int n)
{
	PGresult *res = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	char name[] = "c";
	PGresAttDesc column = {.name = name, .format = 1, .typid = type, .typlen = -1, .atttypmod = -1};
	assert_int_equal(PQsetResultAttrs(res, 1, &column), 1);
	/* A copy of exactly n bytes lets the sanitizer see a read too far. */
	char *copy = n > 0 ? fake_host.alloc((size_t)n) : NULL;
	if (n > 0) {
		memcpy(copy, bytes, (size_t)n);
	}
	assert_int_equal(PQsetvalue(res, 0, 0, copy, n), 1);
	fake_host.free(copy);
	return res;
}

static void values_are_read(void **state)
{
	(void)state;
	struct qn_pg_rows r;
	PGresult *res = result(QN_PG_INT8, "\xff\xff\xff\xff\xff\xff\xff\xfd", 8);
	qn_pg_rows_init(&r, res, 1);
	assert_int_equal(qn_pg_int8(&r, 0, 0), -3);
	assert_int_equal(qn_pg_rows_check(&r, &fake_host, "t", NULL), QN_OK);
	PQclear(res);
	res = result(QN_PG_INT4, NULL, -1);
	qn_pg_rows_init(&r, res, 1);
	assert_int_equal(qn_pg_int4_or(&r, 0, 0, 7), 7);
	assert_int_equal(qn_pg_rows_check(&r, &fake_host, "t", NULL), QN_OK);
	assert_int_equal(qn_pg_int4(&r, 0, 0), 0);
	assert_int_equal(qn_pg_rows_check(&r, &fake_host, "t", NULL), QN_INTERNAL);
	PQclear(res);
}

static void deviations_are_told(void **state)
{
	(void)state;
	struct qn_pg_rows r;
	PGresult *res = result(QN_PG_INT8, "abc", 3);
	qn_pg_rows_init(&r, res, 1);
	assert_int_equal(qn_pg_int8(&r, 0, 0), 0);
	assert_string_equal(r.bad, "another size");
	qn_pg_rows_init(&r, res, 1);
	(void)qn_pg_int4(&r, 0, 0);
	assert_string_equal(r.bad, "another type");
	qn_pg_rows_init(&r, res, 2);
	assert_string_equal(r.bad, "too few columns");
	PQclear(res);
}

static const char two_ints[] = "\0\0\0\1\0\0\0\0\0\0\0\27\0\0\0\2\0\0\0\1\0\0\0\4\0\0\0\5\0\0\0\4\0\0\0\6";

static void lists_are_read(void **state)
{
	(void)state;
	struct qn_pg_rows r;
	struct qn_span s;
	PGresult *res = result(QN_PG_INT4S, two_ints, sizeof(two_ints) - 1);
	qn_pg_rows_init(&r, res, 1);
	struct qn_pg_list l = qn_pg_list_of(&r, 0, 0, QN_PG_INT4);
	assert_int_equal(l.n, 2);
	assert_true(qn_pg_list_next(&l, &s));
	assert_int_equal(qn_pg_span_int4(s), 5);
	assert_true(qn_pg_list_next(&l, &s));
	assert_int_equal(qn_pg_span_int4(s), 6);
	assert_false(qn_pg_list_next(&l, &s));
	PQclear(res);
}

/* Every prefix and every changed byte: whatever happens, nothing is read outside (ASan watches). */
static void damaged_lists_stay_in_bounds(void **state)
{
	(void)state;
	for (int n = 0; n < (int)sizeof(two_ints) - 1; n++) {
		char bytes[sizeof(two_ints)];
		for (int change = 0; change < 3; change++) {
			memcpy(bytes, two_ints, sizeof(bytes));
			bytes[n] = change == 0 ? bytes[n] : change == 1 ? '\xff' : '\x7f';
			PGresult *res = result(QN_PG_INT4S, bytes, change == 0 ? n : (int)sizeof(two_ints) - 1);
			struct qn_pg_rows r;
			struct qn_span s;
			uint32_t read = 0;
			qn_pg_rows_init(&r, res, 1);
			struct qn_pg_list l = qn_pg_list_of(&r, 0, 0, QN_PG_INT4);
			while (qn_pg_list_next(&l, &s)) {
				read++;
			}
			assert_true(read <= 2);
			assert_true(change != 0 || read < 2 || r.bad != NULL);
			PQclear(res);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars_and_nulls),
		cmocka_unit_test(array_bytes),
		cmocka_unit_test(wrong_use_and_size_fail_at_the_end),
		cmocka_unit_test(values_are_read),
		cmocka_unit_test(deviations_are_told),
		cmocka_unit_test(lists_are_read),
		cmocka_unit_test(damaged_lists_stay_in_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
