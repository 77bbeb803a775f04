/* SPDX-License-Identifier: BSD-3-Clause */
/* What drivers want that have settings of their own, as data: private flags that are published, what
 * each is for, in the order in which they are set.
 *
 *	for (f = nic_driver_flags(); f->driver; f++)
 *		if (!strcmp(f->driver, "gve") && f->purpose == NIC_PURPOSE_SPLIT)
 *			...
 *
 * A driver that offers the general setting (tcp-data-split) is asked for that, and its flags are
 * left alone. A driver with other flags needs a row here and nothing else.
 */
#ifndef WEIR_SYS_NIC_DRIVER_H
#define WEIR_SYS_NIC_DRIVER_H

#include <stdbool.h>

enum nic_purpose { NIC_PURPOSE_LARGE_BUFFERS, NIC_PURPOSE_SPLIT };

struct nic_driver_flag {
	const char *driver; /* NULL ends the list */
	const char *flag;
	enum nic_purpose purpose;
	bool on;
};

const struct nic_driver_flag *nic_driver_flags(void);

/* Whether a driver is known to take device memory upstream. */
bool nic_driver_is_known(const char *driver);

#endif
