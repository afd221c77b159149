/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kind "encryption": seal and open single payloads. Pure and callable from any thread.
 *
 * Rules (EN-n): EN-1 open(seal(x)) = x, byte for byte. EN-2 is_sealed() is decided on the stored
 * bytes alone and is false for every valid JSON text that is not spelled exactly as seal() spells an
 * envelope; a client's payload of that spelling is told apart by the frame's mark. EN-3 ready() false:
 * seal() fails with QN_UNAVAIL; nothing is ever stored in its plain form instead. EN-4 open() of
 * damaged or foreign bytes fails; it never returns wrong bytes.
 */
#ifndef QN_ENCRYPTION_H
#define QN_ENCRYPTION_H

#include <qn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_ENCRYPTION_MAJOR 1
#define QN_ENCRYPTION_MINOR 0

struct qn_encryption_vt {
	struct qn_iface head;
	bool (*ready)(void *self);
	bool (*is_sealed)(void *self, struct qn_span stored);
	/** *out is allocated in the arena. */
	int (*seal)(void *self, struct qn_arena *a, struct qn_span plain, struct qn_span *out,
	            struct qn_error *e) QN_MUST;
	int (*open)(void *self, struct qn_arena *a, struct qn_span stored, struct qn_span *out,
	            struct qn_error *e) QN_MUST;
};

#ifdef __cplusplus
}
#endif
#endif
