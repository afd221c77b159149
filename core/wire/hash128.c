/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a transaction id: XXH3 128-bit in its canonical, big-endian form. */
#include "ident.h"

#include <string.h>
#include <xxhash.h>

void qn_hash128(struct qn_span bytes, uint8_t out[16])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(bytes.n == 0 ? "" : bytes.p, bytes.n));
	memcpy(out, c.digest, sizeof(c.digest));
}
