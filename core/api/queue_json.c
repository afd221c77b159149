/* SPDX-License-Identifier: Apache-2.0 */
/* Writing queue options; the names come from the one table in qn/queue.h. */
#include "queue_json.h"

static void put_key(struct qn_bytes *b, const char *name, bool *first)
{
	if (!*first) {
		QN_PUT_LIT(b, ",");
	}
	*first = false;
	qn_json_put_cstr(b, name);
	QN_PUT_LIT(b, ":");
}

void qn_queue_options_put(struct qn_bytes *b, const struct qn_queue_options *o)
{
	bool first = true;

	QN_PUT_LIT(b, "{");
#define X(field, json, column, def, lo, hi) \
	put_key(b, json, &first);           \
	qn_json_put_i64(b, o->field);
	QN_QUEUE_INTS(X)
#undef X
#define X(field, json, column, def) \
	put_key(b, json, &first);   \
	qn_json_put_bool(b, o->field);
	QN_QUEUE_BOOLS(X)
#undef X
	QN_PUT_LIT(b, "}");
}
