/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP/1 head reader and the chunk decoder on bytes alone: what is accepted and how it is split,
 * what is refused with which status, and that neither depends on where reads cut the input.
 */
#include "h1_chunk.h"
#include "h1_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct parsed {
	char *text;
	struct h1_header headers[H1_HEADERS_MAX];
	struct h1_head head;
	int rc;
};

/* Finds and parses; rc is the head's length or a negative status, 0 when it is incomplete. */
static void parse(struct parsed *p, const char *text)
{
	const char *why = NULL;
	uint32_t lines = 0;
	size_t n = strlen(text);
	p->text = strdup(text);
	p->rc = h1_head_find(p->text, n, 0, &lines, &why);
	if (p->rc > 0) {
		assert_true(lines <= H1_HEADERS_MAX);
		p->head.headers = p->headers;
		int rc = h1_head_parse(p->text, (size_t)p->rc, &p->head, &why);
		assert_true(p->head.header_count <= lines);
		p->rc = rc < 0 ? rc : p->rc;
	}
	assert_true(p->rc >= 0 || why != NULL);
}

static void assert_span(struct qn_span s, const char *text)
{
	assert_int_equal(s.n, strlen(text));
	assert_memory_equal(s.p, text, s.n);
}

static void assert_refused(const char *text, int status)
{
	struct parsed p;
	parse(&p, text);
	free(p.text);
	if (p.rc != -status) {
		print_error("%s\n", text);
	}
	assert_int_equal(p.rc, -status);
}

static void reads_a_head(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, "POST /a%2Fb?x=1?y HTTP/1.1\r\nHost: h:1\r\nX-One:  two three \t\r\n"
	          "Content-Length: 0012\r\n\r\nrest");
	assert_int_equal(p.rc, strlen(p.text) - 4);
	assert_span(p.head.method, "POST");
	assert_span(p.head.path, "/a%2Fb");
	assert_span(p.head.query, "x=1?y");
	assert_int_equal(p.head.version, 0x101);
	assert_true(p.head.has_length && p.head.keep_alive && !p.head.is_chunked);
	assert_int_equal(p.head.content_length, 12);
	const struct h1_header *line = h1_head_header(&p.head, QN_SPAN_LIT("x-one"));
	assert_non_null(line);
	assert_span(line->value, "two three");
	assert_null(h1_head_header(&p.head, QN_SPAN_LIT("x-on")));
	free(p.text);
}

static void splits_targets(void **state)
{
	(void)state;
	static const char *const cases[][3] = {
		{"/", "/", ""},
		{"/?", "/", ""},
		{"/a?b", "/a", "b"},
		{"http://h/x?y", "/x", "y"},
		{"HTTP://h:80", "/", ""},
		{"https://h?q=1", "/", "q=1"},
		{"/caf\xc3\xa9", "/caf\xc3\xa9", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct parsed p;
		char text[128];
		assert_true(snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i][0]) < 128);
		parse(&p, text);
		assert_true(p.rc > 0);
		assert_span(p.head.path, cases[i][1]);
		assert_span(p.head.query, cases[i][2]);
		free(p.text);
	}
}

static void refuses_bad_heads(void **state)
{
	(void)state;
	static const char *const bad_lines[] = {
		"Content-Length: 1\r\nContent-Length: 1",
		"Content-Length: 1\r\nTransfer-Encoding: chunked",
		"Content-Length: +1",
		"Content-Length: -1",
		"Content-Length: 1, 1",
		"Content-Length:",
		"Content-Length: 12345678901234567890",
		"Transfer-Encoding: identity",
		"Transfer-Encoding: xchunked",
		"Transfer-Encoding: gzip, chunked",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"Host: b",
		"X : y",
		"X\x01: y",
		": y",
		"X: a\rb",
		"X: a\x7f",
		" folded",
		"X: a\n Y: b",
		"no colon",
	};
	for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
		char text[256];
		int n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", bad_lines[i]);
		assert_in_range(n, 1, sizeof(text) - 1);
		assert_refused(text, 400);
	}
	static const char *const bad_heads[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nHost: a\n\r\n",
		"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET http:// HTTP/1.1\r\nHost: a\r\n\r\n",
		"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
		"\x16\x03\x01 / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof(bad_heads) / sizeof(bad_heads[0]); i++) {
		assert_refused(bad_heads[i], 400);
	}
	assert_refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
	assert_refused("GET / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n", 417);
}

static void bounds_heads(void **state)
{
	(void)state;
	char *text = malloc(2 * H1_HEAD_MAX);
	size_t n = (size_t)snprintf(text, 100, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < 100; i++) {
		n += (size_t)snprintf(text + n, 20, "X-%d: y\r\n", i);
	}
	memcpy(text + n, "\r\n", 3);
	assert_refused(text, 431);
	memset(text, 'a', H1_HEAD_MAX + 1);
	text[H1_HEAD_MAX + 1] = '\0';
	assert_refused(text, 431);
	free(text);
}

