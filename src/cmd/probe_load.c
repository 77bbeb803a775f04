// SPDX-License-Identifier: BSD-3-Clause
/* weir probe load-test: probes on more and more connections, as the published controller does, with the results of all
 * agents. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/probe.h"

#define NODE_WORDS 9 /* of --nic-ips: the agent, then 8 NICs */

struct host_sum {
	uint64_t sent, failed;
};

/* What an iteration came to. */
struct iteration {
	uint32_t connections;
	size_t pairs;
	uint64_t sent, lost, corrupt;
	struct hist rtt;
	struct host_sum *host; /* by the host that probes */
};

struct load {
	const struct probe_options *options;
	struct out out;
	struct iteration *iteration;
	size_t count;
	struct probe_past past;
	struct controller_host *host; /* their names, beyond the runs */
	uint32_t hosts, rails, silent;
	size_t refused; /* pairs of all iterations */
};

static void emit_iteration(struct out *o, const struct load *l, size_t index, bool full)
{
	const struct iteration *it = &l->iteration[index];

	out_u64(o, "iteration", NULL, index);
	out_u64(o, "connections_per_nic", NULL, it->connections);
	out_u64(o, "connections", NULL, it->pairs);
	out_u64(o, "succeeded", NULL, it->rtt.count);
	out_u64(o, "failed", NULL, it->lost + it->corrupt);
	out_u64(o, "lost", NULL, it->lost);
	out_u64(o, "corrupt", NULL, it->corrupt);
	probe_emit_latency(o, "rtt", &it->rtt);
	out_array(o, full ? "host" : NULL);
	for (uint32_t h = 0; full && h < l->hosts; h++) {
		out_object(o, NULL);
		out_str(o, "host", NULL, l->host[h].name);
		out_u64(o, "sent", NULL, it->host[h].sent);
		out_u64(o, "failed", NULL, it->host[h].failed);
		out_end(o);
	}
	out_end(o);
}

static char *latency_text(char buf[UNITS_TEXT], const struct hist *h, double percent)
{
	if (!hist_percentile_is_sound(h, percent))
		return strcpy(buf, "-");
	return units_format_duration(buf, (double)hist_percentile(h, percent));
}

static void say_iteration(struct load *l, size_t index)
{
	const struct iteration *it = &l->iteration[index];
	char mean[UNITS_TEXT] = "-", p[4][UNITS_TEXT], max[UNITS_TEXT] = "-";
	struct out *o = &l->out;

	log_progress(NULL);
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-event/1");
	out_str(o, "event", NULL, "iteration");
	out_u64(o, "wall_ns", NULL, clock_wall_ns());
	emit_iteration(o, l, index, false);
	out_end(o);
	if (!index)
		out_text(o, "%9s %9s %10s %8s %9s %9s %9s %9s %9s %9s\n", "iteration", "conns/NIC",
			"succeeded", "failed", "average", "median", "p90", "p99", "p99.9", "max");
	if (it->rtt.count) {
		units_format_duration(mean, hist_mean_ns(&it->rtt));
		units_format_duration(max, (double)it->rtt.max_ns);
	}
	out_text(o, "%9zu %9u %10" PRIu64 " %8" PRIu64 " %9s %9s %9s %9s %9s %9s\n", index,
		it->connections, it->rtt.count, it->lost + it->corrupt, mean,
		latency_text(p[0], &it->rtt, 50), latency_text(p[1], &it->rtt, 90),
		latency_text(p[2], &it->rtt, 99), latency_text(p[3], &it->rtt, 99.9), max);
	for (uint32_t h = 0; h < l->hosts; h++)
		if (it->host[h].failed)
			out_text(o, "%20s  %" PRIu64 " of %" PRIu64 " of its probes failed\n",
				l->host[h].name, it->host[h].failed, it->host[h].sent);
	if (o->mode == OUT_TEXT)
		fflush(o->file);
}

