// SPDX-License-Identifier: BSD-3-Clause
/* weir probe pairs: a tournament. In each round every host has one partner, all rails of both at once and all pairs of hosts
 * at once, so that nobody disturbs another; at the end the pairs are compared and vote on who is slow. */
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
#include "probe/runs.h"

#define LOST_MIN  2
#define AGAIN_MAX 4 /* times that who stands out is measured once more */

struct result {
	struct mesh_pair m;
	char local[SOCK_ADDR_TEXT], peer[SOCK_ADDR_TEXT];
	uint32_t round;
	double value; /* ns or bit/s, the best of its measurements; 0: none */
	uint64_t sent, lost;
	bool slow, failed;
	char why[160]; /* it failed */
};

struct tournament {
	const struct probe_options *options;
	const struct hosts *hosts;
	struct out out;
	FILE *csv;
	struct controller_host *host;
	uint32_t count, rails, rounds, round;
	struct result *result;
	size_t results, room;
	size_t first; /* of this round */
	struct verdicts *verdicts;
	double usual;
	uint64_t began_ns;
	bool again; /* a round is measured once more */
};

static bool is_latency(const struct tournament *t)
{
	return t->options->kind == PAIRS_LATENCY;
}

static const char *kind_name(const struct tournament *t)
{
	static const char *const names[] = { "latency", "stream", "p2p" };

	return names[t->options->kind];
}

/* Results */

static struct result *find(struct tournament *t, const struct mesh_pair *m)
{
	for (size_t i = t->again ? 0 : t->first; i < t->results; i++)
		if (!memcmp(&t->result[i].m, m, sizeof(*m)))
			return &t->result[i];
	return NULL;
}

static struct result *add(
	struct tournament *t, const struct mesh_pair *m, const char *local, const char *peer)
{
	size_t room = t->room ? t->room * 2 : 256;
	struct result *r;

	if (t->results == t->room) {
		r = realloc(t->result, room * sizeof(*r));
		if (!r)
			return NULL;
		t->result = r;
		t->room = room;
	}
	r = &t->result[t->results++];
	*r = (struct result){ .m = *m, .round = t->round };
	snprintf(r->local, sizeof(r->local), "%s", local);
	snprintf(r->peer, sizeof(r->peer), "%s", peer);
	return r;
}

static struct result *result_of(
	struct tournament *t, const struct mesh_pair *m, const char *local, const char *peer)
{
	struct result *r = find(t, m);

	return r ? r : add(t, m, local, peer);
}

static void keep_best(const struct tournament *t, struct result *r, double value)
{
	if (value > 0 && (!r->value || (is_latency(t) ? value < r->value : value > r->value)))
		r->value = value;
}

/* A round of probes */

static void take_window(struct tournament *t, const struct controller_view *view)
{
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];
		struct result *r = result_of(t, &p->m, p->local, p->peer);

		if (!r)
			return;
		/* The network alone where the kernel stamps; the best of the windows is the least disturbed. */
		keep_best(t, r, (double)(p->network_ns ? p->network_ns : p->rtt_ns));
	}
}

static void take_round(struct tournament *t, const struct controller_view *view)
{
	t->rails = view->rails;
	memcpy(t->host, view->host, view->hosts * sizeof(*t->host));
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];
		struct result *r = result_of(t, &p->m, p->local, p->peer);

		if (!r)
			return;
		r->sent = p->sent; /* of the last time it was measured */
		r->lost = p->lost + p->corrupt;
	}
}

static void told(void *context, enum controller_news news, const struct controller_view *view)
{
	if (news == CONTROLLER_WINDOW)
		take_window(context, view);
	if (news == CONTROLLER_ENDED)
		take_round(context, view);
}

static int probe_round(struct tournament *t, const struct mesh_pair *pair, size_t pairs,
	int stop_fd, struct err *e)
{
	struct controller_want want;

	probe_want(&want, t->options, t->hosts);
	want.mesh.kind = t->again ? MESH_GIVEN : MESH_ROUND;
	want.mesh.round = t->round;
	want.mesh.given = pair;
	want.mesh.givens = pairs;
	want.settle = true;
	want.window_ns = 250 * NS_PER_MS;
	want.told = told;
	want.context = t;
	return controller_mesh(&want, stop_fd, e);
}

/* A round of streams or transfers */