#define OFFER(method, line, connection, settings)                                                 \
	method " / HTTP/1.1\r\nHost: a\r\n" line "Connection: " connection "\r\nUpgrade: h2c\r\n" \
	       "HTTP2-Settings: " settings "\r\n\r\n"

static void tells_connection_facts(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool keep_alive, h2c;
	} cases[] = {
		{"GET / HTTP/1.0\r\n\r\n", false, false},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, false},
		{"GET / HTTP/1.1\r\nHost:\r\nConnection: x, CLOSE\r\n\r\n", false, false},
		{OFFER("GET", "", "Upgrade, HTTP2-Settings", "AA"), true, true},
		{OFFER("GET", "", "Upgrade", "AA"), true, false},
		{OFFER("GET", "", "Upgrade, HTTP2-Settings", "A="), true, false},
		{OFFER("POST", "Content-Length: 1\r\n", "Upgrade, HTTP2-Settings", "AA"), true, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct parsed p;
		parse(&p, cases[i].text);
		assert_true(p.rc > 0);
		assert_int_equal(p.head.keep_alive, cases[i].keep_alive);
		assert_int_equal(p.head.wants_h2c, cases[i].h2c);
		free(p.text);
	}
}

/* Feeding a head byte by byte finds the same end, and a bare LF at once. */
static void finds_heads_in_pieces(void **state)
{
	(void)state;
	static const char good[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nmore", bad[] = "GET / HTTP/1.1\nHost";
	const char *why = NULL;
	uint32_t lines = 0;
	for (size_t n = 1; n < sizeof(good) - 5; n++) {
		assert_int_equal(h1_head_find(good, n, n - 1, &lines, &why), 0);
	}
	assert_int_equal(h1_head_find(good, sizeof(good) - 5, sizeof(good) - 6, &lines, &why), sizeof(good) - 5);
	assert_int_equal(lines, 1);
	assert_int_equal(h1_head_find(bad, 14, 0, &lines, &why), 0);
	assert_int_equal(h1_head_find(bad, 15, 14, &lines, &why), -400);
}

/* Decodes text cut into pieces of `cut` bytes; returns the eaten length or -1. */
static long decode(const char *text, size_t n, size_t cut, char *out, size_t *out_n, bool *done)
{
	struct h1_chunk c = {0};
	size_t at = 0;
	*out_n = 0;
	while (at < n && !c.is_done) {
		struct qn_span data;
		long eaten = h1_chunk_step(&c, text + at, n - at < cut ? n - at : cut, &data);
		if (eaten < 0) {
			return -1;
		}
		memcpy(out + *out_n, data.p, data.n);
		*out_n += data.n;
		at += (size_t)eaten;
	}
	*done = c.is_done;
	return (long)at;
}

static void decodes_chunks_however_cut(void **state)
{
	(void)state;
	static const char text[] = "5\r\nhello\r\n1;a=b\r\n \r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nNEXT";
	for (size_t cut = 1; cut < sizeof(text); cut++) {
		char out[64];
		size_t n;
		bool done;
		assert_int_equal(decode(text, sizeof(text) - 1, cut, out, &n, &done), sizeof(text) - 5);
		assert_true(done);
		assert_int_equal(n, 16);
		assert_memory_equal(out, "hello 0123456789", 16);
	}
}

static void refuses_bad_chunks(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"5\nhello\r\n0\r\n\r\n",
		"5\r\nhello\n0\r\n\r\n",
		"5\r\nhelloX",
		"-1\r\n",
		"0x5\r\nhello",
		"\r\n",
		"g\r\n",
		"1234567890123456\r\n",
		"5 \x01\r\nhello",
		"0\r\nA: b\n\r\n",
		"0\r\n\n",
		"5\r\nhello\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char out[64];
		size_t n;
		bool done = false;
		assert_int_equal(decode(bad[i], strlen(bad[i]), 3, out, &n, &done), -1);
	}
}

static void bounds_chunk_lines(void **state)
{
	(void)state;
	char text[2 * H1_CHUNK_LINE_MAX], out[8];
	size_t n;
	bool done;
	memset(text, 'x', sizeof(text));
	memcpy(text, "1;", 2);
	assert_int_equal(decode(text, sizeof(text), sizeof(text), out, &n, &done), -1);
	memset(text, 'x', sizeof(text));
	memcpy(text, "0\r\n", 3);
	assert_int_equal(decode(text, sizeof(text), sizeof(text), out, &n, &done), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_head),
		cmocka_unit_test(splits_targets),
		cmocka_unit_test(refuses_bad_heads),
		cmocka_unit_test(bounds_heads),
		cmocka_unit_test(tells_connection_facts),
		cmocka_unit_test(finds_heads_in_pieces),
		cmocka_unit_test(decodes_chunks_however_cut),
		cmocka_unit_test(refuses_bad_chunks),
		cmocka_unit_test(bounds_chunk_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
