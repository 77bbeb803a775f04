// SPDX-License-Identifier: BSD-3-Clause
/* A bare ping-pong over TCP between two processes, the least that a prober can do: sleep until the next
 * is due, send, wait for the answer. bench/probe runs it beside two agents, on the same addresses.
 *
 *	probe_bare FROM TO BYTES RATE SECONDS CPU CPU [look|spin|burst]
 *
 * The asking end runs on the first CPU, the other on the second. look: the asking end sleeps until it sends, but
 * not until the answer is there. spin: both look without end instead of sleeping. burst: nothing is sent, but both ends are awake when
 * agents of this rate are: they sleep until a tick, each 100 ms, and look at the clock for each probe of it, 12 us apart. The kernel is told not to
 * let them sleep longer than asked (PR_SET_TIMERSLACK).
 *
 * Prints one line: round trips, their median and p99, how late they were sent at p99 (ns) and how many of them by
 * more than 200 us (percent), and the CPU time of the asking end, in percent of a core.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hist.h"
#include "net/sock.h"

#define BYTES_MAX (4u << 20)
#define LATE_NS	  (200 * NS_PER_US)
#define TICK_NS	  (100 * NS_PER_MS)
#define GAP_NS	  (12 * NS_PER_US)

static struct err e;
static unsigned char frame[BYTES_MAX];
static bool looks, spins, bursts;

static void die(const char *what)
{
	fprintf(stderr, "probe_bare: %s: %s\n", what, e.what[0] ? e.what : strerror(errno));
	exit(1);
}

static struct sock_addr address(const char *text)
{
	struct sock_addr addr[SOCK_ADDRS];
	size_t count;

	if (sock_resolve(text, "0", AF_UNSPEC, true, addr, &count, &e))
		die(text);
	return addr[0];
}

/* false: the other end has gone. */
static bool take(int fd, size_t bytes)
{
	for (size_t have = 0; have < bytes;) {
		ssize_t n = recv(fd, frame + have, bytes - have, looks ? MSG_DONTWAIT : 0);

		if (n > 0)
			have += (size_t)n;
		else if (!n || (errno != EAGAIN && errno != EINTR))
			return false;
	}
	return true;
}

static void give(int fd, size_t bytes)
{
	if (send(fd, frame, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		exit(1);
}

static void pin(const char *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(strtoul(cpu, NULL, 10), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die(cpu);
}

static void echo(int listener, size_t bytes)
{
	int on = 1, fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	looks = spins;
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		_exit(1);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (take(fd, bytes))
		give(fd, bytes);
	_exit(0);
}

static void sleep_until(uint64_t due_ns)
{
	struct timespec due = { (time_t)(due_ns / NS_PER_S), (long)(due_ns % NS_PER_S) };

	if (spins)
		while (clock_ns() < due_ns)
			;
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return clock_timespec_ns(t);
}

/* When the probe after the one at due_ns is due. */
static uint64_t next_due_ns(uint64_t due_ns, uint64_t period_ns)
{
	static uint64_t tick_ns, left;

	if (!bursts)
		return due_ns + period_ns;
	if (left) {
		left--;
		return due_ns + GAP_NS;
	}
	tick_ns = (tick_ns ? tick_ns : due_ns) + TICK_NS;
	left = TICK_NS / period_ns - 1;
	return tick_ns;
}

static void wait_until(uint64_t due_ns)
{
	if (!bursts || due_ns > clock_ns() + GAP_NS)
		sleep_until(due_ns);
	while (clock_ns() < due_ns)
		;
}

/* The answering end of a burst, which has nobody to answer. */
static void attend(uint64_t begin_ns, uint64_t period_ns)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t due_ns = next_due_ns(begin_ns, period_ns);;
		due_ns = next_due_ns(due_ns, period_ns))
		wait_until(due_ns);
}

static void ask(int fd, size_t bytes, uint64_t begin_ns, uint64_t period_ns, double seconds)
{
	uint64_t end_ns = begin_ns + (uint64_t)(seconds * 1e9), now_ns, cpu0_ns = cpu_ns();
	static struct hist rtt, late;
	uint64_t too_late = 0;

	hist_init(&rtt);
	hist_init(&late);
	for (uint64_t due_ns = next_due_ns(begin_ns, period_ns); due_ns < end_ns;
		due_ns = next_due_ns(due_ns, period_ns)) {
		wait_until(due_ns);
		now_ns = clock_ns();
		hist_record(&late, now_ns - due_ns);
		too_late += now_ns - due_ns > LATE_NS;
		if (bursts)
			continue;
		give(fd, bytes);
		if (!take(fd, bytes))
			die("the other end has gone");
		hist_record(&rtt, clock_ns() - now_ns);
	}
	printf("{\"round_trips\": %" PRIu64 ", \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64
	       ", \"late_p99_ns\": %" PRIu64 ", \"late_percent\": %.3f, \"cpu_percent\": %.3f}\n",
		rtt.count, hist_percentile(&rtt, 50.0), hist_percentile(&rtt, 99.0),
		hist_percentile(&late, 99.0),
		late.count ? 100.0 * (double)too_late / (double)late.count : 0.0,
		100.0 * (double)(cpu_ns() - cpu0_ns) / (double)(clock_ns() - begin_ns));
}

int main(int argc, char **argv)
{
	struct sock_listen how = { .backlog = 1 };
	struct sock_addr from, to;
	uint64_t begin_ns, period_ns;
	int listener, fd, on = 1;
	size_t bytes;
	pid_t other;

	if (argc < 8) {
		fprintf(stderr,
			"usage: probe_bare FROM TO BYTES RATE SECONDS CPU CPU [look|spin|burst]\n");
		return 2;
	}
	looks = argc > 8;
	spins = looks && !strcmp(argv[8], "spin");
	bursts = looks && !strcmp(argv[8], "burst");
	prctl(PR_SET_TIMERSLACK, 1);
	from = address(argv[1]);
	to = address(argv[2]);
	bytes = strtoul(argv[3], NULL, 10);
	period_ns = (uint64_t)(1e9 / strtod(argv[4], NULL));
	begin_ns = clock_ns();
	listener = bytes && bytes <= BYTES_MAX ? sock_listen(&to, &how, &e) : -1;
	if (listener < 0)
		die("listen");
	fcntl(listener, F_SETFL, 0);
	sock_local(listener, &to);
	pin(argv[7]);
	other = fork();
	if (!other && bursts)
		attend(begin_ns, period_ns);
	if (!other)
		echo(listener, bytes);
	pin(argv[6]);
	fd = socket(from.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (struct sockaddr *)&from.storage, from.len) ||
		connect(fd, (struct sockaddr *)&to.storage, to.len))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ask(fd, bytes, begin_ns, period_ns, strtod(argv[5], NULL));
	close(fd);
	if (bursts)
		kill(other, SIGTERM);
	wait(NULL);
	return 0;
}