static void take(struct load *l, const struct controller_view *view)
{
	struct iteration *it = &l->iteration[l->count];

	l->rails = view->rails;
	it->pairs = view->pairs;
	it->rtt = *view->rtt;
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];

		it->sent += p->sent;
		it->lost += p->lost;
		it->corrupt += p->corrupt;
		it->host[p->m.from_host].sent += p->sent;
		it->host[p->m.from_host].failed += p->lost + p->corrupt;
	}
	l->refused += view->refused;
	l->silent = 0;
	for (uint32_t h = 0; h < view->hosts; h++) {
		l->host[h] = view->host[h];
		l->silent += !view->host[h].answers;
	}
}

static void told(void *context, enum controller_news news, const struct controller_view *view)
{
	struct load *l = context;
	char line[160];

	for (size_t i = 0; news == CONTROLLER_WINDOW && i < verdict_count(view->verdicts); i++)
		probe_remember(&l->past, verdict_at(view->verdicts, i));
	if (news == CONTROLLER_WINDOW) {
		snprintf(line, sizeof(line),
			"iteration %zu: %u connections per NIC, window %" PRIu64 ", %" PRIu64
			" probes, %" PRIu64 " lost",
			l->count, l->iteration[l->count].connections, view->windows, view->sent,
			view->lost);
		log_progress(line);
	}
	if (news == CONTROLLER_ENDED)
		take(l, view);
}

static void emit_record(struct out *o, const struct load *l)
{
	uint64_t succeeded = 0, failed = 0;
	char words[PROBE_SUBJECT];

	for (size_t i = 0; i < l->count; i++) {
		succeeded += l->iteration[i].rtt.count;
		failed += l->iteration[i].lost + l->iteration[i].corrupt;
	}
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-load/1");
	out_u64(o, "hosts", NULL, l->hosts);
	out_u64(o, "rails", NULL, l->rails);
	out_u64(o, "silent_agents", NULL, l->silent);
	out_u64(o, "refused", NULL, l->refused);
	if (l->refused)
		out_text(o, "refused %zu connections, which were not probed\n", l->refused);
	out_u64(o, "succeeded", NULL, succeeded);
	out_u64(o, "failed", NULL, failed);
	out_f64(o, "rate", NULL, l->options->rate);
	out_u64(o, "payload_bytes", NULL, l->options->payload_bytes);
	out_bool(o, "verify", NULL, l->options->verify);
	out_array(o, "iterations");
	for (size_t i = 0; i < l->count; i++) {
		out_object(o, NULL);
		emit_iteration(o, l, i, true);
		out_end(o);
	}
	out_end(o);
	out_array(o, "verdicts");
	for (size_t i = 0; i < l->past.count; i++) {
		const struct verdict *v = &l->past.verdict[i];

		probe_emit_verdict(o, NULL, v, l->host);
		out_text(o, "%s    %s\n", probe_faults[v->fault], probe_subject(v, l->host, words));
	}
	out_end(o);
	out_end(o);
}

static int write_record(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	emit_record(&o, from);
	return out_finish(&o, e);
}

