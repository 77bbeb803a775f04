// SPDX-License-Identifier: BSD-3-Clause
/* Every sample and every latency, in neper's columns. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/render.h"

static uint64_t count_of(const struct record *rec, const struct flow_counts *c)
{
	return rec->workload == WORKLOAD_STREAM ? c->rx_bytes : c->transactions;
}

static uint32_t lane_rows(const struct lane *l)
{
	uint32_t samples = l->sample_count;

	return l->window_open && samples > l->window_sample ? samples - l->window_sample : 0;
}

static size_t count_rows(const struct run *r)
{
	size_t count = 0;

	for (uint32_t i = 0; i < r->lane_count; i++)
		for (const struct flow *f = r->lanes[i].flows; f; f = f->next)
			count += f->samples ? lane_rows(&r->lanes[i]) : 0;
	return count;
}

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* The rows of one flow. A flow that came after the window began has zeros before it. */
static size_t flow_rows(const struct record *rec, const struct lane *l, const struct flow *f,
	struct sample_row *row)
{
	uint32_t first = l->window_sample, count = lane_rows(l);
	uint64_t base = count ? count_of(rec, &f->samples[first].counts) : 0;

	for (uint32_t i = 0; i < count; i++) {
		row[i] = (struct sample_row){
			.time_ns = rec->run->start_ns + l->samples[first + i].time_ns,
			.lane = l,
			.flow = f,
			.index = first + i,
			.count = since(count_of(rec, &f->samples[first + i].counts), base),
		};
		if (!i)
			continue;
		row[i].running = since(row[i].count, row[i - 1].count);
		if (row[i].time_ns > row[i - 1].time_ns)
			row[i].per_s = (double)row[i].running * 1e9 /
				       (double)(row[i].time_ns - row[i - 1].time_ns);
	}
	return count;
}

static int by_time(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->lane->index != y->lane->index)
		return x->lane->index < y->lane->index ? -1 : 1;
	return x->flow->id < y->flow->id ? -1 : x->flow->id > y->flow->id;
}

/* The rows hold how much their flow grew: summed up over time that is every flow's latest count. */
static void sum_rows(struct sample_row *rows, size_t count)
{
	uint64_t running = 0;

	qsort(rows, count, sizeof(*rows), by_time);
	for (size_t i = 0; i < count; i++) {
		running += rows[i].running;
		rows[i].running = running;
	}
}

int samples_rows(const struct record *rec, struct sample_row **rows, size_t *count, struct err *e)
{
	const struct run *r = rec->run;
	size_t most = r ? count_rows(r) : 0, n = 0;

	*count = 0;
	*rows = calloc(most ? most : 1, sizeof(**rows));
	if (!*rows)
		return err_set(e, ENOMEM, "no memory for %zu samples", most);
	for (uint32_t i = 0; r && i < r->lane_count; i++) {
		for (const struct flow *f = r->lanes[i].flows; f; f = f->next)
			if (f->samples)
				n += flow_rows(rec, &r->lanes[i], f, *rows + n);
	}
	sum_rows(*rows, n);
	*count = n;
	return 0;
}

static double seconds(double ns)
{
	return ns / 1e9;
}

static void csv_header(FILE *file, const struct record *rec)
{
	const struct flow_options *o = rec->options;
	const char *what = rec->workload == WORKLOAD_STREAM ? "bytes_read" : "transactions";

	fprintf(file, "tid,flow_id,time,%s,%s/s,utime,stime,maxrss,minflt,majflt,nvcsw,nivcsw",
		what, what);
	if (rec->workload != WORKLOAD_STREAM) {
		fprintf(file, ",latency_min,latency_mean,latency_max,latency_stddev");
		for (int i = 0; i < o->percentile_count; i++)
			fprintf(file, ",latency_p%g", o->percentile[i]);
	}
	fputc('\n', file);
}

static void csv_latency(FILE *file, const struct flow_options *o, const struct flow_latency *l)
{
	fprintf(file, ",%f,%f,%f,%f", seconds(l->min_ns), seconds(l->mean_ns), seconds(l->max_ns),
		seconds(l->stddev_ns));
	for (int i = 0; i < o->percentile_count; i++)
		fprintf(file, ",%f", l->percentile_ns ? seconds(l->percentile_ns[i]) : 0);
}

