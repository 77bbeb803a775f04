// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p: its options, and the variables of the environment that stand for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/p2p.h"
#include "sys/cuda.h"

enum { MEM_CHOICE_AUTO, MEM_CHOICE_HOST, MEM_CHOICE_PINNED, MEM_CHOICE_UDMABUF, MEM_CHOICE_CUDA };
static const char *const mem_choices[] = { "auto", "host", "pinned", "udmabuf", "cuda", NULL };
/* In the order of enum weir_p2p_path. */
static const char *const path_choices[] = { "auto", "devmem", "staged", NULL };
/* In the order of enum weir_p2p_unpack. */
static const char *const unpack_choices[] = { "kernel", "d2d", "host", "none", NULL };

#define RUNS		   (P2P_CLIENT | P2P_MESH | P2P_SWEEP)
#define ALL		   (P2P_SERVER | RUNS)
#define FIELD(type, field) OPT_FIELD(type, struct p2p_options, field)

static const struct opt opts[] = {
	{ .name = "size",
		.letter = 's',
		FIELD(OPT_SIZE, size),
		.arg = "SIZE",
		.initial = "64M",
		.min = 1,
		.max = 1099511627776.0,
		.section = "what is moved",
		.only = P2P_CLIENT | P2P_MESH,
		.help = "bytes of a message [UCCL_TCPX_PERF_SIZE]" },
	{ .name = "iterations",
		.letter = 'n',
		FIELD(OPT_INT, iterations),
		.arg = "N",
		.initial = "20",
		.min = 1,
		.max = RUN_COUNT_MAX,
		.only = P2P_CLIENT | P2P_MESH,
		.help = "messages that are measured [UCCL_TCPX_PERF_ITERS]" },
	{ .name = "length",
		.letter = 'l',
		FIELD(OPT_DURATION, length),
		.arg = "TIME",
		.initial = "0",
		.unit = "s",
		.max = 3.6e12,
		.only = P2P_CLIENT | P2P_MESH,
		.help = "as many messages as take half of it or more, instead; 0: --iterations" },
	{ .name = "warmup",
		.letter = 'w',
		FIELD(OPT_INT, warmup),
		.arg = "N",
		.initial = "2",
		.max = RUN_COUNT_MAX,
		.only = RUNS,
		.help = "messages before them, in no figure" },
	{ .name = "op",
		FIELD(OPT_CHOICE, op),
		.arg = "OP",
		.choices = run_op_name,
		.initial = "send",
		.only = RUNS,
		.help = "send: to a posted receive; write, read: one-sided; pingpong: there and back, one at "
			"a time" },
	{ .name = "depth",
		.letter = 'd',
		FIELD(OPT_INT, depth),
		.arg = "N",
		.initial = "2",
		.min = 1,
		.max = RUN_DEPTH_MAX,
		.only = RUNS,
		.help = "messages under way at once" },
	{ .name = "no-check",
		FIELD(OPT_BOOL, no_check),
		.only = RUNS,
		.help = "do not compare every byte that arrives with what was sent" },
	{ .name = "mem",
		.letter = 'm',
		FIELD(OPT_CHOICE, mem),
		.arg = "KIND",
		.choices = mem_choices,
		.initial = "auto",
		.only = ALL,
		.help = "where the data lies at this end; auto: cuda where there is a GPU, else host" },
	{ .name = "path",
		FIELD(OPT_CHOICE, path),
		.arg = "PATH",
		.choices = path_choices,
		.initial = "auto",
		.only = ALL,
		.help = "udmabuf, cuda: devmem: the NIC reads and writes it, its settings are changed "
			"meanwhile; staged: through host memory; auto: devmem where it can be, and said "
			"why where not" },
	{ .name = "queues",
		FIELD(OPT_STRING, queues),
		.arg = "LIST",
		.only = ALL,
		.help = "devmem: receive queues of each NIC, for example 8-11; without it the last quarter" },
	{ .name = "pool",
		FIELD(OPT_SIZE, pool),
		.arg = "SIZE",
		.initial = "64M",
		.min = 1048576,
		.max = 1099511627776.0,
		.only = ALL,
		.help = "devmem: memory that each NIC receives into, a page for each packet" },
	{ .name = "unpack",
		FIELD(OPT_CHOICE, unpack),
		.arg = "HOW",
		.choices = unpack_choices,
		.initial = "kernel",
		.only = ALL,
		.help = "for plugins that leave what they receive in fragments: gathered by one kernel, by a "
			"copy for each on the GPU, through the host, or dropped, which measures the network "
			"alone and implies --no-check [UCCL_TCPX_UNPACK_IMPL]" },

	{ .name = "channels",
		.letter = 'c',
		FIELD(OPT_INT, channels),
		.arg = "N",
		.initial = "8",
		.min = 1,
		.max = WEIR_P2P_CHANNELS_MAX,
		.section = "how",
		.only = P2P_CLIENT | P2P_MESH,
		.help = "of a pair of GPUs; the client decides [UCCL_TCPX_NUM_CHANNELS]" },
	{ .name = "sockets",
		FIELD(OPT_INT, sockets),
		.arg = "N",
		.initial = "1",
		.max = 16,
		.only = ALL,
		.help = "connections of a channel, said by the end that receives; 0: as many as the "
			"transport likes "
			"[NCCL_NSOCKS_PERTHREAD x NCCL_SOCKET_NTHREADS]" },
	{ .name = "window",
		FIELD(OPT_INT, window),
		.arg = "N",
		.initial = "16",
		.min = 1,
		.max = WEIR_P2P_WINDOW_MAX,
		.only = P2P_CLIENT | P2P_MESH,
		.help = "chunks under way on a channel" },
	{ .name = "chunk",
		FIELD(OPT_SIZE, chunk),
		.arg = "SIZE",
		.initial = "512K",
		.min = 4096,
		.max = 1073741824.0,
		.only = P2P_CLIENT | P2P_MESH,
		.help = "what a message is cut into [UCCL_TCPX_CHUNK_BYTES, NCCL_P2P_NET_CHUNKSIZE]" },
	{ .name = "devices",
		.letter = 'i',
		FIELD(OPT_STRING, devices),
		.arg = "NICS",
		.only = ALL,
		.help = "NICs by name, eth1,eth2: channels go round them; without it those nearest to the "
			"GPU, for host memory the one that the connection takes "
			"[UCCL_TCPX_NET_DEVICE, NCCL_GPUDIRECTTCPX_SOCKET_IFNAME]" },
	{ .name = "plugin",
		FIELD(OPT_STRING, plugin),
		.arg = "FILE",
		.only = ALL,
		.help = "move the data by this net plugin made for NCCL instead of weir's own transport "
			"[UCCL_TCPX_PLUGIN_PATH, NCCL_GPUDIRECTTCPX_PLUGIN_PATH]" },

	{ .name = "plugin-version",
		FIELD(OPT_INT, plugin_version),
		.arg = "V",
		.initial = "0",
		.max = 11,
		.only = ALL | P2P_PLUGIN,
		.help = "of the plugin's table, 7 to 11; 0: the newest that it has" },

	{ .name = "port-base",
		.letter = 'p',
		FIELD(OPT_INT, port_base),
		.arg = "PORT",
		.initial = "20000",
		.min = 1,
		.max = 65500,
		.section = "who",
		.only = ALL,
		.help = "GPU n listens on this port + n [UCCL_TCPX_BOOTSTRAP_PORT_BASE]" },
	{ .name = "listen",
		.letter = 'H',
		FIELD(OPT_STRING, listen),
		.arg = "ADDRESS",
		.only = P2P_SERVER | P2P_MESH,
		.help = "listen on this address only" },
	{ .name = "token",
		FIELD(OPT_STRING, token),
		.arg = "WORD",
		.only = ALL,
		.help = "what both ends must know [WEIR_P2P_TOKEN]" },
	{ .name = "peer-gpu",
		FIELD(OPT_INT, peer_gpu),
		.arg = "N",
		.initial = "-1",
		.min = -1,
		.max = 1000,
		.only = P2P_CLIENT | P2P_SWEEP,
		.help = "the GPU at the other end; -1 is the same one" },
	{ .name = "timeout",
		FIELD(OPT_DURATION, timeout),
		.arg = "TIME",
		.initial = "10s",
		.unit = "s",
		.min = 1e6,
		.max = 3.6e12,
		.only = ALL,
		.help = "to be connected, retries included" },
	{ .name = "peer-timeout",
		FIELD(OPT_DURATION, peer_timeout),
		.arg = "TIME",
		.initial = "10s",
		.unit = "s",
		.min = 1e8,
		.max = 3.6e12,
		.only = ALL,
		.help = "a peer that is silent for so long is dead" },
	{ .name = "once",
		FIELD(OPT_BOOL, once),
		.only = P2P_SERVER | P2P_MESH,
		.help = "serve one client, then end" },
	{ .name = "memory-max",
		FIELD(OPT_SIZE, memory_max),
		.arg = "SIZE",
		.initial = "8G",
		.min = 1048576,
		.max = 1125899906842624.0,
		.only = P2P_SERVER | P2P_MESH,
		.help = "what a client can make this end allocate" },

	{ .name = "gpus",
		.letter = 'g',
		FIELD(OPT_STRING, gpus),
		.arg = "LIST",
		.section = "mesh",
		.only = P2P_MESH,
		.help = "GPUs, for example 0-7; without it all of this machine" },
	{ .name = "map",
		FIELD(OPT_STRING, map),
		.arg = "MAP",
		.only = P2P_MESH,
		.help = "NICs of GPUs, for example 0-1:eth1;2-3:eth2,eth3" },
	{ .name = "processes",
		FIELD(OPT_BOOL, processes),
		.only = P2P_MESH,
		.help = "a process for each GPU instead of a thread" },

	{ .name = "sizes",
		FIELD(OPT_STRING, sizes),
		.arg = "LIST",
		.initial = "64K,1M,16M,64M",
		.section = "sweep",
		.only = P2P_SWEEP,
		.help = "of messages" },
	{ .name = "chunks",
		FIELD(OPT_STRING, chunks),
		.arg = "LIST",
		.initial = "256K,512K,1M,4M",
		.only = P2P_SWEEP,
		.help = "of chunks" },
	{ .name = "channel-list",
		FIELD(OPT_STRING, channel_list),
		.arg = "LIST",
		.initial = "2,4,8",
		.only = P2P_SWEEP,
		.help = "numbers of channels" },
	{ .name = "windows",
		FIELD(OPT_STRING, windows),
		.arg = "LIST",
		.initial = "4,16",
		.only = P2P_SWEEP,
		.help = "windows" },
	{ .name = "point-time",
		FIELD(OPT_DURATION, point_time),
		.arg = "TIME",
		.initial = "2s",
		.unit = "s",
		.min = 1e7,
		.max = 3.6e12,
		.only = P2P_SWEEP,
		.help = "a point that is not steady by then is left as it is" },

	{ .name = "json",
		FIELD(OPT_BOOL, json),
		.section = "output",
		.help = "JSON instead of text" },
	{ .name = "out",
		.letter = 'o',
		FIELD(OPT_STRING, out),
		.arg = "FILE",
		.only = P2P_CLIENT,
		.help = "also write the record to this file" },
	{ .name = "quiet",
		.letter = 'q',
		FIELD(OPT_BOOL, quiet),
		.only = ALL,
		.help = "no progress" },
	{ .name = "verbose", FIELD(OPT_BOOL, verbose), .only = ALL, .help = "say what happens" },
	{ .name = "help", .letter = 'h', FIELD(OPT_BOOL, help), .help = "show this help" },
	{ 0 },
};

