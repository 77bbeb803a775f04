// SPDX-License-Identifier: BSD-3-Clause
/* weir probe mesh: what is bad, as it happens; a table on a terminal, a map and a record at the end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/probe.h"

struct shown {
	struct out out;
	const struct probe_options *options;
	struct probe_past past;
	bool incomplete; /* hosts were silent at the end, or pairs refused */
	uint64_t began_ns, began_wall_ns;
	FILE *csv;
	bool live; /* a table that rewrites itself */
	int lines; /* of it, on the screen now */
	int error; /* of the files */
	struct err why;
};

/* The table makes room for lines that stay. */
static void clear_table(struct shown *s)
{
	if (s->lines)
		out_text(&s->out, "\033[%dA\033[J", s->lines);
	s->lines = 0;
}

static void say_change(struct shown *s, const struct verdict *v, const struct controller_view *view)
{
	char words[PROBE_SUBJECT], time[UNITS_TEXT];

	out_object(&s->out, NULL);
	out_str(&s->out, "schema", NULL, "weir/probe-event/1");
	out_str(&s->out, "event", NULL, v->end_ns ? "end" : "begin");
	out_u64(&s->out, "wall_ns", NULL, view->wall_ns);
	probe_emit_verdict(&s->out, "verdict", v, view->host);
	out_end(&s->out);
	probe_subject(v, view->host, words);
	log_progress(NULL);
	clear_table(s);
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
			out_text(&s->out, "%s", probe_cannot_tell(v));
		out_text(&s->out, "\n");
	}
	out_style(&s->out, OUT_PLAIN);
	fflush(s->out.file);
}

static int screen_lines(void)
{
	struct winsize size = { 0 };

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 8 ? 24 : size.ws_row;
}

static void say_table(struct shown *s, const struct controller_view *view, const char *line)
{
	int lines;

	clear_table(s);
	probe_nic_table(&s->out, view, true, screen_lines() - 3, &lines);
	out_text(&s->out, "%s\n", line);
	s->lines = lines + 1;
	fflush(s->out.file);
}

static uint32_t count_silent(const struct controller_view *view)
{
	uint32_t silent = 0;

	for (uint32_t i = 0; i < view->hosts; i++)
		silent += !view->host[i].answers;
	return silent;
}

static void say_window(struct shown *s, const struct controller_view *view)
{
	char line[300], p50[UNITS_TEXT], p99[UNITS_TEXT];
	uint32_t silent = count_silent(view);

	out_object(&s->out, NULL);
	out_str(&s->out, "schema", NULL, "weir/probe-event/1");
	out_str(&s->out, "event", NULL, "window");
	out_u64(&s->out, "wall_ns", NULL, view->wall_ns);
	out_u64(&s->out, "sent", NULL, view->window_sent);
	out_u64(&s->out, "lost", NULL, view->window_lost);
	out_u64(&s->out, "silent_agents", NULL, silent);
	probe_emit_latency(&s->out, "rtt", view->window);
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
	if (s->live)
		say_table(s, view, line);
	else
		log_progress(line);
}

static void write_csv(struct shown *s, const struct controller_view *view)
{
	for (size_t i = 0; s->csv && i < view->pairs; i++) {
		const struct controller_pair *p = &view->pair[i];

		if (p->window_sent)
			fprintf(s->csv,
				"%" PRIu64 ",%s,%u,%s,%u,%s,%s,%u,%u,%" PRIu64 ",%" PRIu64
				",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
				view->wall_ns, view->host[p->m.from_host].name, p->m.from_rail,
				view->host[p->m.to_host].name, p->m.to_rail, p->local, p->peer,
				p->window_sent, p->window_lost, p->rtt_ns, p->network_ns,
				p->prober_ns, p->responder_ns, p->late_ns);
	}
	if (s->csv)
		fflush(s->csv);
}

static void emit_pair(
	struct out *o, const struct controller_pair *p, const struct controller_host *host)
{
	out_object(o, NULL);
	out_str(o, "from_host", NULL, host[p->m.from_host].name);
	out_u64(o, "from_rail", NULL, p->m.from_rail);
	out_str(o, "to_host", NULL, host[p->m.to_host].name);
	out_u64(o, "to_rail", NULL, p->m.to_rail);
	out_str(o, "local", NULL, p->local);
	out_str(o, "peer", NULL, p->peer);
	out_u64(o, "sent", NULL, p->sent);
	out_u64(o, "lost", NULL, p->lost);
	out_u64(o, "corrupt", NULL, p->corrupt);
	if (p->answered) {
		out_u64(o, "min_ns", NULL, p->min_ns);
		out_f64(o, "mean_ns", NULL, p->sum_ns / (double)p->answered);
		out_u64(o, "max_ns", NULL, p->max_ns);
	}
	out_end(o);
}

static void emit_verdicts(struct out *o, const struct shown *s, const struct controller_view *view)
{
	char words[PROBE_SUBJECT];

	out_array(o, "verdicts");
	for (size_t i = 0; i < s->past.count; i++) {
		const struct verdict *v = &s->past.verdict[i];

		probe_emit_verdict(o, NULL, v, view->host);
		out_text(o, "%s    %s%s%s\n", probe_faults[v->fault],
			probe_subject(v, view->host, words), v->end_ns ? "" : ", still",
			v->cannot_tell ? " (cannot tell)" : "");
	}
	out_end(o);
	if (!s->past.count)
		out_text(o, "nothing %sis bad\n", s->incomplete ? "else " : "");
}

