/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a group starts (ST-10). A start is a time: 0 for everything retained, the moment of
 * registration for "new", or the time asked for.
 *
 * A registration is kept per queue, or per pair of labels for queues that will match later; the
 * queue's own wins, then the oldest whose labels match. A lane met without any uses what the pop
 * says. Whichever it was, the cursor made then is the decision: nothing looks at starts again.
 */
#include "memory.h"

#include <string.h>

static bool is_queue_mode(struct qn_span group)
{
	return qn_mem_span_eq(group, QN_SPAN_LIT(QN_QUEUE_MODE));
}

static int64_t start_us(struct qn_span group, const struct qn_subscription *s, int64_t new_us)
{
	if (is_queue_mode(group) || s->mode == QN_START_ALL) {
		return 0;
	}
	if (s->mode == QN_START_NEW) {
		return new_us;
	}
	return s->from_us > 0 ? s->from_us : 0;
}

static int64_t start_cursor(const struct qn_mem_lane *l, int64_t from_us)
{
	return from_us == 0 ? qn_mem_log_start(l) - 1 : qn_mem_before_time(l, from_us);
}

static bool registration_eq(const struct qn_mem_node *node, const void *key)
{
	return qn_mem_span_eq(QN_MEM_OF(node, struct qn_mem_registration, node)->group, *(const struct qn_span *)key);
}

static struct qn_mem_registration *registered_on(struct qn_mem *m, const struct qn_mem_queue *q, struct qn_span group)
{
	struct qn_mem_node *node = qn_mem_table_find(&q->groups, qn_mem_hash(m, group), registration_eq, &group);

	return node == NULL ? NULL : QN_MEM_OF(node, struct qn_mem_registration, node);
}

/* The oldest registration by labels that covers the queue. */
static struct qn_mem_registration *registered_by_labels(struct qn_mem *m, const struct qn_mem_queue *q,
                                                        struct qn_span group)
{
	struct qn_mem_registration *r = m->labels;

	while (r != NULL && !(memcmp(&r->tenant, &q->tenant, sizeof(r->tenant)) == 0 &&
	                      qn_mem_span_eq(r->group, group) && qn_mem_queue_matches(q, r->name_space, r->task))) {
		r = r->next;
	}
	return r;
}

struct qn_mem_cursor *qn_mem_contact(struct qn_mem *m, struct qn_mem_lane *l, struct qn_span group,
                                     const struct qn_subscription *start)
{
	struct qn_mem_cursor *c = qn_mem_cursor_find(m, l, group);
	struct qn_mem_registration *r;
	int64_t from_us;

	if (c != NULL) {
		return c;
	}
	r = registered_on(m, l->queue, group);
	if (r == NULL) {
		r = registered_by_labels(m, l->queue, group);
	}
	from_us = r != NULL && !is_queue_mode(group) ? r->from_us : start_us(group, start, INT64_MAX);
	return qn_mem_cursor_create(m, l, group, start_cursor(l, from_us));
}

static struct qn_mem_registration *make_registration(struct qn_mem *m, const struct qn_register_op *op, int64_t from_us)
{
	struct qn_mem_registration *r = m->host->alloc(sizeof(*r) + op->group.n + op->name_space.n + op->task.n);
	const struct qn_span parts[] = {op->group, op->name_space, op->task};
	struct qn_span *const into[] = {&r->group, &r->name_space, &r->task};
	char *at = r->text;

	for (size_t i = 0; i < 3; i++) {
		*into[i] = (struct qn_span){at, parts[i].n};
		if (parts[i].n > 0) {
			memcpy(at, parts[i].p, parts[i].n);
			at += parts[i].n;
		}
	}
	r->tenant = op->tenant;
	r->from_us = from_us;
	return r;
}

/* True when the queue did not have it yet. */
static bool register_on(struct qn_mem *m, struct qn_mem_queue *q, const struct qn_register_op *op, int64_t from_us)
{
	struct qn_mem_registration *labels = registered_by_labels(m, q, op->group);

	if (registered_on(m, q, op->group) != NULL) {
		return false;
	}
	if (labels != NULL) {
		from_us = labels->from_us;
	}
	qn_mem_table_insert(&q->groups, m->host, &make_registration(m, op, from_us)->node, qn_mem_hash(m, op->group));
	for (struct qn_mem_node *n = qn_mem_table_next(&q->lanes, NULL); n != NULL;
	     n = qn_mem_table_next(&q->lanes, n)) {
		struct qn_mem_lane *l = QN_MEM_OF(n, struct qn_mem_lane, by_name);

		if (qn_mem_cursor_find(m, l, op->group) == NULL) {
			(void)qn_mem_cursor_create(m, l, op->group, start_cursor(l, from_us));
		}
	}
	return true;
}

static void register_labels(struct qn_mem *m, struct qn_register_op *op, int64_t from_us)
{
	struct qn_mem_registration **at = &m->labels;

	while (*at != NULL) {
		const struct qn_mem_registration *r = *at;

		if (memcmp(&r->tenant, &op->tenant, sizeof(r->tenant)) == 0 && qn_mem_span_eq(r->group, op->group) &&
		    qn_mem_span_eq(r->name_space, op->name_space) && qn_mem_span_eq(r->task, op->task)) {
			return;
		}
		at = &(*at)->next;
	}
	*at = make_registration(m, op, from_us);
	op->registered = true;
	for (struct qn_mem_node *n = qn_mem_table_next(&m->queues, NULL); n != NULL;
	     n = qn_mem_table_next(&m->queues, n)) {
		struct qn_mem_queue *q = QN_MEM_OF(n, struct qn_mem_queue, node);

		if (memcmp(&q->tenant, &op->tenant, sizeof(q->tenant)) == 0 &&
		    qn_mem_queue_matches(q, op->name_space, op->task)) {
			(void)register_on(m, q, op, from_us);
		}
	}
}

void qn_mem_register(struct qn_mem *m, struct qn_register_op *op)
{
	int64_t from_us = start_us(op->group, &op->start, m->host->now_us());
	struct qn_mem_queue *q;

	op->created_queue = false;
	op->registered = false;
	if (op->by_labels) {
		register_labels(m, op, from_us);
		return;
	}
	q = qn_mem_queue_find(m, &op->tenant, op->queue);
	if (q == NULL) {
		q = qn_mem_queue_create(m, &op->tenant, op->queue);
		op->created_queue = true;
	}
	op->registered = register_on(m, q, op, from_us);
}
