/* SPDX-License-Identifier: Apache-2.0 */
/** The one function a fuzz target has: aborts when what it checks does not hold. */
#ifndef QN_TEST_FUZZ_H
#define QN_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/** Returns 0. p holds exactly n bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#endif
