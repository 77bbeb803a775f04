// SPDX-License-Identifier: BSD-3-Clause
#include "record/p2p.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/units.h"
#include "record/render.h"

#define GIB 1073741824.0

static double rate_of(const struct run_end *r)
{
	return r && r->elapsed_ns ? (double)r->bytes * 1e9 / (double)r->elapsed_ns : 0;
}

static const struct run_end *receiver(const struct p2p_record *r)
{
	bool server = !strcmp(r->role, "server");
	bool here = r->plan.op == RUN_READ || r->plan.op == RUN_PINGPONG ? !server : server;

	return here || !r->remote ? r->local : r->remote;
}

double p2p_rate(const struct p2p_record *r)
{
	return rate_of(receiver(r));
}

uint64_t p2p_time_ns(const struct run_end *end, double percent, bool *sound)
{
	struct hist *h = malloc(sizeof(*h));
	uint64_t ns = 0;

	*sound = false;
	if (!h)
		return 0;
	hist_init(h);
	for (uint32_t i = 0; i < end->times; i++)
		hist_record(h, end->time_ns[i]);
	ns = percent >= 100 ? (h->count ? h->max_ns : 0) : hist_percentile(h, percent);
	*sound = hist_percentile_is_sound(h, percent) || percent >= 100;
	free(h);
	return ns;
}

static double ends_differ(const struct p2p_record *r)
{
	double a = rate_of(r->local), b = rate_of(r->remote);

	return a > 0 && b > 0 ? fabs(a - b) / fmax(a, b) : 0;
}

/* Of what was to come in device memory, how much did not. */
static double missed(const struct run_end *end)
{
	double lost = (double)(end->stats.received_linear_bytes + end->stats.received_plain_bytes);
	double all = lost + (double)end->stats.received_device_bytes;

	return all > 0 ? lost / all : 0;
}

int p2p_verdict(const struct p2p_record *r)
{
	if (r->error || (r->local && r->local->wrong) || (r->remote && r->remote->wrong))
		return 1;
	/* What is called a run of device memory, and was not: whose rate is this? */
	if ((r->local && missed(r->local) > 0.01) || (r->remote && missed(r->remote) > 0.01))
		return 3;
	/* Two ends that tell different stories about the same bytes: which is to be believed? */
	return r->plan.op == RUN_SEND && ends_differ(r) > 0.1 ? 3 : 0;
}

static void emit_time(const char *key, uint64_t wall_ns, struct out *o)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	char text[40] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	out_str(o, key, NULL, text);
}

static void emit_percentile(
	struct out *o, const char *key, const struct run_end *end, double percent)
{
	bool sound;
	uint64_t ns = p2p_time_ns(end, percent, &sound);

	if (sound)
		out_u64(o, key, NULL, ns);
	else
		out_null(o, key);
}

/* Which way the bytes of one end went. */
static void json_path(struct out *o, const struct run_end *end)
{
	out_object(o, "path");
	out_str(o, "rx", NULL, end->rx_path);
	out_str(o, "tx", NULL, end->tx_path);
	out_str(o, "reason", NULL, end->path_reason[0] ? end->path_reason : NULL);
	out_u64(o, "rx_devmem_bytes", NULL, end->stats.received_device_bytes);
	out_u64(o, "rx_linear_bytes", NULL, end->stats.received_linear_bytes);
	out_u64(o, "rx_plain_bytes", NULL, end->stats.received_plain_bytes);
	out_u64(o, "tx_devmem_bytes", NULL, end->stats.sent_device_bytes);
	out_end(o);
}

