// SPDX-License-Identifier: BSD-3-Clause
#include "flow/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/units.h"

const char *const workload_name[WORKLOADS] = { "stream", "rr", "crr" };

static const char *const format_choices[] = { "table", "json", "kv", NULL };
static const char *const protocol_choices[] = { "auto", "neper", "weir", NULL };
static const char *const memory_choices[] = { "host", "udmabuf", "cuda", NULL };
static const char *const path_choices[] = { "auto", "devmem", "staged", NULL };
static const char *const validate_choices[] = { "no", "published", "seeded", NULL };

#define FIELD(type, field) OPT_FIELD(type, struct flow_options, field)
#define FLAG(field)	   FIELD(OPT_BOOL, field)
#define PORT_RANGE	   .min = 1, .max = 65535
#define COUNT_RANGE	   .min = 1, .max = 1000000
#define SIZE_RANGE	   .min = 1, .max = 1 << 30
#define RR_OR_CRR	   (FOR_RR | FOR_CRR)

/* One line per option would hide the shape: formatted by hand. */
/* clang-format off */
static const struct opt options[] = {
	{ .name = "client", .letter = 'c', FLAG(client), .section = "Who and where", .help = "be the client; otherwise the server" },
	{ .name = "host", .letter = 'H', FIELD(OPT_STRING, host), .arg = "HOST", .help = "client: the server's name or address (loopback); server: the address to listen on (all)" },
	{ .name = "control-port", .letter = 'C', FIELD(OPT_INT, control_port), .arg = "PORT", .initial = "12866", PORT_RANGE, .help = "control port" },
	{ .name = "port", .letter = 'P', FIELD(OPT_INT, port), .arg = "PORT", .initial = "12867", PORT_RANGE, .help = "first data port" },
	{ .name = "num-ports", FIELD(OPT_INT, num_ports), .arg = "N", .initial = "1", .min = 1, .max = 1024, .help = "consecutive data ports; flow k goes to the (k mod N)-th" },
	{ .name = "local-hosts", .letter = 'L', FIELD(OPT_STRING, local_hosts), .arg = "A,B", .help = "client: source addresses, dealt to the flows in turn" },
	{ .name = "bind-dev", FIELD(OPT_STRING, bind_dev), .arg = "NIC", .help = "leave and arrive through this interface alone, whatever the routes say" },
	{ .name = "source-port", FIELD(OPT_INT, source_port), .arg = "PORT", .initial = "-1", .min = -1, .max = 65535, .help = "client: flow k leaves from PORT + k" },
	{ .name = "ipv4", .letter = '4', FLAG(ipv4), .help = "IPv4 only" },
	{ .name = "ipv6", .letter = '6', FLAG(ipv6), .help = "IPv6 only; a server also takes IPv4 clients" },
	{ .name = "freebind", FLAG(freebind), .help = "bind to addresses that are not there yet" },
	{ .name = "once", FLAG(once), .help = "server: end after one test" },
	{ .name = "num-clients", FIELD(OPT_INT, num_clients), .arg = "N", .initial = "1", .min = 1, .max = 1024, .help = "server: take N clients together as one test" },
	{ .name = "listen-backlog", FIELD(OPT_INT, listen_backlog), .arg = "N", .initial = "4096", COUNT_RANGE, .help = "server: connections that may wait to be accepted" },
	{ .name = "protocol", FIELD(OPT_CHOICE, protocol), .arg = "NAME", .initial = "auto", .choices = protocol_choices, .help = "what to speak to the peer" },
	{ .name = "magic", FIELD(OPT_INT, magic), .arg = "N", .initial = "42", .min = -2147483648.0, .max = 2147483647.0, .help = "number in every control message, the same at both ends" },

	{ .name = "num-threads", .letter = 'T', FIELD(OPT_INT, num_threads), .arg = "N", .initial = "1", .min = 1, .max = 1024, .section = "How much", .help = "worker threads; a server that was not told follows its client" },
	{ .name = "num-flows", .letter = 'F', FIELD(OPT_INT, num_flows), .arg = "N", .initial = "1", COUNT_RANGE, .help = "connections in all" },
	{ .name = "test-length", .letter = 'l', FIELD(OPT_NUMBER, test_length), .arg = "SECONDS", .initial = "10", .min = -1e12, .max = 1e6, .kv_format = "%g", .help = "measured time; negative: so many transactions (rr, crr)" },
	{ .name = "warmup", FIELD(OPT_NUMBER, warmup), .arg = "SECONDS", .initial = "-1", .min = -1, .max = 1e6, .kv_format = "%g", .help = "time before the measured time, not counted; -1: a tenth of the length, 1 s at most" },
	{ .name = "interval", .letter = 'I', FIELD(OPT_NUMBER, interval), .arg = "SECONDS", .initial = "1", .min = 0.001, .max = 1e6, .help = "time between samples; 0.2 s for tests shorter than five of them" },
	{ .name = "connect-timeout", FIELD(OPT_NUMBER, connect_timeout), .arg = "SECONDS", .initial = "3", .min = 0, .max = 3600, .kv_format = "%g", .help = "client: keep trying while the server is not there yet" },
	{ .name = "wait-start", FIELD(OPT_INT, wait_start), .arg = "SECONDS", .initial = "0", .min = 0, .max = 3600, .help = "client: pause between the handshake and the first connection" },
	{ .name = "suicide-length", .letter = 's', FIELD(OPT_INT, suicide_length), .arg = "SECONDS", .initial = "0", .min = 0, .max = 1e6, .help = "end the process after this time, whatever it does" },

	{ .name = "buffer-size", .letter = 'B', FIELD(OPT_SIZE, buffer_size), .arg = "BYTES", .initial = "16384", SIZE_RANGE, .only = FOR_STREAM, .section = "What is sent", .help = "bytes per send and receive call; from and into device memory in whole packets, and more where it is to be had" },
	{ .name = "request-size", .letter = 'Q', FIELD(OPT_SIZE, request_size), .arg = "BYTES", .initial = "1", SIZE_RANGE, .only = RR_OR_CRR, .section = "What is sent", .help = "bytes of a request" },
	{ .name = "response-size", .letter = 'R', FIELD(OPT_SIZE, response_size), .arg = "BYTES", .initial = "1", SIZE_RANGE, .only = RR_OR_CRR, .help = "bytes of a response" },
	{ .name = "buffer-size", .letter = 'B', FIELD(OPT_SIZE, buffer_size), .arg = "BYTES", .initial = "65536", SIZE_RANGE, .only = RR_OR_CRR, .help = "most bytes per send and receive call" },
	{ .name = "enable-read", .letter = 'r', FLAG(enable_read), .only = FOR_STREAM, .help = "receive as well: with -c both directions at once" },
	{ .name = "enable-write", .letter = 'w', FLAG(enable_write), .only = FOR_STREAM, .help = "send as well: at a server, with a neper client that reads" },
	{ .name = "enable-tcp-maerts", .letter = 'M', FLAG(enable_tcp_maerts), .only = FOR_STREAM, .help = "the server sends, the client receives" },
	{ .name = "split-bidir", FLAG(split_bidir), .only = FOR_STREAM, .help = "both directions, each on flows of its own (twice as many)" },
	{ .name = "mem", FIELD(OPT_CHOICE, memory), .arg = "KIND", .initial = "host", .choices = memory_choices, .only = FOR_STREAM | FOR_RR, .help = "memory to send from and receive into, at this end" },
	{ .name = "mem", FIELD(OPT_CHOICE, memory), .arg = "KIND", .initial = "host", .choices = memory_choices, .only = FOR_CRR, .help = "host alone: every transaction has a connection of its own, and would need a steering rule of its own first" },
	{ .name = "validate", FIELD(OPT_CHOICE, validate), .arg = "PATTERN", .initial = "no", .implied = "seeded", .choices = validate_choices, .only = FOR_STREAM | FOR_RR, .help = "send a pattern and check every byte received, by its position in the stream" },
	{ .name = "validate-cycle", FIELD(OPT_SIZE, validate_cycle), .arg = "BYTES", .initial = "0", .max = 1 << 30, .only = FOR_STREAM | FOR_RR, .help = "length after which the pattern repeats; 0: the buffer size" },
	{ .name = "tcpd-validate", FLAG(tcpd_validate), .only = FOR_STREAM, .help = "the same as --validate=published" },
	{ .name = "rate", FIELD(OPT_NUMBER, rate), .arg = "N", .initial = "0", .min = 0, .max = 1e12, .kv_format = "%g", .only = RR_OR_CRR, .help = "open loop: N transactions per second over all flows, begun on schedule whether or not the last has ended; latency counts from the intended start (0: closed loop)" },
	{ .name = "outstanding", FIELD(OPT_INT, outstanding), .arg = "N", .initial = "1", .min = 1, .max = 4096, .only = FOR_RR, .help = "requests under way on each flow" },
	{ .name = "delay", .letter = 'D', FIELD(OPT_DURATION, delay), .arg = "TIME", .initial = "0", .unit = "ns", .only = FOR_STREAM | FOR_RR, .help = "time between the starts of two sends of a flow, on an absolute schedule" },
	{ .name = "noburst", FIELD(OPT_DURATION, noburst), .arg = "TIME", .initial = "0", .unit = "ns", .only = FOR_RR, .help = "time between the starts of any two requests of this client" },
	{ .name = "max-pacing-rate", .letter = 'm', FIELD(OPT_RATE, max_pacing_rate), .arg = "RATE", .initial = "0", .help = "most per flow, as 10Gb (bits) or 1GB (bytes) per second" },

	{ .name = "path", FIELD(OPT_CHOICE, path), .arg = "NAME", .initial = "auto", .choices = path_choices, .only = FOR_STREAM | FOR_RR, .section = "Device memory", .help = "how bytes get between the NIC and --mem udmabuf or cuda: by the NIC itself (devmem), through host memory (staged), or what this machine can (auto)" },
	{ .name = "nic", FIELD(OPT_STRING, nic), .arg = "NIC", .only = FOR_STREAM | FOR_RR, .help = "interface or PCI address; the one that carries the control connection otherwise" },
	{ .name = "gpu", FIELD(OPT_STRING, gpu), .arg = "GPU", .only = FOR_STREAM | FOR_RR, .help = "index or PCI address; the first otherwise" },
	{ .name = "mem-size", FIELD(OPT_SIZE, mem_size), .arg = "BYTES", .initial = "64M", .min = 4096, .max = 1099511627776.0, .only = FOR_STREAM | FOR_RR, .help = "size of the memory that is bound to the NIC" },
	{ .name = "queues", FIELD(OPT_STRING, queues), .arg = "LIST", .only = FOR_STREAM | FOR_RR, .help = "receive queues for device memory, as 8-11; the last quarter of the NIC's otherwise" },
	{ .name = "rx-copy", FLAG(rx_copy), .only = FOR_STREAM, .help = "gather what was received into one piece, where the memory is" },
	{ .name = "tcpd-nic-pci-addr", FIELD(OPT_STRING, tcpd_nic_pci_addr), .arg = "PCI", .only = FOR_STREAM, .help = "device memory on, by this NIC" },
	{ .name = "tcpd-gpu-pci-addr", FIELD(OPT_STRING, tcpd_gpu_pci_addr), .arg = "PCI", .only = FOR_STREAM, .help = "the same as --mem cuda --gpu PCI" },
	{ .name = "tcpd-link-name", FIELD(OPT_STRING, tcpd_link_name), .arg = "NIC", .only = FOR_STREAM, .help = "the same as --nic" },
	{ .name = "tcpd-phys-len", FIELD(OPT_SIZE, tcpd_phys_len), .arg = "BYTES", .initial = "0", .only = FOR_STREAM, .help = "the same as --mem-size" },
	{ .name = "tcpd-src-ip", FIELD(OPT_STRING, tcpd_src_ip), .arg = "IP", .only = FOR_STREAM, .help = "accepted; weir steers each flow by its own addresses" },
	{ .name = "tcpd-dst-ip", FIELD(OPT_STRING, tcpd_dst_ip), .arg = "IP", .only = FOR_STREAM, .help = "accepted; weir steers each flow by its own addresses" },
	{ .name = "queue-start", FIELD(OPT_INT, queue_start), .arg = "N", .initial = "8", .min = 0, .max = 4095, .only = FOR_STREAM, .help = "first receive queue for device memory" },
	{ .name = "queue-num", FIELD(OPT_INT, queue_num), .arg = "N", .initial = "4", .min = 1, .max = 4095, .only = FOR_STREAM, .help = "how many receive queues for device memory" },
	{ .name = "tcpd-rx-cpy", FLAG(tcpd_rx_cpy), .only = FOR_STREAM, .help = "the same as --rx-copy" },
	{ .name = "congestion-control", FIELD(OPT_STRING, congestion_control), .arg = "NAME", .section = "How it is sent", .help = "TCP congestion control" },
	{ .name = "no-delay", FLAG(no_delay), .only = FOR_STREAM, .help = "TCP_NODELAY" },
	{ .name = "no-delay", FLAG(no_delay), .only = RR_OR_CRR, .help = "TCP_NODELAY; on unless called as tcp_rr or tcp_crr (--no-no-delay turns it off)" },
	{ .name = "no-cork", FLAG(no_cork), .only = FOR_STREAM, .help = "send without MSG_MORE" },
	{ .name = "zerocopy", .letter = 'Z', FLAG(zerocopy), .only = FOR_STREAM, .help = "send with MSG_ZEROCOPY" },
	{ .name = "rx-zerocopy", .letter = 'z', FLAG(rx_zerocopy), .only = FOR_STREAM, .help = "receive by mapping pages (TCP_ZEROCOPY_RECEIVE)" },
	{ .name = "skip-rx-copy", FLAG(skip_rx_copy), .only = FOR_STREAM, .help = "receive with MSG_TRUNC: an upper bound without the copy" },
	{ .name = "rx-coalesce", FIELD(OPT_DURATION, rx_coalesce), .arg = "TIME", .initial = "200us", .unit = "us", .max = 1e9, .only = FOR_STREAM, .help = "let a receiver sleep until about so much time's worth of data has come (SO_RCVLOWAT); 0: wake it for every byte" },
	{ .name = "edge-trigger", .letter = 'E', FLAG(edge_trigger), .only = FOR_STREAM, .help = "edge-triggered epoll" },
	{ .name = "busy-poll", FLAG(busy_poll), .help = "never sleep while waiting for data" },
	{ .name = "spin", FIELD(OPT_DURATION, spin), .arg = "TIME", .initial = "50us", .unit = "us", .max = 1e9, .only = RR_OR_CRR, .help = "look again for so long before going to sleep, as long as that pays; 0: sleep at once, as tcp_rr and tcp_crr do" },
	{ .name = "tcp-fastopen", .letter = 'X', FLAG(tcp_fastopen), .help = "client: TCP fast open" },
	{ .name = "tcp-tx-delay", .letter = 't', FIELD(OPT_INT, tcp_tx_delay), .arg = "USEC", .initial = "0", .min = 0, .max = 1e9, .help = "delay every packet in this host" },
	{ .name = "mark", .letter = 'M', FIELD(OPT_INT, mark), .arg = "N", .initial = "0", .min = 0, .max = 4294967295.0, .only = RR_OR_CRR, .help = "SO_MARK" },
	{ .name = "mark", FIELD(OPT_INT, mark), .arg = "N", .initial = "0", .min = 0, .max = 4294967295.0, .only = FOR_STREAM, .help = "SO_MARK" },
	{ .name = "time-wait", FLAG(time_wait), .help = "client: close without reset, leaving TIME_WAIT" },
	{ .name = "reuseaddr", .letter = 'R', FLAG(reuseaddr), .only = FOR_STREAM, .help = "SO_REUSEADDR on data sockets" },
	{ .name = "reuseaddr", FLAG(reuseaddr), .only = FOR_RR, .help = "SO_REUSEADDR on data sockets" },
	{ .name = "debug", .letter = 'd', FLAG(debug), .help = "SO_DEBUG on data sockets" },
	{ .name = "async-connect", FLAG(async_connect), .help = "accepted; weir always connects this way" },
	{ .name = "nonblocking", FLAG(nonblocking), .help = "accepted; weir never waits without a deadline" },
	{ .name = "maxevents", FIELD(OPT_INT, maxevents), .arg = "N", .initial = "1000", COUNT_RANGE, .help = "events taken per epoll call, 1024 at most" },

	{ .name = "pin-cpu", .letter = 'U', FLAG(pin_cpu), .section = "Where it runs", .help = "bind thread i to the i-th allowed CPU" },
	{ .name = "cpus", FIELD(OPT_STRING, cpus), .arg = "LIST", .help = "bind thread i to the i-th CPU of a list such as 2-5,8" },
	{ .name = "stime-use-proc", .letter = 'S', FLAG(stime_use_proc), .help = "kv: system time of the whole machine, from /proc/stat" },

	{ .name = "format", FIELD(OPT_CHOICE, format), .arg = "NAME", .initial = "table", .choices = format_choices, .section = "What is printed", .help = "how results are printed" },
	{ .name = "json", FLAG(json), .help = "the same as --format json: events while running, one record at the end" },
	{ .name = "out", FIELD(OPT_STRING, out), .arg = "FILE", .help = "also write the run record to FILE, as JSON" },
	{ .name = "counters", FLAG(counters), .help = "both hosts' counters before and after the run, what moved and what it means" },
	{ .name = "percentiles", .letter = 'p', FIELD(OPT_STRING, percentiles), .arg = "LIST", .only = RR_OR_CRR, .help = "latency percentiles, as 50,90,99,99.9; one is printed when ten samples lie beyond it" },
	{ .name = "throughput-opt", FIELD(OPT_STRING, throughput_opt), .arg = "UNIT", .initial = "Mb", .only = FOR_STREAM, .help = "kv: unit of throughput, as Mb, GB, GiB, auto-b" },
	{ .name = "all-samples", .letter = 'A', FIELD(OPT_STRING, all_samples), .arg = "FILE", .implied = "samples.csv", .help = "every sample of every flow as CSV" },
	{ .name = "log-rtt", FIELD(OPT_STRING, log_rtt), .arg = "FILE", .implied = "rtt_samples.txt", .only = RR_OR_CRR, .help = "client: every latency measured" },
	{ .name = "logrtt-entries-per-flow", FIELD(OPT_INT, logrtt_entries_per_flow), .arg = "N", .initial = "10000", COUNT_RANGE, .only = RR_OR_CRR, .help = "latencies kept per flow for --log-rtt" },
	{ .name = "iostat-ms", FIELD(OPT_INT, iostat_ms), .arg = "MS", .initial = "0", .min = 0, .max = 1e9, .help = "client, kv: a line of operations and bytes every MS milliseconds" },
	{ .name = "quiet", .letter = 'q', FLAG(quiet), .help = "no progress line" },
	{ .name = "verbose", FLAG(verbose), .help = "say more on stderr" },
	{ .name = "logtostderr", FLAG(logtostderr), .help = "the same as --verbose" },
	{ .name = "nolog", FLAG(nolog), .help = "accepted; weir writes no log files" },
	{ .name = "dry-run", .letter = 'n', FLAG(dry_run), .help = "check the options, print them and end" },
	{ .name = "help", .letter = 'h', FLAG(help), .help = "print this and end" },
	{ .name = "version", .letter = 'v', FLAG(version), .help = "print the version and end" },
	{ 0 },
};
/* clang-format on */

