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

static struct probe_target *first_of(const struct list *l)
{
	return l->next == l ? NULL : target_in(l->next);
}

/* When it has something to do; UINT64_MAX: never. Those that let others go first are due when nobody else is. */
static uint64_t lane_due_ns(const struct lane *lane)
{
	const struct probe_target *first = first_of(&lane->targets);
	uint64_t due_ns = first ? target_due_ns(first) : UINT64_MAX, now_ns;

	if (!first_of(&lane->late))
		return due_ns;
	now_ns = clock_ns();
	return due_ns < now_ns ? due_ns : now_ns;
}

static void lane_arm(struct lane *lane)
{
	uint64_t due_ns = lane_due_ns(lane);

	if (due_ns == UINT64_MAX)
		loop_timer_cancel(&lane->worker->loop, &lane->timer);
	else if (lane->timer.due_ns != due_ns)
		loop_timer_set(&lane->worker->loop, &lane->timer, due_ns, lane_fire);
}

/* Whose probe is next, into the cache while this one is sent. */
static void target_fetch(const struct probe_target *t)
{
	for (const char *line = (const char *)&t->want.period_ns;
		line < (const char *)&t->flight[1]; line += 64)
		__builtin_prefetch(line, 1);
}

static bool is_of_tick(const struct probe_target *t, struct list *next)
{
	return next != &t->lane->targets && target_tick_ns(target_in(next)) == target_tick_ns(t);
}

/* One that is too late, since this thread had no CPU, lets those of its tick go first that are not. In their order all that
 * come after it would be late too: hardly more time lies between two than sending one takes. */
static struct probe_target *lane_next(struct lane *lane)
{
	struct probe_target *t = first_of(&lane->targets);
	uint64_t now_ns = clock_ns();

	while (t && target_due_ns(t) + TOO_LATE_NS <= now_ns && is_of_tick(t, t->in_lane.next)) {
		list_del(&t->in_lane);
		list_add(&lane->late, &t->in_lane);
		t = first_of(&lane->targets);
	}
	if (t && target_due_ns(t) <= now_ns)
		return t;
	return first_of(&lane->late) ? first_of(&lane->late) : t;
}

static void lane_fire(struct loop *l, struct loop_timer *timer)
{
	struct lane *lane = container_of(timer, struct lane, timer);
	struct probe_target *t = lane_next(lane);

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
		if (!lane->worker || (!first_of(&lane->targets) && !first_of(&lane->late)))
			free_one = lane;
	}
	if (!free_one)
		return NULL;
	list_init(&free_one->targets);
	list_init(&free_one->late);
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