static void json_end(struct out *o, const char *key, const struct run_end *end)
{
	static const char *const stall[WEIR_P2P_STALLS] = { "no_credit_ns", "peer_slow_ns",
		"socket_full_ns", "unpack_ns" };

	if (!end) {
		out_null(o, key);
		return;
	}
	out_object(o, key);
	out_u64(o, "messages", NULL, end->count);
	out_u64(o, "bytes", NULL, end->bytes);
	out_u64(o, "elapsed_ns", NULL, end->elapsed_ns);
	out_f64(o, "bytes_per_s", NULL, rate_of(end));
	emit_percentile(o, "median_ns", end, 50);
	emit_percentile(o, "p99_ns", end, 99);
	emit_percentile(o, "max_ns", end, 100);
	out_u64(o, "cpu_ns", NULL, end->cpu_ns);
	out_u64(o, "checked", NULL, end->checked);
	out_u64(o, "wrong", NULL, end->wrong);
	out_str(o, "memory", NULL, end->memory);
	out_str(o, "devices", NULL, end->devices);
	json_path(o, end);
	out_object(o, "window");
	out_u64(o, "active_ns", NULL, end->stats.active_ns);
	out_f64(o, "in_flight_mean", NULL, end->stats.in_flight_mean);
	out_u64(o, "in_flight_max", NULL, end->stats.in_flight_max);
	out_end(o);
	out_object(o, "stalled");
	for (int i = 0; i < WEIR_P2P_STALLS; i++)
		out_u64(o, stall[i], NULL, end->stats.stall_ns[i]);
	out_end(o);
	out_array(o, "times_ns");
	for (uint32_t i = 0; i < end->times; i++)
		out_u64(o, NULL, NULL, end->time_ns[i]);
	out_end(o);
	out_end(o);
}

static const char *verdict_name(int verdict)
{
	return verdict == 0 ? "good" : verdict == 3 ? "doubtful" : "failed";
}

static void json_record(const struct p2p_record *r, const char *key, struct out *o)
{
	out_object(o, key);
	out_str(o, "schema", NULL, "weir/p2p/1");
	out_str(o, "role", NULL, r->role);
	emit_time("started", r->started_wall_ns, o);
	out_str(o, "peer", NULL, r->peer);
	out_i64(o, "gpu", NULL, r->gpu);
	out_i64(o, "peer_gpu", NULL, r->peer_gpu);
	out_str(o, "transport", NULL, r->transport);
	out_str(o, "op", NULL, run_op_name[r->plan.op]);
	out_u64(o, "message_bytes", NULL, r->plan.bytes);
	out_u64(o, "iterations", NULL, r->plan.count);
	out_u64(o, "warmup", NULL, r->warmup);
	out_u64(o, "depth", NULL, r->plan.depth);
	out_bool(o, "check", NULL, r->plan.check);
	out_u64(o, "chunk_bytes", NULL, r->chunk_bytes);
	out_u64(o, "channels", NULL, r->channels);
	out_u64(o, "sockets", NULL, r->sockets);
	out_u64(o, "window", NULL, r->window);
	out_str(o, "unpack", NULL, r->unpack);
	out_f64(o, "bytes_per_s", NULL, p2p_rate(r));
	json_end(o, "local", r->local);
	json_end(o, "remote", r->remote);
	out_str(o, "error", NULL, r->error);
	out_str(o, "verdict", NULL, verdict_name(p2p_verdict(r)));
	out_end(o);
}

static void text_path(const char *name, const struct run_end *end, struct out *o)
{
	const struct weir_p2p_stats *s = &end->stats;
	char received[UNITS_TEXT], sent[UNITS_TEXT];

	if ((!strcmp(end->rx_path, "host") || !strcmp(end->rx_path, "none")) &&
		(!strcmp(end->tx_path, "host") || !strcmp(end->tx_path, "none")))
		return;
	out_text(o, "%s: path in %s, out %s; by the NIC itself in %s, out %s\n", name, end->rx_path,
		end->tx_path, units_format_bytes(received, (double)s->received_device_bytes),
		units_format_bytes(sent, (double)s->sent_device_bytes));
	if (end->path_reason[0])
		out_text(o, "  staged: %s\n", end->path_reason);
	if (missed(end) > 0)
		out_text(o, "  %.3g %% of what came landed in host memory: %s\n", 100 * missed(end),
			s->received_linear_bytes > s->received_plain_bytes
				? "header split left it with the headers"
				: "it came by another queue, or unsplit");
}

