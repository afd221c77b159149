/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs, hashes and base64. */
#include "wire_test.h"

#include "thread.h"
#include "wire/ident.h"

#include <pthread.h>

#define IDS     1000000
#define THREADS 4

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct qn_uuid));
}

static void ids_of_one_thread_ascend(void **state)
{
	struct qn_uuid last, next;

	(void)state;
	qn_uuid7(&last);
	for (int i = 0; i < IDS; i++) {
		qn_uuid7(&next);
		if (compare(&last, &next) >= 0) {
			fail_msg("id %d is not above the one before it", i);
		}
		assert_int_equal(next.b[6] >> 4, 7);
		assert_int_equal(next.b[8] >> 6, 2);
		last = next;
	}
}

static int64_t fake_us;

static int64_t fake_now(void)
{
	return fake_us;
}

static uint64_t ms_of(const struct qn_uuid *u)
{
	uint64_t ms = 0;

	for (int i = 0; i < 6; i++) {
		ms = ms << 8 | u->b[i];
	}
	return ms;
}

static void ids_carry_the_time_and_survive_a_clock_that_steps_back(void **state)
{
	struct qn_uuid a, b, c;

	(void)state;
	qn_clock_replace(fake_now, NULL);
	fake_us = INT64_C(4102444800123456);
	qn_uuid7(&a);
	assert_int_equal(ms_of(&a), 4102444800123);
	fake_us -= 3600 * INT64_C(1000000);
	qn_uuid7(&b);
	assert_true(compare(&a, &b) < 0);
	assert_int_equal(ms_of(&b), 4102444800123);
	fake_us += 7200 * INT64_C(1000000);
	qn_uuid7(&c);
	assert_true(compare(&b, &c) < 0);
	assert_int_equal(ms_of(&c), 4102444800123 + 3600 * 1000);
	qn_clock_replace(NULL, NULL);
}

static void *make_ids(void *arg)
{
	struct qn_uuid *ids = arg;

	for (int i = 0; i < IDS / THREADS; i++) {
		qn_uuid7(&ids[i]);
	}
	return NULL;
}

static void ids_of_threads_are_distinct(void **state)
{
	struct qn_uuid *ids = malloc(IDS * sizeof(*ids));
	pthread_t threads[THREADS];

	(void)state;
	assert_non_null(ids);
	for (int t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_create(&threads[t], NULL, make_ids, ids + t * (IDS / THREADS)), 0);
	}
	for (int t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	}
	qsort(ids, IDS, sizeof(*ids), compare);
	for (int i = 1; i < IDS; i++) {
		if (compare(&ids[i - 1], &ids[i]) == 0) {
			fail_msg("two equal ids");
		}
	}
	free(ids);
}

static void uuid_text(void **state)
{
	static const char *const strict[] = {"01234567-89ab-cdef-fedc-ba9876543210",
	                                     "01234567-89AB-CDEF-FEDC-BA9876543210"};
	static const char *const bad[] = {"",
	                                  "0123456789abcdeffedcba9876543210",
	                                  "01234567-89ab-cdef-fedc-ba987654321",
	                                  "01234567-89ab-cdef-fedc-ba98765432100",
	                                  "{01234567-89ab-cdef-fedc-ba9876543210}",
	                                  "g1234567-89ab-cdef-fedc-ba9876543210",
	                                  "0123456-789ab-cdef-fedc-ba9876543210",
	                                  "01234567-89ab-cdef-fedc-ba987654321 ",
	                                  "01234567-89ab-cdef-fedc--a9876543210",
	                                  "01234567089ab-cdef-fedc-ba987654321-"};
	struct qn_uuid u, copy;
	char out[QN_UUID_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(strict); i++) {
		assert_true(qn_uuid_parse(text(strict[i]), &u));
		qn_uuid_format(&u, out);
		assert_memory_equal(out, strict[0], QN_UUID_TEXT);
	}
	assert_true(qn_uuid_parse_loose(text("0123456789ABCDEFfedcba9876543210"), &copy));
	assert_memory_equal(&u, &copy, sizeof(u));
	assert_true(qn_uuid_parse_loose(text("-0123-456789abcdef-fedcba98765432-10--"), &copy));
	assert_memory_equal(&u, &copy, sizeof(u));
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct qn_span in = exact(bad[i], strlen(bad[i]));

		assert_false(qn_uuid_parse(in, &copy));
		assert_memory_equal(&u, &copy, sizeof(u));
		free_span(in);
	}
	assert_false(qn_uuid_parse_loose(text("0123456789abcdeffedcba987654321"), &copy));
	assert_false(qn_uuid_parse_loose(text("0123456789abcdeffedcba98765432100"), &copy));
	assert_false(qn_uuid_parse_loose(text("0123456789abcdeffedcba987654321\xff"), &copy));
	assert_false(qn_uuid_is_nil(&u));
	memset(&u, 0, sizeof(u));
	assert_true(qn_uuid_is_nil(&u));
}

