// SPDX-License-Identifier: BSD-3-Clause
#include "flow/rails_options.h"

#include <string.h>

static const char *const mode_choices[] = { "default", "udmabuf", "cuda", NULL };
static const char *const memory_choices[] = { "host", "udmabuf", "cuda", NULL };
static const char *const log_choices[] = { "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", NULL };
enum { LOG_DEBUG_NAME, LOG_INFO_NAME, LOG_WARNING_NAME };

#define FIELD(type, field) OPT_FIELD(type, struct rails_options, field)
#define FLAG(field)	   FIELD(OPT_BOOL, field)
#define PORT_RANGE	   .min = 1, .max = 65535

/* One line per option would hide the shape: formatted by hand. */
/* clang-format off */
static const struct opt options[] = {
	{ .name = "client", .letter = 'c', FLAG(client), .section = "Who and where", .help = "be the client; otherwise the server" },
	{ .name = "hosts", .letter = 'H', FIELD(OPT_STRING, hosts), .arg = "A,B", .help = "the server's address on each rail; a server that was not told takes the addresses of its devices" },
	{ .name = "devices", FIELD(OPT_STRING, devices), .arg = "A,B", .help = "interface (or its PCI address) of each rail at this end; not given: those that carry the hosts, at a server without hosts all that are up" },
	{ .name = "src-ips", FIELD(OPT_STRING, src_ips), .arg = "A,B", .help = "server: the client's address on each rail" },
	{ .name = "control-port", .letter = 'C', FIELD(OPT_INT, control_port), .arg = "PORT", .initial = "12866", PORT_RANGE, .help = "control port of the first rail; the next one has the next" },
	{ .name = "port", .letter = 'P', FIELD(OPT_INT, port), .arg = "PORT", .initial = "12345", PORT_RANGE, .help = "first data port of the first rail; each rail has one for every flow" },
	{ .name = "source-port", FIELD(OPT_INT, source_port), .arg = "PORT", .initial = "-1", .min = -1, .max = 65535, .help = "client: port that the first flow of the first rail leaves from, and so on; -1: any (multi_neper: 12345)" },
	{ .name = "bind", FLAG(bind), .initial = "1", .help = "let each rail leave and arrive through its device alone, whatever the routes say; --no-bind: as the routes say" },
	{ .name = "once", FLAG(once), .help = "server: end after one test (multi_neper: always)" },

	{ .name = "threads", .letter = 'T', FIELD(OPT_INT, threads), .arg = "N", .initial = "4", .min = 1, .max = 1024, .section = "How much, on each rail", .help = "worker threads" },
	{ .name = "flows", .letter = 'F', FIELD(OPT_INT, flows), .arg = "N", .initial = "4", .min = 1, .max = 1024, .help = "connections; the same at both ends" },
	{ .name = "length", .letter = 'l', FIELD(OPT_NUMBER, length), .arg = "SECONDS", .initial = "10", .min = 0.001, .max = 1e6, .help = "measured time; a server that was not told follows its client" },
	{ .name = "buffer-size", .letter = 'B', FIELD(OPT_SIZE, buffer_size), .arg = "BYTES", .initial = "491520", .min = 1, .max = 1 << 30, .help = "bytes per send and receive call; a server that was not told follows its client" },

	{ .name = "mem", FIELD(OPT_CHOICE, memory), .arg = "KIND", .initial = "host", .choices = memory_choices, .section = "Memory", .help = "memory to send from and receive into, at this end" },
	{ .name = "mode", .letter = 'm', FIELD(OPT_CHOICE, mode), .arg = "KIND", .initial = "default", .choices = mode_choices, .help = "the same as --mem, host being called default (multi_neper: cuda)" },
	{ .name = "mem-size", FIELD(OPT_SIZE, mem_size), .arg = "BYTES", .initial = "64M", .min = 4096, .max = 1099511627776.0, .help = "memory bound to the NIC, for each thread" },
	{ .name = "phys-len", FIELD(OPT_SIZE, phys_len), .arg = "BYTES", .initial = "4294967296", .min = 4096, .max = 1099511627776.0, .help = "the same as --mem-size; its default is multi_neper's" },
	{ .name = "gpus", FIELD(OPT_STRING, gpus), .arg = "A,B", .help = "GPU of each rail, by index or PCI address; the nearest to its NIC otherwise" },
	{ .name = "queues", FIELD(OPT_STRING, queues), .arg = "LIST", .help = "receive queues for device memory on each NIC, as 8-11; the last quarter otherwise" },
	{ .name = "q-start", FIELD(OPT_INT, q_start), .arg = "N", .initial = "8", .min = 0, .max = 4095, .help = "server: first receive queue for device memory (of multi_neper)" },
	{ .name = "q-num", FIELD(OPT_INT, q_num), .arg = "N", .initial = "4", .min = 1, .max = 4095, .help = "server: how many receive queues for device memory (of multi_neper)" },
	{ .name = "validate", FLAG(validate), .help = "send a pattern and check every byte received" },
	{ .name = "tcpd-validate", FLAG(tcpd_validate), .help = "the same, with the pattern of neper's tcpd branch" },
	{ .name = "rx-copy", FLAG(rx_copy), .help = "gather what was received into one piece, where the memory is" },
	{ .name = "tcpd-rx-cpy", FLAG(tcpd_rx_cpy), .help = "the same as --rx-copy; at a server only" },

	{ .name = "pin", FLAG(pin), .initial = "1", .section = "Where it runs", .help = "bind each thread to a CPU near its NIC, where there are enough of them; --no-pin: to none" },
	{ .name = "cpus", FIELD(OPT_STRING, cpus), .arg = "A/B", .help = "CPUs of each rail, as 2-5/6-9 for two of them" },

	{ .name = "json", FLAG(json), .section = "What is printed", .help = "events while running, one record at the end" },
	{ .name = "out", FIELD(OPT_STRING, out), .arg = "FILE", .help = "also write the record to FILE, as JSON" },
	{ .name = "dry-run", .letter = 'n', FLAG(dry_run), .help = "print for each rail the command that is the same as it alone, and end" },
	{ .name = "neper-dir", FIELD(OPT_STRING, neper_dir), .arg = "DIR", .initial = ".", .help = "multi_neper --dry-run: where tcp_stream is" },
	{ .name = "log", FIELD(OPT_CHOICE, log), .arg = "LEVEL", .initial = "WARNING", .choices = log_choices, .help = "what to say on stderr" },
	{ .name = "quiet", .letter = 'q', FLAG(quiet), .help = "no progress line" },
	{ .name = "verbose", FLAG(verbose), .help = "the same as --log DEBUG" },
	{ .name = "help", .letter = 'h', FLAG(help), .help = "print this and end" },
	{ .name = "version", .letter = 'v', FLAG(version), .help = "print the version and end" },
	{ 0 },
};
/* clang-format on */

