// SPDX-License-Identifier: BSD-3-Clause
#include "probe/worker.h"

/* Places from the end that are looked at for a target. Each joins when its probe was just sent, so its next is the latest of
 * all, unless this thread slept through some; then it waits by its own timer once more. */
#define LOOK_BACK 16

static struct probe_target *target_in(struct list *in_lane)
{
	return container_of(in_lane, struct probe_target, in_lane);
}

static void lane_fire(struct loop *l, struct loop_timer *timer);

static void lane_arm(struct lane *lane)
{
	struct probe_target *first = target_in(lane->targets.next);

	if (lane->targets.next == &lane->targets)
		loop_timer_cancel(&lane->worker->loop, &lane->timer);
	else if (lane->timer.due_ns != target_due_ns(first))
		loop_timer_set(&lane->worker->loop, &lane->timer, target_due_ns(first), lane_fire);
}

/* Whose probe is next, into the cache while this one is sent. */
static void target_fetch(const struct probe_target *t)
{
	for (const char *line = (const char *)&t->want.period_ns;
		line < (const char *)&t->flight[1]; line += 64)
		__builtin_prefetch(line, 1);
}

static void lane_fire(struct loop *l, struct loop_timer *timer)
{
	struct lane *lane = container_of(timer, struct lane, timer);
	struct probe_target *t = target_in(lane->targets.next);

	(void)l;
	list_del(&t->in_lane);
	t->lane = NULL;
	if (lane->targets.next != &lane->targets)
		target_fetch(target_in(lane->targets.next));
	target_turn(t);
	lane_arm(lane);
}

/* The one of this period, or a free one. */
static struct lane *lane_of(struct worker *w, uint64_t period_ns)
{
	struct lane *free_one = NULL;

	for (struct lane *lane = w->lane; lane < w->lane + LANES; lane++) {
		if (lane->period_ns == period_ns)
			return lane;
		if (!lane->targets.next || lane->targets.next == &lane->targets)
			free_one = lane;
	}
	if (!free_one)
		return NULL;
	list_init(&free_one->targets);
	free_one->worker = w;
	free_one->period_ns = period_ns;
	return free_one;
}

void lane_join(struct probe_target *t)
{
	struct lane *lane = lane_of(t->worker, t->want.period_ns);
	struct list *before;
	unsigned int looks = 0;

	lane_leave(t); /* its own timer may have come first */
	if (!lane)
		return;
	before = lane->targets.prev;
	while (before != &lane->targets && target_due_ns(target_in(before)) > target_due_ns(t)) {
		if (++looks == LOOK_BACK)
			return;
		before = before->prev;
	}
	list_add(before->next, &t->in_lane);
	t->lane = lane;
	if (before == &lane->targets)
		lane_arm(lane);
}

void lane_leave(struct probe_target *t)
{
	struct lane *lane = t->lane;

	if (!lane)
		return;
	list_del(&t->in_lane);
	t->lane = NULL;
	lane_arm(lane);
}
