// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/pace.h"

#define GRID_NS (40 * NS_PER_MS)

/* A host on which a probe takes so long, the first of a tick longer, and that stops in the midst of some ticks. */
struct host {
	uint64_t probe_ns, first_ns;
	uint32_t probes;
	uint64_t pause_ns;
	uint32_t pause_every; /* ticks; 0: never */
	uint64_t sleep_ns;
	/* what came of it */
	uint64_t served_ns, most_late_ns, shifts;
	uint32_t ticks;
};

static void run_tick(struct pace *p, struct host *h)
{
	bool pauses = h->pause_every && ++h->ticks % h->pause_every == 0;
	uint64_t now_ns = 0, due_ns, took_ns;
	struct pace planned = *p; /* when they are due was said a period before */

	pace_tick(p, h->served_ns, GRID_NS, h->sleep_ns);
	h->shifts += p->gap_ns != planned.gap_ns;
	h->most_late_ns = 0;
	for (uint32_t place = 0; place < h->probes; place++) {
		due_ns = pace_after_ns(&planned, place);
		if (now_ns < due_ns)
			now_ns = due_ns;
		if (now_ns - due_ns > h->most_late_ns)
			h->most_late_ns = now_ns - due_ns;
		pace_probe(p, now_ns - due_ns, h->served_ns);
		took_ns = place ? h->probe_ns : h->first_ns;
		if (pauses && place == h->probes / 2)
			took_ns += h->pause_ns;
		now_ns += took_ns;
		h->served_ns += took_ns;
	}
}

static void run_ticks(struct pace *p, struct host *h, int ticks)
{
	while (ticks--)
		run_tick(p, h);
}

static void test_probes_are_about_as_far_apart_as_one_takes(void **state)
{
	struct host h = { .probe_ns = 50 * NS_PER_US, .first_ns = 50 * NS_PER_US, .probes = 80 };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 10000);
	assert_in_range(p.gap_ns, 46 * NS_PER_US, 60 * NS_PER_US);
	assert_true(h.most_late_ns < 200 * NS_PER_US);
	h.probe_ns = h.first_ns = 5 * NS_PER_US;
	run_ticks(&p, &h, 10000);
	assert_in_range(p.gap_ns, 4600, 6 * NS_PER_US);
}

static void test_the_others_wait_for_a_first_that_takes_longer(void **state)
{
	struct host h = { .probe_ns = 10 * NS_PER_US, .first_ns = 90 * NS_PER_US, .probes = 80 };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 1000);
	assert_in_range(p.lead_ns, 60 * NS_PER_US, 90 * NS_PER_US);
	assert_true(h.most_late_ns < 20 * NS_PER_US);
	h.first_ns = h.probe_ns;
	run_ticks(&p, &h, 1000);
	assert_true(p.lead_ns < 2 * NS_PER_US);
	h.first_ns = NS_PER_MS;
	run_ticks(&p, &h, 1000);
	assert_in_range(p.lead_ns, 0, PACE_LEAD_MAX_NS + 5 * NS_PER_US);
}

static void test_pauses_make_room_to_catch_up(void **state)
{
	struct host h = { .probe_ns = 10 * NS_PER_US,
		.first_ns = 10 * NS_PER_US,
		.probes = 80,
		.pause_ns = 500 * NS_PER_US,
		.pause_every = 25 };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 2000);
	assert_in_range(p.gap_ns, 20 * NS_PER_US, 32 * NS_PER_US);
	h.pause_every = 0;
	run_ticks(&p, &h, 10000);
	assert_in_range(p.gap_ns, 9 * NS_PER_US, 12 * NS_PER_US);
}

static void test_room_that_is_too_short_to_sleep_in_is_bounded_and_steady(void **state)
{
	struct host h = { .probe_ns = 10 * NS_PER_US,
		.first_ns = 10 * NS_PER_US,
		.probes = 80,
		.pause_ns = 500 * NS_PER_US,
		.pause_every = 4,
		.sleep_ns = 60 * NS_PER_US };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 1000);
	h.shifts = 0;
	run_ticks(&p, &h, 1000);
	/* A 400th of 40 ms is 1.25 us for each of 80. */
	assert_in_range(p.gap_ns, 10 * NS_PER_US, 12 * NS_PER_US);
	assert_true(h.shifts <= 2);
}

static void test_all_probes_of_a_tick_are_due_before_the_next(void **state)
{
	struct host h = { .probe_ns = 50 * NS_PER_US, .first_ns = 50 * NS_PER_US, .probes = 2000 };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 1000);
	assert_true(p.gap_ns <= GRID_NS / h.probes + GRID_NS / h.probes / 16);
}

static void test_a_tick_of_few_tells_nothing(void **state)
{
	struct host h = { .probe_ns = 500 * NS_PER_US,
		.first_ns = 500 * NS_PER_US,
		.probes = PACE_PROBES_MIN - 1 };
	struct pace p;

	(void)state;
	pace_init(&p);
	run_ticks(&p, &h, 1000);
	assert_int_equal(p.gap_ns, PACE_GAP_NS);
	assert_int_equal(p.lead_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probes_are_about_as_far_apart_as_one_takes),
		cmocka_unit_test(test_the_others_wait_for_a_first_that_takes_longer),
		cmocka_unit_test(test_pauses_make_room_to_catch_up),
		cmocka_unit_test(test_room_that_is_too_short_to_sleep_in_is_bounded_and_steady),
		cmocka_unit_test(test_all_probes_of_a_tick_are_due_before_the_next),
		cmocka_unit_test(test_a_tick_of_few_tells_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
