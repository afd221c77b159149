/* SPDX-License-Identifier: Apache-2.0 */
/** Queue options as JSON: the same object in every answer that shows them. */
#ifndef QN_API_QUEUE_JSON_H
#define QN_API_QUEUE_JSON_H

#include "../wire/bytes.h"

#include <qn/queue.h>

/** The 17 options without the labels, as one object. */
void qn_queue_options_put(struct qn_bytes *b, const struct qn_queue_options *o);

#endif
