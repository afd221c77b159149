/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a timestamp. What is accepted lies in the years 1 to 9999 and survives a round trip. */
#include "fuzz.h"

#include "error.h"
#include "wire/ident.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int64_t at_us, back_us;
	char out[40];
	size_t length;

	if (qn_time_parse((struct qn_span){p, n}, &at_us)) {
		length = qn_time_format(at_us, 6, out);
		QN_ASSERT(length == 27 && out[26] == 'Z' && memcmp(out, "0000", 4) != 0);
		QN_ASSERT(qn_time_parse((struct qn_span){out, length}, &back_us) && back_us == at_us);
	}
	if (n >= sizeof(at_us)) {
		memcpy(&at_us, p, sizeof(at_us));
		length = qn_time_format(at_us, 6, out);
		QN_ASSERT(length >= 27 && length < sizeof(out));
		length = qn_time_format(at_us, 3, out);
		QN_ASSERT(length >= 24 && length < sizeof(out));
	}
	return 0;
}
