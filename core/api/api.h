/* SPDX-License-Identifier: Apache-2.0 */
/** The message plane's edge on the I/O threads: requests in, jobs out, answers rendered. */
#ifndef QN_API_API_H
#define QN_API_API_H

#include <qn/http.h>

/** host->dispatch: routes a call; exactly one reply follows. [the call's I/O thread] */
void qn_api_dispatch(struct qn_http_call *call);
/** Calls dispatched and not yet answered, over all threads. [any] */
unsigned qn_api_open_calls(void);

#endif
