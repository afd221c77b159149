/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the contract suite cannot know: the envelope's spelling, a published vector, keys that are
 * malformed or old, many threads at once, and what a message costs (printed, never asserted).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arena.h"
#include "module.h"
#include "thread.h"
#include "wire/ident.h"

#include <pthread.h>
#include <qn/abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"
#define KEY_B "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* AES-256, 96-bit IV, all zero, 16 bytes of plaintext: test case 14 of the GCM specification. */
#define VECTOR                                                                            \
	"{\"encrypted\":\"zqdAPU1ga24HTsXTuvOdGA==\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAAA==\"" \
	",\"authTag\":\"0NHIp5mZa/AmW5i11Iq5GQ==\"}"

extern const struct qn_module *qn_module_entry(void);

struct options {
	const char *key, *old_keys;
};

static const struct qn_encryption_vt *vt;

static int provide(struct qn_mod *m, const char *kind, struct qn_service s, struct qn_error *e)
{
	(void)m, (void)e;
	assert_string_equal(kind, "encryption");
	vt = (const struct qn_encryption_vt *)(const void *)s.vt;
	return QN_OK;
}

static int try_up(const char *key, const char *old_keys, void **self, struct qn_error *e)
{
	static struct qn_host host;
	const struct qn_module *m = qn_module_entry();
	const struct options o = {key, old_keys};

	host = qn_host;
	host.provide = provide;
	assert_int_equal(m->load(NULL, &host, self, e), QN_OK);
	return m->start(*self, &o, e);
}

static void *up(const char *key, const char *old_keys)
{
	void *self;

	assert_int_equal(try_up(key, old_keys, &self, NULL), QN_OK);
	return self;
}

static void down(void *self)
{
	qn_module_entry()->stop(self);
	qn_module_entry()->unload(self);
}

static struct qn_span span(const char *text)
{
	return (struct qn_span){text, strlen(text)};
}

static void an_envelope_has_one_spelling(void **state)
{
	struct qn_arena *a = qn_arena_create();
	void *self = up(KEY_A, "");

	(void)state;
	for (size_t n = 0; n < 5; n++) {
		const size_t chars[] = {0, 4, 4, 4, 8};
		struct qn_span out;
		const char *p;

		assert_int_equal(vt->seal(self, a, (struct qn_span){"12345", n}, &out, NULL), QN_OK);
		p = out.p;
		assert_int_equal(out.n, 85 + chars[n]);
		assert_memory_equal(p, "{\"encrypted\":\"", 14);
		assert_memory_equal(p + 14 + chars[n], "\",\"iv\":\"", 8);
		assert_memory_equal(p + 14 + chars[n] + 8 + 22, "==\",\"authTag\":\"", 15);
		assert_memory_equal(p + out.n - 4, "==\"}", 4);
	}
	down(self);
	qn_arena_destroy(a);
}

static void a_published_vector_opens(void **state)
{
	static const uint8_t zeros[16];
	struct qn_arena *a = qn_arena_create();
	void *self = up(ZEROS, "");
	struct qn_span out;

	(void)state;
	assert_int_equal(vt->open(self, a, span(VECTOR), &out, NULL), QN_OK);
	assert_int_equal(out.n, 16);
	assert_memory_equal(out.p, zeros, 16);
	down(self);
	qn_arena_destroy(a);
}

static void every_size_around_a_step_comes_back(void **state)
{
	static const size_t sizes[] = {1, 2, 3, 3071, 3072, 3073, 3074, 3075, 6143, 6144, 6145, 1000000};
	struct qn_arena *a = qn_arena_create();
	void *self = up(KEY_A, "");
	uint8_t *plain = malloc(1000000);

	(void)state;
	assert_non_null(plain);
	qn_random(plain, 1000000);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct qn_span sealed, out;

		assert_int_equal(vt->seal(self, a, (struct qn_span){plain, sizes[i]}, &sealed, NULL), QN_OK);
		assert_int_equal(vt->open(self, a, sealed, &out, NULL), QN_OK);
		assert_int_equal(out.n, sizes[i]);
		assert_memory_equal(out.p, plain, sizes[i]);
	}
	free(plain);
	down(self);
	qn_arena_destroy(a);
}

static void other_spellings_are_plain_payloads(void **state)
{
	static const char *const texts[] = {
		"{\"encrypted\":\"\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAAAAA\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"encrypted\":\"\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAA===\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"encrypted\":\"\",\"iv\":\"AAAAAAAAAA*AAAAAAAAAAA==\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"encrypted\":\"abc\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAAA==\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"iv\":\"AAAAAAAAAAAAAAAAAAAAAA==\",\"encrypted\":\"\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"encrypted\": \"\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAAA==\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"}",
		"{\"encrypted\":\"\",\"iv\":\"AAAAAAAAAAAAAAAAAAAAAA==\",\"authTag\":\"AAAAAAAAAAAAAAAAAAAAAA==\"} ",
	};
	void *self = up(ZEROS, "");

	(void)state;
	assert_true(vt->is_sealed(self, span(VECTOR)));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_false(vt->is_sealed(self, span(texts[i])));
	}
	down(self);
}

