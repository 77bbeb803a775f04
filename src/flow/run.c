// SPDX-License-Identifier: BSD-3-Clause
#include "flow/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SAMPLES_UNKNOWN_LENGTH 4096u
#define PATTERN_SEED	       0x77656972 /* both ends know it: "weir" */
#define SAMPLES_MAX	       100000u

static double run_interval_s(const struct flow_options *o)
{
	/* neper's rule, so that a short run still has a series. */
	if (!o->interval_given && o->test_length / o->interval < 5)
		return 0.2;
	return o->interval;
}

static uint32_t run_sample_capacity(const struct flow_options *o)
{
	double ticks =
		o->test_length > 0 ? o->test_length / run_interval_s(o) : SAMPLES_UNKNOWN_LENGTH;

	if (ticks > SAMPLES_MAX)
		ticks = SAMPLES_MAX;
	return (uint32_t)ticks + 4; /* start, window, end, and one for rounding */
}

uint64_t run_samples_bytes(const struct flow_options *o, uint32_t lanes)
{
	return run_sample_capacity(o) *
	       (lanes * sizeof(struct lane_sample) +
		       (uint64_t)o->num_flows * sizeof(struct flow_sample));
}

static int hist_new(struct hist **h, struct err *e)
{
	*h = malloc(sizeof(**h));
	if (!*h)
		return err_set(e, ENOMEM, "no memory for a histogram");
	hist_init(*h);
	return 0;
}

/* With a pattern, what is sent next may begin anywhere in the cycle: the buffer holds a cycle and one
 * more call. */
static int lane_init_tx(struct lane *l, struct err *e)
{
	const struct run *r = l->run;
	size_t bytes = r->options->buffer_size + (r->validates ? r->options->validate_cycle : 0);
	int ret = region_alloc(&l->tx, bytes, e);

	if (ret)
		return ret;
	if (r->validates)
		pattern_fill(&r->pattern, l->tx.data, bytes, 0);
	else
		region_fill_random(&l->tx);
	return 0;
}

static int lane_init(struct lane *l, struct run *r, struct worker *w, uint32_t index, struct err *e)
{
	bool measures_latency = r->client && r->workload != WORKLOAD_STREAM;
	int ret = 0;

	l->run = r; // NOLINT(clang-analyzer-core.NullDereference)
	l->worker = w;
	l->index = index;
	l->rx_length = r->options->buffer_size;
	l->sample_capacity = run_sample_capacity(r->options);
	l->samples = calloc(l->sample_capacity, sizeof(*l->samples));
	if (!l->samples)
		return err_set(e, ENOMEM, "no memory for %u samples: choose a longer --interval",
			l->sample_capacity);
	if (flow_options_reads(r->options, r->workload))
		ret = region_alloc(&l->rx, r->options->buffer_size, e);
	if (!ret && flow_options_writes(r->options, r->workload))
		ret = lane_init_tx(l, e);
	if (!ret && measures_latency)
		ret = hist_new(&l->interval, e);
	if (!ret && measures_latency)
		ret = hist_new(&l->latency, e);
	if (!ret && measures_latency && r->options->rate > 0)
		ret = hist_new(&l->service, e);
	return ret;
}