const struct opt_table flow_option_table[WORKLOADS] = {
	[WORKLOAD_STREAM] = {
		.command = "stream", .opts = options, .variant = FOR_STREAM,
		.usage = "[-c -H HOST] [options]",
		.summary = "bulk TCP throughput between two hosts. Start the server first, then the client with -c.",
		.examples = "  weir stream                             a server, until stopped\n"
			    "  weir stream -c -H node2 -F 8 -T 4       8 flows by 4 threads for 10 s\n"
			    "  weir stream -c -H node2 -M --json       the server sends; JSON\n",
	},
	[WORKLOAD_RR] = {
		.command = "rr", .opts = options, .variant = FOR_RR,
		.usage = "[-c -H HOST] [options]",
		.summary = "request/response latency and rate on open TCP connections.",
		.examples = "  weir rr                                 a server, until stopped\n"
			    "  weir rr -c -H node2 -F 16 -T 2          16 flows, closed loop, for 10 s\n"
			    "  weir rr -c -H node2 -F 16 --rate 50000  latency under a given load\n",
	},
	[WORKLOAD_CRR] = {
		.command = "crr", .opts = options, .variant = FOR_CRR,
		.usage = "[-c -H HOST] [options]",
		.summary = "connect/request/response: a new TCP connection for every transaction.",
		.examples = "  weir crr                                a server, until stopped\n"
			    "  weir crr -c -H node2 -F 16 -T 2         16 at a time for 10 s\n",
	},
};

