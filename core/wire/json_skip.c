/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing over a whole value without recursion. Which kind of container is open at each depth is one
 * bit; 512 levels live on the stack, deeper nesting in memory that grows with it and is given back
 * before the return.
 */
#include "json_scan.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_WORDS 8

struct nest {
	uint64_t small[SMALL_WORDS];
	uint64_t *words;
	size_t cap, depth;
};

static const char *nest_push(struct nest *n, bool is_object)
{
	size_t word = n->depth / 64;
	uint64_t bit = (uint64_t)1 << (n->depth % 64);

	if (n->depth >= QN_JSON_DEPTH_MAX) {
		return "nesting too deep";
	}
	if (word == n->cap) {
		uint64_t *bigger = malloc(n->cap * 2 * sizeof(uint64_t));

		if (bigger == NULL) {
			return "out of memory";
		}
		memcpy(bigger, n->words, n->cap * sizeof(uint64_t));
		if (n->words != n->small) {
			free(n->words);
		}
		n->words = bigger;
		n->cap *= 2;
	}
	n->words[word] = is_object ? n->words[word] | bit : n->words[word] & ~bit;
	n->depth++;
	return NULL;
}

static bool in_object(const struct nest *n)
{
	size_t at = n->depth - 1;

	return (n->words[at / 64] >> (at % 64) & 1) != 0;
}

static const uint8_t *space(const uint8_t *p, const uint8_t *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
		p++;
	}
	return p;
}

/** Key and colon of the next member. */
static const char *member(const uint8_t **p, const uint8_t *end)
{
	bool escaped;
	const char *e;

	if (*p == end) {
		return "unexpected end of input";
	}
	if (**p != '"') {
		return "key must be a string";
	}
	e = qn_json_lex_string(p, end, &escaped);
	if (e != NULL) {
		return e;
	}
	*p = space(*p, end);
	if (*p == end) {
		return "unexpected end of input";
	}
	if (**p != ':') {
		return "expected `:`";
	}
	(*p)++;
	return NULL;
}

/** Opens a container; *value_follows tells whether its first value comes next or it is empty. */
static const char *open_container(struct nest *n, const uint8_t **p, const uint8_t *end, bool *value_follows)
{
	bool is_object = **p == '{';
	const char *e = nest_push(n, is_object);

	if (e != NULL) {
		return e;
	}
	*p = space(*p + 1, end);
	*value_follows = false;
	if (*p < end && **p == (is_object ? '}' : ']')) {
		return NULL;
	}
	*value_follows = true;
	return is_object ? member(p, end) : NULL;
}

/** After a value: closes what ends here; *value_follows false when the outermost value is complete. */
static const char *close_containers(struct nest *n, const uint8_t **p, const uint8_t *end, bool *value_follows)
{
	*value_follows = false;
	while (n->depth > 0) {
		bool is_object = in_object(n);

		*p = space(*p, end);
		if (*p == end) {
			return "unexpected end of input";
		}
		if (**p == ',') {
			*p = space(*p + 1, end);
			*value_follows = true;
			return is_object ? member(p, end) : NULL;
		}
		if (**p != (is_object ? '}' : ']')) {
			return is_object ? "expected `,` or `}`" : "expected `,` or `]`";
		}
		(*p)++;
		n->depth--;
	}
	return NULL;
}

static const char *skip(struct nest *n, const uint8_t **p, const uint8_t *end)
{
	bool more = true, escaped;
	const char *e = NULL;

	while (more && e == NULL) {
		*p = space(*p, end);
		if (*p < end && (**p == '{' || **p == '[')) {
			e = open_container(n, p, end, &more);
			if (e != NULL || more) {
				continue;
			}
		} else if (*p < end && **p == '"') {
			e = qn_json_lex_string(p, end, &escaped);
		} else {
			e = qn_json_lex_scalar(p, end);
		}
		if (e == NULL) {
			e = close_containers(n, p, end, &more);
		}
	}
	return e;
}

bool qn_json_skip(struct qn_json *j, struct qn_span *raw)
{
	struct nest n = {.cap = SMALL_WORDS};
	const uint8_t *from;
	const char *e;

	if (j->error != NULL) {
		return false;
	}
	n.words = n.small;
	j->p = space(j->p, j->end);
	from = j->p;
	e = skip(&n, &j->p, j->end);
	if (n.words != n.small) {
		free(n.words);
	}
	if (e != NULL) {
		return qn_json_fail(j, e);
	}
	*raw = (struct qn_span){from, (size_t)(j->p - from)};
	return true;
}
