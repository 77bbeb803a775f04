// SPDX-License-Identifier: BSD-3-Clause
/* weir alone: what this host looks like, and what to try next. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/out.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "sys/gpu.h"
#include "sys/host.h"
#include "sys/nic.h"

static void show_host(struct out *o)
{
	static const char *const names[] = { "hostname", "kernel", "cpu_model", "cpus_allowed",
		"numa_nodes", "net_ipv4_tcp_congestion_control", NULL };
	struct host_facts *facts = calloc(1, sizeof(*facts));

	if (!facts || host_facts_read(facts, NULL, NULL)) {
		free(facts);
		return;
	}
	for (int i = 0; names[i]; i++)
		if (host_facts_get(facts, names[i]))
			out_text(o, "  %-34s %s\n", names[i], host_facts_get(facts, names[i]));
	free(facts);
}

static void show_nics(struct out *o)
{
	char speed[UNITS_TEXT];
	struct nic *nics;
	size_t count;

	if (nic_list(&nics, &count, NULL))
		return;
	out_text(o, "\n  %-16s %-8s %6s %14s  %-14s %s\n", "NIC", "state", "MTU", "speed", "PCI",
		"driver");
	for (size_t i = 0; i < count; i++) {
		const struct nic *n = &nics[i];

		out_text(o, "  %-16s %-8s %6d %14s  %-14s %s\n", n->name, n->state, n->mtu_bytes,
			n->speed_bps ? units_format_bits(speed, (double)n->speed_bps) : "-",
			n->physical && n->place.depth ? topo_address(&n->place) : "-",
			n->driver[0] ? n->driver : "-");
	}
	free(nics);
}

static void show_gpus(struct out *o)
{
	struct gpu *gpus;
	size_t count;

	if (gpu_list(&gpus, &count, NULL))
		return;
	if (!count)
		out_text(o, "\n  no GPU\n");
	for (size_t i = 0; i < count; i++)
		out_text(o, "%s  GPU %zu  %s  %s\n", i ? "" : "\n", i, topo_address(&gpus[i].place),
			gpu_vendor_name(&gpus[i]));
	free(gpus);
}

int cmd_here(void)
{
	struct out o;

	out_init(&o, stdout, OUT_TEXT);
	out_text(&o, "weir %s: measures, moves and explains GPU-to-GPU traffic over Ethernet\n\n",
		WEIR_VERSION);
	show_host(&o);
	show_nics(&o);
	show_gpus(&o);
	out_text(&o,
		"\nTry next:\n"
		"  weir demo                    stream, rr and crr on this machine\n"
		"  weir stream                  be a server; then, elsewhere: weir stream -c -H THIS_HOST\n"
		"  weir --help                  all commands\n");
	return STATUS_GOOD;
}
