// SPDX-License-Identifier: BSD-3-Clause
#include "flow/stall.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* "run_ns wait_ns slices" */
static bool read_books(const struct stall *s, uint64_t *run_ns, uint64_t *wait_ns)
{
	char text[96];
	ssize_t got = pread(s->books, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = '\0';
	// NOLINTNEXTLINE(cert-err34-c): the kernel wrote them; what does not fit is no number
	return sscanf(text, "%" SCNu64 " %" SCNu64, run_ns, wait_ns) == 2;
}

static uint64_t less(uint64_t from, uint64_t by)
{
	return from > by ? from - by : 0;
}

/* What lies between the moment that the tick was due and now. */
static void account(struct stall *s, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t run_ns, wait_ns, late_ns = less(now_ns, due_ns), waited_ns, ran_ns;

	if (!read_books(s, &run_ns, &wait_ns))
		return;
	waited_ns = less(wait_ns, s->wait_ns);
	ran_ns = less(run_ns, s->run_ns);
	s->run_ns = run_ns;
	s->wait_ns = wait_ns;
	s->starved_ns += waited_ns;
	if (late_ns < STALL_TICK_NS)
		return;
	/* It may have run, and waited, before the tick was due as well: what is left was surely stopped. */
	s->stopped_ns += less(less(late_ns, waited_ns), ran_ns);
}

static void stall_tick(struct loop *l, struct loop_timer *tick)
{
	struct stall *s = container_of(tick, struct stall, tick);
	uint64_t now_ns = clock_ns();

	account(s, s->due_ns, now_ns);
	s->due_ns = now_ns + STALL_TICK_NS;
	loop_timer_set(l, tick, s->due_ns, stall_tick);
}

void stall_begin(struct stall *s, struct loop *l)
{
	*s = (struct stall){ .due_ns = clock_ns() + STALL_TICK_NS };
	s->books = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (s->books >= 0 && read_books(s, &s->run_ns, &s->wait_ns)) {
		loop_timer_set(l, &s->tick, s->due_ns, stall_tick);
		return;
	}
	stall_end(s, l, 0);
}

void stall_end(struct stall *s, struct loop *l, uint64_t end_ns)
{
	if (s->tick.due_ns) {
		account(s, s->due_ns, end_ns);
		loop_timer_cancel(l, &s->tick);
	}
	if (s->books > 0)
		close(s->books);
	s->books = -1;
}
