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
#include "probe/roll.h"
#include "probe/runs.h"
#include "probe/tournament.h"

#define AGAIN_MAX 4 /* times that who stands out is measured once more */

struct play {
	const struct probe_options *options;
	struct hosts hosts, silent; /* who plays, and who did not answer before it began */
	struct out out;
	struct controller_host *host;
	double *late_ns; /* of each host, in a window */
	uint32_t count, rails, rounds, round;
	size_t refused; /* pairs, which were not probed */
	struct tournament t;
	struct verdicts *verdicts;
	bool again;    /* a round is measured once more */
	struct err *e; /* of a round */
	int ret;
};

static bool is_latency(const struct play *p)
{
	return p->options->kind == PAIRS_LATENCY;
}

static const char *kind_name(const struct play *p)
{
	static const char *const names[] = { "latency", "stream", "p2p" };

	return names[p->options->kind];
}

static struct tournament_result *result_of(
	struct play *p, const struct mesh_pair *m, const char *local, const char *peer)
{
	struct tournament_result *r = tournament_pair(&p->t, m, p->round, local, peer, p->e);

	if (!r)
		p->ret = -ENOMEM;
	return r;
}

/* A round of probes */

static void find_late(struct play *p, const struct controller_view *view)
{
	memset(p->late_ns, 0, p->count * sizeof(*p->late_ns));
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *c = &view->pair[i];

		if ((double)c->late_ns > p->late_ns[c->m.from_host])
			p->late_ns[c->m.from_host] = (double)c->late_ns;
	}
}

static double larger(double a, uint64_t b)
{
	return a > (double)b ? a : (double)b;
}

static void take_window(struct play *p, const struct controller_view *view)
{
	find_late(p, view);
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *c = &view->pair[i];
		struct tournament_hosts late = { p->late_ns[c->m.from_host],
			p->late_ns[c->m.to_host] };
		struct tournament_hosts hosts = { larger(late.from, c->prober_ns),
			larger(late.to, c->responder_ns) };
		struct tournament_result *r = result_of(p, &c->m, c->local, c->peer);

		if (!r)
			return;
		/* The network alone where the kernel stamps; the best of the windows is the least disturbed. */
		tournament_keep(
			&p->t, r, (double)(c->network_ns ? c->network_ns : c->rtt_ns), &hosts);
		tournament_keep_late(r, &late);
	}
}

static void take_round(struct play *p, const struct controller_view *view)
{
	if (view->rails > p->rails)
		p->rails = view->rails;
	memcpy(p->host, view->host, view->hosts * sizeof(*p->host));
	for (size_t i = 0; i < view->pairs; i++) {
		const struct controller_pair *c = &view->pair[i];
		struct tournament_result *r = result_of(p, &c->m, c->local, c->peer);

		if (!r)
			return;
		p->refused += c->refused && !p->again;
		r->sent = c->sent; /* of the last time it was measured */
		r->lost = c->lost + c->corrupt;
	}
}

static void told(void *context, enum controller_news news, const struct controller_view *view)
{
	if (news == CONTROLLER_WINDOW)
		take_window(context, view);
	if (news == CONTROLLER_ENDED)
		take_round(context, view);
}

static int probe_round(
	struct play *p, const struct mesh_pair *pair, size_t pairs, int stop_fd, struct err *e)
{
	struct controller_want want;

	probe_want(&want, p->options, &p->hosts);
	want.mesh.kind = p->again ? MESH_GIVEN : MESH_ROUND;
	want.mesh.round = p->round;
	want.mesh.given = pair;
	want.mesh.givens = pairs;
	want.settle = true;
	want.window_ns = 250 * NS_PER_MS;
	want.told = told;
	want.context = p;
	return controller_mesh(&want, stop_fd, e);
}

/* A round of streams or transfers */

/* It may have waited before and after the time that counts, too. */
static double share_of(const struct play *p, uint64_t ns)
{
	double share = (double)ns / (double)p->options->duration_ns;

	return share < 1 ? share : 1;
}

static void ran(void *context, const struct runs_job *job)
{
	struct play *p = context;
	struct tournament_result *r = result_of(p, &job->pair, job->local, job->peer);
	struct tournament_hosts waited = { share_of(p, job->from_starved_ns),
		share_of(p, job->to_starved_ns) };

	if (!r)
		return;
	tournament_keep(&p->t, r, job->bits_per_s, &waited);
	r->failed = job->failed;
	snprintf(r->why, sizeof(r->why), "%s", job->why);
}

