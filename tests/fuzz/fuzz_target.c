/* SPDX-License-Identifier: Apache-2.0 */
/* A request target: path up to the first question mark, query behind it. What is accepted holds no NUL and is UTF-8. */
#include "fuzz.h"

#include "arena.h"
#include "error.h"
#include "wire/text.h"

#include <string.h>

static void clean(struct qn_span s)
{
	QN_ASSERT(qn_utf8_valid(s, NULL));
	QN_ASSERT(s.n == 0 || memchr(s.p, '\0', s.n) == NULL);
	(void)qn_name_queue(s);
	(void)qn_name_group(s);
	(void)qn_name_partition(s);
}

static void path(struct qn_span raw, struct qn_arena *a)
{
	struct qn_path out;
	const char *why = NULL;

	if (!qn_path_split(raw, a, &out, &why)) {
		QN_ASSERT(why != NULL);
		return;
	}
	QN_ASSERT(out.count > 0 && out.count <= QN_PATH_SEGMENTS + 1);
	for (unsigned i = 0; i < out.count && i < QN_PATH_SEGMENTS; i++) {
		clean(out.seg[i]);
		QN_ASSERT(out.seg[i].n <= raw.n);
	}
}

static void query(struct qn_span raw, struct qn_arena *a)
{
	struct qn_param *list;
	unsigned count;
	const char *why = NULL;
	int64_t v;
	uint64_t u;

	if (!qn_query_split(raw, a, &list, &count, &why)) {
		QN_ASSERT(why != NULL);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		clean(list[i].name);
		clean(list[i].value);
		if (qn_parse_u64(list[i].value, &u) && u <= INT64_MAX) {
			QN_ASSERT(qn_parse_i64(list[i].value, &v) && (uint64_t)v == u);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct qn_arena *a = qn_arena_create();
	const uint8_t *mark = n == 0 ? NULL : memchr(p, '?', n);
	size_t length = mark == NULL ? n : (size_t)(mark - p);

	path((struct qn_span){p, length}, a);
	if (mark != NULL) {
		query((struct qn_span){mark + 1, n - length - 1}, a);
	}
	qn_arena_destroy(a);
	return 0;
}