int run_init(struct run *r, enum workload w, const struct flow_options *o, struct worker **workers,
	uint32_t count, struct err *e)
{
	double warmup = o->warmup;
	int ret = 0;

	memset(r, 0, sizeof(*r));
	pthread_mutex_init(&r->usage_lock, NULL);
	r->workload = w;
	r->options = o;
	r->client = o->client;
	r->counted = o->test_length < 0;
	if (warmup < 0)
		warmup = r->counted ? 0 : fmin(1, o->test_length / 10);
	r->warmup_ns = (uint64_t)llround(warmup * 1e9);
	r->length_ns = r->counted ? 0 : (uint64_t)llround(o->test_length * 1e9);
	r->interval_ns = (uint64_t)llround(run_interval_s(o) * 1e9);
	r->to_issue = r->to_complete = r->counted ? (int64_t)-o->test_length : 0;
	r->flow_count = (uint32_t)o->num_flows * (w == WORKLOAD_STREAM && o->split_bidir ? 2 : 1);
	r->lane_count = count;
	r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->bell < 0)
		return err_set(e, errno, "cannot make an eventfd: %m");
	r->validates = w != WORKLOAD_CRR && o->validate;
	if (r->validates || o->memory != MEMORY_HOST) {
		ret = pattern_init(&r->pattern,
			o->validate == VALIDATE_PUBLISHED ? PATTERN_PUBLISHED : PATTERN_SEEDED,
			PATTERN_SEED, r->validates ? o->validate_cycle : o->buffer_size, e);
		r->has_pattern = true;
	}
	r->lanes = ret ? NULL : calloc(count, sizeof(*r->lanes));
	if (!ret && !r->lanes)
		ret = err_set(e, ENOMEM, "no memory for %u threads", count);
	for (uint32_t i = 0; !ret && i < count; i++)
		ret = lane_init(&r->lanes[i], r, workers[i], i, e);
	if (ret)
		run_free(r);
	return ret;
}

static void flow_free(struct flow *f, uint32_t samples, int percentiles)
{
	if (f->samples && percentiles)
		for (uint32_t i = 0; i < samples; i++)
			free(f->samples[i].latency.percentile_ns);
	device_flow_close(f);
	free(f->samples);
	free(f->requests);
	free(f->interval_latency);
	free(f->rtt_log);
	free(f);
}

static void lane_free(struct lane *l)
{
	while (l->flows) {
		struct flow *f = l->flows;

		l->flows = f->next;
		flow_free(f, l->sample_count, l->run->options->percentile_count);
	}
	for (uint32_t i = 0; l->samples && i < l->sample_count; i++)
		free(l->samples[i].latency);
	free(l->samples);
	free(l->interval);
	free(l->latency);
	free(l->service);
	device_close(&l->device);
	region_free(&l->rx);
	region_free(&l->tx);
}

static int run_try_device(
	struct run *r, const struct sock_addr *local, const struct err *refused, struct err *e)
{
	int ret = device_nic_open(&r->device, r, local, refused, e);

	for (uint32_t i = 0; !ret && i < r->lane_count; i++)
		ret = device_open(&r->lanes[i].device, &r->lanes[i], e);
	return ret;
}

int run_open_device(struct run *r, const struct sock_addr *local, struct err *e)
{
	struct err refused;
	int ret;

	if (r->options->memory == MEMORY_HOST)
		return 0;
	ret = run_try_device(r, local, NULL, e);
	/* Some only say that they cannot when they are asked to. */
	if (device_cannot(ret) && r->options->path == PATH_AUTO && r->device.rx == DEVICE_DEVMEM) {
		for (uint32_t i = 0; i < r->lane_count; i++) {
			device_close(&r->lanes[i].device);
			r->lanes[i].rx_length = r->options->buffer_size;
		}
		device_nic_close(&r->device);
		refused = *e;
		err_clear(e);
		ret = run_try_device(r, local, &refused, e);
	}
	if (!ret)
		device_nic_bound(&r->device);
	return ret;
}

int run_steer(struct run *r, struct err *e)
{
	int ret = 0;

	if (r->device.rx != DEVICE_DEVMEM)
		return 0;
	for (uint32_t i = 0; i < r->lane_count; i++)
		for (const struct flow *f = r->lanes[i].flows; !ret && f; f = f->next)
			ret = device_steer(&r->device, f, e);
	return ret ? ret : nic_plan_apply(&r->device.plan, e);
}

void run_free(struct run *r)
{
	for (uint32_t i = 0; r->lanes && i < r->lane_count; i++)
		if (r->lanes[i].run)
			lane_free(&r->lanes[i]);
	free(r->lanes);
	r->lanes = NULL;
	if (r->has_pattern)
		pattern_free(&r->pattern);
	device_nic_close(&r->device);
	if (r->bell >= 0)
		close(r->bell);
	r->bell = -1;
}