static void old_keys_open_and_never_seal(void **state)
{
	struct qn_arena *a = qn_arena_create();
	void *before = up(KEY_A, ""), *after, *reader;
	struct qn_span sealed, mine, out;
	struct qn_error e = {0};

	(void)state;
	assert_int_equal(vt->seal(before, a, span("[1]"), &sealed, NULL), QN_OK);
	after = up(KEY_B, " " ZEROS " , " KEY_A);
	assert_int_equal(vt->open(after, a, sealed, &out, NULL), QN_OK);
	assert_memory_equal(out.p, "[1]", 3);
	assert_int_equal(vt->seal(after, a, span("[2]"), &mine, NULL), QN_OK);
	assert_int_equal(vt->open(before, a, mine, &out, &e), QN_INVALID);
	reader = up("", KEY_A);
	assert_false(vt->ready(reader));
	assert_int_equal(vt->seal(reader, a, span("[3]"), &out, NULL), QN_UNAVAIL);
	assert_int_equal(vt->open(reader, a, sealed, &out, NULL), QN_OK);
	assert_memory_equal(out.p, "[1]", 3);
	down(reader);
	down(after);
	down(before);
	qn_arena_destroy(a);
}

static void malformed_keys_stop_the_start(void **state)
{
	static const char *const wrong[][2] = {
		{"deadbeef", ""},
		{KEY_A "0", ""},
		{"zz" ZEROS, ""},
		{"g"
	         "00000000000000000000000000000000000000000000000000000000000000"
	         "0",
	         ""},
		{"", "deadbeef"},
		{KEY_A, KEY_B ",deadbeef"},
		{KEY_A, KEY_B ","},
		{KEY_A, ","},
		{KEY_A " " KEY_B, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		bool is_old = wrong[i][1][0] != '\0';
		struct qn_error e = {0};
		void *self;

		assert_int_equal(try_up(wrong[i][0], wrong[i][1], &self, &e), QN_INVALID);
		assert_non_null(strstr(e.msg, is_old ? "QUEEN_ENCRYPTION_OLD_KEYS" : "QUEEN_ENCRYPTION_KEY"));
		assert_null(strstr(e.msg, "deadbeef"));
		assert_null(strstr(e.msg, "0000"));
		qn_module_entry()->unload(self);
	}
}

struct load {
	void *self;
	unsigned seed;
};

static void *seal_and_open(void *arg)
{
	const struct load *l = arg;
	uintptr_t wrong = 0;

	for (unsigned i = 0; i < 2000; i++) {
		struct qn_arena *a = qn_arena_create();
		char plain[32];
		struct qn_span in = {plain, (size_t)snprintf(plain, sizeof(plain), "{\"n\":%u}", l->seed + i)};
		struct qn_span sealed, out;

		wrong += vt->seal(l->self, a, in, &sealed, NULL) != QN_OK ||
		         vt->open(l->self, a, sealed, &out, NULL) != QN_OK || out.n != in.n ||
		         memcmp(out.p, in.p, in.n) != 0;
		qn_arena_destroy(a);
	}
	return (void *)wrong; /* NOLINT(performance-no-int-to-ptr): a count */
}

static void threads_do_not_disturb_each_other(void **state)
{
	void *self = up(KEY_A, KEY_B);
	pthread_t threads[4];
	struct load loads[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		loads[i] = (struct load){self, i * 100000};
		assert_int_equal(pthread_create(&threads[i], NULL, seal_and_open, &loads[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		void *wrong;

		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	down(self);
}

static double microseconds(int64_t from_us, unsigned n)
{
	return (double)(qn_now_us() - from_us) / n;
}

static void what_a_message_costs(void **state)
{
	static const size_t sizes[] = {16, 256, 4096, 65536, 1048576};
	static uint8_t plain[1048576];
	void *self = up(KEY_A, "");

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const unsigned n = sizes[i] > 65536 ? 20 : 1000;
		struct qn_arena *a = qn_arena_create();
		struct qn_span *sealed = calloc(n, sizeof(*sealed)), out;
		double sealing;
		int64_t at = qn_now_us();

		assert_non_null(sealed);
		for (unsigned k = 0; k < n; k++) {
			assert_int_equal(vt->seal(self, a, (struct qn_span){plain, sizes[i]}, &sealed[k], NULL), QN_OK);
		}
		sealing = microseconds(at, n);
		at = qn_now_us();
		for (unsigned k = 0; k < n; k++) {
			assert_int_equal(vt->open(self, a, sealed[k], &out, NULL), QN_OK);
		}
		print_message("%7zu bytes: seal %.2f us, open %.2f us\n", sizes[i], sealing, microseconds(at, n));
		free(sealed);
		qn_arena_destroy(a);
	}
	down(self);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(an_envelope_has_one_spelling),
		cmocka_unit_test(a_published_vector_opens),
		cmocka_unit_test(every_size_around_a_step_comes_back),
		cmocka_unit_test(other_spellings_are_plain_payloads),
		cmocka_unit_test(old_keys_open_and_never_seal),
		cmocka_unit_test(malformed_keys_stop_the_start),
		cmocka_unit_test(threads_do_not_disturb_each_other),
		cmocka_unit_test(what_a_message_costs),
	};

	return cmocka_run_group_tests_name("encryption_aesgcm", cases, NULL, NULL);
}