const struct opt_table p2p_option_table = {
	.command = "p2p",
	.usage =
		"server [GPU] | client HOST [GPU] | mesh [HOST] | sweep HOST [GPU] | plugin FILE  [options]",
	.summary = "move memory between GPUs, or hosts, over several NICs, and say how fast",
	.examples =
		"  weir p2p server 0                          on one host\n"
		"  weir p2p client 10.0.0.2 0 --size 256M     on the other\n"
		"  weir p2p mesh                              all GPUs of one host,\n"
		"  weir p2p mesh 10.0.0.2                     each with its like on the other\n"
		"  weir p2p sweep 10.0.0.2                    ends with a recommended setting\n",
	.opts = opts,
	.variant = ALL | P2P_PLUGIN,
};

/* What others' tools and NCCL are told by: read where the option is not given. */
static const struct {
	const char *option, *variable;
} variables[] = {
	{ "size", "UCCL_TCPX_PERF_SIZE" },
	{ "iterations", "UCCL_TCPX_PERF_ITERS" },
	{ "channels", "UCCL_TCPX_NUM_CHANNELS" },
	{ "chunk", "UCCL_TCPX_CHUNK_BYTES" },
	{ "chunk", "NCCL_P2P_NET_CHUNKSIZE" },
	{ "unpack", "UCCL_TCPX_UNPACK_IMPL" },
	{ "port-base", "UCCL_TCPX_BOOTSTRAP_PORT_BASE" },
	{ "devices", "UCCL_TCPX_NET_DEVICE" },
	{ "devices", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME" },
	{ "plugin", "UCCL_TCPX_PLUGIN_PATH" },
	{ "plugin", "NCCL_GPUDIRECTTCPX_PLUGIN_PATH" },
	{ "token", "WEIR_P2P_TOKEN" },
};

static int read_sockets(struct p2p_options *o, struct err *e)
{
	const char *each = getenv("NCCL_NSOCKS_PERTHREAD"),
		   *threads = getenv("NCCL_SOCKET_NTHREADS");
	long a = each ? strtol(each, NULL, 10) : 1, b = threads ? strtol(threads, NULL, 10) : 1;

	if (!each && !threads)
		return 0;
	if (a < 1 || b < 1 || a > 16 || b > 16 || a * b > 16) {
		err_set(e, EINVAL,
			"NCCL_NSOCKS_PERTHREAD x NCCL_SOCKET_NTHREADS is %ld x %ld: 1 to 16 sockets are "
			"possible",
			a, b);
		return err_hint(e, "--sockets N overrides them");
	}
	o->sockets = a * b;
	return 0;
}

static int read_environment(const struct opt_table *table, struct opt_given *given,
	struct p2p_options *o, struct err *e)
{
	int ret;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const struct opt *opt = opt_find(table, variables[i].option);
		const char *value = getenv(variables[i].variable);

		if (!opt || !value || !value[0] || opt_was_given(table, given, variables[i].option))
			continue;
		ret = opt_set(opt, o, value, e);
		if (ret)
			return err_prefix(e, "%s", variables[i].variable);
		given->at[opt - table->opts] = true; /* the first of two variables counts */
	}
	if (opt_find(table, "sockets") && !opt_was_given(table, given, "sockets"))
		return read_sockets(o, e);
	return 0;
}