static int run_round(struct play *p, struct runs *runs, const struct mesh_pair *given,
	size_t givens, struct err *e)
{
	struct mesh_want mesh = {
		.kind = MESH_ROUND, .hosts = p->count, .rails = p->rails, .round = p->round
	};
	struct mesh_pair *pair = NULL;
	size_t pairs = givens;
	int ret = p->again ? 0 : mesh_build(&mesh, &pair, &pairs, e);

	if (!ret)
		ret = runs_round(runs, pair ? pair : given, pairs, p->options->kind == PAIRS_P2P,
			(uint32_t)p->options->flows, p->options->duration_ns, ran, p, e);
	free(pair);
	return ret;
}

/* What it comes to */

static int attribute(struct play *p, struct err *e)
{
	struct tournament *t = &p->t;
	struct mesh_pair *pair = malloc((t->results + 1) * sizeof(*pair));
	int ret;

	if (!pair)
		return err_set(e, ENOMEM, "no memory for %zu pairs", t->results);
	for (size_t i = 0; i < t->results; i++)
		pair[i] = t->result[i].m;
	ret = verdict_new(&p->verdicts, p->count, p->rails ? p->rails : 1, pair, t->results, e);
	free(pair);
	if (ret)
		return ret;
	tournament_accuse(t, p->verdicts);
	verdict_attribute(p->verdicts, clock_wall_ns());
	return 0;
}

/* Output */

static char *value_text(const struct play *p, double value, char buf[UNITS_TEXT])
{
	return is_latency(p) ? units_format_duration(buf, value) : units_format_bits(buf, value);
}

static void emit_result(struct out *o, const struct play *p, const struct tournament_result *r)
{
	out_object(o, NULL);
	out_str(o, "from_host", NULL, p->host[r->m.from_host].name);
	out_u64(o, "from_rail", NULL, r->m.from_rail);
	out_str(o, "to_host", NULL, p->host[r->m.to_host].name);
	out_u64(o, "to_rail", NULL, r->m.to_rail);
	out_str(o, "local", NULL, r->local);
	out_str(o, "peer", NULL, r->peer);
	out_u64(o, "round", NULL, r->round);
	if (r->value)
		out_f64(o, is_latency(p) ? "latency_ns" : "bits_per_s", NULL, r->value);
	if (is_latency(p)) {
		out_u64(o, "sent", NULL, r->sent);
		out_u64(o, "lost", NULL, r->lost);
	}
	if (r->value) {
		out_f64(o, is_latency(p) ? "from_delay_ns" : "from_starved_share", NULL,
			r->hosts.from);
		out_f64(o, is_latency(p) ? "to_delay_ns" : "to_starved_share", NULL, r->hosts.to);
	}
	out_bool(o, "slow", NULL, tournament_is_slow(&p->t, r));
	out_bool(o, "failed", NULL, tournament_is_lossy(r));
	out_bool(o, "starved", NULL, tournament_is_starved(&p->t, r, NULL));
	if (r->why[0])
		out_str(o, "why", NULL, r->why);
	out_end(o);
}

static void emit_silent(struct out *o, const char *name)
{
	out_str(o, NULL, NULL, name);
	out_text(o, "silent  %s\n", name);
}

/* Somebody was not there, or not probed. */
static bool is_incomplete(const struct play *p)
{
	bool all = !p->silent.count && !p->refused;

	for (uint32_t i = 0; i < p->count; i++)
		all &= p->host[i].answers;
	return !all;
}

static void emit_all_silent(struct out *o, const struct play *p)
{
	out_array(o, "silent");
	for (size_t i = 0; i < p->silent.count; i++)
		emit_silent(o, p->silent.name[i]);
	for (uint32_t i = 0; i < p->count; i++)
		if (!p->host[i].answers)
			emit_silent(o, p->host[i].name);
	out_end(o);
}

