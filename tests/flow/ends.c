/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "ends.h"

#define PATIENCE_S 30

static void see_ready(void *context, const struct sock_addr *address)
{
	struct seen *seen = context;

	(void)address;
	seen->ready++;
}

static void see_started(void *context, const struct run *run)
{
	struct seen *seen = context;

	(void)run;
	seen->started++;
	seen->intervals_told = 0;
	seen->told_sum = (struct flow_counts){ 0 };
}

static void add_interval(struct flow_counts *sum, const struct interval_result *iv)
{
	sum->rx_bytes += iv->rx_bytes;
	sum->tx_bytes += iv->tx_bytes;
	sum->transactions += iv->transactions;
}

static void see_interval(void *context, const struct run *run, const struct interval_result *iv)
{
	struct seen *seen = context;

	(void)run;
	seen->intervals_told++;
	add_interval(&seen->told_sum, iv);
}

static void see_flows(struct seen *seen, const struct end_result *r)
{
	seen->flow_count = r->flow_count;
	for (uint32_t i = 0; i < r->flow_count; i++) {
		counts_add(&seen->flows_sum, &r->flows[i].counts);
		seen->failed_flows += r->flows[i].error != 0;
		seen->zerocopy_sent += r->flows[i].zerocopy_sent;
		seen->zerocopy_copied += r->flows[i].zerocopy_copied;
		seen->mapped_bytes += r->flows[i].mapped_bytes;
	}
}

static void see_over(void *context, const struct outcome *outcome)
{
	struct seen *seen = context;
	const struct end_result *r = &outcome->local;
	int ready = seen->ready, started = seen->started, over = seen->over;
	uint32_t told = seen->intervals_told;
	struct flow_counts told_sum = seen->told_sum;

	*seen = (struct seen){ .ready = ready,
		.started = started,
		.over = over + 1,
		.intervals_told = told,
		.told_sum = told_sum,
		.neper = outcome->neper,
		.interrupted = outcome->interrupted,
		.valid = r->valid,
		.complete = r->complete,
		.remote_valid = outcome->remote.valid,
		.remote_complete = outcome->remote.complete,
		.window_ns = r->window_ns,
		.warmup_ns = r->warmup_ns,
		.threads = r->threads,
		.interval_count = r->interval_count,
		.counts = r->counts,
		.remote_counts = outcome->remote.counts,
		.remote_rate = outcome->remote.rate,
		.latency_count = r->latency ? r->latency->count : 0,
		.latency_max_ns = r->latency && r->latency->count ? r->latency->max_ns : 0,
		.service_count = r->service ? r->service->count : 0 };
	snprintf(seen->error, sizeof(seen->error), "%s", r->error);
	see_flows(seen, r);
	for (uint32_t i = 0; i < r->interval_count; i++) {
		add_interval(&seen->intervals_sum, &r->intervals[i]);
		seen->intervals_ns += r->intervals[i].end_ns - r->intervals[i].begin_ns;
	}
}

/* The server's callbacks come from its threads. */