static int parse_gpu(const char *word, int64_t *gpu, struct err *e)
{
	char *end;
	long value = strtol(word, &end, 10);

	if (end == word || *end || value < 0 || value > 1000)
		return err_set(e, EINVAL, "\"%s\" is no GPU: a number from 0 to 1000", word);
	*gpu = value;
	return 0;
}

/* The words that are no options, taken out of argv. */
#define OPERANDS 3
static int take_operands(const struct opt_table *t, int *argc, char **argv, char **operand,
	int *count, struct err *e)
{
	int kept = 1;

	*count = 0;
	for (int i = 1; i < *argc; i++) {
		char *word = argv[i];
		const struct opt *opt = NULL;

		if (word[0] != '-' || !word[1]) {
			if (*count == OPERANDS)
				return err_set(e, EINVAL, "unexpected word \"%s\"", word);
			operand[(*count)++] = word;
			continue;
		}
		argv[kept++] = word;
		for (const struct opt *at = t->opts; at->name && !opt; at++)
			if (word[1] == '-' ? !strcmp(at->name, word + 2)
					   : word[1] == at->letter && !word[2])
				opt = at;
		if (opt && opt->type != OPT_BOOL && i + 1 < *argc)
			argv[kept++] = argv[++i];
	}
	*argc = kept;
	return 0;
}

