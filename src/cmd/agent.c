// SPDX-License-Identifier: BSD-3-Clause
/* weir agent: the one long-running process of a host; also by the name of the published prober. */
#include "probe/agent.h"
#include <stdlib.h>

#include "base/log.h"
#include "cmd/cmd.h"

struct options {
	struct agent_options agent;
	bool verbose, help;
};

#define FIELD(type, field) OPT_FIELD(type, struct options, field)

static const char *const memory_choices[] = { "host", "udmabuf", "cuda", NULL }; /* enum mem_kind */

static const struct opt opts[] = {
	{ .name = "nics",
		FIELD(OPT_STRING, agent.nics),
		.arg = "ADDRESSES",
		.section = "probing",
		.help = "addresses of the NICs of this host that probe and answer, in rail order, commas "
			"between them; one of every physical interface by default" },
	{ .name = "data-port",
		FIELD(OPT_INT, agent.data_port),
		.arg = "PORT",
		.initial = "0",
		.min = 0,
		.max = 65535,
		.help = "port on each NIC where probes are answered; 0: the system chooses" },
	{ .name = "connections-per-nic",
		FIELD(OPT_INT, agent.connections_per_nic),
		.arg = "N",
		.initial = "0",
		.min = 0,
		.max = 1000000,
		.help = "most connections of a NIC, those that probe and those that answer counted "
			"apart; 0: no limit" },
	{ .name = "max-qps",
		FIELD(OPT_INT, agent.max_qps),
		.arg = "N",
		.initial = "5",
		.min = 0,
		.max = 10000,
		.help = "most probes per second and target of StartPings; 0: no limit" },
	{ .name = "payload",
		FIELD(OPT_SIZE, agent.payload_bytes),
		.arg = "BYTES",
		.initial = "1",
		.min = 1,
		.max = 2 << 20,
		.help = "payload of the probes of StartPings" },
	{ .name = "mem",
		FIELD(OPT_CHOICE, agent.memory),
		.arg = "KIND",
		.choices = memory_choices,
		.initial = "host",
		.help = "memory that payloads leave from, arrive in and are answered from, by copies "
			"through the host; cuda: of the GPU of each rail" },
	{ .name = "listen",
		FIELD(OPT_STRING, agent.listen),
		.arg = "ADDRESSES",
		.section = "control",
		.help = "addresses for gRPC, commas between them; all addresses when there are "
			"certificates or --insecure, loopback otherwise" },
	{ .name = "port",
		.letter = 'p',
		FIELD(OPT_INT, agent.port),
		.arg = "PORT",
		.initial = "8080",
		.min = 1,
		.max = 65535,
		.help = "port for gRPC, the same on every agent" },
	{ .name = "metrics-port",
		FIELD(OPT_INT, agent.metrics_port),
		.arg = "PORT",
		.initial = "0",
		.min = 0,
		.max = 65535,
		.help = "serve /metrics to Prometheus on this port; 0: do not" },
	{ .name = "metrics-listen",
		FIELD(OPT_STRING, agent.metrics_listen),
		.arg = "ADDRESS",
		.help = "address for /metrics; loopback by default, another needs --insecure" },
	{ .name = "cert",
		FIELD(OPT_STRING, agent.tls.cert),
		.arg = "FILE",
		.help = "certificate of this host (PEM)" },
	{ .name = "key",
		FIELD(OPT_STRING, agent.tls.key),
		.arg = "FILE",
		.help = "its private key (PEM)" },
	{ .name = "ca",
		FIELD(OPT_STRING, agent.tls.ca),
		.arg = "FILE",
		.help = "authority that agents' and controllers' certificates must lead to (PEM)" },
	{ .name = "insecure",
		FIELD(OPT_BOOL, agent.insecure),
		.help = "listen beyond loopback without certificates: whoever reaches the port may "
			"start probes" },
	{ .name = "results",
		FIELD(OPT_STRING, agent.results_dir),
		.arg = "DIR",
		.section = "results",
		.help = "write a line of CSV per probe to files in DIR" },
	{ .name = "results-prefix",
		FIELD(OPT_STRING, agent.results_prefix),
		.arg = "NAME",
		.initial = "tcpxo_probe_results",
		.help = "what the names of these files begin with" },
	{ .name = "rotate",
		FIELD(OPT_DURATION, agent.rotation_ns),
		.arg = "TIME",
		.initial = "3600",
		.unit = "s",
		.help = "begin a new file after so long; 0: never" },
	{ .name = "flush",
		FIELD(OPT_DURATION, agent.flush_ns),
		.arg = "TIME",
		.initial = "5",
		.unit = "s",
		.help = "write rows so often; a crash loses no more than that" },
	{ .name = "verbose",
		.letter = 'v',
		FIELD(OPT_BOOL, verbose),
		.section = "all",
		.help = "say more on stderr" },
	{ .name = "help", .letter = 'h', FIELD(OPT_BOOL, help), .help = "show this help" },
	{ 0 },
};

const struct opt_table agent_option_table = {
	.command = "agent",
	.usage = "[--nics ADDRESSES] [options]",
	.summary = "the process on every host that probes, answers probes and keeps results",
	.examples =
		"  weir agent --nics 10.0.1.1,10.0.2.1 --cert host.pem --key host.key --ca cluster.pem\n"
		"  weir agent --nics 127.0.0.1 --results /tmp\n",
	.opts = opts,
};

static int run(const struct agent_options *o)
{
	struct err e = { 0 };
	int stop = stop_on_signals(&e);

	if (stop < 0 || agent_run(o, stop, &e)) {
		log_error_err(&e);
		return e.code == EINVAL ? STATUS_USAGE : STATUS_FAILED;
	}
	return STATUS_GOOD;
}

int prober_main(int argc, char **argv)
{
	struct agent_options o;
	struct err e = { 0 };

	(void)argv;
	log_set_program("prober");
	log_set_level(LOG_LEVEL_INFO);
	if (argc > 1) {
		log_error("takes no arguments: it is set by TCPXO_PROBER_* in the environment; see "
			  "weir agent --help for more");
		return STATUS_USAGE;
	}
	agent_options_init(&o);
	if (agent_options_environ(&o, &e)) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	log_warn("anyone who reaches port %d can start probes: as published, there is no "
		 "authentication; weir agent has certificates",
		(int)o.port);
	return run(&o);
}

/* Empty is unset: a manifest may name a variable and have nothing to say. */
static const char *from_environ(const char *name)
{
	const char *text = getenv(name);

	return text && text[0] ? text : NULL;
}

int cmd_agent(int argc, char **argv)
{
	struct options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	struct out out;

	log_set_program("weir agent");
	if (opt_parse(&agent_option_table, argc, argv, &o, &given, &e)) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (o.help) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&agent_option_table, &out);
		return STATUS_GOOD;
	}
	if (!!o.agent.tls.cert != !!o.agent.tls.key || !!o.agent.tls.cert != !!o.agent.tls.ca) {
		log_error("--cert, --key and --ca belong together");
		return STATUS_USAGE;
	}
	/* As the published prober: what a unit file or a manifest sets. */
	if (!o.agent.nics)
		o.agent.nics = from_environ("TCPXO_PROBER_GPU_NIC_IPS");
	if (!o.agent.results_dir)
		o.agent.results_dir = from_environ("TCPXO_PROBER_OUTPUT_FILES_PATH");
	if (!o.agent.flush_ns)
		o.agent.flush_ns = 100000000;
	log_set_level(o.verbose ? LOG_LEVEL_INFO : LOG_LEVEL_WARN);
	return run(&o.agent);
}
