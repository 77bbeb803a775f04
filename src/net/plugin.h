/* SPDX-License-Identifier: BSD-3-Clause */
/* Any net plugin made for NCCL as a transport (see net/transport.h for how it is used).
 *
 *	struct net_plugin_info info;
 *	struct net *n;
 *
 *	ret = net_plugin_open(&n, "/usr/lib/libnccl-net-weir.so", 0, e);
 *	net_plugin_info(n, &info);
 *	printf("%s is %s, version %d\n", info.file, info.name, info.version);
 *	...
 *	n->ops->close(n);
 *
 * Versions 11 down to 7 are spoken. Little is taken on trust: messages carry no tags, because plugins
 * ignore them; a length that test() does not report is taken to be the one of the receive; flush is only
 * called where the plugin insists; a test that fails once is tried again before it counts. connect() and
 * accept() are called again and again with the same handle memory, in which plugins keep their state.
 *
 * A plugin keeps state for the whole process: open each file once, and set what it reads from the
 * environment before. A plugin is foreign code in this process: what it breaks is broken.
 */
#ifndef WEIR_NET_PLUGIN_H
#define WEIR_NET_PLUGIN_H

#include "net/transport.h"

struct net_plugin_info {
	const char *file; /* as it was found; strings live as long as the transport */
	const char *name; /* what it calls itself */
	int version;	  /* that is spoken */
	int versions;	  /* bit v is set: it has version v */
};

/* file: a path, or what NCCL_NET_PLUGIN holds: "weir" means libnccl-net-weir.so where the system looks for
 * libraries. version: 0 the newest that both know. -ENOENT: it cannot be loaded; -ENOEXEC: it has no such
 * table; -ENODEV: it finds no device; -EIO: it does not start. */
int net_plugin_open(struct net **opened, const char *file, int version, struct err *e);

void net_plugin_info(const struct net *n, struct net_plugin_info *info);

#endif