void run_ring(struct run *r)
{
	uint64_t one = 1;

	/* Fails only when the counter is full: the bell is ringing then. */
	if (write(r->bell, &one, sizeof(one)) < 0)
		return;
}

bool run_is_over(const struct run *r)
{
	if (r->counted && r->to_complete <= 0)
		return true;
	return r->lanes_over == r->lane_count || (r->arrived && !r->live);
}

void run_flow_direction(const struct run *r, uint32_t id, bool *reads, bool *writes)
{
	*reads = flow_options_reads(r->options, r->workload);
	*writes = flow_options_writes(r->options, r->workload);
	/* neper's rule: the client reads on even flows and writes on odd ones. */
	if (r->workload == WORKLOAD_STREAM && r->options->split_bidir) {
		*reads = r->starts_by_data || (id % 2 == 0) == r->client;
		*writes = !*reads;
	}
}

static void lane_begin_call(struct worker *w, void *argument)
{
	(void)w;
	lane_touch(argument);
}

void run_start(struct run *r)
{
	r->start_ns = clock_ns();
	if (r->length_ns)
		r->end_ns = r->start_ns + r->warmup_ns + r->length_ns;
	for (uint32_t i = 0; i < r->lane_count; i++)
		worker_call(r->lanes[i].worker, lane_begin_call, &r->lanes[i]);
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * NS_PER_US;
}

static void collect_flow(
	const struct flow *f, const struct lane *l, uint64_t window_ns, struct flow_result *out)
{
	out->id = f->id;
	out->thread = l->index;
	out->error = f->error;
	/* As of the last sample: the flow may have gone on. */
	out->counts = f->samples ? f->samples[l->sample_count - 1].counts : f->counts;
	counts_subtract(&out->counts, &f->base);
	out->tcp = f->tcp_end;
	out->tcp.retransmits -= f->tcp_begin.retransmits;
	out->tcp.retransmitted_bytes -= f->tcp_begin.retransmitted_bytes;
	out->tcp.delivered -= f->tcp_begin.delivered;
	out->tcp.delivered_ce -= f->tcp_begin.delivered_ce;
	out->tcp.received_out_of_order -= f->tcp_begin.received_out_of_order;
	tcp_limits_between(
		&f->tcp_begin, &f->tcp_end, window_ns, out->counts.tx_bytes, &out->limits);
	out->zerocopy_sent = f->chan_end.zerocopy_sent - f->chan_begin.zerocopy_sent;
	out->zerocopy_copied = f->chan_end.zerocopy_copied - f->chan_begin.zerocopy_copied;
	/* Completions of sends before the window came within it. */
	if (out->zerocopy_copied > out->zerocopy_sent)
		out->zerocopy_copied = out->zerocopy_sent;
	out->mapped_bytes = f->chan_end.mapped_bytes - f->chan_begin.mapped_bytes;
	out->dmabuf_bytes = f->chan_end.dmabuf_bytes - f->chan_begin.dmabuf_bytes;
	out->linear_bytes = f->chan_end.linear_bytes - f->chan_begin.linear_bytes;
	out->plain_bytes = f->chan_end.plain_bytes - f->chan_begin.plain_bytes;
	out->fragments = f->chan_end.fragments - f->chan_begin.fragments;
	out->unsplit = out->plain_bytes && f->chan.fd >= 0 &&
		       device_came_by_bound_queue(&l->run->device, f->chan.fd);
	out->wrong_calls = f->wrong_calls;
	out->wrong_bytes_at = f->wrong_bytes_at;
	out->sample_count = l->sample_count;
	out->samples = f->samples; /* the run keeps them */
}

/* A lane counts when its window opened. */
static bool lane_measured(const struct lane *l)
{
	return l->window_open && l->sample_count > l->window_sample + 1;
}