const struct opt_table rails_option_table = {
	.command = "rails",
	.opts = options,
	.usage = "[-c] -H HOSTS [options] [-- options of weir stream]",
	.summary =
		"bulk TCP throughput over many NICs at once. Start the server first, then the client with -c.",
	.examples =
		"  weir rails                                             a server on all NICs that are up\n"
		"  weir rails -c -H 10.0.1.2,10.0.2.2                     two rails for 10 s\n"
		"  weir rails -c -H 10.0.1.2,10.0.2.2 --devices eth1,eth2 --dry-run\n"
		"  weir rails -c -H 10.0.1.2,10.0.2.2 -- --zerocopy       with options of weir stream\n",
};

uint32_t rails_list_count(const char *list, char separator)
{
	uint32_t n = list ? 1 : 0;

	for (; list && *list; list++)
		n += *list == separator;
	return n;
}

bool rails_list_nth(const char *list, char separator, uint32_t n, char *buf, size_t size)
{
	const char *end;

	for (; list && n; n--) {
		list = strchr(list, separator);
		list = list ? list + 1 : NULL;
	}
	if (!list)
		return false;
	end = strchrnul(list, separator);
	return (size_t)snprintf(buf, size, "%.*s", (int)(end - list), list) < size;
}

bool rails_options_given(const struct rails_options *o, const char *name)
{
	return opt_was_given(&rails_option_table, &o->given, name);
}

enum log_level rails_options_log_level(const struct rails_options *o)
{
	if (o->verbose || o->log == LOG_DEBUG_NAME)
		return LOG_LEVEL_DEBUG;
	return o->log == LOG_INFO_NAME	    ? LOG_LEVEL_INFO
	       : o->log == LOG_WARNING_NAME ? LOG_LEVEL_WARN
					    : LOG_LEVEL_ERROR;
}

/* multi_neper's defaults where weir's are others. */
static void default_as_neper(struct rails_options *o)
{
	o->once = true;
	if (!rails_options_given(o, "mode") && !rails_options_given(o, "mem"))
		o->memory = MEMORY_CUDA;
	if (!o->devices)
		o->devices = "eth1";
	if (!rails_options_given(o, "source-port"))
		o->source_port = 12345;
	if (!rails_options_given(o, "mem-size"))
		o->mem_size = o->phys_len;
}

