// SPDX-License-Identifier: BSD-3-Clause
/* weir counters watch: live rates. On a terminal a screen that answers to keys, elsewhere lines. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cmd/counters.h"
#include "counters/difference.h"
#include "counters/emit.h"

enum { BY_RATE, BY_NAME };

struct watch {
	struct collector *collector;
	struct snapshot snapshot[2];
	struct difference d;
	const struct row **row; /* those that are shown, sorted */
	uint32_t count, room;
	uint64_t every_ns;
	char filter[64];
	bool typing; /* the filter is being typed */
	bool all, paused, over;
	int order;
	struct out *out;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static bool fits(const struct watch *w, const struct row *r)
{
	char whole[3 * COUNTER_TEXT + 3];

	if (!w->all && !difference_is_telling(r))
		return false;
	snprintf(whole, sizeof(whole), "%s %s %s", r->counter->source, r->counter->object,
		r->counter->name);
	return !w->filter[0] || strcasestr(whole, w->filter);
}

static double rate_of(const struct row *r)
{
	double rate = difference_rate(r);

	return isfinite(rate) ? rate : 0;
}

static int by_rate(const void *left, const void *right)
{
	const struct row *a = *(const struct row *const *)left;
	const struct row *b = *(const struct row *const *)right;

	if (rate_of(a) != rate_of(b))
		return rate_of(a) > rate_of(b) ? -1 : 1;
	return counter_compare(a->counter, b->counter);
}

/* The rows were made in the order of their names. */
static int choose(struct watch *w, struct err *e)
{
	const struct row **grown;

	if (w->d.count > w->room) {
		grown = reallocarray(w->row, w->d.count, sizeof(*grown));
		if (!grown)
			return err_set(e, ENOMEM, "no memory for %u counters", w->d.count);
		w->row = grown;
		w->room = w->d.count;
	}
	w->count = 0;
	for (uint32_t i = 0; i < w->d.count; i++)
		if (fits(w, &w->d.row[i]))
			w->row[w->count++] = &w->d.row[i];
	if (w->order == BY_RATE && w->count)
		qsort(w->row, w->count, sizeof(*w->row), by_rate);
	return 0;
}

static void print_row(const struct row *r, int width, struct out *o)
{
	char rate[UNITS_TEXT], what[64], line[512];

	if (counter_grows(r->counter->kind))
		snprintf(what, sizeof(what), "%12s/s", units_format_count(rate, rate_of(r)));
	else
		snprintf(what, sizeof(what), "%" PRIu64 " -> %" PRIu64, r->before.value,
			r->after.value);
	snprintf(line, sizeof(line), "%-11s %-26s %-36s %20s %s", r->counter->source,
		r->counter->object, r->counter->name, what, r->counter->unit);
	out_text(o, "%.*s\n", width, line);
}

/* One JSON object for each reading; a plain list where it is no terminal. */
static void emit_lines(const struct watch *w, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, "weir/rates/1");
	out_u64(o, "time_ns", NULL, w->d.after_ns);
	out_f64(o, "seconds", "after %.3g s:\n", w->d.seconds);
	out_array(o, "rates");
	for (uint32_t i = 0; i < w->count; i++) {
		const struct row *r = w->row[i];

		out_object(o, NULL);
		out_str(o, "source", NULL, r->counter->source);
		out_str(o, "object", NULL, r->counter->object);
		out_str(o, "name", NULL, r->counter->name);
		out_str(o, "kind", NULL, counter_kind_name[r->counter->kind]);
		out_str(o, "unit", NULL, r->counter->unit);
		out_f64(o, "per_s", NULL, difference_rate(r));
		if (r->after.time_ns)
			emit_value("value", r->counter->kind, r->after.value, o);
		else
			out_null(o, "value");
		out_end(o);
		print_row(r, 200, o);
	}
	out_end(o);
	out_end(o);
}

static void draw(const struct watch *w)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	uint32_t lines;

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (size.ws_row < 4)
		size.ws_row = 24;
	lines = size.ws_row - 3u;
	out_text(w->out, "\033[H\033[J");
	out_style(w->out, OUT_BOLD);
	out_text(w->out, "weir counters  %u moved  every %.3g s%s%s%s\n", w->count,
		(double)w->every_ns / 1e9, w->paused ? "  paused" : "", w->all ? "  all" : "",
		w->order == BY_NAME ? "  by name" : "  by rate");
	out_style(w->out, OUT_DIM);
	if (w->typing || w->filter[0])
		out_text(w->out, "filter: %s%s\n", w->filter, w->typing ? "_" : "");
	else
		out_text(w->out, "/ filter  s sort  a all  p pause  + - faster slower  q quit\n");
	out_style(w->out, OUT_PLAIN);
	for (uint32_t i = 0; i < w->count && i < lines; i++)
		print_row(w->row[i], size.ws_col ? size.ws_col : 80, w->out);
	fflush(w->out->file);
}

