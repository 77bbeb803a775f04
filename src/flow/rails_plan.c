// SPDX-License-Identifier: BSD-3-Clause
/* From what was asked for to rails: devices and hosts, ports, and the words of each command. */
#include "flow/rails_plan.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/sock.h"
#include "sys/path.h"

static const char *const memory_name[] = { "host", "udmabuf", "cuda" };

/* Devices and hosts */

static int find_device(struct rail *r, const char *name, struct err *e)
{
	int ret =
		strchr(name, ':') ? nic_for_pci(&r->nic, name, e) : nic_for_name(&r->nic, name, e);

	return ret ? err_prefix(e, "--devices") : 0;
}

/* The address that the kernel would send from: nothing is sent to find out. */
static int routed_address(const struct sock_addr *host, struct sock_addr *local, struct err *e)
{
	char text[SOCK_ADDR_TEXT];
	int fd, ret = 0;

	fd = socket(host->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(e, errno, "cannot make a socket: %m");
	if (connect(fd, (const struct sockaddr *)&host->storage, host->len) < 0)
		ret = err_set(
			e, errno, "there is no route to %s: %m", sock_addr_text(host, false, text));
	else if (sock_local(fd, local))
		ret = err_set(e, errno, "cannot find the route to %s: %m",
			sock_addr_text(host, false, text));
	close(fd);
	return ret;
}

/* The interface that carries a host: at a server the one that has its address. */
static int find_carrier(struct rail *r, bool client, struct err *e)
{
	struct sock_addr addr[SOCK_ADDRS], local;
	size_t count;
	int ret;

	ret = sock_resolve(r->host, "9", AF_UNSPEC, !client, addr, &count, e);
	local = addr[0];
	if (!ret && client)
		ret = routed_address(&addr[0], &local, e);
	if (!ret)
		ret = nic_for_address(&r->nic, (const struct sockaddr *)&local.storage, e);
	if (ret) {
		err_prefix(e, "--hosts %s", r->host);
		return err_hint(e, "name the interfaces of this end with --devices");
	}
	return 0;
}

/* A server's own address on a device. */
static int find_host(struct rail *r, struct err *e)
{
	struct sock_addr own = { .len = sizeof(own.storage) };
	char text[SOCK_ADDR_TEXT];

	if (nic_address(&own.storage, r->nic.name, e))
		return err_hint(e, "give it one, or leave it out with --devices");
	snprintf(r->host, sizeof(r->host), "%s", sock_addr_text(&own, false, text));
	return 0;
}

/* A server that was told nothing: every physical interface that is up and has an address. */
static int find_all(struct rails *rails, struct err *e)
{
	struct nic *nics;
	size_t count;
	int ret;

	ret = nic_list(&nics, &count, e);
	if (ret)
		return ret;
	for (size_t i = 0; i < count && rails->count < RAILS_MAX; i++) {
		struct rail *r = &rails->rail[rails->count];

		if (!nics[i].physical || strcmp(nics[i].state, "up") != 0)
			continue;
		r->nic = nics[i];
		rails->count += !find_host(r, NULL);
	}
	free(nics);
	if (rails->count)
		return 0;
	err_set(e, ENODEV, "no physical network interface is up and has an address");
	return err_hint(e, "name the interfaces with --devices: weir nic show lists them");
}

static int find_rail(struct rails *rails, uint32_t i, struct err *e)
{
	const struct rails_options *o = rails->asked;
	struct rail *r = &rails->rail[i];
	char device[64];
	int ret;

	if (o->hosts)
		rails_list_nth(o->hosts, ',', i, r->host, sizeof(r->host));
	if (o->src_ips)
		rails_list_nth(o->src_ips, ',', i, r->src_ip, sizeof(r->src_ip));
	if (o->devices && !rails_list_nth(o->devices, ',', i, device, sizeof(device)))
		return err_set(e, EINVAL, "--devices: a name is too long");
	ret = o->devices ? find_device(r, device, e) : find_carrier(r, o->client, e);
	if (!ret && !r->host[0])
		ret = find_host(r, e);
	return ret;
}

static int check_devices(const struct rails *rails, struct err *e)
{
	for (uint32_t i = 0; i < rails->count; i++) {
		const struct rail *a = &rails->rail[i];

		for (uint32_t k = 0; k < i; k++) {
			const struct rail *b = &rails->rail[k];

			if (strcmp(a->nic.name, b->nic.name) != 0)
				continue;
			err_set(e, EINVAL,
				"%s and %s are both on %s: each rail needs its own device", b->host,
				a->host, a->nic.name);
			return err_hint(e, "name the interfaces of this end with --devices");
		}
	}
	return 0;
}

/* A listener that is bound to a device hears nothing for the address of another. */
static int check_address(const struct rail *r, struct err *e)
{
	struct sock_addr addr[SOCK_ADDRS];
	struct nic owner;
	size_t count;

	if (sock_resolve(r->host, "9", AF_UNSPEC, true, addr, &count, NULL) ||
		nic_for_address(&owner, (const struct sockaddr *)&addr[0].storage, NULL) ||
		!strcmp(owner.name, r->nic.name))
		return 0;
	err_set(e, EINVAL, "--hosts %s is the address of %s, not of %s", r->host, owner.name,
		r->nic.name);
	return err_hint(e, "put --hosts and --devices in the same order, or use --no-bind");
}

static int find_rails(struct rails *rails, struct err *e)
{
	const struct rails_options *o = rails->asked;
	uint32_t count = rails_list_count(o->devices ? o->devices : o->hosts, ',');
	int ret = 0;

	if (!o->devices && !o->hosts)
		ret = find_all(rails, e);
	for (; !ret && rails->count < count; rails->count += !ret)
		ret = find_rail(rails, rails->count, e);
	if (!ret)
		ret = check_devices(rails, e);
	for (uint32_t i = 0; !ret && o->bind && !o->client && i < rails->count; i++)
		ret = check_address(&rails->rail[i], e);
	return ret;
}

/* Ports */

static int check_range(const char *option, int64_t first, int64_t count, struct err *e)
{
	if (first + count - 1 <= 65535)
		return 0;
	return err_set(e, EINVAL, "--%s %" PRId64 " and %" PRId64 " ports end beyond port 65535",
		option, first, count);
}

static int place_ports(struct rails *rails, struct err *e)
{
	const struct rails_options *o = rails->asked;
	int64_t data = rails->count * o->flows;
	int ret;

	ret = check_range("control-port", o->control_port, rails->count, e);
	if (!ret)
		ret = check_range("port", o->port, data, e);
	if (!ret && o->client && o->source_port > 0)
		ret = check_range("source-port", o->source_port, data, e);
	if (ret)
		return ret;
	if (o->control_port < o->port + data && o->port < o->control_port + rails->count) {
		err_set(e, EINVAL,
			"the control ports %" PRId64 " to %" PRId64 " and the data ports %" PRId64
			" to %" PRId64 " overlap",
			o->control_port, o->control_port + rails->count - 1, o->port,
			o->port + data - 1);
		return err_hint(e,
			"%u rails of %" PRId64 " flows: move one of them, for example --port %d",
			rails->count, o->flows, 20000);
	}
	for (uint32_t i = 0; i < rails->count; i++) {
		struct rail *r = &rails->rail[i];

		r->control_port = o->control_port + i;
		r->port = o->port + i * o->flows;
		r->source_port = o->source_port > 0 ? o->source_port + i * o->flows : -1;
	}
	return 0;
}

/* Words */

__attribute__((format(printf, 2, 3))) static void word(struct rail *r, const char *format, ...)
{
	size_t left = sizeof(r->text) - r->text_used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(r->text + r->text_used, left, format, args);
	va_end(args);
	/* One that does not fit is missed when the words are counted. */
	if (r->words++ >= RAIL_WORDS || n < 0 || (size_t)n >= left) {
		r->words = RAIL_WORDS + 1;
		return;
	}
	r->word[r->words - 1] = r->text + r->text_used;
	r->text_used += (size_t)n + 1;
}

#define WORD(r, option, format, value)                                                             \
	do {                                                                                       \
		word(r, "%s", option);                                                             \
		word(r, format, value);                                                            \
	} while (0)

/* What this end's user said, and what follows from nothing else: a server follows its client in the
 * rest. */
static void words_size(const struct rails_options *o, struct rail *r)
{
	bool all = o->client || o->as_neper;
	char cpus[256];

	WORD(r, "-T", "%" PRId64, o->threads);
	if (o->client)
		WORD(r, "-F", "%" PRId64, o->flows);
	if (all || rails_options_given(o, "buffer-size"))
		WORD(r, "-B", "%" PRIu64, o->buffer_size);
	/* multi_neper's servers are told a length, and go by their client's. */
	if (o->client || (!o->as_neper && rails_options_given(o, "length")))
		WORD(r, "-l", "%g", o->length);
	if (r->cpus.count)
		WORD(r, "--cpus", "%s", cpus_format(&r->cpus, cpus, sizeof(cpus)));
}

static void words_memory(const struct rails_options *o, struct rail *r)
{
	if (o->tcpd_validate)
		word(r, "--validate=published");
	else if (o->validate)
		word(r, "--validate");
	if (o->memory == MEMORY_HOST)
		return;
	WORD(r, "--mem", "%s", memory_name[o->memory]);
	WORD(r, "--nic", "%s", r->nic.name);
	WORD(r, "--mem-size", "%" PRIu64, o->mem_size);
	if (r->gpu[0])
		WORD(r, "--gpu", "%s", r->gpu);
	if (o->queues)
		WORD(r, "--queues", "%s", o->queues);
	else if (!o->client && (o->as_neper || rails_options_given(o, "q-start") ||
				       rails_options_given(o, "q-num"))) {
		WORD(r, "--queue-start", "%" PRId64, o->q_start);
		WORD(r, "--queue-num", "%" PRId64, o->q_num);
	}
	if (o->rx_copy)
		word(r, "--rx-copy");
}

static void words_make(const struct rails_options *o, struct rail *r)
{
	word(r, "weir");
	word(r, "stream");
	if (o->client)
		word(r, "-c");
	WORD(r, "-H", "%s", r->host);
	if (o->bind)
		WORD(r, "--bind-dev", "%s", r->nic.name);
	WORD(r, "-C", "%" PRId64, r->control_port);
	WORD(r, "-P", "%" PRId64, r->port);
	WORD(r, "--num-ports", "%" PRId64, o->flows);
	if (o->client && r->source_port > 0)
		WORD(r, "--source-port", "%" PRId64, r->source_port);
	words_size(o, r);
	words_memory(o, r);
	/* neper's window is the whole run, and it waits longer for its server. */
	if (o->as_neper) {
		WORD(r, "--warmup", "%d", 0);
		WORD(r, "--connect-timeout", "%d", 30);
	}
	if (!o->client && o->once)
		word(r, "--once");
	for (int i = 0; i < o->stream_words; i++)
		word(r, "%s", o->stream_word[i]);
}

/* What weir rails itself decides cannot be said behind "--". */
static int check_stream_words(const struct rails_options *o, struct err *e)
{
	static const char *const ours[] = { "client", "host", "control-port", "port", "num-ports",
		"source-port", "bind-dev", "num-threads", "num-flows", "test-length", "buffer-size",
		"mem", "nic", "gpu", "mem-size", "queues", "cpus", "pin-cpu", "once", "num-clients",
		"format", "json", "out", "all-samples", "iostat-ms", "suicide-length", "quiet",
		"dry-run", "help", "version" };
	const struct opt_table *t = &flow_option_table[WORKLOAD_STREAM];
	struct flow_options ignored;
	struct opt_given given;

	/* argv[0] of these words is the "--" before them. */
	if (o->stream_words &&
		opt_parse(t, o->stream_words + 1, o->stream_word - 1, &ignored, &given, e))
		return err_prefix(e, "behind --");
	for (size_t i = 0; o->stream_words && i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (!opt_was_given(t, &given, ours[i]))
			continue;
		err_set(e, EINVAL, "--%s cannot stand behind --: weir rails sets it for each rail",
			ours[i]);
		return err_hint(e, "see weir rails --help");
	}
	return 0;
}

static int words_parse(struct rail *r, struct err *e)
{
	const char *cpus;
	int ret;

	if (r->words > RAIL_WORDS)
		return err_set(e, E2BIG, "the command of %s has too many words", r->nic.name);
	ret = opt_parse(&flow_option_table[WORKLOAD_STREAM], r->words - 1, r->word + 1, &r->options,
		&r->given, e);
	if (ret)
		return ret;
	/* The CPUs of a recorded machine are not ours to run on. */
	cpus = r->options.cpus;
	if (!sys_is_live())
		r->options.cpus = NULL;
	ret = flow_options_check(&r->options, WORKLOAD_STREAM, &r->given, e);
	r->options.cpus = cpus;
	return ret;
}

int rails_plan(struct rails **out, const struct rails_options *asked, struct err *e)
{
	struct rails *rails = calloc(1, sizeof(*rails));
	int ret;

	if (rails)
		rails->rail = calloc(RAILS_MAX, sizeof(*rails->rail));
	if (!rails || !rails->rail) {
		free(rails);
		return err_set(e, ENOMEM, "no memory for %d rails", RAILS_MAX);
	}
	rails->asked = asked;
	for (uint32_t i = 0; i < RAILS_MAX; i++) {
		rails->rail[i].index = i;
		rails->rail[i].gpu_index = -1;
	}
	ret = check_stream_words(asked, e);
	if (!ret)
		ret = find_rails(rails, e);
	if (!ret)
		ret = place_ports(rails, e);
	if (!ret)
		ret = rails_place_gpus(rails, e);
	if (!ret)
		ret = rails_place_cpus(rails, e);
	for (uint32_t i = 0; !ret && i < rails->count; i++) {
		words_make(asked, &rails->rail[i]);
		ret = words_parse(&rails->rail[i], e);
	}
	if (ret)
		rails_free(rails);
	else
		*out = rails;
	return ret;
}

void rails_free(struct rails *rails)
{
	free(rails->rail);
	free(rails);
}

char *rail_trouble(const struct rail *r, char buf[64])
{
	char state[32];

	buf[0] = 0;
	if (!sys_is_dir("/sys/class/net/%s", r->nic.name))
		snprintf(buf, 64, "%s is gone", r->nic.name);
	else if (sys_read(state, sizeof(state), "/sys/class/net/%s/operstate", r->nic.name))
		return buf;
	else if (!strcmp(state, "lowerlayerdown"))
		snprintf(buf, 64, "%s has no carrier", r->nic.name);
	else if (!strcmp(state, "down") || !strcmp(state, "notpresent"))
		snprintf(buf, 64, "%s is down", r->nic.name);
	return buf;
}

/* Printing */

static bool is_plain(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=:,./@%";

	return *text && !text[strspn(text, plain)];
}

char *rail_command(const struct rail *r, char buf[RAIL_COMMAND])
{
	size_t used = 0;

	buf[0] = 0;
	for (int i = 0; i < r->words && used < RAIL_COMMAND; i++)
		used += (size_t)snprintf(buf + used, RAIL_COMMAND - used,
			is_plain(r->word[i]) ? "%s%s" : "%s'%s'", i ? " " : "", r->word[i]);
	return buf;
}

/* multi_neper's order of words, and its two blanks. */
char *rail_neper_command(const struct rails *rails, const struct rail *r, char buf[RAIL_COMMAND])
{
	const struct rails_options *o = rails->asked;
	char cpus[256], *at = buf;
	size_t left = RAIL_COMMAND;

#define ADD(...)                                                                                   \
	do {                                                                                       \
		size_t n = (size_t)snprintf(at, left, __VA_ARGS__);                                \
		n = n < left ? n : left - 1;                                                       \
		at += n;                                                                           \
		left -= n;                                                                         \
	} while (0)
	if (r->cpus.count)
		ADD("taskset --cpu-list %s ", cpus_format(&r->cpus, cpus, sizeof(cpus)));
	ADD("%s/tcp_stream -T %" PRId64 " -F %" PRId64 " --port %" PRId64, o->neper_dir, o->threads,
		o->flows, r->port);
	if (r->source_port > 0)
		ADD(" --source-port %" PRId64, r->source_port);
	ADD(" --control-port %" PRId64 " --buffer-size %" PRIu64 "  -l %g --num-ports %" PRId64,
		r->control_port, o->buffer_size, o->length, o->flows);
	ADD(" --tcpd-phys-len %" PRIu64, o->mem_size);
	if (o->memory != MEMORY_HOST && topo_address(&r->nic.place)[0])
		ADD(" --tcpd-nic-pci-addr %s", topo_address(&r->nic.place));
	else if (o->memory != MEMORY_HOST)
		ADD(" --mem %s --nic %s", memory_name[o->memory], r->nic.name);
	if (o->memory == MEMORY_CUDA)
		ADD(" --tcpd-gpu-pci-addr %s", r->gpu);
	if (o->tcpd_validate)
		ADD(" --tcpd-validate");
	if (o->client)
		ADD(" -c -H %s", r->host);
	else
		ADD(" --tcpd-link-name %s --tcpd-src-ip %s --tcpd-dst-ip %s --queue-start %" PRId64
		    " --queue-num %" PRId64,
			r->nic.name, r->src_ip, r->host, o->q_start, o->q_num);
	if (o->rx_copy)
		ADD(" --tcpd-rx-cpy");
#undef ADD
	return buf;
}

char *rail_environment(const struct rails *rails, const struct rail *r, char buf[RAIL_HOST])
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	buf[0] = 0;
	if (rails->asked->memory != MEMORY_CUDA)
		return buf;
	if (visible && *visible)
		snprintf(buf, RAIL_HOST, "CUDA_VISIBLE_DEVICES=%s ", visible);
	else if (r->gpu_index >= 0 && rails->asked->as_neper)
		snprintf(buf, RAIL_HOST, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%d ",
			r->gpu_index);
	return buf;
}