static void text_heading(const struct p2p_record *r, struct out *o)
{
	char bytes[UNITS_TEXT], chunk[UNITS_TEXT], sockets[24] = "";

	if (r->sockets)
		snprintf(sockets, sizeof(sockets), " x %u sockets", r->sockets);
	out_style(o, OUT_BOLD);
	out_text(o, "p2p %s: GPU %d %s GPU %d of %s, %s of %s x %u\n", r->role, r->gpu,
		r->plan.op == RUN_READ	     ? "<-"
		: r->plan.op == RUN_PINGPONG ? "<->"
		: !strcmp(r->role, "server") ? "<-"
					     : "->",
		r->peer_gpu, r->peer, run_op_name[r->plan.op],
		units_format_bytes(bytes, (double)r->plan.bytes), r->plan.count);
	out_style(o, OUT_PLAIN);
	out_text(o,
		"%u channels%s, window %u, chunk %s, %u under way, %u warm-up left out\n"
		"transport %s, NICs %s%s%s, memory %s%s%s, unpack %s\n\n",
		r->channels, sockets, r->window, units_format_bytes(chunk, (double)r->chunk_bytes),
		r->plan.depth, r->warmup, r->transport, r->local ? r->local->devices : "?",
		r->remote ? " and " : "", r->remote ? r->remote->devices : "",
		r->local ? r->local->memory : "?", r->remote ? " and " : "",
		r->remote ? r->remote->memory : "", r->unpack);
}

#define ROWS_MAX 20

static void text_iterations(const struct p2p_record *r, struct out *o)
{
	const struct run_end *a = r->local, *b = r->remote;
	double bytes = (double)r->plan.bytes;
	char mine[UNITS_TEXT], theirs[UNITS_TEXT];

	if (!a->times)
		return;
	out_text(o, "%10s  %10s  %8s  %8s%s\n", "iteration", "time", "GB/s", "GiB/s",
		b && b->times ? "    other end      GB/s" : "");
	for (uint32_t i = 0; i < a->times && i < ROWS_MAX; i++) {
		double ns = (double)a->time_ns[i];

		out_text(o, "%10u  %10s  %8.3f  %8.3f", i + 1, units_format_duration(mine, ns),
			ns > 0 ? bytes / ns : 0, ns > 0 ? bytes * 1e9 / GIB / ns : 0);
		if (b && i < b->times)
			out_text(o, "   %10s  %8.3f",
				units_format_duration(theirs, (double)b->time_ns[i]),
				b->time_ns[i] ? bytes / (double)b->time_ns[i] : 0);
		out_text(o, "\n");
	}
	if (a->times > ROWS_MAX)
		out_text(o, "%10s  %u more: --json has them all\n", "...", a->times - ROWS_MAX);
	out_text(o, "\n");
}

static const char *text_percentile(char buf[UNITS_TEXT], const struct run_end *end, double percent)
{
	bool sound;
	uint64_t ns = p2p_time_ns(end, percent, &sound);

	return sound ? units_format_duration(buf, (double)ns) : "-";
}

static void text_end(const char *name, const struct run_end *end, struct out *o)
{
	char p50[UNITS_TEXT], p99[UNITS_TEXT], max[UNITS_TEXT];
	double rate = rate_of(end), active = (double)end->stats.active_ns;
	double chunks = end->stats.in_flight_mean;

	out_text(o, "%8s  %8.3f  %8.3f  %10s  %10s  %10s  %6.1f/%-4" PRIu64, name, rate / 1e9,
		rate / GIB, text_percentile(p50, end, 50), text_percentile(p99, end, 99),
		text_percentile(max, end, 100), chunks, end->stats.in_flight_max);
	for (int i = 0; i < WEIR_P2P_STALLS; i++)
		out_text(o, "  %10.0f%%",
			active > 0 ? 100 * (double)end->stats.stall_ns[i] / active : 0);
	out_text(o, "\n");
}