/* neper's spelling: 999 and 9999 mean 99.9 and 99.99. */
static int percentile_add(struct flow_options *o, double p, struct err *e)
{
	int i = o->percentile_count;

	if (p == 999 || p == 9999)
		p = p == 999 ? 99.9 : 99.99;
	if (!(p >= 0 && p <= 100))
		return err_set(e, EINVAL, "--percentiles: %g is not between 0 and 100", p);
	if (i == PERCENTILES_MAX)
		return err_set(e, EINVAL, "--percentiles: more than %d values", PERCENTILES_MAX);
	while (i > 0 && o->percentile[i - 1] > p)
		i--;
	if (i > 0 && o->percentile[i - 1] == p)
		return 0;
	memmove(&o->percentile[i + 1], &o->percentile[i],
		(size_t)(o->percentile_count - i) * sizeof(o->percentile[0]));
	o->percentile[i] = p;
	o->percentile_count++;
	return 0;
}

static int percentiles_parse(struct flow_options *o, const char *list, struct err *e)
{
	char *end;
	int ret;

	o->percentile_count = 0;
	while (*list) {
		double p = strtod(list, &end);

		if (end == list) {
			err_set(e, EINVAL, "--percentiles: \"%s\" is not a number", list);
			return err_hint(e, "for example: --percentiles 50,90,99,99.9");
		}
		ret = percentile_add(o, p, e);
		if (ret)
			return ret;
		list = *end ? end + 1 : end;
	}
	return 0;
}

