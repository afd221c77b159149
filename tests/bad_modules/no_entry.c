/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no module. */
#include <qn/base.h>

QN_EXPORT int qn_not_a_module(void);

int qn_not_a_module(void)
{
	return 1;
}