static int check_memory(struct rails_options *o, struct err *e)
{
	bool mem = rails_options_given(o, "mem"), mode = rails_options_given(o, "mode");

	if (mem && mode && o->memory != o->mode)
		return err_set(e, EINVAL, "--mem %s and --mode %s contradict each other",
			memory_choices[o->memory], mode_choices[o->mode]);
	if (mode)
		o->memory = o->mode;
	if (rails_options_given(o, "mem-size") && rails_options_given(o, "phys-len") &&
		o->mem_size != o->phys_len)
		return err_set(e, EINVAL,
			"--mem-size %llu and --phys-len %llu contradict each other",
			(unsigned long long)o->mem_size, (unsigned long long)o->phys_len);
	if (rails_options_given(o, "phys-len"))
		o->mem_size = o->phys_len;
	if (o->tcpd_rx_cpy && o->client)
		return err_set(
			e, EINVAL, "--tcpd-rx-cpy is for the server: a client receives nothing");
	o->rx_copy |= o->tcpd_rx_cpy;
	if (o->queues && (rails_options_given(o, "q-start") || rails_options_given(o, "q-num")))
		return err_set(e, EINVAL, "--queues excludes --q-start and --q-num");
	if (o->gpus && o->memory != MEMORY_CUDA)
		return err_set(e, EINVAL, "--gpus is for --mem cuda");
	return 0;
}

/* A list that is there has no empty place, no more than RAILS_MAX, and no name twice. */
static int check_list(const char *option, const char *list, bool once_each, struct err *e)
{
	uint32_t count = rails_list_count(list, ',');
	char one[256] = "", other[256];

	if (count > RAILS_MAX)
		return err_set(e, EINVAL, "--%s names %u, and %d rails are the most", option, count,
			RAILS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (!rails_list_nth(list, ',', i, one, sizeof(one)) || !one[0]) {
			err_set(e, EINVAL, "--%s \"%s\": the %s number %u is %s", option, list,
				"entry", i + 1, one[0] ? "too long" : "empty");
			return err_hint(e, "write names with commas between them and no blanks");
		}
		for (uint32_t k = 0; once_each && k < i; k++)
			if (rails_list_nth(list, ',', k, other, sizeof(other)) &&
				!strcmp(one, other))
				return err_set(e, EINVAL,
					"--%s names %s twice: each rail needs its own", option,
					one);
	}
	return 0;
}

static int check_equal(const char *a, uint32_t of_a, const char *b, uint32_t of_b, struct err *e)
{
	if (!of_a || !of_b || of_a == of_b)
		return 0;
	err_set(e, EINVAL, "--%s names %u and --%s names %u: each rail needs one of both", a, of_a,
		b, of_b);
	return err_hint(e, "the first of one list belongs to the first of the other, and so on");
}

static int check_lists(const struct rails_options *o, struct err *e)
{
	const struct {
		const char *name, *list;
		char separator;
		bool once_each;
	} lists[] = {
		{ "devices", o->devices, ',', true },
		{ "hosts", o->hosts, ',', true },
		{ "src-ips", o->src_ips, ',', true },
		{ "gpus", o->gpus, ',', false },
		{ "cpus", o->cpus, '/', false },
	};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (lists[i].separator == ',')
			ret = check_list(lists[i].name, lists[i].list, lists[i].once_each, e);
		for (size_t k = 0; !ret && k < i; k++)
			ret = check_equal(lists[k].name,
				rails_list_count(lists[k].list, lists[k].separator), lists[i].name,
				rails_list_count(lists[i].list, lists[i].separator), e);
	}
	return ret;
}

static int check_rest(const struct rails_options *o, struct err *e)
{
	if (!o->hosts && (o->client || o->as_neper)) {
		err_set(e, EINVAL, "--hosts is missing: the server's address on each rail");
		return err_hint(e, "for example: --hosts 10.0.1.2,10.0.2.2");
	}
	if (o->as_neper && !o->client && !o->src_ips) {
		err_set(e, EINVAL, "--src-ips is missing: the client's address on each rail");
		return err_hint(e, "for example: --src-ips 10.0.1.1,10.0.2.1");
	}
	if (o->flows < o->threads) {
		err_set(e, EINVAL,
			"--flows %lld is less than --threads %lld: some threads would idle",
			(long long)o->flows, (long long)o->threads);
		return err_hint(e, "for example: --threads %lld --flows %lld", (long long)o->flows,
			(long long)o->flows);
	}
	if (o->source_port == 0)
		return err_set(e, EINVAL, "--source-port 0 is not a port from 1 to 65535");
	if (o->cpus && !o->pin)
		return err_set(e, EINVAL, "--cpus and --no-pin exclude each other");
	return 0;
}

int rails_options_parse(
	struct rails_options *o, int argc, char **argv, bool as_neper, struct err *e)
{
	int own = 1, ret;

	while (own < argc && strcmp(argv[own], "--") != 0)
		own++;
	*o = (struct rails_options){ 0 };
	ret = opt_parse(&rails_option_table, own, argv, o, &o->given, e);
	if (ret || o->help || o->version)
		return ret;
	o->as_neper = as_neper;
	o->stream_word = argv + own + 1;
	o->stream_words = own < argc ? argc - own - 1 : 0;
	if (as_neper)
		default_as_neper(o);
	ret = check_memory(o, e);
	if (!ret)
		ret = check_rest(o, e);
	return ret ? ret : check_lists(o, e);
}
