/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, checked against the definition over all code points, and the rules for names. */
#include "wire_test.h"

#include "wire/text.h"

static size_t encode(unsigned c, uint8_t *p)
{
	if (c < 0x80) {
		p[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		p[0] = (uint8_t)(0xc0 | c >> 6);
		p[1] = (uint8_t)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		p[0] = (uint8_t)(0xe0 | c >> 12);
		p[1] = (uint8_t)(0x80 | (c >> 6 & 63));
		p[2] = (uint8_t)(0x80 | (c & 63));
		return 3;
	}
	p[0] = (uint8_t)(0xf0 | c >> 18);
	p[1] = (uint8_t)(0x80 | (c >> 12 & 63));
	p[2] = (uint8_t)(0x80 | (c >> 6 & 63));
	p[3] = (uint8_t)(0x80 | (c & 63));
	return 4;
}

static void every_code_point(void **state)
{
	(void)state;
	for (unsigned c = 0; c < 0x120000; c++) {
		uint8_t p[4];
		size_t n = encode(c, p), chars = 0;
		bool right = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);

		assert_int_equal(qn_utf8_valid((struct qn_span){p, n}, &chars), right);
		if (right) {
			assert_int_equal(chars, 1);
		}
		if (c >= 0x80) {
			assert_int_equal(qn_utf8_sequence(p, n), right ? n : 0);
			assert_int_equal(qn_utf8_sequence(p, n - 1), 0);
		}
	}
}

/** All two-byte strings: valid are two ASCII bytes or one sequence of two. */
static void every_pair_of_bytes(void **state)
{
	(void)state;
	for (unsigned a = 0; a < 256; a++) {
		for (unsigned b = 0; b < 256; b++) {
			uint8_t p[2] = {(uint8_t)a, (uint8_t)b};
			bool right = (a < 0x80 && b < 0x80) || (a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf);

			assert_int_equal(qn_utf8_valid((struct qn_span){p, 2}, NULL), right);
		}
	}
}

static void ill_formed_classes(void **state)
{
	static const char *const bad[] = {"\x80",
	                                  "\xbf",
	                                  "\xc0\x80",
	                                  "\xc0\xaf",
	                                  "\xc1\xbf",
	                                  "\xe0\x80\x80",
	                                  "\xe0\x9f\xbf",
	                                  "\xed\xa0\x80",
	                                  "\xed\xbf\xbf",
	                                  "\xf0\x80\x80\x80",
	                                  "\xf0\x8f\xbf\xbf",
	                                  "\xf4\x90\x80\x80",
	                                  "\xf5\x80\x80\x80",
	                                  "\xf8\x88\x80\x80\x80",
	                                  "\xfe",
	                                  "\xff",
	                                  "\xc3",
	                                  "\xe2\x82",
	                                  "\xf0\x9f\x98",
	                                  "\xe2\x28\xa1",
	                                  "\xe2\x82\x28",
	                                  "\xf0\x28\x8c\xbc",
	                                  "\xf0\x90\x28\xbc",
	                                  "\xf0\x90\x8c\x28",
	                                  "\xc3\xc3\xa9",
	                                  "\xed\xa0\xbd\xed\xb8\x80"};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		for (size_t before = 0; before < 34; before++) {
			for (size_t after = 0; after < 34; after += 11) {
				char buf[128];
				size_t n = strlen(bad[i]);
				struct qn_span s;

				memset(buf, 'a', sizeof(buf));
				memcpy(buf + before, bad[i], n);
				s = exact(buf, before + n + after);
				assert_false(qn_utf8_valid(s, NULL));
				free_span(s);
			}
		}
	}
}

static void counts_characters_at_every_offset(void **state)
{
	(void)state;
	for (size_t before = 0; before < 40; before++) {
		for (size_t after = 0; after < 40; after++) {
			char buf[128];
			size_t chars = 0;
			struct qn_span s;

			memset(buf, 'a', sizeof(buf));
			memcpy(buf + before, "\xc3\xa9\xf0\x9f\x98\x80\xe2\x82\xac", 9);
			s = exact(buf, before + 9 + after);
			assert_true(qn_utf8_valid(s, &chars));
			assert_int_equal(chars, before + 3 + after);
			free_span(s);
		}
	}
	assert_true(qn_utf8_valid((struct qn_span){NULL, 0}, NULL));
}

typedef const char *name_rule(struct qn_span s);

static void same_for_every_name(void **state)
{
	static name_rule *const rules[] = {qn_name_queue, qn_name_partition, qn_name_group, qn_name_label,
	                                   qn_name_transaction};
	static const char *const fine[] = {
		"a",         " q",      "q ", ".", "..", "a/b", "a?b#c", "%41", "\xf0\x9f\x98\x80", "__QUEUE_MODE__",
		"e\xcc\x81", "\xc2\x80"};

	(void)state;
	for (size_t r = 0; r < COUNT(rules); r++) {
		for (size_t i = 0; i < COUNT(fine); i++) {
			assert_null(rules[r](text(fine[i])));
		}
		assert_string_equal(rules[r](text("a\x7f")), "control characters are not allowed");
		assert_string_equal(rules[r](text("\n")), "control characters are not allowed");
		assert_string_equal(rules[r](text("a\x1f")), "control characters are not allowed");
		assert_string_equal(rules[r]((struct qn_span){"a\0b", 3}), "control characters are not allowed");
		assert_string_equal(rules[r](text("\xff")), "not valid UTF-8");
		assert_string_equal(rules[r](text("\xed\xa0\x80")), "not valid UTF-8");
	}
}

static void lengths(void **state)
{
	static name_rule *const by_chars[] = {qn_name_queue, qn_name_group, qn_name_label};
	char *p = malloc(65536);

	(void)state;
	assert_non_null(p);
	memset(p, 'a', 65536);
	for (size_t i = 0; i < COUNT(by_chars); i++) {
		assert_null(by_chars[i]((struct qn_span){p, 255}));
		assert_string_equal(by_chars[i]((struct qn_span){p, 256}), "longer than 255 characters");
	}
	assert_null(qn_name_partition((struct qn_span){p, 2048}));
	assert_string_equal(qn_name_partition((struct qn_span){p, 2049}), "longer than 2048 bytes");
	assert_null(qn_name_transaction((struct qn_span){p, 65535}));
	assert_string_equal(qn_name_transaction((struct qn_span){p, 65536}), "longer than 65535 bytes");
	for (size_t i = 0; i < 256; i++) {
		memcpy(p + 4 * i, "\xf0\x9f\x98\x80", 4);
	}
	assert_null(qn_name_queue((struct qn_span){p, 255 * 4}));
	assert_string_equal(qn_name_queue((struct qn_span){p, 256 * 4}), "longer than 255 characters");
	free(p);
	assert_null(qn_name_queue((struct qn_span){NULL, 0}));
	assert_null(qn_name_partition((struct qn_span){NULL, 0}));
	assert_null(qn_name_label((struct qn_span){NULL, 0}));
	assert_null(qn_name_transaction((struct qn_span){NULL, 0}));
	assert_string_equal(qn_name_group((struct qn_span){NULL, 0}), "must not be empty");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_point),    cmocka_unit_test(every_pair_of_bytes),
		cmocka_unit_test(ill_formed_classes),  cmocka_unit_test(counts_characters_at_every_offset),
		cmocka_unit_test(same_for_every_name), cmocka_unit_test(lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