static int check_conflicts(const struct flow_options *o, enum workload w, struct err *e)
{
	if (o->client && o->num_flows < o->num_threads) {
		err_set(e, EINVAL,
			"--num-flows %lld is less than --num-threads %lld: some threads would idle",
			(long long)o->num_flows, (long long)o->num_threads);
		return err_hint(e, "for example: -T %lld -F %lld", (long long)o->num_threads,
			(long long)o->num_threads);
	}
	if (o->skip_rx_copy && o->rx_zerocopy)
		return err_set(e, EINVAL, "--skip-rx-copy and --rx-zerocopy exclude each other");
	if (o->validate && (o->skip_rx_copy || o->rx_zerocopy))
		return err_set(e, EINVAL,
			"--validate looks at every byte: it excludes --skip-rx-copy and --rx-zerocopy");
	if (o->memory && w == WORKLOAD_CRR) {
		err_set(e, EINVAL,
			"--mem %s: crr has host memory alone, for a new connection would need a steering rule before its first byte",
			memory_choices[o->memory]);
		return err_hint(e, "requests between device memories: weir rr --mem %s",
			memory_choices[o->memory]);
	}
	if (o->local_hosts && !o->client)
		return err_set(e, EINVAL, "--local-hosts is for the client (-c)");
	if (o->local_hosts && o->source_port > 0)
		return err_set(e, EINVAL, "--local-hosts and --source-port exclude each other");
	if (o->delay && o->noburst)
		return err_set(e, EINVAL, "--delay and --noburst exclude each other");
	if (o->rate > 0 && (o->delay || o->noburst))
		return err_set(e, EINVAL, "--rate excludes --delay and --noburst");
	if (o->rate > 0 && o->rate < 0.001)
		return err_set(e, EINVAL,
			"--rate %g is less than one transaction in a thousand seconds", o->rate);
	if (o->logtostderr && o->nolog)
		return err_set(e, EINVAL, "--logtostderr and --nolog exclude each other");
	if (o->pin_cpu && o->cpus)
		return err_set(e, EINVAL, "--pin-cpu and --cpus exclude each other");
	if (o->source_port == 0)
		return err_set(e, EINVAL, "--source-port 0 is not a port from 1 to 65535");
	if (o->source_port > 0 && o->source_port + o->num_flows - 1 > 65535)
		return err_set(e, EINVAL, "--source-port %lld and %lld flows end beyond port 65535",
			(long long)o->source_port, (long long)o->num_flows);
	if (o->port + o->num_ports - 1 > 65535)
		return err_set(e, EINVAL, "--port %lld and %lld ports end beyond port 65535",
			(long long)o->port, (long long)o->num_ports);
	if (o->control_port >= o->port && o->control_port < o->port + o->num_ports)
		return err_set(e, EINVAL, "--control-port %lld is also a data port",
			(long long)o->control_port);
	if (o->test_length == 0 ||
		(o->test_length < 0 && (w == WORKLOAD_STREAM || o->test_length > -1))) {
		err_set(e, EINVAL, "--test-length %g is not a time", o->test_length);
		return err_hint(
			e, w == WORKLOAD_STREAM
				   ? "for example: -l 10"
				   : "for example: -l 10 (seconds) or -l -1000 (transactions)");
	}
	return 0;
}

