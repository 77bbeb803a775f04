/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>

#include "sys/nic_driver.h"

/* Large buffers come before the split: gve refuses to change their size while it splits. */
static const struct nic_driver_flag flags[] = {
	{ "gve", NIC_PURPOSE_LARGE_BUFFERS, "enable-max-rx-buffer-size", true },
	{ "gve", NIC_PURPOSE_SPLIT, "enable-strict-header-split", true },
	{ "gve", NIC_PURPOSE_SPLIT, "enable-header-split", true },
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
