// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p plugin: what a net plugin made for NCCL is, and what it offers. */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/p2p.h"
#include "net/plugin.h"

static void show_device(struct net *n, int dev, struct out *o, struct err *e)
{
	struct net_properties p = { 0 };
	char kinds[64];

	if (n->ops->properties(n, dev, &p, e))
		return;
	snprintf(kinds, sizeof(kinds), "%s%s%s", p.memory & NET_HOST ? "host" : "",
		p.memory & NET_CUDA ? " cuda" : "", p.memory & NET_DMABUF ? " dmabuf" : "");
	out_object(o, NULL);
	out_u64(o, "device", "%4" PRIu64, (uint64_t)dev);
	out_str(o, "name", "  %-12s", p.name);
	out_i64(o, "speed_mbps", "  %8" PRId64 " Mbit/s", p.speed_mbps);
	out_str(o, "memory", "  %-16s", kinds);
	out_i64(o, "requests", "  %3" PRId64 " requests", p.requests);
	out_i64(o, "max_comms", "  %6" PRId64 " comms", p.max_comms);
	out_u64(o, "message_bytes", NULL, p.message_bytes);
	out_bool(o, "unpacks", "  unpacks: %s", p.unpacks);
	out_str(o, "pci_path", "  %s", p.pci_path);
	out_text(o, "\n");
	out_end(o);
}

int p2p_plugin_main(const struct p2p_options *o, struct out *out, struct err *e)
{
	struct net_plugin_info info;
	struct net *n;
	int ret;

	ret = net_plugin_open(&n, o->host, (int)o->plugin_version, e);
	if (ret)
		return ret;
	net_plugin_info(n, &info);
	out_object(out, NULL);
	out_str(out, "schema", NULL, "weir/p2p-plugin/1");
	out_str(out, "file", "%s", info.file);
	out_str(out, "name", ": %s", info.name);
	out_i64(out, "version", ", version %" PRId64 " is spoken", info.version);
	out_text(out, ", it has");
	out_array(out, "versions");
	for (int v = 0; v < 32; v++)
		if (info.versions & 1u << v)
			out_i64(out, NULL, " %" PRId64, v);
	out_end(out);
	out_text(out, "\n");
	out_array(out, "devices");
	for (int d = 0; d < n->devices; d++)
		show_device(n, d, out, e);
	out_end(out);
	out_end(out);
	n->ops->close(n);
	return 0;
}
