/* SPDX-License-Identifier: Apache-2.0 */
/** Intrusive circular list. A zeroed node is in no list; a list head must be initialised. */
#ifndef QN_BROKER_LIST_H
#define QN_BROKER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qn_list {
	struct qn_list *next, *prev;
};

#define QN_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void qn_list_init(struct qn_list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool qn_list_empty(const struct qn_list *head)
{
	return head->next == head;
}

/** True when the node is in a list. */
static inline bool qn_list_linked(const struct qn_list *node)
{
	return node->next != NULL;
}

static inline void qn_list_push_back(struct qn_list *head, struct qn_list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void qn_list_push_front(struct qn_list *head, struct qn_list *node)
{
	qn_list_push_back(head->next, node);
}

/** Accepts a node that is in no list. */
static inline void qn_list_remove(struct qn_list *node)
{
	if (node->next == NULL) {
		return;
	}
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = NULL;
	node->prev = NULL;
}

/** Takes the first node out, or NULL. */
static inline struct qn_list *qn_list_pop_front(struct qn_list *head)
{
	struct qn_list *node = head->next;

	if (node == head) {
		return NULL;
	}
	qn_list_remove(node);
	return node;
}

/** Nodes in the list, counted up to max. */
static inline uint32_t qn_list_count(const struct qn_list *head, uint32_t max)
{
	uint32_t n = 0;

	for (const struct qn_list *node = head->next; node != head && n < max; node = node->next) {
		n++;
	}
	return n;
}

#endif