static void hash_is(struct qn_span in, const char *want)
{
	uint8_t h[16];
	char hex[33];

	qn_hash128(in, h);
	for (int i = 0; i < 16; i++) {
		hex[2 * i] = "0123456789abcdef"[h[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[h[i] & 15];
	}
	hex[32] = '\0';
	assert_string_equal(hex, want);
}

static void hashes(void **state)
{
	(void)state;
	hash_is((struct qn_span){NULL, 0}, "99aa06d3014798d86001c324468d497f");
	hash_is(text(""), "99aa06d3014798d86001c324468d497f");
	hash_is(text("a"), "a96faf705af16834e6c632b61e964e1f");
	hash_is(text("abc"), "06b05ab6733a618578af5f94892f3950");
}

static void base64(void **state)
{
	static const struct {
		const char *plain, *coded;
	} pairs[] = {{"", ""},
	             {"f", "Zg=="},
	             {"fo", "Zm8="},
	             {"foo", "Zm9v"},
	             {"foob", "Zm9vYg=="},
	             {"fooba", "Zm9vYmE="},
	             {"foobar", "Zm9vYmFy"},
	             {"\xfb\xff\xfe", "+//+"}};
	static const char *const bad[] = {"Z",        "Zg",   "Zg=",  "Zg===", "====",   "Z===", "=Zg=",    "Zg==Zg==",
	                                  "Zm9v=AAA", "Zh==", "Zm9=", "Zm-_",  "Zm9v\n", " Zm9", "Zm\xff/", "A==A"};
	char coded[16];
	uint8_t plain[16];
	size_t n;

	(void)state;
	for (size_t i = 0; i < COUNT(pairs); i++) {
		size_t want = strlen(pairs[i].plain), size = strlen(pairs[i].coded);

		assert_int_equal(qn_base64_size(want), size);
		qn_base64_encode(text(pairs[i].plain), coded);
		assert_memory_equal(coded, pairs[i].coded, size);
		assert_true(qn_base64_decode(text(pairs[i].coded), plain, &n));
		assert_int_equal(n, want);
		assert_memory_equal(plain, pairs[i].plain, n);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (qn_base64_decode(text(bad[i]), plain, &n)) {
			fail_msg("accepted: %s", bad[i]);
		}
	}
	for (unsigned c = 0; c < 256; c++) {
		const char in[4] = {(char)c, 'A', 'A', 'A'};
		bool right = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
		             c == '/';

		assert_int_equal(qn_base64_decode((struct qn_span){in, 4}, plain, &n), right);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_of_one_thread_ascend),
		cmocka_unit_test(ids_of_threads_are_distinct),
		cmocka_unit_test(uuid_text),
		cmocka_unit_test(hashes),
		cmocka_unit_test(base64),
		/* Last: it leaves this thread's ids in the year 2100. */
		cmocka_unit_test(ids_carry_the_time_and_survive_a_clock_that_steps_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
