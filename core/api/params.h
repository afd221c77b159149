/* SPDX-License-Identifier: Apache-2.0 */
/** Query parameters, typed as message-plane 1.4 says: a bad value is a 400, unknown keys are ignored. */
#ifndef QN_API_PARAMS_H
#define QN_API_PARAMS_H

#include "call.h"

struct qn_params {
	struct qn_param *list;
	unsigned count;
	char why[160]; /* first failure; "" while all is well */
};

bool qn_params_read(struct qn_call *c, struct qn_params *p) QN_MUST;
/* Each leaves *out alone when the key is absent, and does nothing after a failure. */
void qn_params_str(struct qn_params *p, const char *key, struct qn_span *out);
void qn_params_bool(struct qn_params *p, const char *key, bool *out);
void qn_params_i32(struct qn_params *p, const char *key, int32_t *out);
void qn_params_u64(struct qn_params *p, const char *key, uint64_t *out);
/** Sets a failure: "invalid <key>: <why>". */
void qn_params_fail(struct qn_params *p, const char *key, const char *why);

#endif
