/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contract of kind encryption: EN-1 to EN-4. A module that is not ready is held to EN-3; one that is
 * ready (give it a key: SUITE MODULE key=...) to all.
 */
#include "harness.h"

#include <qn/encryption.h>

static const char *const json[] = {"null",
                                   "true",
                                   "0",
                                   "-1.5e+10",
                                   "\"\"",
                                   "\"text \\u0000 \\ud83d\"",
                                   "{}",
                                   "[]",
                                   " {\"a\" : [1, 2, {\"b\":null}]} ",
                                   "\t1",
                                   "{\"v\":1}",
                                   "\"QNE1\"",
                                   "{\"encrypted\":\"x\",\"iv\":\"y\",\"authTag\":\"z\"}"};

static const struct qn_encryption_vt *vt(void)
{
	return (const struct qn_encryption_vt *)(const void *)ct_service().vt;
}

static void *self(void)
{
	return ct_service().self;
}

static int setup(void **state)
{
	*state = qn_arena_create();
	return 0;
}

static int teardown(void **state)
{
	qn_arena_destroy(*state);
	return 0;
}

static struct qn_span seal(struct qn_arena *a, struct qn_span plain)
{
	struct qn_span out = {NULL, 0};

	assert_int_equal(vt()->seal(self(), a, plain, &out, NULL), QN_OK);
	return out;
}

static void opens_to(struct qn_arena *a, struct qn_span plain)
{
	struct qn_span sealed = seal(a, plain), out = {NULL, 0};

	assert_true(vt()->is_sealed(self(), sealed));
	assert_int_equal(vt()->open(self(), a, sealed, &out, NULL), QN_OK);
	assert_int_equal(out.n, plain.n);
	if (plain.n > 0) {
		assert_memory_equal(out.p, plain.p, plain.n);
		/* Neither the bytes themselves nor one envelope for all. */
		assert_null(plain.n < 8 ? NULL : memmem(sealed.p, sealed.n, plain.p, plain.n));
	}
	out = seal(a, plain);
	assert_false(out.n == sealed.n && memcmp(out.p, sealed.p, out.n) == 0);
}

static void en1_what_is_sealed_opens_to_the_same(void **state)
{
	static uint8_t big[1 << 20];

	if (!vt()->ready(self())) {
		return;
	}
	for (size_t i = 0; i < CT_COUNT(json); i++) {
		opens_to(*state, ct_span(json[i]));
	}
	qn_random(big, sizeof(big));
	opens_to(*state, (struct qn_span){big, sizeof(big)});
	opens_to(*state, (struct qn_span){"", 0});
}

static void en2_no_json_text_is_taken_for_an_envelope(void **state)
{
	(void)state;
	for (size_t i = 0; i < CT_COUNT(json); i++) {
		assert_false(vt()->is_sealed(self(), ct_span(json[i])));
	}
	assert_false(vt()->is_sealed(self(), (struct qn_span){"", 0}));
}

static void en3_without_a_key_nothing_is_sealed(void **state)
{
	struct qn_span out = {"untouched", 9};
	struct qn_error e = {0};

	if (vt()->ready(self())) {
		return;
	}
	assert_int_equal(vt()->seal(self(), *state, ct_span("1"), &out, &e), QN_UNAVAIL);
	assert_int_equal(e.code, QN_UNAVAIL);
	assert_true(e.msg[0] != '\0');
	assert_int_equal(out.n, 9);
	assert_true(vt()->open(self(), *state, ct_span("1"), &out, NULL) < 0);
	assert_int_equal(out.n, 9);
}

static void en4_damage_does_not_open(void **state)
{
	struct qn_span sealed, out;
	uint8_t *copy;

	if (!vt()->ready(self())) {
		return;
	}
	sealed = seal(*state, ct_span("{\"kwh\":4.2}"));
	copy = qn_arena_zalloc(*state, sealed.n + 1);
	for (size_t i = 0; i < sealed.n; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			memcpy(copy, sealed.p, sealed.n);
			copy[i] ^= (uint8_t)(1u << bit);
			/* Text encodings have bits that say nothing: then the bytes must still be right. */
			if (vt()->open(self(), *state, (struct qn_span){copy, sealed.n}, &out, NULL) == QN_OK) {
				assert_int_equal(out.n, 11);
				assert_memory_equal(out.p, "{\"kwh\":4.2}", 11);
			}
		}
	}
	for (size_t n = 0; n < sealed.n; n++) {
		assert_true(vt()->open(self(), *state, (struct qn_span){sealed.p, n}, &out, NULL) < 0);
	}
	memcpy(copy, sealed.p, sealed.n);
	assert_true(vt()->open(self(), *state, (struct qn_span){copy, sealed.n + 1}, &out, NULL) < 0);
}

static void en4_plain_bytes_do_not_open(void **state)
{
	struct qn_span out;

	for (size_t i = 0; i < CT_COUNT(json); i++) {
		assert_true(vt()->open(self(), *state, ct_span(json[i]), &out, NULL) < 0);
	}
}

#define EN(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest cases[] = {
		EN(en1_what_is_sealed_opens_to_the_same), EN(en2_no_json_text_is_taken_for_an_envelope),
		EN(en3_without_a_key_nothing_is_sealed),  EN(en4_damage_does_not_open),
		EN(en4_plain_bytes_do_not_open),
	};
	int failed;

	ct_open("encryption", argc, argv);
	failed = cmocka_run_group_tests_name("encryption", cases, NULL, NULL);
	ct_close();
	return failed;
}