static void text_record(const struct p2p_record *r, struct out *o)
{
	bool server = !strcmp(r->role, "server");
	uint32_t checked;

	text_heading(r, o);
	if (!r->local)
		return;
	text_iterations(r, o);
	out_text(o, "%8s  %8s  %8s  %10s  %10s  %10s  %-11s  %s\n", "", "GB/s", "GiB/s", "median",
		"p99", "max", "  in flight",
		"stalled:  no credit    peer slow  socket full       unpack");
	text_end(server ? "server" : "client", r->local, o);
	if (r->remote)
		text_end(server ? "client" : "server", r->remote, o);
	checked = r->local->checked + (r->remote ? r->remote->checked : 0);
	text_path(server ? "server" : "client", r->local, o);
	if (r->remote)
		text_path(server ? "client" : "server", r->remote, o);
	if (!r->plan.check)
		out_text(o, "\ndata was not checked\n");
	else if (!r->local->wrong && !(r->remote && r->remote->wrong))
		out_text(o, "\ndata checked: %u messages, every byte as it should be\n", checked);
	if (ends_differ(r) > 0.01)
		out_text(o,
			"the ends differ by %.1f %%: the receiver's figure is the one that counts\n",
			100 * ends_differ(r));
}

void p2p_emit(const struct p2p_record *r, struct out *o)
{
	if (o->mode == OUT_TEXT)
		text_record(r, o);
	else
		json_record(r, NULL, o);
}

static int emit_to_file(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	json_record(from, NULL, &o);
	return out_finish(&o, e);
}

int p2p_write(const struct p2p_record *r, const char *path, struct err *e)
{
	return file_replace(path, emit_to_file, r, e);
}

/* Mesh */

int p2p_mesh_verdict(const struct p2p_mesh *m)
{
	int worst = 0;

	for (unsigned int i = 0; i < m->count; i++) {
		int one = p2p_verdict(&m->record[i]);

		worst = one == 1 || !worst ? one : worst;
		if (one == 1)
			break;
	}
	return worst;
}

/* All bytes over the time from the first beginning to the last end. */
static double mesh_rate(const struct p2p_mesh *m)
{
	double bytes = 0;

	for (unsigned int i = 0; i < m->count; i++)
		if (m->record[i].local && !m->record[i].error)
			bytes += (double)m->record[i].local->bytes;
	return m->elapsed_ns ? bytes * 1e9 / (double)m->elapsed_ns : 0;
}

void p2p_mesh_emit(const struct p2p_mesh *m, struct out *o)
{
	char p50[UNITS_TEXT];

	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/p2p-mesh/1");
	out_bool(o, "processes", NULL, m->processes);
	out_u64(o, "elapsed_ns", NULL, m->elapsed_ns);
	out_f64(o, "bytes_per_s", NULL, mesh_rate(m));
	out_str(o, "verdict", NULL, verdict_name(p2p_mesh_verdict(m)));
	out_text(o, "%5s  %-24s  %-16s  %8s  %8s  %10s  %s\n", "GPU", "peer", "NICs", "GB/s",
		"GiB/s", "median", "data");
	out_array(o, "runs");
	for (unsigned int i = 0; i < m->count; i++) {
		const struct p2p_record *r = &m->record[i];

		if (o->mode == OUT_JSON) {
			json_record(r, NULL, o);
			continue;
		}
		if (r->error || !r->local) {
			out_text(o, "%5d  %-24s  failed: %s\n", r->gpu, r->peer,
				r->error ? r->error : "it did not run");
			continue;
		}
		out_text(o, "%5d  %-24s  %-16s  %8.3f  %8.3f  %10s  %s\n", r->gpu, r->peer,
			r->local->devices, p2p_rate(r) / 1e9, p2p_rate(r) / GIB,
			text_percentile(p50, r->local, 50),
			!r->plan.check	      ? "not checked"
			: p2p_verdict(r) == 1 ? "WRONG"
					      : "right");
	}
	out_end(o);
	out_text(o, "%5s  %-24s  %-16s  %8.3f  %8.3f   %u GPUs in %s\n", "all", "", "",
		mesh_rate(m) / 1e9, mesh_rate(m) / GIB, m->count,
		m->processes ? "as many processes" : "one process");
	out_end(o);
}

/* Sweep */