static void ran(void *context, const struct runs_job *job)
{
	struct tournament *t = context;
	struct result *r = result_of(t, &job->pair, job->local, job->peer);

	if (!r)
		return;
	keep_best(t, r, job->bits_per_s);
	r->failed = job->failed;
	snprintf(r->why, sizeof(r->why), "%s", job->why);
}

static int run_round(struct tournament *t, struct runs *runs, const struct mesh_pair *given,
	size_t givens, struct err *e)
{
	struct mesh_want mesh = {
		.kind = MESH_ROUND, .hosts = t->count, .rails = t->rails, .round = t->round
	};
	struct mesh_pair *pair = NULL;
	size_t pairs = givens;
	int ret = t->again ? 0 : mesh_build(&mesh, &pair, &pairs, e);

	if (!ret)
		ret = runs_round(runs, pair ? pair : given, pairs, t->options->kind == PAIRS_P2P,
			(uint32_t)t->options->flows, t->options->duration_ns, ran, t, e);
	free(pair);
	return ret;
}

/* What it comes to */

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int find_usual(struct tournament *t, struct err *e)
{
	double *all = malloc((t->results + 1) * sizeof(*all));
	size_t n = 0;

	if (!all)
		return err_set(e, ENOMEM, "no memory for %zu results", t->results);
	for (size_t i = 0; i < t->results; i++)
		if (t->result[i].value > 0)
			all[n++] = t->result[i].value;
	qsort(all, n, sizeof(*all), by_number);
	t->usual = n ? all[n / 2] : 0;
	free(all);
	return 0;
}

static bool is_lossy(const struct result *r)
{
	return r->failed || (r->lost >= LOST_MIN && r->lost * 20 >= r->sent);
}

/* Whether a result stands out: beyond the factor, and for latency by an amount that matters. */
static bool is_slow(const struct tournament *t, const struct result *r)
{
	double factor = t->options->slow;

	if (!r->value)
		return false;
	if (!is_latency(t))
		return r->value * factor < t->usual;
	return r->value > t->usual * factor && r->value > t->usual + VERDICT_SLOW_NS;
}

static bool is_suspect(const struct tournament *t, const struct result *r)
{
	return is_lossy(r) || is_slow(t, r);
}

/* Those of a round that would be accused. */
static size_t find_suspects(const struct tournament *t, uint32_t round, struct mesh_pair *pair)
{
	size_t n = 0;

	for (size_t i = 0; i < t->results; i++)
		if (t->result[i].round == round && is_suspect(t, &t->result[i]))
			pair[n++] = t->result[i].m;
	return n;
}

static size_t count_suspects(const struct tournament *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->results; i++)
		n += is_suspect(t, &t->result[i]);
	return n;
}

static int attribute(struct tournament *t, struct err *e)
{
	struct mesh_pair *pair = malloc((t->results + 1) * sizeof(*pair));
	int ret;

	if (!pair)
		return err_set(e, ENOMEM, "no memory for %zu pairs", t->results);
	for (size_t i = 0; i < t->results; i++)
		pair[i] = t->result[i].m;
	ret = verdict_new(&t->verdicts, t->count, t->rails ? t->rails : 1, pair, t->results, e);
	free(pair);
	for (size_t i = 0; !ret && i < t->results; i++) {
		struct result *r = &t->result[i];

		r->slow = is_slow(t, r);
		if (is_lossy(r) || r->slow)
			verdict_accuse(t->verdicts, i, is_lossy(r) ? VERDICT_LOSS : VERDICT_SLOW);
	}
	if (!ret)
		verdict_attribute(t->verdicts, clock_wall_ns());
	return ret;
}

/* Output */

static char *value_text(const struct tournament *t, double value, char buf[UNITS_TEXT])
{
	return is_latency(t) ? units_format_duration(buf, value) : units_format_bits(buf, value);
}

static void emit_result(struct out *o, const struct tournament *t, const struct result *r)
{
	out_object(o, NULL);
	out_str(o, "from_host", NULL, t->host[r->m.from_host].name);
	out_u64(o, "from_rail", NULL, r->m.from_rail);
	out_str(o, "to_host", NULL, t->host[r->m.to_host].name);
	out_u64(o, "to_rail", NULL, r->m.to_rail);
	out_str(o, "local", NULL, r->local);
	out_str(o, "peer", NULL, r->peer);
	out_u64(o, "round", NULL, r->round);
	if (r->value)
		out_f64(o, is_latency(t) ? "latency_ns" : "bits_per_s", NULL, r->value);
	if (is_latency(t)) {
		out_u64(o, "sent", NULL, r->sent);
		out_u64(o, "lost", NULL, r->lost);
	}
	out_bool(o, "slow", NULL, r->slow);
	out_bool(o, "failed", NULL, is_lossy(r));
	if (r->why[0])
		out_str(o, "why", NULL, r->why);
	out_end(o);
}