/* How many whole intervals all lanes have, and where they begin. */
static uint32_t run_intervals(const struct run *r, uint32_t *first)
{
	uint32_t count = UINT32_MAX;

	for (uint32_t i = 0; i < r->lane_count; i++) {
		const struct lane *l = &r->lanes[i];
		uint32_t samples = atomic_load_explicit(&l->sample_count, memory_order_acquire);
		uint32_t begin = r->warmup_ns ? 1 : 0;

		if (!samples) /* a server's lane that got no flow */
			continue;
		*first = begin;
		if (samples < begin + 2)
			return 0;
		if (samples - begin - 1 < count)
			count = samples - begin - 1;
	}
	return count == UINT32_MAX ? 0 : count;
}

/* When the lanes took their at-th sample: the last of them, but for the one that opened the window, where
 * the first lane to count counts. */
static uint64_t run_edge_ns(const struct run *r, uint32_t at)
{
	bool opening = at == (r->warmup_ns ? 1 : 0);
	uint64_t edge_ns = opening ? UINT64_MAX : 0;

	for (uint32_t i = 0; i < r->lane_count; i++) {
		uint64_t time_ns = r->lanes[i].samples[at].time_ns;

		if (r->lanes[i].sample_count && (opening ? time_ns < edge_ns : time_ns > edge_ns))
			edge_ns = time_ns;
	}
	return edge_ns;
}

static void interval_fill(
	const struct run *r, uint32_t at, struct hist *h, struct interval_result *iv)
{
	uint64_t rtt_us = 0;
	uint32_t lanes = 0;

	hist_init(h);
	*iv = (struct interval_result){ .begin_ns = run_edge_ns(r, at),
		.end_ns = run_edge_ns(r, at + 1) };
	for (uint32_t i = 0; i < r->lane_count; i++) {
		const struct lane_sample *a = &r->lanes[i].samples[at], *b = a + 1;

		if (!r->lanes[i].sample_count)
			continue;
		iv->rx_bytes += b->counts.rx_bytes - a->counts.rx_bytes;
		iv->tx_bytes += b->counts.tx_bytes - a->counts.tx_bytes;
		iv->transactions += b->counts.transactions - a->counts.transactions;
		iv->retransmits +=
			b->retransmits > a->retransmits ? b->retransmits - a->retransmits : 0;
		rtt_us += b->rtt_us;
		lanes++;
		if (b->latency)
			hist_merge_sparse(h, b->latency);
	}
	iv->rtt_us = lanes ? (uint32_t)(rtt_us / lanes) : 0;
	iv->latency_p50_ns = hist_percentile(h, 50);
	iv->latency_p99_ns = hist_percentile(h, 99);
	iv->latency_max_ns = h->count ? h->max_ns : 0;
}

int run_interval(const struct run *r, uint32_t index, struct interval_result *out)
{
	struct hist h;
	uint32_t first;

	if (index >= run_intervals(r, &first))
		return 0;
	interval_fill(r, first + index, &h, out);
	return 1;
}

/* A thread that was held up takes samples it missed one right after the other: such a sliver belongs to
 * the interval before it. */
#define SLIVER 20

static void interval_join(struct interval_result *into, const struct interval_result *sliver)
{
	into->end_ns = sliver->end_ns;
	into->rx_bytes += sliver->rx_bytes;
	into->tx_bytes += sliver->tx_bytes;
	into->transactions += sliver->transactions;
	into->retransmits += sliver->retransmits;
}

static int collect_intervals(const struct run *r, struct end_result *out, struct err *e)
{
	uint32_t first, count = run_intervals(r, &first);
	struct hist h;

	out->intervals = calloc(count ? count : 1, sizeof(*out->intervals));
	if (!out->intervals)
		return err_set(e, ENOMEM, "no memory for the results of %u intervals", count);
	for (uint32_t i = 0; i < count; i++) {
		struct interval_result *iv = &out->intervals[out->interval_count];

		interval_fill(r, first + i, &h, iv);
		if (!out->interval_count || iv->end_ns - iv->begin_ns > r->interval_ns / SLIVER)
			out->interval_count++;
		else
			interval_join(iv - 1, iv);
	}
	return 0;
}

