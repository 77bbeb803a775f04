// SPDX-License-Identifier: BSD-3-Clause
/* A worker's share of a run: starting, sampling, ending. All of it in the worker's thread. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "flow/run.h"

static void lane_tick(struct loop *loop, struct loop_timer *timer);

/* Flows that are there and flows that are gone. */
static void lane_sum(const struct lane *l, struct flow_counts *sum)
{
	*sum = l->retired;
	for (const struct flow *f = l->flows; f; f = f->next)
		counts_add(sum, &f->counts);
}

static void flow_sample(struct flow *f, struct flow_sample *s, const struct tcp_state *tcp)
{
	s->counts = f->counts;
	s->retransmits = tcp->retransmits;
	s->rtt_us = tcp->rtt_us;
	s->cwnd_segments = tcp->cwnd_segments;
	s->delivery_bytes_per_s = tcp->delivery_bytes_per_s;
}

/* What neper's CSV has per flow and interval; only with --all-samples. */
static void flow_sample_latency(struct flow *f, struct flow_sample *s)
{
	const struct flow_options *o = f->lane->run->options;
	struct hist *h = f->interval_latency;

	s->latency.min_ns = h->count ? (double)h->min_ns : 0;
	s->latency.max_ns = (double)h->max_ns;
	s->latency.mean_ns = hist_mean_ns(h);
	s->latency.stddev_ns = hist_stddev_ns(h);
	if (o->percentile_count)
		s->latency.percentile_ns = calloc((size_t)o->percentile_count, sizeof(double));
	for (int i = 0; s->latency.percentile_ns && i < o->percentile_count; i++)
		s->latency.percentile_ns[i] = (double)hist_percentile(h, o->percentile[i]);
	hist_init(h);
}

/* The last place is kept for the last sample: a run that outlives its array loses resolution, not
 * its totals. */
static struct lane_sample *lane_sample(struct lane *l, uint64_t now_ns, bool last)
{
	uint32_t index = l->sample_count;
	struct lane_sample *s;
	uint64_t rtt_sum = 0;
	uint32_t alive = 0;

	if (index + !last >= l->sample_capacity)
		return NULL;
	s = &l->samples[index];
	s->time_ns = now_ns - l->run->start_ns;
	lane_sum(l, &s->counts);
	for (struct flow *f = l->flows; f; f = f->next) {
		struct tcp_state tcp = f->tcp_end;

		if (f->chan.fd >= 0 && l->run->workload != WORKLOAD_CRR &&
			!tcp_state_read(f->chan.fd, &tcp)) {
			f->tcp_end = tcp;
			rtt_sum += tcp.rtt_us;
			alive++;
		}
		s->retransmits += tcp.retransmits;
		if (f->samples) {
			f->samples[index].time_ns = s->time_ns;
			flow_sample(f, &f->samples[index], &tcp);
			if (f->interval_latency)
				flow_sample_latency(f, &f->samples[index]);
		}
		if (last)
			f->chan_end = f->chan;
	}
	s->rtt_us = alive ? (uint32_t)(rtt_sum / alive) : 0;
	getrusage(RUSAGE_THREAD, &s->usage);
	if (l->interval) {
		s->latency = hist_compact(l->interval);
		if (l->window_open)
			hist_merge(l->latency, l->interval);
		hist_init(l->interval);
	}
	atomic_store_explicit(&l->sample_count, index + 1, memory_order_release);
	return s;
}

/* Of the process; neper's -S puts the system time of the whole machine into it. */
static void run_usage(const struct run *r, struct rusage *usage)
{
	uint64_t system_ns;

	getrusage(RUSAGE_SELF, usage);
	if (!r->options->stime_use_proc || host_system_time(&system_ns))
		return;
	usage->ru_stime.tv_sec = (time_t)(system_ns / NS_PER_S);
	usage->ru_stime.tv_usec = (suseconds_t)(system_ns % NS_PER_S / NS_PER_US);
}

static void lane_open_window(struct lane *l, uint64_t now_ns)
{
	if (l->run->windows++ == 0)
		run_usage(l->run, &l->run->usage_begin);
	/* All lanes count their intervals from the same moment, so that the n-th of each belong together,
	 * also when this lane's first flow came late. */
	l->window_ns = l->run->start_ns + l->run->warmup_ns;
	l->window_sample = l->sample_count;
	lane_sample(l, now_ns, false);
	for (; l->window_ns + (l->ticks + 1) * l->run->interval_ns <= now_ns; l->ticks++)
		if (!lane_sample(l, now_ns, false))
			break;
	l->window_open = true;
	stall_begin(&l->stall, &l->worker->loop);
	if (l->service)
		hist_init(l->service);
	for (struct flow *f = l->flows; f; f = f->next) {
		f->base = f->counts;
		f->tcp_begin = f->tcp_end;
		f->chan_begin = f->chan;
		f->rtt_count = 0;
	}
}