static void emit_record(struct out *o, const struct tournament *t)
{
	char words[PROBE_SUBJECT], text[UNITS_TEXT];
	uint64_t bad = 0;

	for (size_t i = 0; i < t->results; i++)
		bad += t->result[i].slow || is_lossy(&t->result[i]);
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-pairs/1");
	out_str(o, "kind", "%s, ", kind_name(t));
	out_u64(o, "hosts", "%" PRIu64 " hosts, ", t->count);
	out_u64(o, "rails", "%" PRIu64 " rails, ", t->rails);
	out_u64(o, "rounds", "%" PRIu64 " rounds, ", t->rounds);
	out_u64(o, "pairs", "%" PRIu64 " pairs of NICs\n", t->results);
	out_u64(o, "bad", NULL, bad);
	out_f64_as(o, is_latency(t) ? "median_ns" : "median_bits_per_s", t->usual, "median  %s\n",
		value_text(t, t->usual, text));
	out_f64(o, "slow_factor", NULL, t->options->slow);
	out_array(o, "verdicts");
	for (size_t i = 0; i < verdict_count(t->verdicts); i++) {
		const struct verdict *v = verdict_at(t->verdicts, i);

		probe_emit_verdict(o, NULL, v, t->host);
		out_text(o, "%-6s  %s (%u of %u pairs)%s\n",
			v->fault == VERDICT_LOSS ? "fails" : "slow",
			probe_subject(v, t->host, words), v->bad, v->pairs,
			v->cannot_tell
				? ": cannot tell which end, fewer than three hosts to compare"
				: "");
	}
	out_end(o);
	out_text(o, verdict_count(t->verdicts) ? "" : "nobody stands out\n");
	out_array(o, "pair");
	for (size_t i = 0; i < t->results; i++) {
		const struct result *r = &t->result[i];

		if (o->mode == OUT_JSON)
			emit_result(o, t, r);
		else if (r->slow || is_lossy(r))
			out_text(o, "        %s rail %u to %s rail %u  %s  %s\n",
				t->host[r->m.from_host].name, r->m.from_rail,
				t->host[r->m.to_host].name, r->m.to_rail,
				r->value ? value_text(t, r->value, text) : "nothing", r->why);
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

static int write_csv(FILE *file, const void *from, struct err *e)
{
	const struct tournament *t = from;

	(void)e;
	fprintf(file,
		"round,from_host,from_rail,to_host,to_rail,local,peer,%s,sent,lost,slow,failed\n",
		is_latency(t) ? "latency_ns" : "bits_per_s");
	for (size_t i = 0; i < t->results; i++) {
		const struct result *r = &t->result[i];

		fprintf(file, "%u,%s,%u,%s,%u,%s,%s,%.0f,%" PRIu64 ",%" PRIu64 ",%d,%d\n", r->round,
			t->host[r->m.from_host].name, r->m.from_rail, t->host[r->m.to_host].name,
			r->m.to_rail, r->local, r->peer, r->value, r->sent, r->lost, r->slow,
			is_lossy(r));
	}
	return 0;
}

static void say_round(struct tournament *t, size_t pairs)
{
	struct out *o = &t->out;
	double worst = 0;
	size_t failed = 0;
	char text[UNITS_TEXT];

	for (size_t i = 0; i < t->results; i++) {
		double value = t->result[i].value;

		if (t->result[i].round != t->round)
			continue;
		failed += is_lossy(&t->result[i]);
		if (value && (!worst || (is_latency(t) ? value > worst : value < worst)))
			worst = value;
	}
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-event/1");
	out_str(o, "event", NULL, "round");
	out_u64(o, "wall_ns", NULL, clock_wall_ns());
	out_u64(o, "round", "round %" PRIu64, t->round);
	out_text(o, " of %u%s", t->rounds, t->again ? " again" : "");
	out_bool(o, "again", NULL, t->again);
	out_u64(o, "pairs", ": %" PRIu64 " pairs", pairs);
	out_u64(o, "failed", ", %" PRIu64 " failed", failed);
	if (worst)
		out_f64_as(o, is_latency(t) ? "worst_ns" : "worst_bits_per_s", worst, ", worst %s",
			value_text(t, worst, text));
	out_text(o, "\n");
	out_end(o);
	if (o->mode == OUT_TEXT)
		fflush(o->file);
}

/* The tournament */

static bool is_stopped(int stop_fd)
{
	struct pollfd p = { .fd = stop_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static int play(struct tournament *t, struct runs *runs, uint32_t round,
	const struct mesh_pair *pair, size_t pairs, int stop_fd, struct err *e)
{
	size_t before = t->results;
	int ret;

	t->round = round;
	t->first = before;
	ret = runs ? run_round(t, runs, pair, pairs, e) : probe_round(t, pair, pairs, stop_fd, e);
	if (!ret)
		say_round(t, t->again ? pairs : t->results - before);
	return ret;
}

/* Those of each round who stand out, without the others. */
static int play_suspects(
	struct tournament *t, struct runs *runs, struct mesh_pair *pair, int stop_fd, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < t->rounds && !is_stopped(stop_fd); i++) {
		size_t pairs = find_suspects(t, i, pair);

		if (pairs)
			ret = play(t, runs, i, pair, pairs, stop_fd, e);
	}
	return ret;
}

/* Nobody is accused on one measurement. Where the second clears some of them, as it does where others take the CPUs, the rest
 * may have been slow twice by chance, and there is another. */
static int play_again(struct tournament *t, struct runs *runs, int stop_fd, struct err *e)
{
	struct mesh_pair *pair = malloc(((size_t)t->count * t->rails + 1) * sizeof(*pair));
	size_t left = count_suspects(t), before = 0;
	int ret = 0;

	if (!pair)
		return err_set(e, ENOMEM, "no memory for a round");
	t->again = true;
	for (int i = 0; !ret && left && left != before && i < AGAIN_MAX; i++) {
		before = left;
		ret = play_suspects(t, runs, pair, stop_fd, e);
		left = count_suspects(t);
	}
	free(pair);
	return ret;
}

static int play_all(struct tournament *t, struct runs *runs, int stop_fd, struct err *e)
{
	uint32_t all = mesh_rounds(t->count);
	int ret = 0;

	t->rounds =
		t->options->rounds && t->options->rounds < all ? (uint32_t)t->options->rounds : all;
	for (uint32_t i = 0; !ret && i < t->rounds && !is_stopped(stop_fd); i++)
		ret = play(t, runs, i, NULL, 0, stop_fd, e);
	if (!ret)
		ret = find_usual(t, e);
	if (!ret)
		ret = play_again(t, runs, stop_fd, e);
	return ret ? ret : attribute(t, e);
}

static int tell_end(struct tournament *t, struct err *e)
{
	const struct probe_options *o = t->options;
	int ret = 0;

	emit_record(&t->out, t);
	if (o->out)
		ret = file_replace(o->out, write_record, t, e);
	if (!ret && o->csv)
		ret = file_replace(o->csv, write_csv, t, e);
	if (!ret)
		ret = out_finish(&t->out, e);
	return ret ? ret : verdict_count(t->verdicts) ? STATUS_FAILED : STATUS_GOOD;
}

int probe_pairs(const struct probe_options *o, const struct hosts *hosts, struct err *e)
{
	struct tournament t = { .options = o, .hosts = hosts, .count = (uint32_t)hosts->count };
	struct runs *runs = NULL;
	int ret, stop_fd;

	if (hosts->count < 2)
		return err_set(e, EINVAL, "a tournament has two hosts or more");
	stop_fd = stop_on_signals(e);
	if (stop_fd < 0)
		return stop_fd;
	out_init(&t.out, stdout, o->json ? OUT_JSON : OUT_TEXT);
	t.host = calloc(hosts->count + 1, sizeof(*t.host));
	ret = t.host ? 0 : err_set(e, ENOMEM, "no memory for hosts");
	for (size_t i = 0; !ret && i < hosts->count; i++)
		snprintf(t.host[i].name, sizeof(t.host[i].name), "%s", hosts->name[i]);
	if (!ret && !is_latency(&t))
		ret = runs_open(&runs, hosts, (uint16_t)o->port, &o->tls, stop_fd, e);
	if (!ret && runs)
		t.rails = runs_rails(runs);
	if (!ret)
		ret = play_all(&t, runs, stop_fd, e);
	if (!ret)
		ret = tell_end(&t, e);
	runs_close(runs);
	verdict_free(t.verdicts);
	free(t.result);
	free(t.host);
	return ret;
}
