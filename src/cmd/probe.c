// SPDX-License-Identifier: BSD-3-Clause
/* weir probe: the controller of agents. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "probe/controller.h"
#include "probe/pings.h"

struct options {
	const char *hosts, *hosts_file, *targets;
	int64_t port;
	struct rpc_tls_files tls;
	double rate, budget;
	uint64_t payload_bytes, timeout_ns, window_ns, duration_ns;
	bool verify, json, help;
};

enum { ACT_MESH = 1, ACT_START = 2, ACT_STOP = 4 };
static const char *const acts[] = { "mesh", "start", "stop" };

#define FIELD(type, field) OPT_FIELD(type, struct options, field)

static const struct opt opts[] = {
	{ .name = "hosts",
		.letter = 'H',
		FIELD(OPT_STRING, hosts),
		.arg = "HOSTS",
		.section = "who",
		.help = "hosts with an agent: node[01-04],gw or dns:NAME for all addresses of a name; "
			"by default what WEIR_HOSTS, Slurm or PBS say" },
	{ .name = "hosts-file",
		FIELD(OPT_STRING, hosts_file),
		.arg = "FILE",
		.help = "hosts, one per line" },
	{ .name = "targets",
		FIELD(OPT_STRING, targets),
		.arg = "LIST",
		.initial = "rail",
		.only = ACT_MESH | ACT_START,
		.help = "who probes whom: rail (the same rail of every other host), full (every NIC) or "
			"ring:K (the same rail of the next K hosts)" },
	{ .name = "rate",
		FIELD(OPT_NUMBER, rate),
		.arg = "N",
		.initial = "5",
		.min = 0.01,
		.max = 1000,
		.section = "probes",
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
	{ .name = "payload",
		FIELD(OPT_SIZE, payload_bytes),
		.arg = "BYTES",
		.initial = "1",
		.min = 1,
		.max = 2 << 20,
		.only = ACT_MESH,
		.help = "payload of a probe" },
	{ .name = "verify",
		FIELD(OPT_BOOL, verify),
		.only = ACT_MESH | ACT_START,
		.help = "check every byte of every answer" },
	{ .name = "timeout",
		FIELD(OPT_DURATION, timeout_ns),
		.arg = "TIME",
		.initial = "1",
		.unit = "s",
		.only = ACT_MESH,
		.help = "a probe without an answer is lost after so long" },
	{ .name = "window",
		FIELD(OPT_DURATION, window_ns),
		.arg = "TIME",
		.initial = "1",
		.unit = "s",
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
		.help = "JSON instead of text: an event per window and change, a record at the end" },
	{ .name = "help", .letter = 'h', FIELD(OPT_BOOL, help), .help = "show this help" },
	{ 0 },
};

const struct opt_table probe_option_table = {
	.command = "probe",
	.usage = "mesh | start | stop  [options]",
	.summary = "probe between the NICs of many hosts, and say which host, NIC or rail is bad",
	.examples = "  weir probe mesh --hosts node[01-04]\n"
		    "  weir probe mesh --hosts-file hosts.txt --targets ring:8 --length 60 --json\n"
		    "  weir probe start --hosts node[01-04] --rate 1\n"
		    "  weir probe stop --hosts node[01-04]\n",
	.opts = opts,
	.variant = ACT_MESH | ACT_START | ACT_STOP,
};

/* What is bad, in words */

static const char *const subjects[] = { "host", "rail", "nic", "pair", "prober" };
static const char *const faults[] = { "loss", "slow" };

static void subject_words(
	const struct verdict *v, const struct controller_view *view, char *buf, size_t size)
{
	const char *host = view->host[v->host].name;

	switch (v->subject) {
	case VERDICT_HOST:
		snprintf(buf, size, "host %s", host);
		break;
	case VERDICT_RAIL:
		snprintf(buf, size, "rail %u", v->rail);
		break;
	case VERDICT_NIC:
		snprintf(buf, size, "host %s rail %u", host, v->rail);
		break;
	case VERDICT_PAIR:
		snprintf(buf, size, "host %s rail %u to host %s rail %u", host, v->rail,
			view->host[v->to_host].name, v->to_rail);
		break;
	case VERDICT_PROBER:
		snprintf(buf, size, "the prober of host %s", host);
	}
}

static void emit_verdict(
	struct out *o, const char *key, const struct verdict *v, const struct controller_view *view)
{
	out_object(o, key);
	out_str(o, "subject", NULL, subjects[v->subject]);
	out_str(o, "fault", NULL, faults[v->fault]);
	if (v->subject != VERDICT_RAIL)
		out_str(o, "host", NULL, view->host[v->host].name);
	if (v->subject == VERDICT_RAIL || v->subject == VERDICT_NIC || v->subject == VERDICT_PAIR)
		out_u64(o, "rail", NULL, v->rail);
	if (v->subject == VERDICT_PAIR) {
		out_str(o, "to_host", NULL, view->host[v->to_host].name);
		out_u64(o, "to_rail", NULL, v->to_rail);
	}
	out_u64(o, "pairs", NULL, v->pairs);
	out_u64(o, "bad", NULL, v->bad);
	out_bool(o, "cannot_tell", NULL, v->cannot_tell);
	out_u64(o, "begin_ns", NULL, v->begin_ns);
	if (v->end_ns)
		out_u64(o, "end_ns", NULL, v->end_ns);
	out_end(o);
}

