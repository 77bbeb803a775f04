// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p sweep: size x chunk x channels x window, each point until it is steady. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/p2p.h"

#define VALUES_MAX  32
#define BATCHES_MAX 200
#define BATCHES_MIN 5
#define BATCH_NS    (30 * NS_PER_MS) /* what a batch should take */
#define STEADY	    0.03	     /* half the 95 % interval of the mean rate */

struct list {
	uint64_t value[VALUES_MAX];
	unsigned int count;
};

static int parse_list(const char *name, const char *text, uint64_t least, uint64_t most,
	struct list *l, struct err *e)
{
	char word[32], low[UNITS_TEXT], high[UNITS_TEXT];

	for (l->count = 0; *text; text += strcspn(text, ","), text += *text == ',') {
		size_t length = strcspn(text, ",");

		if (l->count == VALUES_MAX)
			return err_set(e, E2BIG, "--%s has more than %d values", name, VALUES_MAX);
		snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31), text);
		if (units_parse_size(word, &l->value[l->count], e))
			return err_prefix(e, "--%s", name);
		if (l->value[l->count] < least || l->value[l->count] > most)
			return err_set(e, EINVAL, "--%s: %s is not from %s to %s", name, word,
				units_write_size(low, least), units_write_size(high, most));
		l->count++;
	}
	return l->count ? 0 : err_set(e, EINVAL, "--%s is empty", name);
}

struct sweep {
	const struct p2p_options *options;
	struct list sizes, chunks, channels, windows;
	struct p2p_point *point;
	unsigned int count, total;
	struct out *out;
	char peer[80], transport[64];
};

/* Half the 95 % interval of the mean, as a share of it. */
static double spread_of(const double *rate, unsigned int count, double *mean)
{
	double sum = 0, squares = 0, variance;

	for (unsigned int i = 0; i < count; i++)
		sum += rate[i]; // NOLINT(clang-analyzer-core.uninitialized.Assign): so many are set
	*mean = sum / count;
	for (unsigned int i = 0; i < count; i++)
		squares += (rate[i] - *mean) * (rate[i] - *mean);
	variance = count > 1 ? squares / (count - 1) : 0;
	return *mean > 0 ? 2 * sqrt(variance / count) / *mean : 1;
}

