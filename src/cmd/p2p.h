/* SPDX-License-Identifier: BSD-3-Clause */
/* weir p2p: what its parts share. */
#ifndef WEIR_CMD_P2P_H
#define WEIR_CMD_P2P_H

#include "base/opt.h"
#include "record/p2p.h"
#include "xfer/run.h"

enum p2p_role {
	P2P_SERVER = 1,
	P2P_CLIENT = 2,
	P2P_MESH = 4,
	P2P_SWEEP = 8,
	P2P_PLUGIN = 16,
};

struct p2p_options {
	enum p2p_role role;
	const char *host; /* the operand; NULL: this end serves */
	int64_t gpu, peer_gpu;
	int op, mem, unpack, path;
	int64_t plugin_version, port_base, channels, sockets, window, depth, iterations, warmup;
	uint64_t size, chunk, memory_max, pool;
	uint64_t length, timeout, peer_timeout, point_time;
	const char *devices, *queues, *map, *plugin, *token, *listen, *gpus;
	const char *sizes, *chunks, *channel_list, *windows;
	const char *out;
	bool no_check, once, processes, json, quiet, verbose, help;
};

/* Parse the words after "p2p", the environment behind them. */
int p2p_options_parse(int argc, char **argv, struct p2p_options *o, struct err *e);
/* The configuration of an engine for one GPU; devices NULL: as the options say. */
void p2p_config(const struct p2p_options *o, int gpu, const char *devices,
	struct weir_p2p_config *config, struct mem_where *where, char index[16]);
uint16_t p2p_port(const struct p2p_options *o, int gpu);

/* Set by a signal. */
extern volatile bool p2p_stop;

/* p2p_run.c: one client run, with warm-up. The ends of the record are the caller's to free. */
struct p2p_client {
	const struct p2p_options *options;
	int gpu;
	const char *devices; /* of this GPU, or NULL */
	bool show_progress;
	struct run_end mine, theirs;
	char transport[64], error[560], hint[256];
	struct p2p_record record;
	uint64_t begin_ns, end_ns; /* of what was measured */
};
int p2p_client_run(struct p2p_client *c, struct err *e);
/* Serve clients on one GPU until stopped, or one with once. */
int p2p_serve(
	const struct p2p_options *o, int gpu, const char *devices, struct out *out, struct err *e);

int p2p_mesh_main(const struct p2p_options *o, struct out *out, struct err *e);
int p2p_sweep_main(const struct p2p_options *o, struct out *out, struct err *e);
int p2p_plugin_main(const struct p2p_options *o, struct out *out, struct err *e);

#endif
