// SPDX-License-Identifier: BSD-3-Clause
/* weir probe: the controller of agents. */
#include "cmd/probe.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "probe/pings.h"

enum { ACT_MESH = 1, ACT_START = 2, ACT_STOP = 4, ACT_LOAD = 8, ACT_PAIRS = 16 };
static const char *const acts[] = { "mesh", "start", "stop", "load-test", "pairs" };
static const char *const commands[] = { "probe mesh", "probe start", "probe stop",
	"probe load-test", "probe pairs" };
#define ACTS 5
static const char *const kinds[] = { "latency", "stream", "p2p", NULL };

#define FIELD(type, field) OPT_FIELD(type, struct probe_options, field)

static const struct opt opts[] = {
	{ .name = "hosts",
		.letter = 'H',
		FIELD(OPT_STRING, hosts),
		.arg = "HOSTS",
		.section = "who",
		.help = "hosts with an agent: node[01-04],gw or dns:NAME for all addresses of a name; "
			"by default what WEIR_HOSTS or the job says (Slurm, PBS, LSF, MPI, torchrun, Kubernetes)" },
	{ .name = "hosts-file",
		FIELD(OPT_STRING, hosts_file),
		.arg = "FILE",
		.help = "hosts, one per line; a hostfile of mpirun will do" },
	{ .name = "targets",
		FIELD(OPT_STRING, targets),
		.arg = "LIST",
		.initial = "rail",
		.only = ACT_MESH | ACT_START,
		.help = "who probes whom: rail (the same rail of every other host), full (every NIC), "
			"ring:K (the same rail of the next K hosts) or file:PATH (two NICs a line, by address "
			"or as HOST/RAIL, or two hosts)" },
	{ .name = "nic-ips",
		FIELD(OPT_STRING, nic_ips),
		.arg = "ADDRESSES",
		.only = ACT_LOAD,
		.help = "instead of hosts: 9 addresses per node, where its agent is and its 8 NICs in "
			"rail order, commas between them" },
	{ .name = "payload",
		FIELD(OPT_SIZE, payload_bytes),
		.arg = "BYTES",
		.section = "probes",
		.initial = "1",
		.min = 1,
		.max = 2 << 20,
		.only = ACT_MESH | ACT_LOAD | ACT_PAIRS,
		.help = "payload of a probe" },
	{ .name = "timeout",
		FIELD(OPT_DURATION, timeout_ns),
		.arg = "TIME",
		.initial = "1",
		.unit = "s",
		.min = 0.001 * NS_PER_S,
		.max = 60.0 * NS_PER_S,
		.only = ACT_MESH | ACT_LOAD | ACT_PAIRS,
		.help = "a probe without an answer is lost after so long" },
	{ .name = "verify",
		FIELD(OPT_BOOL, verify),
		.only = ACT_MESH | ACT_START,
		.help = "check every byte of every answer" },
	{ .name = "rate",
		FIELD(OPT_NUMBER, rate),
		.arg = "N",
		.section = "mesh, start",
		.initial = "5",
		.min = 0.01,
		.max = 1000,
		.only = ACT_MESH | ACT_START,
		.help = "probes per second and pair" },
	{ .name = "budget",
		FIELD(OPT_NUMBER, budget),
		.arg = "N",
		.initial = "250",
		.min = 0,
		.max = 1e6,
		.only = ACT_MESH | ACT_START,
		.help = "most probes per second that a NIC sends; where the list has more, an even "
			"part of it is taken; 0: no limit" },
	{ .name = "series",
		FIELD(OPT_INT, series),
		.arg = "N",
		.initial = "400",
		.min = 0,
		.max = 20000,
		.only = ACT_MESH,
		.help = "most pairs that a host probes, so that results grow with the hosts and not with "
			"their square; 0: no limit" },
	{ .name = "window",
		FIELD(OPT_DURATION, window_ns),
		.arg = "TIME",
		.initial = "1",
		.unit = "s",
		.min = 0.1 * NS_PER_S,
		.max = 60.0 * NS_PER_S,
		.only = ACT_MESH,
		.help = "judge so often" },
	{ .name = "length",
		.letter = 'l',
		FIELD(OPT_DURATION, duration_ns),
		.arg = "TIME",
		.initial = "0",
		.unit = "s",
		.only = ACT_MESH,
		.help = "end after so long; 0: at Ctrl-C" },
	{ .name = "kind",
		FIELD(OPT_CHOICE, kind),
		.arg = "KIND",
		.section = "pairs",
		.initial = "latency",
		.choices = kinds,
		.only = ACT_PAIRS,
		.help = "what each pair of a round does: probes, a stream of TCP each way, or a transfer "
			"from memory to memory each way, on all rails at once" },
	{ .name = "length",
		.letter = 'l',
		FIELD(OPT_DURATION, duration_ns),
		.arg = "TIME",
		.initial = "2",
		.unit = "s",
		.min = 0.1 * NS_PER_S,
		.max = 60.0 * NS_PER_S,
		.only = ACT_PAIRS,
		.help = "of a round" },
	{ .name = "rounds",
		FIELD(OPT_INT, rounds),
		.arg = "N",
		.initial = "0",
		.min = 0,
		.max = 65535,
		.only = ACT_PAIRS,
		.help = "end after so many; 0: when every host has met every other" },
	{ .name = "rate",
		FIELD(OPT_NUMBER, rate),
		.arg = "N",
		.initial = "50",
		.min = 1,
		.max = 1000,
		.only = ACT_PAIRS,
		.help = "probes per second and pair of NICs" },
	{ .name = "slow",
		FIELD(OPT_NUMBER, slow),
		.arg = "FACTOR",
		.initial = "1.5",
		.min = 1.01,
		.max = 1000,
		.only = ACT_PAIRS,
		.help = "a pair is slow when it is so much slower than the median of all, twice; for "
			"latency also by 50 us" },
	{ .name = "flows",
		.letter = 'F',
		FIELD(OPT_INT, flows),
		.arg = "N",
		.initial = "1",
		.min = 1,
		.max = 64,
		.only = ACT_PAIRS,
		.help = "connections of a stream, channels of a transfer" },
	{ .name = "iterations",
		FIELD(OPT_INT, iterations),
		.arg = "N",
		.section = "load-test",
		.initial = "5",
		.min = 1,
		.max = 1000,
		.only = ACT_LOAD,
		.help = "how often the load is raised" },
	{ .name = "iteration-length-in-seconds",
		FIELD(OPT_DURATION, duration_ns),
		.arg = "TIME",
		.initial = "60",
		.unit = "s",
		.min = 0.1 * NS_PER_S,
		.max = 366.0 * 86400 * NS_PER_S,
		.only = ACT_LOAD,
		.help = "of an iteration" },
	{ .name = "iteration-increase-connections-per-nic",
		FIELD(OPT_INT, increase),
		.arg = "N",
		.initial = "8",
		.min = 0,
		.max = 10000,
		.only = ACT_LOAD,
		.help = "connections that each iteration adds to each NIC" },
	{ .name = "connections-per-nic-at-start",
		FIELD(OPT_INT, connections),
		.arg = "N",
		.initial = "1",
		.min = 1,
		.max = 10000,
		.only = ACT_LOAD,
		.help = "connections of each NIC in the first iteration" },
	{ .name = "probe-qps-per-connection",
		FIELD(OPT_NUMBER, rate),
		.arg = "N",
		.initial = "1",
		.min = 0.01,
		.max = 1000,
		.only = ACT_LOAD,
		.help = "probes per second of each connection" },
	{ .name = "verify-payload",
		FIELD(OPT_BOOL, verify),
		.only = ACT_LOAD,
		.help = "check every byte of every answer" },
	{ .name = "port",
		.letter = 'p',
		FIELD(OPT_INT, port),
		.arg = "PORT",
		.initial = "8080",
		.min = 1,
		.max = 65535,
		.section = "control",
		.help = "port of the agents" },
	{ .name = "cert",
		FIELD(OPT_STRING, tls.cert),
		.arg = "FILE",
		.help = "certificate of this controller (PEM)" },
	{ .name = "key",
		FIELD(OPT_STRING, tls.key),
		.arg = "FILE",
		.help = "its private key (PEM)" },
	{ .name = "ca",
		FIELD(OPT_STRING, tls.ca),
		.arg = "FILE",
		.help = "authority that agents' certificates must lead to (PEM)" },
	{ .name = "json",
		FIELD(OPT_BOOL, json),
		.section = "all",
		.only = ACT_MESH | ACT_LOAD | ACT_PAIRS,
		.help = "JSON instead of text: an event per window, change, round or iteration, a record "
			"at the end" },
	{ .name = "out",
		.letter = 'o',
		FIELD(OPT_STRING, out),
		.arg = "FILE",
		.only = ACT_MESH | ACT_LOAD | ACT_PAIRS,
		.help = "also write the record to this file" },
	{ .name = "csv",
		FIELD(OPT_STRING, csv),
		.arg = "FILE",
		.only = ACT_MESH | ACT_PAIRS,
		.help = "write a row per pair and window, or per pair of a round, to this file" },
	{ .name = "map",
		FIELD(OPT_BOOL, map),
		.only = ACT_MESH,
		.help = "end with a map of pairs; on a terminal it always does" },
	{ .name = "help", .letter = 'h', FIELD(OPT_BOOL, help), .help = "show this help" },
	{ 0 },
};