static int check_cpus(const char *list, struct err *e)
{
	struct cpus wanted, allowed;
	char text[128];

	if (cpus_parse(&wanted, list, e))
		return err_prefix(e, "--cpus");
	if (!wanted.count)
		return err_set(e, EINVAL, "--cpus \"%s\" names no CPU", list);
	if (cpus_allowed(&allowed, e))
		return -e->code;
	for (int i = 0; i < wanted.count; i++)
		if (!cpus_has(&allowed, cpus_nth(&wanted, i)))
			return err_set(e, EINVAL,
				"--cpus %s: this process may not run on CPU %d, only on %s", list,
				cpus_nth(&wanted, i), cpus_format(&allowed, text, sizeof(text)));
	return 0;
}

/* What the flags of neper's tcpd branch mean in weir's own. */
static void options_from_tcpd(
	struct flow_options *o, const struct opt_given *given, enum workload w)
{
	const struct opt_table *t = &flow_option_table[w];

	if (o->tcpd_validate && !o->validate)
		o->validate = VALIDATE_PUBLISHED;
	if (o->tcpd_nic_pci_addr && !o->memory)
		o->memory = o->tcpd_gpu_pci_addr ? MEMORY_CUDA : MEMORY_UDMABUF;
	if (o->tcpd_gpu_pci_addr && !o->gpu)
		o->gpu = o->tcpd_gpu_pci_addr;
	if (!o->nic)
		o->nic = o->tcpd_link_name ? o->tcpd_link_name : o->tcpd_nic_pci_addr;
	if (o->tcpd_phys_len)
		o->mem_size = o->tcpd_phys_len;
	o->rx_copy |= o->tcpd_rx_cpy;
	o->queues_given = o->queues || opt_was_given(t, given, "queue-start") ||
			  opt_was_given(t, given, "queue-num");
}