void p2p_point_emit(const struct p2p_point *p, unsigned int number, struct out *o)
{
	char size[UNITS_TEXT], chunk[UNITS_TEXT], median[UNITS_TEXT];

	if (o->mode != OUT_TEXT)
		return;
	if (!number)
		out_text(o, "%10s  %10s  %8s  %6s  %8s  %8s  %7s  %10s  %8s\n", "size", "chunk",
			"channels", "window", "GB/s", "GiB/s", "+-", "median", "messages");
	out_text(o, "%10s  %10s  %8u  %6u  ", units_format_bytes(size, (double)p->bytes),
		units_format_bytes(chunk, (double)p->chunk_bytes), p->channels, p->window);
	if (p->error[0])
		out_text(o, "failed: %s\n", p->error);
	else
		out_text(o, "%8.3f  %8.3f  %6.1f%%  %10s  %8u%s\n", p->rate / 1e9, p->rate / GIB,
			100 * p->spread, units_format_duration(median, (double)p->median_ns),
			p->messages, p->steady ? "" : "  not steady");
	fflush(o->file);
}

static bool same_setting(const struct p2p_point *a, const struct p2p_point *b)
{
	return a->chunk_bytes == b->chunk_bytes && a->channels == b->channels &&
	       a->window == b->window;
}

static double best_rate(const struct p2p_sweep *s, uint64_t bytes)
{
	double best = 0;

	for (unsigned int i = 0; i < s->count; i++)
		if (s->point[i].bytes == bytes && s->point[i].rate > best)
			best = s->point[i].rate;
	return best;
}

/* The mean share of the best; 0 when a point of the setting failed. */
static double setting_share(const struct p2p_sweep *s, const struct p2p_point *setting)
{
	double sum = 0;
	unsigned int points = 0;

	for (unsigned int i = 0; i < s->count; i++) {
		if (!same_setting(&s->point[i], setting))
			continue;
		if (s->point[i].error[0])
			return 0;
		sum += s->point[i].rate / best_rate(s, s->point[i].bytes);
		points++;
	}
	return points ? sum / points : 0;
}

void p2p_sweep_judge(struct p2p_sweep *s)
{
	s->share = 0;
	s->recommended = false;
	for (unsigned int i = 0; i < s->count; i++) {
		double share = setting_share(s, &s->point[i]);

		if (share <= s->share)
			continue;
		s->share = share;
		s->recommended = true;
		s->chunk_bytes = s->point[i].chunk_bytes;
		s->channels = s->point[i].channels;
		s->window = s->point[i].window;
	}
}

void p2p_sweep_emit(const struct p2p_sweep *s, struct out *o)
{
	char chunk[UNITS_TEXT];

	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/p2p-sweep/1");
	out_str(o, "peer", NULL, s->peer);
	out_str(o, "transport", NULL, s->transport);
	out_str(o, "op", NULL, s->op);
	out_array(o, "points");
	for (unsigned int i = 0; i < s->count; i++) {
		const struct p2p_point *p = &s->point[i];

		out_object(o, NULL);
		out_u64(o, "message_bytes", NULL, p->bytes);
		out_u64(o, "chunk_bytes", NULL, p->chunk_bytes);
		out_u64(o, "channels", NULL, p->channels);
		out_u64(o, "window", NULL, p->window);
		out_u64(o, "messages", NULL, p->messages);
		out_u64(o, "batches", NULL, p->batches);
		out_f64(o, "bytes_per_s", NULL, p->rate);
		out_f64(o, "spread", NULL, p->spread);
		out_u64(o, "median_ns", NULL, p->median_ns);
		out_bool(o, "steady", NULL, p->steady);
		out_str(o, "error", NULL, p->error[0] ? p->error : NULL);
		out_end(o);
	}
	out_end(o);
	if (s->recommended) {
		out_object(o, "recommended");
		out_u64(o, "chunk_bytes", NULL, s->chunk_bytes);
		out_u64(o, "channels", NULL, s->channels);
		out_u64(o, "window", NULL, s->window);
		out_f64(o, "share_of_best", NULL, s->share);
		out_end(o);
		out_text(o,
			"\nrecommended: --chunk %" PRIu64
			"K --channels %u --window %u  (chunks of %s: "
			"%.0f %% of the best of each size)\n",
			s->chunk_bytes >> 10, s->channels, s->window,
			units_format_bytes(chunk, (double)s->chunk_bytes), 100 * s->share);
	} else {
		out_null(o, "recommended");
		out_text(o, "\nnothing to recommend: no setting was measured at every size\n");
	}
	out_end(o);
}