static void emit_record(struct out *o, const struct play *p)
{
	char words[PROBE_SUBJECT], text[UNITS_TEXT];
	uint64_t bad = 0;

	for (size_t i = 0; i < p->t.results; i++)
		bad += tournament_is_suspect(&p->t, &p->t.result[i]);
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-pairs/1");
	out_str(o, "kind", "%s, ", kind_name(p));
	out_u64(o, "hosts", "%" PRIu64 " hosts, ", p->count);
	out_u64(o, "rails", "%" PRIu64 " rails, ", p->rails);
	out_u64(o, "rounds", "%" PRIu64 " rounds, ", p->rounds);
	out_u64(o, "pairs", "%" PRIu64 " pairs of NICs\n", p->t.results);
	out_u64(o, "bad", NULL, bad);
	out_f64_as(o, is_latency(p) ? "median_ns" : "median_bits_per_s", p->t.usual, "median  %s\n",
		value_text(p, p->t.usual, text));
	out_f64(o, "slow_factor", NULL, p->options->slow);
	emit_all_silent(o, p);
	out_u64(o, "refused", NULL, p->refused);
	if (p->refused)
		out_text(o, "refused %zu pairs, which were not probed\n", p->refused);
	out_array(o, "verdicts");
	for (size_t i = 0; i < verdict_count(p->verdicts); i++) {
		const struct verdict *v = verdict_at(p->verdicts, i);

		probe_emit_verdict(o, NULL, v, p->host);
		out_text(o, "%-6s  %s", v->fault == VERDICT_LOSS ? "fails" : "slow",
			probe_subject(v, p->host, words));
		if (v->subject != VERDICT_PROBER)
			out_text(o, " (%u of %u pairs)", v->bad, v->pairs);
		out_text(o, "%s\n", v->cannot_tell ? probe_cannot_tell(v) : "");
	}
	out_end(o);
	if (!verdict_count(p->verdicts))
		out_text(o, "nobody %sstands out\n", is_incomplete(p) ? "else " : "");
	out_array(o, "pair");
	for (size_t i = 0; i < p->t.results; i++) {
		const struct tournament_result *r = &p->t.result[i];

		if (o->mode == OUT_JSON)
			emit_result(o, p, r);
		else if (tournament_is_suspect(&p->t, r))
			out_text(o, "        %s rail %u to %s rail %u  %s  %s\n",
				p->host[r->m.from_host].name, r->m.from_rail,
				p->host[r->m.to_host].name, r->m.to_rail,
				r->value ? value_text(p, r->value, text) : "nothing", r->why);
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
	const struct play *p = from;

	(void)e;
	fprintf(file,
		"round,from_host,from_rail,to_host,to_rail,local,peer,%s,sent,lost,slow,failed,starved\n",
		is_latency(p) ? "latency_ns" : "bits_per_s");
	for (size_t i = 0; i < p->t.results; i++) {
		const struct tournament_result *r = &p->t.result[i];

		fprintf(file, "%u,%s,%u,%s,%u,%s,%s,%.0f,%" PRIu64 ",%" PRIu64 ",%d,%d,%d\n",
			r->round, p->host[r->m.from_host].name, r->m.from_rail,
			p->host[r->m.to_host].name, r->m.to_rail, r->local, r->peer, r->value,
			r->sent, r->lost, tournament_is_slow(&p->t, r), tournament_is_lossy(r),
			tournament_is_starved(&p->t, r, NULL));
	}
	return 0;
}

static void say_round(struct play *p, size_t pairs)
{
	struct out *o = &p->out;
	double worst = 0;
	size_t failed = 0;
	char text[UNITS_TEXT];

	for (size_t i = 0; i < p->t.results; i++) {
		double value = p->t.result[i].value;

		if (p->t.result[i].round != p->round)
			continue;
		failed += tournament_is_lossy(&p->t.result[i]);
		if (value && (!worst || (is_latency(p) ? value > worst : value < worst)))
			worst = value;
	}
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe-event/1");
	out_str(o, "event", NULL, "round");
	out_u64(o, "wall_ns", NULL, clock_wall_ns());
	out_u64(o, "round", "round %" PRIu64, p->round);
	out_text(o, " of %u%s", p->rounds, p->again ? " again" : "");
	out_bool(o, "again", NULL, p->again);
	out_u64(o, "pairs", ": %" PRIu64 " pairs", pairs);
	out_u64(o, "failed", ", %" PRIu64 " failed", failed);
	if (worst)
		out_f64_as(o, is_latency(p) ? "worst_ns" : "worst_bits_per_s", worst, ", worst %s",
			value_text(p, worst, text));
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

static int play_round(struct play *p, struct runs *runs, uint32_t round,
	const struct mesh_pair *pair, size_t pairs, int stop_fd, struct err *e)
{
	size_t before = p->t.results;
	int ret;

	p->round = round;
	p->t.first = p->again ? 0 : before;
	p->e = e;
	ret = runs ? run_round(p, runs, pair, pairs, e) : probe_round(p, pair, pairs, stop_fd, e);
	ret = ret ? ret : p->ret;
	if (ret == -EHOSTUNREACH) { /* who answered at the start is gone: the others go on */
		log_warn("round %u: %s", round, e->what);
		err_clear(e);
		return 0;
	}
	if (!ret)
		say_round(p, p->again ? pairs : p->t.results - before);
	return ret;
}

/* Those of each round who stand out, without the others. */
static int play_suspects(
	struct play *p, struct runs *runs, struct mesh_pair *pair, int stop_fd, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < p->rounds && !is_stopped(stop_fd); i++) {
		size_t pairs = tournament_suspects(&p->t, i, pair);

		if (pairs)
			ret = play_round(p, runs, i, pair, pairs, stop_fd, e);
	}
	return ret;
}

/* Nobody is accused on one measurement. Where the second clears some of them, as it does where others take the CPUs, the rest
 * may have been slow twice by chance, and there is another. */
static int play_again(struct play *p, struct runs *runs, int stop_fd, struct err *e)
{
	struct mesh_pair *pair = malloc(((size_t)p->count * p->rails + 1) * sizeof(*pair));
	size_t left = tournament_suspect_count(&p->t), before = 0;
	int ret = 0;

	if (!pair)
		return err_set(e, ENOMEM, "no memory for a round");
	p->again = true;
	for (int i = 0; !ret && left && left != before && i < AGAIN_MAX; i++) {
		before = left;
		ret = play_suspects(p, runs, pair, stop_fd, e);
		left = tournament_suspect_count(&p->t);
	}
	free(pair);
	return ret;
}

static int play_all(struct play *p, struct runs *runs, int stop_fd, struct err *e)
{
	uint32_t all = mesh_rounds(p->count);
	int ret = 0;

	p->rounds =
		p->options->rounds && p->options->rounds < all ? (uint32_t)p->options->rounds : all;
	for (uint32_t i = 0; !ret && i < p->rounds && !is_stopped(stop_fd); i++)
		ret = play_round(p, runs, i, NULL, 0, stop_fd, e);
	if (!ret && !p->t.results && !is_stopped(stop_fd))
		ret = roll_nobody(e);
	if (!ret)
		ret = tournament_usual(&p->t, e);
	if (!ret)
		ret = play_again(p, runs, stop_fd, e);
	return ret ? ret : attribute(p, e);
}

static int tell_end(struct play *p, struct err *e)
{
	const struct probe_options *o = p->options;
	int ret = 0, status = is_incomplete(p) ? STATUS_FAILED : STATUS_GOOD;

	emit_record(&p->out, p);
	if (o->out)
		ret = file_replace(o->out, write_record, p, e);
	if (!ret && o->csv)
		ret = file_replace(o->csv, write_csv, p, e);
	if (!ret)
		ret = out_finish(&p->out, e);
	for (size_t i = 0; i < verdict_count(p->verdicts); i++)
		status = probe_worse(status, verdict_at(p->verdicts, i));
	return ret ? ret : status;
}

/* Everybody who answers has a place in the draw. */
static int draw(struct play *p, const struct hosts *hosts, int stop_fd, struct err *e)
{
	const struct probe_options *o = p->options;
	int ret = roll_sort(hosts, (uint16_t)o->port, &o->tls, stop_fd, &p->hosts, &p->silent, e);

	if (ret)
		return ret;
	if (!p->hosts.count)
		return roll_nobody(e);
	if (p->hosts.count < 2)
		return err_set(e, EHOSTUNREACH,
			"only %s answers: a tournament has two hosts or more", p->hosts.name[0]);
	p->count = (uint32_t)p->hosts.count;
	p->host = calloc(p->count, sizeof(*p->host));
	p->late_ns = calloc(p->count, sizeof(*p->late_ns));
	if (!p->host || !p->late_ns)
		return err_set(e, ENOMEM, "no memory for hosts");
	for (uint32_t i = 0; i < p->count; i++) {
		snprintf(p->host[i].name, sizeof(p->host[i].name), "%s", p->hosts.name[i]);
		p->host[i].answers = true;
	}
	return 0;
}

int probe_pairs(const struct probe_options *o, const struct hosts *hosts, struct err *e)
{
	struct play p = { .options = o,
		.t = { .latency = o->kind == PAIRS_LATENCY, .slow = o->slow } };
	struct runs *runs = NULL;
	int ret, stop_fd;

	if (hosts->count < 2)
		return err_set(e, EINVAL, "a tournament has two hosts or more");
	stop_fd = stop_on_signals(e);
	if (stop_fd < 0)
		return stop_fd;
	out_init(&p.out, stdout, o->json ? OUT_JSON : OUT_TEXT);
	ret = draw(&p, hosts, stop_fd, e);
	if (!ret && !is_latency(&p))
		ret = runs_open(&runs, &p.hosts, (uint16_t)o->port, &o->tls, stop_fd, e);
	if (!ret && runs)
		p.rails = runs_rails(runs);
	if (!ret)
		ret = play_all(&p, runs, stop_fd, e);
	if (!ret)
		ret = tell_end(&p, e);
	runs_close(runs);
	verdict_free(p.verdicts);
	tournament_free(&p.t);
	free(p.late_ns);
	free(p.host);
	hosts_free(&p.silent);
	hosts_free(&p.hosts);
	return ret;
}
