/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of a plugin that leaves what it receives in fragments (Google's TCPX does), read the way NCCL's
 * kernel reads them: from the device handle that accept() gave.
 *
 *	ret = plugin_unpack_open(&u, handle, e);
 *	...					the receive `number`, counted from 0, is done
 *	ret = plugin_unpack_list(u, number, bytes, &fragments, e);
 *	...					gathered
 *	consumed
 */
#ifndef WEIR_NET_PLUGIN_UNPACK_H
#define WEIR_NET_PLUGIN_UNPACK_H

#include "net/plugin_abi.h"
#include "net/transport.h"

struct plugin_unpack;

/* Fetches what the handle points to, once. -EPROTO: the plugin gave nothing. */
int plugin_unpack_open(
	struct plugin_unpack **opened, const struct plugin_device_handle *handle, struct err *e);
void plugin_unpack_close(struct plugin_unpack *u);

/* Where a message of so many bytes lies; neighbours are one fragment. -EPROTO: its fragments do not make up the
 * message. */
int plugin_unpack_list(struct plugin_unpack *u, unsigned int number, size_t bytes,
	struct net_fragments *f, struct err *e);

#endif