static void server_ready(void *context, const struct sock_addr *address)
{
	struct server_end *s = context;

	pthread_mutex_lock(&s->lock);
	see_ready(&s->seen, address);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void server_started(void *context, const struct run *run)
{
	struct server_end *s = context;

	see_started(&s->seen, run);
}

static void server_interval(void *context, const struct run *run, const struct interval_result *iv)
{
	struct server_end *s = context;

	see_interval(&s->seen, run, iv);
}

static void server_over(void *context, const struct outcome *outcome)
{
	struct server_end *s = context;

	pthread_mutex_lock(&s->lock);
	see_over(&s->seen, outcome);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void *server_main(void *argument)
{
	struct server_end *s = argument;
	struct endpoint_events events = { .context = s,
		.stop_fd = s->stop_fd,
		.ready = server_ready,
		.started = server_started,
		.interval = server_interval,
		.over = server_over };
	struct err e = { 0 };
	int ret;

	ret = server_run(s->workload, &s->end.o, &s->end.given, &events, &e);
	pthread_mutex_lock(&s->lock);
	s->seen.ret = ret;
	s->seen.e = e;
	s->running = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* A port that was free a moment ago, on IPv4 and IPv6. */
static int free_port(void)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	return ntohs(addr.sin6_port);
}

static void await(
	struct server_end *s, bool (*done)(const struct server_end *s, int count), int count)
{
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&s->lock);
	while (!ret && !done(s, count))
		ret = pthread_cond_timedwait(&s->changed, &s->lock, &until);
	pthread_mutex_unlock(&s->lock);
	if (ret)
		fail_msg("the server does not answer");
}

static bool is_ready(const struct server_end *s, int count)
{
	return s->seen.ready >= count || !s->running;
}

static bool is_over(const struct server_end *s, int count)
{
	return s->seen.over >= count;
}

static bool has_ended(const struct server_end *s, int count)
{
	(void)count;
	return !s->running;
}

bool ends_try_serve(struct server_end *s, enum workload w, const char *line)
{
	char words[512];

	memset(s, 0, sizeof(*s));
	s->workload = w;
	s->control_port = free_port();
	s->port = free_port();
	snprintf(words, sizeof(words), "-C %d -P %d %s", s->control_port, s->port, line);
	s->end = given(w, words);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(s->stop_fd >= 0);
	s->running = true;
	assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
	await(s, is_ready, 1);
	return s->running;
}

void ends_serve(struct server_end *s, enum workload w, const char *line)
{
	if (!ends_try_serve(s, w, line))
		fail_msg("the server ended at once: %s", s->seen.e.what);
}

void ends_await_over(struct server_end *s, int count)
{
	await(s, is_over, count);
}

int ends_join(struct server_end *s)
{
	await(s, has_ended, 0);
	pthread_join(s->thread, NULL);
	close(s->stop_fd);
	s->stop_fd = -1;
	return s->seen.ret;
}

int ends_stop(struct server_end *s)
{
	uint64_t one = 1;

	assert_int_equal(write(s->stop_fd, &one, sizeof(one)), sizeof(one));
	return ends_join(s);
}

void ends_abandon(struct server_end *s)
{
	if (s->port && s->stop_fd >= 0)
		ends_stop(s);
}

void ends_client_stoppable(
	const struct server_end *s, const char *line, int stop_fd, struct seen *seen)
{
	struct endpoint_events events = { .context = seen,
		.stop_fd = stop_fd,
		.ready = see_ready,
		.started = see_started,
		.interval = see_interval,
		.over = see_over };
	struct err e = { 0 };
	struct end end;
	char words[512];
	int ret;

	memset(seen, 0, sizeof(*seen));
	snprintf(words, sizeof(words), "-c -C %d -P %d %s", s->control_port, s->port, line);
	end = given(s->workload, words);
	ret = client_run(s->workload, &end.o, &events, &e);
	seen->ret = ret;
	seen->e = e;
}

void ends_client(const struct server_end *s, const char *line, struct seen *seen)
{
	ends_client_stoppable(s, line, -1, seen);
}

int ends_dial(const struct server_end *s)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)s->control_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int count = 0;

	assert_non_null(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

struct held ends_held(void)
{
	struct held held = { .descriptors = entries("/proc/self/fd"),
		.threads = entries("/proc/self/task") };

	return held;
}

void ends_assert_held(const struct held *before)
{
	struct held now = ends_held();

	for (int i = 0; i < 200 && now.threads > before->threads; i++) {
		usleep(5000);
		now = ends_held();
	}
	if (now.threads > before->threads)
		fail_msg("%d threads left behind", now.threads - before->threads);
	if (now.descriptors > before->descriptors)
		fail_msg("%d descriptors left behind", now.descriptors - before->descriptors);
}