int flow_options_check(
	struct flow_options *o, enum workload w, const struct opt_given *given, struct err *e)
{
	struct units_rate unit;
	int ret;

	options_from_tcpd(o, given, w);
	if (o->validate && !o->validate_cycle)
		o->validate_cycle = o->buffer_size;
	ret = check_conflicts(o, w, e);
	if (!ret && o->wait_start && !o->client)
		ret = err_set(e, EINVAL, "--wait-start is for the client (-c)");
	if (!ret && o->percentiles)
		ret = percentiles_parse(o, o->percentiles, e);
	if (!ret && o->throughput_opt && units_rate_lookup(o->throughput_opt, 1, &unit, e))
		ret = err_prefix(e, "--throughput-opt");
	if (!ret && o->cpus)
		ret = check_cpus(o->cpus, e);
	if (ret)
		return ret;
	if (o->json)
		o->format = FORMAT_JSON;
	o->interval_given = opt_was_given(&flow_option_table[w], given, "interval");
	return 0;
}

bool flow_options_reads(const struct flow_options *o, enum workload w)
{
	if (w != WORKLOAD_STREAM)
		return true;
	if (o->enable_tcp_maerts)
		return o->client;
	return !o->client || o->enable_read || o->split_bidir;
}

bool flow_options_writes(const struct flow_options *o, enum workload w)
{
	if (w != WORKLOAD_STREAM)
		return true;
	if (o->enable_tcp_maerts)
		return !o->client;
	return o->client || o->enable_write || o->split_bidir;
}

