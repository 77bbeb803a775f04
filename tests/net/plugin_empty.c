// SPDX-License-Identifier: BSD-3-Clause
/* A library that is no plugin. */
int weir_test_nothing(void);

__attribute__((visibility("default"))) int weir_test_nothing(void)
{
	return 0;
}