static int place_operands(struct p2p_options *o, char **operand, int count, struct err *e)
{
	static const struct {
		const char *name;
		enum p2p_role role;
		int least, most;
	} roles[] = {
		{ "server", P2P_SERVER, 0, 1 },
		{ "client", P2P_CLIENT, 1, 2 },
		{ "mesh", P2P_MESH, 0, 1 },
		{ "sweep", P2P_SWEEP, 1, 2 },
		{ "plugin", P2P_PLUGIN, 1, 1 },
	};
	int left = count - 1;

	for (size_t i = 0; count && i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (strcmp(operand[0], roles[i].name) != 0)
			continue;
		o->role = roles[i].role;
		if (left < roles[i].least)
			return err_set(e, EINVAL, "%s %s", operand[0],
				o->role == P2P_PLUGIN ? "which file?" : "of which host?");
		if (left > roles[i].most)
			return err_set(
				e, EINVAL, "unexpected word \"%s\"", operand[1 + roles[i].most]);
		if (o->role == P2P_SERVER)
			return left ? parse_gpu(operand[1], &o->gpu, e) : 0;
		o->host = left ? operand[1] : NULL;
		return left > 1 ? parse_gpu(operand[2], &o->gpu, e) : 0;
	}
	return err_set(e, EINVAL, "say server, client, mesh, sweep or plugin%s%s",
		count ? ", not " : "", count ? operand[0] : "");
}

static enum mem_kind memory_kind(const struct p2p_options *o)
{
	const struct cuda *cu;