/* What the client asks of the server. Where the server's user said otherwise, the server keeps its
 * own value, or refuses when the figures would mean something else. The server's own paths (zero
 * copy, pinning, ports) are not asked. */
static const struct agreed {
	const char *name;
	bool must_match;
} agreed[] = {
	{ "test-length", true },
	{ "warmup", true },
	{ "request-size", true },
	{ "response-size", true },
	{ "enable-read", true },
	{ "enable-write", true },
	{ "enable-tcp-maerts", true },
	{ "split-bidir", true },
	{ "validate", true },
	{ "validate-cycle", true },
	{ "wait-start", false },
	{ "num-flows", false },
	{ "num-threads", false },
	{ "rate", false },
	{ "outstanding", false },
	{ "delay", false },
	{ "noburst", false },
	{ "interval", false },
	{ "buffer-size", false },
	{ "no-delay", false },
	{ "congestion-control", false },
	{ "max-pacing-rate", false },
	{ "rx-coalesce", false },
	{ "busy-poll", false },
	{ "spin", false },
	{ "counters", false },
	{ NULL, false },
};

static const struct agreed *agreed_find(const char *name)
{
	for (const struct agreed *a = agreed; a->name; a++)
		if (!strcmp(a->name, name))
			return a;
	return NULL;
}