struct shown {
	struct out out;
	struct verdict *past; /* all that was named, for the record */
	size_t pasts;
	uint64_t began_ns;
};

static void remember(struct shown *s, const struct verdict *v)
{
	struct verdict *more;

	for (size_t i = 0; i < s->pasts; i++)
		if (s->past[i].begin_ns == v->begin_ns && s->past[i].subject == v->subject &&
			s->past[i].host == v->host && s->past[i].rail == v->rail &&
			s->past[i].to_host == v->to_host && s->past[i].to_rail == v->to_rail) {
			s->past[i] = *v;
			return;
		}
	more = realloc(s->past, (s->pasts + 1) * sizeof(*more));
	if (!more)
		return;
	s->past = more;
	s->past[s->pasts++] = *v;
}

static void say_change(struct shown *s, const struct verdict *v, const struct controller_view *view)
{
	char words[700], time[UNITS_TEXT];

	out_object(&s->out, NULL);
	out_str(&s->out, "schema", NULL, "weir/probe-event/1");
	out_str(&s->out, "event", NULL, v->end_ns ? "end" : "begin");
	out_u64(&s->out, "wall_ns", NULL, view->wall_ns);
	emit_verdict(&s->out, "verdict", v, view);
	out_end(&s->out);
	subject_words(v, view, words, sizeof(words));
	log_progress(NULL);
	out_text(&s->out, "%8.1f s  ", (double)(clock_ns() - s->began_ns) / 1e9);
	if (v->end_ns) {
		out_style(&s->out, OUT_GOOD);
		out_text(&s->out, "well again  %s, after %s\n", words,
			units_format_duration(time, (double)(v->end_ns - v->begin_ns)));
	} else {
		out_style(&s->out, OUT_BAD);
		out_text(&s->out, "%-10s  %s", v->fault == VERDICT_LOSS ? "loss" : "slow", words);
		if (v->pairs > 1)
			out_text(&s->out, " (%u of %u pairs)", v->bad, v->pairs);
		if (v->cannot_tell)
			out_text(&s->out,
				v->subject == VERDICT_PROBER
					? ": it is starved of CPU; what it sees says nothing about the network"
					: ": cannot tell which end, fewer than three hosts to compare");
		out_text(&s->out, "\n");
	}
	out_style(&s->out, OUT_PLAIN);
	fflush(s->out.file);
}

static void emit_latency(struct out *o, const char *key, const struct hist *h)
{
	static const struct {
		const char *name;
		double percent;
	} wanted[] = { { "p50_ns", 50 }, { "p90_ns", 90 }, { "p99_ns", 99 }, { "p999_ns", 99.9 } };

	out_object(o, key);
	out_u64(o, "count", NULL, h->count);
	if (h->count) {
		out_u64(o, "min_ns", NULL, h->min_ns);
		out_u64(o, "max_ns", NULL, h->max_ns);
		out_f64(o, "mean_ns", NULL, hist_mean_ns(h));
	}
	for (int i = 0; i < 4; i++)
		if (hist_percentile_is_sound(h, wanted[i].percent))
			out_u64(o, wanted[i].name, NULL, hist_percentile(h, wanted[i].percent));
	out_end(o);
}

static void say_window(struct shown *s, const struct controller_view *view)
{
	char line[256], p50[UNITS_TEXT], p99[UNITS_TEXT];
	uint32_t silent = 0;

	for (uint32_t i = 0; i < view->hosts; i++)
		silent += !view->host[i].answers;
	out_object(&s->out, NULL);
	out_str(&s->out, "schema", NULL, "weir/probe-event/1");
	out_str(&s->out, "event", NULL, "window");
	out_u64(&s->out, "wall_ns", NULL, view->wall_ns);
	out_u64(&s->out, "sent", NULL, view->window_sent);
	out_u64(&s->out, "lost", NULL, view->window_lost);
	out_u64(&s->out, "silent_agents", NULL, silent);
	emit_latency(&s->out, "rtt", view->window);
	out_end(&s->out);
	snprintf(line, sizeof(line),
		"%.0f s: %zu pairs, %" PRIu64 " probes, %" PRIu64
		" lost, median %s, p99 %s, %u silent agents, "
		"%zu faults",
		(double)(clock_ns() - s->began_ns) / 1e9, view->pairs, view->window_sent,
		view->window_lost,
		units_format_duration(p50, (double)hist_percentile(view->window, 50)),
		units_format_duration(p99, (double)hist_percentile(view->window, 99)), silent,
		verdict_count(view->verdicts));
	log_progress(line);
}