static bool is_stopped(int stop_fd)
{
	struct pollfd p = { .fd = stop_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static int iterate(struct load *l, struct controller_want *want, int stop_fd, struct err *e)
{
	const struct probe_options *o = l->options;
	int ret = 0;

	for (int64_t i = 0; !ret && i < o->iterations && !is_stopped(stop_fd); i++) {
		struct iteration *it = &l->iteration[l->count];

		it->connections = (uint32_t)(o->connections + i * o->increase);
		it->host = calloc(l->hosts + 1, sizeof(*it->host));
		if (!it->host)
			return err_set(e, ENOMEM, "no memory for an iteration");
		hist_init(&it->rtt);
		want->mesh.ring_steps = it->connections;
		ret = controller_mesh(want, stop_fd, e);
		if (ret)
			break;
		l->count++;
		say_iteration(l, l->count - 1);
	}
	return ret;
}

/* 0 when every connection was made, every probe of every iteration answered, and there were some. */
static int judge(const struct load *l)
{
	uint64_t failed = 0;

	for (size_t i = 0; i < l->count; i++)
		failed +=
			l->iteration[i].lost + l->iteration[i].corrupt + !l->iteration[i].rtt.count;
	return failed || l->silent || l->refused || !l->count ? STATUS_FAILED : STATUS_GOOD;
}

static int test(struct load *l, struct controller_want *want, struct err *e)
{
	const struct probe_options *o = l->options;
	int ret, stop_fd = stop_on_signals(e);

	if (stop_fd < 0)
		return stop_fd;
	l->hosts = (uint32_t)want->hosts->count;
	l->iteration = calloc((size_t)o->iterations, sizeof(*l->iteration));
	l->host = calloc(l->hosts + 1, sizeof(*l->host));
	if (!l->iteration || !l->host)
		return err_set(e, ENOMEM, "no memory for %d iterations", (int)o->iterations);
	want->mesh.kind = MESH_LOAD;
	want->told = told;
	want->context = l;
	out_init(&l->out, stdout, o->json ? OUT_JSON : OUT_TEXT);
	ret = iterate(l, want, stop_fd, e);
	if (l->count)
		emit_record(&l->out, l);
	if (!ret && o->out)
		ret = file_replace(o->out, write_record, l, e);
	if (!ret)
		ret = out_finish(&l->out, e);
	return ret ? ret : judge(l);
}

/* "primary,nic1,...,nic8,primary,...": cut in place. Fills name and nic, which have room for count words. */
static int cut_nodes(char *list, size_t *nodes, const char **nic, char **name, struct err *e)
{
	size_t count = 0;
	char *word;

	while ((word = strsep(&list, ", "))) {
		if (!word[0])
			continue;
		if (count % NODE_WORDS)
			nic[count / NODE_WORDS * (NODE_WORDS - 1) + count % NODE_WORDS - 1] = word;
		else
			name[count / NODE_WORDS] = word;
		count++;
	}
	*nodes = count / NODE_WORDS;
	if (count % NODE_WORDS || *nodes < 2) {
		err_set(e, EINVAL,
			"--nic-ips has %zu addresses; it takes 9 for each of two nodes or more",
			count);
		return err_hint(
			e, "the first is where the agent listens, then 8 NICs in rail order");
	}
	return 0;
}

static int test_nodes(struct load *l, struct controller_want *want, struct err *e)
{
	char *list = strdup(l->options->nic_ips);
	size_t words = strlen(l->options->nic_ips) / 2 + 2;
	const char **nic = calloc(words, sizeof(*nic));
	struct hosts hosts = { .name = calloc(words, sizeof(*hosts.name)) };
	int ret;

	if (!list || !nic || !hosts.name)
		ret = err_set(e, ENOMEM, "no memory for the nodes");
	else
		ret = cut_nodes(list, &hosts.count, nic, hosts.name, e);
	if (!ret) {
		want->hosts = &hosts;
		want->nic = nic;
		want->nics_per_host = NODE_WORDS - 1;
		ret = test(l, want, e);
		want->hosts = NULL;
	}
	free(hosts.name);
	free(nic);
	free(list);
	return ret;
}

int probe_load(const struct probe_options *o, const struct hosts *hosts, struct err *e)
{
	struct load l = { .options = o };
	struct controller_want want;
	int ret;

	probe_want(&want, o, hosts);
	want.window_ns = NS_PER_S;
	want.settle = true;
	ret = o->nic_ips ? test_nodes(&l, &want, e) : test(&l, &want, e);
	for (size_t i = 0; l.iteration && i < (size_t)o->iterations; i++)
		free(l.iteration[i].host);
	free(l.iteration);
	free(l.host);
	free(l.past.verdict);
	return ret;
}