const struct opt_table probe_option_table = {
	.command = "probe",
	.usage = "mesh | pairs | load-test | start | stop  [options]",
	.summary = "probe between the NICs of many hosts, and say which host, NIC or rail is bad",
	.examples = "  weir probe mesh --hosts node[01-04]\n"
		    "  weir probe mesh --hosts-file hosts.txt --targets ring:8 --length 60 --json\n"
		    "  weir probe pairs --hosts node[01-16] --kind stream\n"
		    "  weir probe load-test --hosts node[01-04] --iterations 3\n"
		    "  weir probe start --hosts node[01-04] --rate 1\n"
		    "  weir probe stop --hosts node[01-04]\n",
	.opts = opts,
	.variant = ACT_MESH | ACT_START | ACT_STOP | ACT_LOAD | ACT_PAIRS,
};

static int probe_pings(
	const struct probe_options *o, const struct hosts *hosts, bool start, struct err *e)
{
	struct pings_want want = { .hosts = hosts,
		.port = (uint16_t)o->port,
		.tls = o->tls,
		.rate = o->rate,
		.budget = o->budget,
		.verify = o->verify };
	int ret = start ? mesh_parse(&want.mesh, o->targets, e) : 0;

	if (start && o->rate != (int32_t)o->rate)
		return err_set(
			e, EINVAL, "--rate %g: start takes whole probes per second", o->rate);
	if (!ret)
		ret = pings_all(&want, start, e);
	return ret;
}