static void say_record(struct shown *s, const struct controller_view *view)
{
	struct out *o = &s->out;
	char text[UNITS_TEXT], words[700];

	log_progress(NULL);
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe/1");
	out_u64(o, "hosts", "%" PRIu64 " hosts, ", view->hosts);
	out_u64(o, "rails", "%" PRIu64 " rails, ", view->rails);
	out_u64(o, "pairs", "%" PRIu64 " pairs\n", view->pairs);
	out_u64(o, "windows", NULL, view->windows);
	out_u64(o, "sent", "probes  %" PRIu64, view->sent);
	out_u64(o, "lost", ", lost %" PRIu64, view->lost);
	out_u64(o, "corrupt", ", corrupt %" PRIu64 "\n", view->corrupt);
	emit_latency(o, "rtt", view->rtt);
	if (hist_percentile_is_sound(view->rtt, 50))
		out_text(o, "median  %s\n",
			units_format_duration(text, (double)hist_percentile(view->rtt, 50)));
	if (hist_percentile_is_sound(view->rtt, 99))
		out_text(o, "p99     %s\n",
			units_format_duration(text, (double)hist_percentile(view->rtt, 99)));
	out_array(o, "verdicts");
	for (size_t i = 0; i < s->pasts; i++) {
		emit_verdict(o, NULL, &s->past[i], view);
		subject_words(&s->past[i], view, words, sizeof(words));
		out_text(o, "%s    %s%s\n", faults[s->past[i].fault], words,
			s->past[i].end_ns ? "" : ", still");
	}
	out_end(o);
	out_text(o, s->pasts ? "" : "nothing is bad\n");
	out_end(o);
}

static void told(void *context, enum controller_news news, const struct controller_view *view)
{
	struct shown *s = context;

	if (news == CONTROLLER_STARTED)
		out_text(&s->out, "%u hosts, %u rails, %zu pairs\n", view->hosts, view->rails,
			view->pairs);
	if (news == CONTROLLER_STARTED)
		fflush(s->out.file);
	for (size_t i = 0; news == CONTROLLER_WINDOW && i < verdict_count(view->verdicts); i++) {
		const struct verdict *v = verdict_at(view->verdicts, i);

		remember(s, v);
		if (v->is_new || v->end_ns)
			say_change(s, v, view);
	}
	if (news == CONTROLLER_WINDOW)
		say_window(s, view);
	if (news == CONTROLLER_ENDED)
		say_record(s, view);
}

static int mesh(const struct options *o, const struct hosts *hosts, struct err *e)
{
	struct shown s = { .began_ns = clock_ns() };
	struct controller_want want = { .hosts = hosts,
		.port = (uint16_t)o->port,
		.tls = o->tls,
		.rate = o->rate,
		.budget = o->budget,
		.payload_bytes = (uint32_t)o->payload_bytes,
		.verify = o->verify,
		.timeout_ns = o->timeout_ns,
		.window_ns = o->window_ns,
		.duration_ns = o->duration_ns,
		.told = told,
		.context = &s };
	int stop_fd, ret;
	bool bad;

	ret = mesh_parse(&want.mesh, o->targets, e);
	if (ret)
		return ret;
	stop_fd = stop_on_signals(e);
	if (stop_fd < 0)
		return stop_fd;
	out_init(&s.out, stdout, o->json ? OUT_JSON : OUT_TEXT);
	ret = controller_mesh(&want, stop_fd, e);
	bad = s.pasts > 0;
	free(s.past);
	if (!ret)
		ret = out_finish(&s.out, e);
	return ret ? ret : bad;
}

static void said(void *context, const char *host, const char *words)
{
	(void)context;
	log_warn("%s: %s", host, words);
}

static int pings(const struct options *o, const struct hosts *hosts, bool start, struct err *e)
{
	struct pings_want want = { .hosts = hosts,
		.port = (uint16_t)o->port,
		.tls = o->tls,
		.rate = o->rate,
		.budget = o->budget,
		.verify = o->verify,
		.said = said };
	int ret = start ? mesh_parse(&want.mesh, o->targets, e) : 0;

	if (!ret)
		ret = pings_all(&want, start, e);
	return ret;
}

int cmd_probe(int argc, char **argv)
{
	struct opt_table table = probe_option_table;
	struct options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	struct hosts hosts;
	struct out out;
	int act = -1, ret;

	log_set_program("weir probe");
	for (int i = 0; argc > 1 && i < 3; i++)
		if (!strcmp(argv[1], acts[i]))
			act = i;
	if (act >= 0)
		table.variant = 1u << act;
	if (act < 0 && (argc < 2 || argv[1][0] != '-')) {
		log_error("usage: weir probe %s", table.usage);
		return STATUS_USAGE;
	}
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
	ret = hosts_find(&hosts, o.hosts, o.hosts_file, &e);
	if (!ret) {
		ret = act == 0 ? mesh(&o, &hosts, &e) : pings(&o, &hosts, act == 1, &e);
		hosts_free(&hosts);
	}
	if (ret < 0)
		log_error_err(&e);
	return ret == -EINVAL ? STATUS_USAGE : ret ? STATUS_FAILED : STATUS_GOOD;
}