static const struct run_end *receiver(
	const struct run_plan *plan, const struct run_end *mine, const struct run_end *theirs)
{
	return plan->op == RUN_READ || plan->op == RUN_PINGPONG ? mine : theirs;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int measure(struct sweep *s, struct party *p, struct weir_p2p_conn *conn,
	struct p2p_point *pt, struct err *e)
{
	const struct p2p_options *o = s->options;
	struct run_plan plan = { .op = (enum run_op)o->op,
		.bytes = pt->bytes,
		.depth = (uint32_t)o->depth,
		.check = !o->no_check };
	uint64_t until_ns = clock_ns() + o->point_time, median[BATCHES_MAX];
	struct run_end mine, theirs;
	double rate[BATCHES_MAX], each_ns;
	int ret;

	/* The warm-up also tells how long a message takes. */
	plan.count = o->warmup > 0 ? (uint32_t)o->warmup : 1;
	do {
		const struct run_end *r;

		ret = run_batch(p, conn, &plan, &mine, &theirs, e);
		if (ret)
			return ret;
		r = receiver(&plan, &mine, &theirs);
		each_ns = (double)r->elapsed_ns / r->count;
		if (plan.first) {
			rate[pt->batches] = (double)r->bytes * 1e9 /
					    (double)(r->elapsed_ns ? r->elapsed_ns : 1);
			median[pt->batches++] = mine.time_ns[mine.times / 2];
			pt->messages += r->count;
			pt->spread = spread_of(rate, pt->batches, &pt->rate);
		}
		run_end_free(&mine);
		run_end_free(&theirs);
		plan.warmed = !plan.first;
		plan.first += plan.count;
		plan.count = (uint32_t)fmin(fmax((double)BATCH_NS / fmax(each_ns, 1), 2), 10000);
		pt->steady = pt->batches >= BATCHES_MIN && pt->spread < STEADY;
	} while (!pt->steady && pt->batches < BATCHES_MAX && clock_ns() < until_ns);
	if (!pt->batches)
		return err_set(e, ETIMEDOUT, "--point-time is too short for one batch");
	qsort(median, pt->batches, sizeof(median[0]), by_time);
	pt->median_ns = median[pt->batches / 2];
	return 0;
}

static void progress(const struct sweep *s, const struct p2p_point *pt)
{
	char line[128], size[UNITS_TEXT];

	if (s->options->quiet)
		return;
	snprintf(line, sizeof(line), "point %u of %u: %s, %u channels, window %u", s->count + 1,
		s->total, units_format_bytes(size, (double)pt->bytes), pt->channels, pt->window);
	log_progress(line);
}

/* All sizes with one setting, over one connection. */
static int setting(
	struct sweep *s, uint64_t chunk, uint64_t channels, uint64_t window, struct err *e)
{
	struct p2p_options o = *s->options;
	struct weir_p2p_config config;
	struct party p = { .stop = &p2p_stop };
	struct weir_p2p_conn *conn = NULL;
	struct mem_where where;
	char index[16];
	int ret, peer = o.peer_gpu >= 0 ? (int)o.peer_gpu : (int)o.gpu;

	o.chunk = chunk;
	o.channels = (int64_t)channels;
	o.window = (int64_t)window;
	p2p_config(&o, (int)o.gpu, NULL, &config, &where, index);
	ret = party_open(&p, &config, &where, e);
	if (!ret)
		ret = weir_p2p_connect(
			p.p2p, o.host, p2p_port(&o, peer), &conn, (struct weir_error *)e);
	if (!ret)
		ret = weir_p2p_await(conn, o.timeout + NS_PER_S, (struct weir_error *)e);
	if (!ret)
		snprintf(s->peer, sizeof(s->peer), "%s", weir_p2p_peer(conn));
	if (p.p2p)
		snprintf(s->transport, sizeof(s->transport), "%s", weir_p2p_transport(p.p2p));
	for (unsigned int i = 0; !ret && i < s->sizes.count; i++) {
		struct p2p_point *pt = &s->point[s->count];
		struct err why = { 0 };

		*pt = (struct p2p_point){ .bytes = s->sizes.value[i],
			.chunk_bytes = chunk,
			.channels = (unsigned int)channels,
			.window = (unsigned int)window };
		progress(s, pt);
		ret = measure(s, &p, conn, pt, &why);
		if (ret)
			snprintf(pt->error, sizeof(pt->error), "%.*s", (int)sizeof(pt->error) - 1,
				why.what);
		if (ret && e)
			*e = why;
		log_progress(NULL);
		p2p_point_emit(pt, s->count++, s->out);
	}
	if (conn && !ret)
		run_end_session(conn);
	if (conn)
		weir_p2p_disconnect(conn);
	party_close(&p);
	return ret;
}

static int lists(struct sweep *s, struct err *e)
{
	const struct p2p_options *o = s->options;
	int ret;

	ret = parse_list("sizes", o->sizes, 1, 1ull << 40, &s->sizes, e);
	if (!ret)
		ret = parse_list("chunks", o->chunks, 4096, WEIR_P2P_CHUNK_MAX, &s->chunks, e);
	if (!ret)
		ret = parse_list(
			"channel-list", o->channel_list, 1, WEIR_P2P_CHANNELS_MAX, &s->channels, e);
	if (!ret)
		ret = parse_list("windows", o->windows, 1, WEIR_P2P_WINDOW_MAX, &s->windows, e);
	if (ret)
		return ret;
	s->total = s->sizes.count * s->chunks.count * s->channels.count * s->windows.count;
	s->point = calloc((size_t)s->total + 1, sizeof(*s->point));
	return s->point ? 0 : err_set(e, ENOMEM, "no memory for %u points", s->total);
}

int p2p_sweep_main(const struct p2p_options *o, struct out *out, struct err *e)
{
	struct sweep s = { .options = o, .out = out };
	struct p2p_sweep result = { .transport = s.transport, .op = run_op_name[o->op] };
	unsigned int combinations;
	int ret;

	ret = lists(&s, e);
	combinations = ret ? 0 : s.total / s.sizes.count;
	for (unsigned int i = 0; !ret && i < combinations && !p2p_stop; i++)
		ret = setting(&s, s.chunks.value[i % s.chunks.count],
			s.channels.value[i / s.chunks.count % s.channels.count],
			s.windows.value[i / s.chunks.count / s.channels.count], e);
	if (s.count) {
		result.peer = s.peer;
		result.point = s.point;
		result.count = s.count;
		p2p_sweep_judge(&result);
		p2p_sweep_emit(&result, out);
	}
	free(s.point);
	if (!ret && p2p_stop)
		return err_set(e, EINTR, "interrupted after %u of %u points", s.count, s.total);
	return ret;
}