static void type_filter(struct watch *w, char key)
{
	size_t length = strlen(w->filter);

	if (key == '\r' || key == '\n')
		w->typing = false;
	else if (key == '\033')
		w->typing = false, w->filter[0] = '\0';
	else if ((key == 127 || key == '\b') && length)
		w->filter[length - 1] = '\0';
	else if (isprint((unsigned char)key) && length + 1 < sizeof(w->filter))
		w->filter[length] = key, w->filter[length + 1] = '\0';
}

static void press(struct watch *w, char key)
{
	if (w->typing) {
		type_filter(w, key);
		return;
	}
	switch (key) {
	case 'q':
		w->over = true;
		break;
	case '/':
		w->typing = true;
		w->filter[0] = '\0';
		break;
	case '\033':
		w->filter[0] = '\0';
		break;
	case 's':
		w->order = !w->order;
		break;
	case 'a':
		w->all = !w->all;
		break;
	case 'p':
	case ' ':
		w->paused = !w->paused;
		break;
	case '+':
		w->every_ns = w->every_ns > 200 * NS_PER_MS ? w->every_ns / 2 : 100 * NS_PER_MS;
		break;
	case '-':
		w->every_ns = w->every_ns < 30 * NS_PER_S ? w->every_ns * 2 : 60 * NS_PER_S;
		break;
	default:
		break;
	}
}

/* Until the next reading is due; keys act at once. */
static int wait_for_keys(struct watch *w, bool screen, uint64_t until_ns, struct err *e)
{
	struct pollfd set = { .fd = screen ? STDIN_FILENO : -1, .events = POLLIN };
	char keys[64];
	int ret = 0;

	while (!w->over && !interrupted && !ret && clock_ns() < until_ns) {
		uint64_t left_ms = (until_ns - clock_ns()) / NS_PER_MS + 1;
		ssize_t got = 0;

		if (poll(&set, 1, (int)left_ms) > 0)
			got = read(STDIN_FILENO, keys, sizeof(keys));
		for (ssize_t i = 0; i < got; i++)
			press(w, keys[i]);
		if (set.revents && got <= 0)
			set.fd = -1; /* nobody is there to press keys */
		if (got > 0) {
			ret = choose(w, e);
			if (!ret)
				draw(w);
		}
	}
	return ret;
}

static int step(struct watch *w, uint32_t number, struct err *e)
{
	struct snapshot *before = &w->snapshot[number % 2], *after = &w->snapshot[(number + 1) % 2];
	int ret;

	difference_free(&w->d);
	ret = collector_read(w->collector, after, e);
	if (!ret)
		ret = difference_make(&w->d, before, after, e);
	return ret ? ret : choose(w, e);
}

static int loop(struct watch *w, bool screen, uint64_t count, struct err *e)
{
	int ret = collector_read(w->collector, &w->snapshot[0], e);

	for (uint32_t n = 0, shown = 0; !ret && !w->over && !interrupted;) {
		ret = wait_for_keys(w, screen, clock_ns() + w->every_ns, e);
		if (ret || w->over || interrupted || w->paused)
			continue;
		ret = step(w, n++, e);
		if (ret)
			break;
		if (screen)
			draw(w);
		else
			emit_lines(w, w->out);
		w->over |= count && ++shown >= count;
	}
	return ret;
}

int counters_watch(struct collector *c, uint64_t every_ns, uint64_t count, bool all,
	struct out *out, struct err *e)
{
	struct watch w = { .collector = c, .every_ns = every_ns, .all = all, .out = out };
	bool screen = out->mode == OUT_TEXT && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	struct sigaction act = { .sa_handler = on_signal };
	struct termios kept, raw;
	int ret;

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (screen && !tcgetattr(STDIN_FILENO, &kept)) {
		raw = kept;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
		out_text(out, "\033[?1049h\033[?25l");
	}
	ret = loop(&w, screen, count, e);
	if (screen) {
		out_text(out, "\033[?25h\033[?1049l");
		tcsetattr(STDIN_FILENO, TCSANOW, &kept);
	}
	difference_free(&w.d);
	snapshot_free(&w.snapshot[0]);
	snapshot_free(&w.snapshot[1]);
	free(w.row);
	return ret;
}