static void emit_record(struct out *o, const struct shown *s, const struct controller_view *view)
{
	char text[UNITS_TEXT];

	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/probe/1");
	out_u64(o, "hosts", "%" PRIu64 " hosts, ", view->hosts);
	out_u64(o, "rails", "%" PRIu64 " rails, ", view->rails);
	out_u64(o, "pairs", "%" PRIu64 " pairs\n", view->pairs);
	out_u64(o, "begin_ns", NULL, s->began_wall_ns);
	out_u64(o, "end_ns", NULL, view->wall_ns);
	out_u64(o, "windows", NULL, view->windows);
	out_u64(o, "sent", "probes  %" PRIu64, view->sent);
	out_u64(o, "lost", ", lost %" PRIu64, view->lost);
	out_u64(o, "corrupt", ", corrupt %" PRIu64 "\n", view->corrupt);
	probe_emit_latency(o, "rtt", view->rtt);
	if (hist_percentile_is_sound(view->rtt, 50))
		out_text(o, "median  %s\n",
			units_format_duration(text, (double)hist_percentile(view->rtt, 50)));
	if (hist_percentile_is_sound(view->rtt, 99))
		out_text(o, "p99     %s\n",
			units_format_duration(text, (double)hist_percentile(view->rtt, 99)));
	out_array(o, "silent");
	for (uint32_t i = 0; i < view->hosts; i++)
		if (!view->host[i].answers) {
			out_str(o, NULL, NULL, view->host[i].name);
			out_text(o, "silent  %s\n", view->host[i].name);
		}
	out_end(o);
	out_u64(o, "refused", NULL, view->refused);
	if (view->refused)
		out_text(o, "refused %zu pairs, which nobody probed\n", view->refused);
	emit_verdicts(o, s, view);
	out_array(o, "pair");
	for (size_t i = 0; o->mode == OUT_JSON && i < view->pairs; i++)
		emit_pair(o, &view->pair[i], view->host);
	out_end(o);
	out_end(o);
}

struct file_record {
	const struct shown *s;
	const struct controller_view *view;
};

static int write_record(FILE *file, const void *from, struct err *e)
{
	const struct file_record *r = from;
	struct out o;

	out_init(&o, file, OUT_JSON);
	emit_record(&o, r->s, r->view);
	return out_finish(&o, e);
}

static void say_end(struct shown *s, const struct controller_view *view)
{
	struct file_record r = { s, view };
	int lines;

	s->incomplete = count_silent(view) || view->refused;
	log_progress(NULL);
	clear_table(s);
	emit_record(&s->out, s, view);
	if (s->live || s->options->map) {
		out_text(&s->out, "\n");
		probe_nic_table(&s->out, view, false, 1 << 20, &lines);
		probe_map(&s->out, view);
	}
	if (s->options->out)
		s->error = file_replace(s->options->out, write_record, &r, &s->why);
}

static void say_start(struct shown *s, const struct controller_view *view)
{
	out_text(&s->out, "%u hosts, %u rails, %zu pairs\n", view->hosts, view->rails, view->pairs);
	fflush(s->out.file);
	if (s->csv)
		fputs("wall_ns,from_host,from_rail,to_host,to_rail,local,peer,sent,lost,rtt_ns,network_ns,"
		      "prober_ns,responder_ns,late_ns\n",
			s->csv);
}

static void told(void *context, enum controller_news news, const struct controller_view *view)
{
	struct shown *s = context;

	if (news == CONTROLLER_STARTED)
		say_start(s, view);
	if (news == CONTROLLER_ENDED)
		say_end(s, view);
	if (news != CONTROLLER_WINDOW)
		return;
	for (size_t i = 0; i < verdict_count(view->verdicts); i++) {
		const struct verdict *v = verdict_at(view->verdicts, i);

		probe_remember(&s->past, v);
		if (v->is_new || v->end_ns)
			say_change(s, v, view);
	}
	say_window(s, view);
	write_csv(s, view);
}

int probe_mesh(const struct probe_options *o, const struct hosts *hosts, struct err *e)
{
	struct shown s = { .options = o, .began_ns = clock_ns(), .began_wall_ns = clock_wall_ns() };
	struct controller_want want;
	int stop_fd, ret, status;

	probe_want(&want, o, hosts);
	want.told = told;
	want.context = &s;
	ret = mesh_parse(&want.mesh, o->targets, e);
	if (ret)
		return ret;
	stop_fd = stop_on_signals(e);
	if (stop_fd < 0)
		return stop_fd;
	if (o->csv && !(s.csv = fopen(o->csv, "we")))
		return err_set(e, errno, "cannot write %s: %m", o->csv);
	out_init(&s.out, stdout, o->json ? OUT_JSON : OUT_TEXT);
	s.live = !o->json && isatty(STDOUT_FILENO);
	ret = controller_mesh(&want, stop_fd, e);
	status = s.incomplete ? STATUS_FAILED : probe_status(&s.past);
	free(s.past.verdict);
	if (s.csv && (ferror(s.csv) | fclose(s.csv)) && !ret)
		ret = err_set(e, EIO, "cannot write all of %s", o->csv);
	if (!ret && s.error) {
		*e = s.why;
		ret = s.error;
	}
	if (!ret)
		ret = out_finish(&s.out, e);
	return ret ? ret : status;
}