static void csv_row(FILE *file, const struct record *rec, const struct sample_row *row)
{
	const struct rusage *u = &row->lane->samples[row->index].usage;

	fprintf(file, "%u,%u,%" PRIu64 ".%09" PRIu64 ",%" PRIu64 ",%.2f", row->lane->index,
		row->flow->id, (uint64_t)(row->time_ns / NS_PER_S),
		(uint64_t)(row->time_ns % NS_PER_S), row->count, row->per_s);
	fprintf(file, ",%ld.%06ld,%ld.%06ld,%ld,%ld,%ld,%ld,%ld", (long)u->ru_utime.tv_sec,
		(long)u->ru_utime.tv_usec, (long)u->ru_stime.tv_sec, (long)u->ru_stime.tv_usec,
		u->ru_maxrss, u->ru_minflt, u->ru_majflt, u->ru_nvcsw, u->ru_nivcsw);
	if (rec->workload != WORKLOAD_STREAM)
		csv_latency(file, rec->options, &row->flow->samples[row->index].latency);
	fputc('\n', file);
}

static int write_csv(FILE *file, const void *from, struct err *e)
{
	const struct record *rec = from;
	struct sample_row *rows;
	size_t count;
	int ret;

	ret = samples_rows(rec, &rows, &count, e);
	if (ret)
		return ret;
	csv_header(file, rec);
	for (size_t i = 0; i < count; i++)
		csv_row(file, rec, &rows[i]);
	free(rows);
	return 0;
}

int samples_write_csv(const struct record *rec, const char *path, struct err *e)
{
	return file_replace(path, write_csv, rec, e);
}

struct rtt_job {
	const struct record *rec;
	char separator;
};

static void rtt_flow(
	FILE *file, const struct rtt_job *job, const struct lane *l, const struct flow *f)
{
	for (size_t i = 0; f->rtt_log && i < f->rtt_count; i++) {
		int64_t when_ns = (int64_t)(f->rtt_log[2 * i] - job->rec->local->begin_ns);

		fprintf(file, "%15.9f%c%10u%c%10u%c%12.9f\n", seconds((double)when_ns),
			job->separator, l->index, job->separator, f->id, job->separator,
			seconds((double)f->rtt_log[2 * i + 1]));
	}
}

static int by_id(const void *a, const void *b)
{
	const struct flow *x = *(const struct flow *const *)a, *y = *(const struct flow *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int rtt_lane(FILE *file, const struct rtt_job *job, const struct lane *l, struct err *e)
{
	const struct flow **flows = calloc(l->flow_count + 1, sizeof(void *));
	uint32_t n = 0;

	if (!flows)
		return err_set(e, ENOMEM, "no memory for %u flows", l->flow_count);
	for (const struct flow *f = l->flows; f && n < l->flow_count; f = f->next)
		flows[n++] = f;
	qsort(flows, n, sizeof(void *), by_id);
	for (uint32_t i = 0; i < n; i++)
		rtt_flow(file, job, l, flows[i]);
	free(flows);
	return 0;
}

static int write_rtt(FILE *file, const void *from, struct err *e)
{
	const struct rtt_job *job = from;
	const struct run *r = job->rec->run;
	int ret = 0;

	fprintf(file, "%15s%c%10s%c%10s%c%12s\n", "timestamp", job->separator, "thread_id",
		job->separator, "flow_id", job->separator, "rtt");
	for (uint32_t i = 0; r && !ret && i < r->lane_count; i++)
		ret = rtt_lane(file, job, &r->lanes[i], e);
	return ret;
}

int samples_write_rtt(const struct record *rec, const char *path, struct err *e)
{
	size_t length = strlen(path);
	bool csv = length >= 4 && !strcmp(path + length - 4, ".csv");
	struct rtt_job job = { .rec = rec, .separator = csv ? ',' : ' ' };

	return file_replace(path, write_rtt, &job, e);
}