static void collect_flows(const struct lane *l, uint64_t window_ns, struct end_result *out)
{
	size_t count = out->flow_count + l->flow_count;
	struct flow_result *grown = realloc(out->flows, count * sizeof(*grown));

	if (!count || !grown) /* without memory the totals are still right */
		return;
	out->flows = grown;
	memset(grown + out->flow_count, 0, l->flow_count * sizeof(*grown));
	for (const struct flow *f = l->flows; f; f = f->next)
		collect_flow(f, l, window_ns, &grown[out->flow_count++]);
}

static void collect_lane(const struct lane *l, struct end_result *out)
{
	const struct lane_sample *a = &l->samples[l->window_sample];
	const struct lane_sample *b = &l->samples[l->sample_count - 1];
	uint64_t window_ns = b->time_ns - a->time_ns;
	uint64_t user_ns = timeval_ns(b->usage.ru_utime) - timeval_ns(a->usage.ru_utime);
	uint64_t system_ns = timeval_ns(b->usage.ru_stime) - timeval_ns(a->usage.ru_stime);
	struct flow_counts counts;
	double busy = window_ns ? (double)(user_ns + system_ns) / (double)window_ns : 0;

	counts = b->counts;
	counts_subtract(&counts, &a->counts);
	counts_add(&out->counts, &counts);
	out->user_ns += user_ns;
	out->system_ns += system_ns;
	if (busy > out->busiest_thread)
		out->busiest_thread = busy;
	if (l->stall.stopped_ns > out->stopped_ns)
		out->stopped_ns = l->stall.stopped_ns;
	if (l->stall.starved_ns > out->starved_ns)
		out->starved_ns = l->stall.starved_ns;
	device_collect_lane(&l->device, &out->device);
	if (l->latency)
		hist_merge(out->latency, l->latency);
	if (l->service)
		hist_merge(out->service, l->service);
	/* The flows of a crr server are single connections: there is nothing to tell of them. */
	if (!run_is_transient(l->run))
		collect_flows(l, window_ns, out);
}

/* In the lane's thread: flows may still come and go. */
struct collection {
	const struct lane *lane;
	struct end_result *out;
};

static void collect_act(struct worker *w, void *argument)
{
	struct collection *c = argument;

	(void)w;
	if (lane_measured(c->lane))
		collect_lane(c->lane, c->out);
}

static int compare_flows(const void *a, const void *b)
{
	const struct flow_result *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

int run_collect(struct run *r, struct end_result *out, struct err *e)
{
	int ret = 0;

	out->client = r->client;
	out->warmup_ns = r->warmup_ns;
	out->threads = r->lane_count;
	out->memory = r->options->memory;
	out->rx_path = r->device.rx;
	out->tx_path = r->device.tx;
	if (out->memory != MEMORY_HOST)
		device_collect(r, &out->device);
	if (r->lanes[0].latency)
		ret = hist_new(&out->latency, e);
	if (!ret && r->lanes[0].service)
		ret = hist_new(&out->service, e);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < r->lane_count; i++)
		worker_call(r->lanes[i].worker, collect_act,
			&(struct collection){ .lane = &r->lanes[i], .out = out });
	if (out->flow_count)
		qsort(out->flows, out->flow_count, sizeof(*out->flows), compare_flows);
	ret = collect_intervals(r, out, e);
	if (ret)
		return ret;
	if (out->interval_count)
		out->window_ns =
			out->intervals[out->interval_count - 1].end_ns - out->intervals[0].begin_ns;
	out->has_latency = out->latency && out->latency->count;
	out->begin_ns = r->start_ns + r->warmup_ns;
	out->end_ns = out->begin_ns + out->window_ns;
	out->usage_begin = r->usage_begin;
	out->usage_end = r->usage_end;
	out->valid = out->window_ns > 0;
	out->complete = out->valid && !r->first_error;
	return 0;
}