/* Direction as seen from the other end: the server writes what the client reads. */
static const char *mirrored(const char *name)
{
	if (!strcmp(name, "enable-read"))
		return "enable-write";
	if (!strcmp(name, "enable-write"))
		return "enable-read";
	return name;
}

int flow_options_request(
	const struct flow_options *o, enum workload w, char *buf, size_t size, struct err *e)
{
	const struct opt_table *t = &flow_option_table[w];
	char value[OPT_TEXT];
	size_t used = 0;

	for (const struct agreed *a = agreed; a->name; a++) {
		const struct opt *opt = opt_find(t, a->name);
		int n;

		if (!opt || !*opt_value(opt, o, value))
			continue;
		n = snprintf(buf + used, size - used, "%s=%s\n", mirrored(opt->name), value);
		if (n < 0 || (size_t)n >= size - used)
			return err_set(
				e, EMSGSIZE, "the request does not fit into %zu bytes", size);
		used += (size_t)n;
	}
	return 0;
}

static int agree_one(struct flow_options *o, enum workload w, const struct opt_given *given,
	const char *name, const char *value, struct err *e)
{
	const struct opt_table *t = &flow_option_table[w];
	const struct agreed *a = agreed_find(name);
	const struct opt *opt = a ? opt_find(t, name) : NULL;
	char ours[OPT_TEXT], theirs[OPT_TEXT];
	struct flow_options asked = *o;
	int ret;

	if (!opt) /* a newer client's wish that this server does not know */
		return 0;
	ret = opt_set(opt, &asked, value, e);
	if (ret)
		return ret;
	opt_value(opt, o, ours);
	opt_value(opt, &asked, theirs);
	if (given->at[opt - t->opts] && !a->must_match)
		return 0;
	if (given->at[opt - t->opts] && strcmp(ours, theirs)) {
		err_set(e, EPROTO,
			"--%s differs: the server was started with %s, the client asks for %s",
			opt->name, ours, theirs);
		return err_hint(e, "leave it out at the server, which then takes the client's");
	}
	*o = asked;
	return 0;
}

int flow_options_agree(struct flow_options *o, enum workload w, const struct opt_given *given,
	char *text, struct err *e)
{
	char *line, *next = text;
	int ret;

	while ((line = strsep(&next, "\n"))) {
		char *value = strchr(line, '=');

		if (!*line)
			continue;
		if (!value)
			return err_set(
				e, EPROTO, "the client's request has a line without a value");
		*value++ = 0;
		ret = agree_one(o, w, given, line, value, e);
		if (ret)
			return ret;
	}
	return check_conflicts(o, w, e);
}
