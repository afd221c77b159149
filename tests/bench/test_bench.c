/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator's own tests: the verifier must find what is planted, the histogram must give
 * quantiles within its bucket width, the response parser must not care how bytes are cut.
 */
#include "attempts.h"
#include "client.h"
#include "hist.h"
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void clean_run_is_clean(void **state)
{
	struct verify v;

	(void)state;
	verify_init(&v, 2);
	for (uint64_t s = 0; s < 10; s++) {
		verify_stored(&v, 1, s);
		verify_delivered(&v, 1, s);
		verify_acked(&v, 1, s);
	}
	assert_int_equal(v.duplicates + v.disorders + v.redelivered + verify_gaps(&v), 0);
	verify_fini(&v);
}

static void duplicate_after_ack_is_found(void **state)
{
	struct verify v;

	(void)state;
	verify_init(&v, 1);
	verify_stored(&v, 0, 0);
	verify_delivered(&v, 0, 0);
	verify_delivered(&v, 0, 0);
	assert_int_equal(v.redelivered, 1);
	verify_acked(&v, 0, 0);
	verify_delivered(&v, 0, 0);
	assert_int_equal(v.duplicates, 1);
	assert_int_equal(v.redelivered, 1);
	verify_fini(&v);
}

static void gap_and_disorder_are_found(void **state)
{
	struct verify v;

	(void)state;
	verify_init(&v, 1);
	verify_stored(&v, 0, 4);
	verify_delivered(&v, 0, 0);
	verify_delivered(&v, 0, 2);
	assert_int_equal(v.disorders, 1);
	assert_int_equal(verify_gaps(&v), 2);
	verify_delivered(&v, 7, 0);
	assert_int_equal(v.disorders, 2);
	verify_fini(&v);
}

static void unsettled_is_what_was_not_acked(void **state)
{
	struct verify v;

	(void)state;
	verify_init(&v, 2);
	verify_stored(&v, 1, 9);
	assert_int_equal(verify_unsettled(&v), 10);
	verify_acked(&v, 1, 6);
	assert_int_equal(verify_unsettled(&v), 3);
	verify_acked(&v, 1, 9);
	assert_int_equal(verify_unsettled(&v), 0);
	verify_fini(&v);
}

static void phantoms_and_missing_are_found(void **state)
{
	struct attempts a = {0};
	uint64_t good = attempts_add(&a), undone = attempts_add(&a), open = attempts_add(&a);

	(void)state;
	attempts_mark(&a, good, ATTEMPT_COMMITTED);
	attempts_mark(&a, undone, ATTEMPT_ROLLED_BACK);
	assert_int_equal(attempts_missing(&a), 1);
	attempts_mark(&a, good, ATTEMPT_SEEN);
	attempts_mark(&a, open, ATTEMPT_SEEN);
	assert_int_equal(attempts_missing(&a) + attempts_phantoms(&a), 0);
	attempts_mark(&a, undone, ATTEMPT_SEEN);
	assert_int_equal(attempts_phantoms(&a), 1);
	attempts_mark(&a, 77, ATTEMPT_SEEN);
	assert_int_equal(attempts_phantoms(&a), 2);
	assert_int_equal(attempts_count(&a, ATTEMPT_COMMITTED), 1);
	attempts_fini(&a);
}

static void quantiles_are_within_a_bucket(void **state)
{
	static struct hist h;

	(void)state;
	for (uint64_t us = 1; us <= 100000; us++) {
		hist_add(&h, us);
	}
	assert_in_range(hist_quantile(&h, 0.5), 50000, 50500);
	assert_in_range(hist_quantile(&h, 0.99), 99000, 100000);
	assert_int_equal(hist_quantile(&h, 1.0), 100000);
	assert_int_equal(h.total, 100000);
}

static void empty_histogram_is_zero(void **state)
{
	static struct hist h;

	(void)state;
	assert_int_equal(hist_quantile(&h, 0.5), 0);
}

/** Feeds the response a byte at a time; returns the status once it is complete. */
static int feed(const char *text, struct buffer *out, bool *close)
{
	struct h1_parse h = {0};
	struct buffer in = {0};
	int r = 0;

	for (size_t i = 0; i < strlen(text) && r == 0; i++) {
		buffer_put(&in, text + i, 1);
		r = h1_feed(&h, &in, out);
		if (r > 0) {
			assert_int_equal(i, strlen(text) - 1);
		}
	}
	buffer_fini(&in);
	*close = h.close;
	return r < 0 ? -1 : h.status;
}

static void responses_are_read(void **state)
{
	struct buffer out = {0};
	bool close;

	(void)state;
	assert_int_equal(feed("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", &out, &close), 200);
	assert_string_equal(out.p, "hello");
	assert_false(close);
	assert_int_equal(feed("HTTP/1.1 204 No Content\r\n\r\n", &out, &close), 204);
	assert_int_equal(feed("HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", &out, &close), 503);
	assert_true(close);
	assert_int_equal(feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	                      &out, &close),
	                 200);
	assert_string_equal(out.p, "abcde");
	assert_int_equal(feed("SSH-2.0-x\r\n\r\n", &out, &close), -1);
	buffer_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean_run_is_clean),
		cmocka_unit_test(duplicate_after_ack_is_found),
		cmocka_unit_test(gap_and_disorder_are_found),
		cmocka_unit_test(unsettled_is_what_was_not_acked),
		cmocka_unit_test(phantoms_and_missing_are_found),
		cmocka_unit_test(quantiles_are_within_a_bucket),
		cmocka_unit_test(empty_histogram_is_zero),
		cmocka_unit_test(responses_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