	switch (o->mem) {
	case MEM_CHOICE_HOST:
		return MEM_HOST;
	case MEM_CHOICE_PINNED:
		return MEM_PINNED;
	case MEM_CHOICE_UDMABUF:
		return MEM_UDMABUF;
	case MEM_CHOICE_CUDA:
		return MEM_CUDA;
	default:
		return cuda_open(&cu, NULL) ? MEM_HOST : MEM_CUDA;
	}
}

/* What cannot be is refused before anything is touched. */
static int judge_path(const struct p2p_options *o, struct err *e)
{
	enum mem_kind kind;

	if (o->path != WEIR_P2P_PATH_DEVMEM)
		return 0;
	if (o->plugin) {
		err_set(e, EINVAL,
			"--path devmem is of weir's own transport: a plugin has its own");
		return err_hint(e, "leave out --plugin, or --path");
	}
	kind = memory_kind(o);
	if (kind == MEM_UDMABUF || kind == MEM_CUDA)
		return 0;
	err_set(e, EINVAL, "--path devmem: %s memory is not device memory",
		kind == MEM_PINNED ? "pinned" : "host");
	return err_hint(e, "use --mem udmabuf or --mem cuda");
}

int p2p_options_parse(int argc, char **argv, struct p2p_options *o, struct err *e)
{
	struct opt_table table = p2p_option_table;
	struct opt_given given;
	char *operand[OPERANDS];
	struct p2p_options placed = { 0 };
	int count, ret, wrong;

	ret = take_operands(&table, &argc, argv, operand, &count, e);
	if (ret)
		return ret;
	wrong = place_operands(&placed, operand, count, e);
	if (placed.role)
		table.variant = placed.role;
	ret = opt_parse(&table, argc, argv, o, &given, wrong ? NULL : e);
	if (o->help && (!ret || wrong))
		return 0;
	if (wrong)
		return wrong;
	if (ret)
		return ret;
	o->role = placed.role;
	o->host = placed.host;
	o->gpu = placed.gpu;
	if (o->role == P2P_MESH)
		o->peer_gpu = -1; /* each has its like */
	if (o->plugin_version && o->plugin_version < 7)
		return err_set(e, EINVAL, "--plugin-version %d: 7 to 11 are spoken",
			(int)o->plugin_version);
	ret = read_environment(&table, &given, o, e);
	if (o->plugin && o->unpack == WEIR_P2P_UNPACK_NONE)
		o->no_check = true;
	if (!ret)
		ret = judge_path(o, e);
	if (!ret && o->port_base + o->gpu > 65535)
		return err_set(e, EINVAL, "the port of GPU %d would be %d", (int)o->gpu,
			(int)(o->port_base + o->gpu));
	return ret;
}

uint16_t p2p_port(const struct p2p_options *o, int gpu)
{
	return (uint16_t)(o->port_base + gpu);
}

void p2p_config(const struct p2p_options *o, int gpu, const char *devices,
	struct weir_p2p_config *config, struct mem_where *where, char index[16])
{
	*where = (struct mem_where){ .kind = memory_kind(o) };
	snprintf(index, 16, "%d", gpu);
	weir_p2p_config_init(config);
	config->rank = (unsigned int)gpu;
	if (where->kind == MEM_CUDA || where->kind == MEM_PINNED) {
		where->gpu = index;
		config->gpu = gpu;
	}
	config->devices = devices ? devices : o->devices;
	config->plugin = o->plugin;
	config->plugin_version = (int)o->plugin_version;
	config->token = o->token;
	if (o->channels)
		config->channels = (unsigned int)o->channels;
	config->sockets = (unsigned int)o->sockets;
	if (o->window)
		config->window = (unsigned int)o->window;
	if (o->chunk)
		config->chunk_bytes = o->chunk;
	config->connect_timeout_ns = o->timeout;
	config->peer_timeout_ns = o->peer_timeout;
	/* A server shows its buffer to whoever asks, as stream's does; it holds nothing else. */
	config->flags = WEIR_P2P_OPEN;
	if (o->op == RUN_SEND || o->op == RUN_WRITE)
		config->flags |= WEIR_P2P_ONE_WAY;
	config->unpack = (enum weir_p2p_unpack)o->unpack;
	config->path = (enum weir_p2p_path)o->path;
	config->queues = o->queues;
	config->pool_bytes = o->pool;
	if (where->kind == MEM_UDMABUF)
		config->flags |= WEIR_P2P_UDMABUF;
	else if (where->kind != MEM_CUDA)
		config->path = WEIR_P2P_PATH_STAGED;
}