/* The published controller's way of writing flags: --nic_ips=..., --verify_payload=true, --noverify_payload. */
static void as_published(char *word)
{
	char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;

	if (strncmp(word, "--", 2) != 0)
		return;
	for (char *c = word; *c && *c != '='; c++)
		if (*c == '_')
			*c = '-';
	if (!strcmp(word, "--noverify-payload"))
		strcpy(word, "--no-verify-pay"); /* an abbreviation: there is no room for more */
	if (value && !strncmp(word, "--verify-payload=", 17)) {
		if (!strcasecmp(value, "true") || !strcmp(value, "1"))
			*equals = '\0';
		else if (!strcasecmp(value, "false") || !strcmp(value, "0"))
			strcpy(word, "--no-verify-pay");
	}
}

/* Its port comes from the environment that it shares with the agents. */
static void published_port(
	const struct opt_table *t, const struct opt_given *given, struct probe_options *o)
{
	const char *port = getenv("TCPXO_PROBER_SERVER_PORT");

	if (port && !opt_was_given(t, given, "port") && atoi(port) > 0 && atoi(port) < 65536)
		o->port = atoi(port);
}

static int run(int act, const struct probe_options *o, struct err *e)
{
	struct hosts hosts;
	int ret;

	if (o->nic_ips) /* it finds its hosts among them */
		return probe_load(o, NULL, e);
	ret = hosts_find(&hosts, o->hosts, o->hosts_file, e);
	if (ret)
		return ret;
	switch (1 << act) {
	case ACT_MESH:
		ret = probe_mesh(o, &hosts, e);
		break;
	case ACT_LOAD:
		ret = probe_load(o, &hosts, e);
		break;
	case ACT_PAIRS:
		ret = probe_pairs(o, &hosts, e);
		break;
	default:
		ret = probe_pings(o, &hosts, 1 << act == ACT_START, e);
		ret = ret > 0 ? STATUS_FAILED : ret;
	}
	hosts_free(&hosts);
	return ret;
}

int cmd_probe(int argc, char **argv)
{
	struct opt_table table = probe_option_table;
	struct probe_options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	struct out out;
	int act = -1, ret;

	log_set_program("weir probe");
	for (int i = 0; argc > 1 && i < ACTS; i++)
		if (!strcmp(argv[1], acts[i]))
			act = i;
	if (act >= 0) {
		table.variant = 1u << act;
		table.command = commands[act];
		table.usage = "[options]";
	}
	if (act < 0 && (argc < 2 || argv[1][0] != '-')) {
		if (argc > 1)
			log_error("there is no probe \"%s\"", argv[1]);
		log_error("usage: weir probe %s", table.usage);
		return STATUS_USAGE;
	}
	for (int i = 2; act >= 0 && 1 << act == ACT_LOAD && i < argc; i++)
		as_published(argv[i]);
	if (opt_parse(&table, argc - (act >= 0), argv + (act >= 0), &o, &given, &e)) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (o.help || act < 0) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&table, &out);
		return o.help ? STATUS_GOOD : STATUS_USAGE;
	}
	if (!!o.tls.cert != !!o.tls.key || !!o.tls.cert != !!o.tls.ca) {
		log_error("--cert, --key and --ca belong together");
		return STATUS_USAGE;
	}
	/* mesh writes its rows as they come, so it begins with opening that file. */
	if (file_try(o.out, "out", &e) || (1 << act == ACT_PAIRS && file_try(o.csv, "csv", &e))) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (1 << act == ACT_LOAD)
		published_port(&table, &given, &o);
	ret = run(act, &o, &e);
	if (ret < 0)
		log_error_err(&e);
	return ret == -EINVAL ? STATUS_USAGE : ret < 0 ? STATUS_FAILED : ret;
}
