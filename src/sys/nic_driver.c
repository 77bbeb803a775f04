/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>

#include "sys/nic_driver.h"

/* Large buffers come before the split: gve refuses to change their size while it splits. */
static const struct nic_driver_flag flags[] = {
	{ "gve", "enable-max-rx-buffer-size", NIC_PURPOSE_LARGE_BUFFERS, true },
	{ "gve", "enable-strict-header-split", NIC_PURPOSE_SPLIT, true },
	{ "gve", "enable-header-split", NIC_PURPOSE_SPLIT, true },
	{ 0 },
};

const struct nic_driver_flag *nic_driver_flags(void)
{
	return flags;
}

bool nic_driver_is_known(const char *driver)
{
	static const char *const known[] = { "gve", "mlx5_core", "bnxt_en", "fbnic" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(driver, known[i]))
			return true;
	return false;
}