static void lane_over(struct lane *l)
{
	struct rusage usage;

	l->finished = true;
	stall_end(&l->stall, &l->worker->loop, l->run->end_ns ? l->run->end_ns : clock_ns());
	loop_timer_cancel(&l->worker->loop, &l->tick);
	run_usage(l->run, &usage);
	/* Before it counts as over: who sees the last lane over finds the usage there. */
	pthread_mutex_lock(&l->run->usage_lock);
	l->run->usage_end = usage;
	pthread_mutex_unlock(&l->run->usage_lock);
	l->run->lanes_over++;
	run_ring(l->run);
}

/* The samples that were due before the end, however late it is: every lane has the same number. */
static void lane_end(struct lane *l, uint64_t now_ns)
{
	const struct run *r = l->run;

	device_settle(l);
	for (; l->window_ns + (l->ticks + 1) * r->interval_ns + r->interval_ns / 10 <= r->end_ns;
		l->ticks++)
		if (!lane_sample(l, now_ns, false))
			break;
	lane_sample(l, now_ns, true);
}

static void lane_arm(struct lane *l)
{
	uint64_t due_ns = l->window_ns + (l->ticks + 1) * l->run->interval_ns;
	uint64_t end_ns = l->run->end_ns;

	/* A last interval that is nearly as long as the others is the last: no sliver follows
	 * it. */
	if (end_ns && due_ns + l->run->interval_ns / 10 > end_ns)
		due_ns = end_ns;
	loop_timer_set(&l->worker->loop, &l->tick, due_ns, lane_tick);
}

static void lane_tick(struct loop *loop, struct loop_timer *timer)
{
	struct lane *l = container_of(timer, struct lane, tick);
	uint64_t now_ns = clock_ns(), end_ns = l->run->end_ns;

	(void)loop;
	if (!l->window_open) {
		lane_open_window(l, now_ns);
	} else if (end_ns && now_ns >= end_ns) {
		lane_end(l, now_ns);
		lane_over(l);
		return;
	} else {
		lane_sample(l, now_ns, false);
		l->ticks++;
	}
	lane_arm(l);
}

void lane_begin(struct lane *l)
{
	uint64_t now_ns = clock_ns(), none = 0;

	if (l->started || l->finished)
		return;
	l->started = true;
	/* At a neper server the first byte of any flow is the start; the other lanes join it. */
	if (atomic_compare_exchange_strong(&l->run->start_ns, &none, now_ns))
		run_ring(l->run);
	if (l->run->warmup_ns) {
		lane_sample(l, now_ns, false);
		loop_timer_set(&l->worker->loop, &l->tick, l->run->start_ns + l->run->warmup_ns,
			lane_tick);
	} else {
		lane_open_window(l, now_ns);
		lane_arm(l);
	}
	spin_init(&l->worker->loop.spin, l->run->options->spin);
	l->worker->loop.busy = l->run->options->busy_poll;
	for (struct flow *f = l->flows; f; f = f->next)
		if (f->alive && f->ops->start)
			f->ops->start(f);
	if (flow_ops_of(l->run)->lane)
		flow_ops_of(l->run)->lane(l);
	if (!l->flows && l->run->client)
		lane_over(l);
}

static void lane_finish(struct worker *w, void *argument)
{
	struct lane *l = argument;
	uint64_t now_ns = clock_ns(), end_ns = l->run->end_ns;

	(void)w;
	if (l->finished)
		return;
	/* When the number of transactions ended the run, it ended with the last of them. */
	if (end_ns && end_ns < now_ns)
		now_ns = end_ns;
	if (l->window_open)
		lane_end(l, now_ns);
	lane_over(l);
}

static void lane_stop(struct worker *w, void *argument)
{
	struct lane *l = argument;

	(void)w;
	l->stopped = true;
	for (struct flow *f = l->flows; f; f = f->next)
		if (f->alive && f->ops->stop)
			f->ops->stop(f);
}

static void lane_close(struct worker *w, void *argument)
{
	struct lane *l = argument;

	(void)w;
	l->stopped = l->finished = true;
	l->worker->loop.busy = false;
	loop_timer_cancel(&l->worker->loop, &l->tick);
	loop_timer_cancel(&l->worker->loop, &l->coalesce);
	stall_end(&l->stall, &l->worker->loop, 0);
	for (struct flow *f = l->flows; f; f = f->next)
		flow_end(f, 0);
}

static void lane_counts(struct worker *w, void *argument)
{
	struct lane *l = argument;

	(void)w;
	lane_sum(l, &l->now);
}

static void run_each(struct run *r, void (*act)(struct worker *w, void *lane))
{
	for (uint32_t i = 0; i < r->lane_count; i++)
		worker_call(r->lanes[i].worker, act, &r->lanes[i]);
}

void run_finish(struct run *r)
{
	uint64_t now_ns = clock_ns();

	/* One end for all lanes, also of a run that is cut short. */
	if (!r->end_ns || r->end_ns > now_ns)
		r->end_ns = now_ns;
	run_each(r, lane_finish);
}

void run_stop(struct run *r)
{
	run_each(r, lane_stop);
}

void run_close(struct run *r)
{
	run_each(r, lane_close);
}

void run_counts(struct run *r, struct flow_counts *sum)
{
	*sum = (struct flow_counts){ 0 };
	run_each(r, lane_counts);
	for (uint32_t i = 0; i < r->lane_count; i++)
		counts_add(sum, &r->lanes[i].now);
}
