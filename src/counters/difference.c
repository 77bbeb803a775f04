// SPDX-License-Identifier: BSD-3-Clause
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "counters/emit.h"

const char *const row_state_name[ROW_STATES] = { "same", "moved", "wrapped", "reset", "changed",
	"appeared", "vanished" };

static int by_counter(const void *left, const void *right, void *context)
{
	const struct catalog *c = context;

	return counter_compare(
		&c->counter[*(const uint32_t *)left], &c->counter[*(const uint32_t *)right]);
}

void catalog_sort(const struct catalog *c, uint32_t *order, uint32_t count)
{
	bool sorted = true;

	/* What was read from a file or a directory mostly is. */
	for (uint32_t i = 1; i < count && sorted; i++)
		sorted = counter_compare(&c->counter[order[i - 1]], &c->counter[order[i]]) < 0;
	if (!sorted)
		qsort_r(order, count, sizeof(*order), by_counter, (void *)c);
}

/* A counter that fell has wrapped, or was set back. One of 64 bits does not live to wrap; a narrower
 * one has wrapped if by that it moved less than half of its range: to have moved further between two
 * readings, or to have been set back just below the top, is both less likely. */
static void subtract(struct row *r)
{
	uint8_t bits = r->counter->bits;
	uint64_t mask = bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
	uint64_t before = r->before.value, after = r->after.value;

	if (before > mask || after > mask)
		mask = UINT64_MAX; /* wider than it was said to be */
	r->change = (after - before) & mask;
	if (after >= before)
		r->state = after == before ? ROW_SAME : ROW_MOVED;
	else if (mask != UINT64_MAX && r->change <= mask / 2)
		r->state = ROW_WRAPPED;
	else
		r->state = ROW_RESET;
	if (r->state == ROW_RESET)
		r->change = after;
}

static void row_make(struct row *r)
{
	if (!r->before.time_ns || !r->after.time_ns) {
		r->state = r->before.time_ns ? ROW_VANISHED : ROW_APPEARED;
		return;
	}
	if (r->after.time_ns > r->before.time_ns)
		r->seconds = (double)(r->after.time_ns - r->before.time_ns) / 1e9;
	if (counter_grows(r->counter->kind))
		subtract(r);
	else
		r->state = r->before.value == r->after.value ? ROW_SAME : ROW_CHANGED;
}

double difference_rate(const struct row *r)
{
	if (!counter_grows(r->counter->kind) || r->seconds <= 0 || r->state == ROW_RESET)
		return NAN;
	return (double)r->change / r->seconds;
}

double difference_size(const struct row *r)
{
	if (r->state == ROW_APPEARED || r->state == ROW_VANISHED)
		return 0;
	if (r->counter->kind == COUNTER_SIGNED)
		return (double)(int64_t)r->after.value - (double)(int64_t)r->before.value;
	if (r->counter->kind == COUNTER_GAUGE || r->state == ROW_RESET)
		return (double)r->after.value - (double)r->before.value;
	return (double)r->change;
}

static const struct reading absent;

static const struct reading *reading_at(const struct snapshot *s, uint32_t index)
{
	return snapshot_has(s, index) ? &s->reading[index] : &absent;
}

static void row_add(struct difference *d, const struct counter *counter,
	const struct reading *before, const struct reading *after)
{
	struct row *r = &d->row[d->count];

	if (!before->time_ns && !after->time_ns)
		return;
	*r = (struct row){ .counter = counter, .before = *before, .after = *after };
	row_make(r);
	d->count++;
}

/* One catalog: index by index. */
static void pair_shared(
	struct difference *d, const struct snapshot *before, const struct snapshot *after)
{
	for (uint32_t i = 0; i < after->catalog->count; i++)
		row_add(d, &after->catalog->counter[i], reading_at(before, i),
			reading_at(after, i));
}

/* Two catalogs: by name. Kind and width are those of the snapshot after. */
static void pair_by_name(
	struct difference *d, const struct snapshot *before, const struct snapshot *after)
{
	uint32_t next = 0; /* mostly both are in one order */

	for (uint32_t i = 0; i < after->catalog->count; i++) {
		const struct counter *c = &after->catalog->counter[i], *n;
		uint32_t at = CATALOG_NONE;

		n = next < before->catalog->count ? &before->catalog->counter[next] : NULL;
		if (n && !strcmp(n->name, c->name) && !strcmp(n->object, c->object) &&
			!strcmp(n->source, c->source))
			at = next;
		else
			at = catalog_find(before->catalog, c->source, c->object, c->name);
		row_add(d, c, reading_at(before, at), reading_at(after, i));
		if (at != CATALOG_NONE)
			next = at + 1;
	}
	for (uint32_t i = 0; i < before->catalog->count; i++) {
		const struct counter *c = &before->catalog->counter[i];

		// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): counters are there for the count
		if (catalog_find(after->catalog, c->source, c->object, c->name) == CATALOG_NONE)
			row_add(d, c, reading_at(before, i), &absent);
	}
}

static int by_row(const void *left, const void *right)
{
	const struct row *l = left, *r = right;

	// NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): all rows up to the count were added
	return counter_compare(l->counter, r->counter);
}

static void sort_rows(struct difference *d)
{
	for (uint32_t i = 1; i < d->count; i++) {
		if (by_row(&d->row[i - 1], &d->row[i]) < 0)
			continue;
		qsort(d->row, d->count, sizeof(*d->row), by_row);
		return;
	}
}

static bool same_object(const struct counter *a, const struct counter *b)
{
	return (a->object == b->object || !strcmp(a->object, b->object)) &&
	       (a->source == b->source || !strcmp(a->source, b->source));
}

int difference_index(struct difference *d, struct err *e)
{
	struct difference_object *o = NULL;
	uint32_t objects = 0;

	for (uint32_t i = 0; i < d->count; i++)
		objects += !i || !same_object(d->row[i - 1].counter, d->row[i].counter);
	d->object = calloc((size_t)objects + 1, sizeof(*d->object));
	if (!d->object)
		return err_set(e, ENOMEM, "no memory for a difference");
	for (uint32_t i = 0; i < d->count; i++) {
		const struct row *r = &d->row[i];

		if (!i || !same_object(d->row[i - 1].counter, r->counter)) {
			o = &d->object[d->object_count++];
			// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): all rows were added
			*o = (struct difference_object){ .source = r->counter->source,
				.object = r->counter->object,
				.first = i };
		}
		o->count++;
		o->telling += difference_is_telling(r);
		d->states[r->state]++;
	}
	return 0;
}

int difference_make(struct difference *d, const struct snapshot *before,
	const struct snapshot *after, struct err *e)
{
	size_t most = (size_t)before->catalog->count + after->catalog->count;

	*d = (struct difference){ .before_ns = before->taken_ns, .after_ns = after->taken_ns };
	memcpy(d->host, after->host[0] ? after->host : before->host, sizeof(d->host));
	if (d->after_ns > d->before_ns)
		d->seconds = (double)(d->after_ns - d->before_ns) / 1e9;
	if (before->catalog == after->catalog)
		most = after->catalog->count;
	d->row = malloc((most + 1) * sizeof(*d->row));
	if (!d->row)
		return err_set(e, ENOMEM, "no memory for a difference");
	if (before->catalog == after->catalog)
		pair_shared(d, before, after);
	else
		pair_by_name(d, before, after);
	sort_rows(d);
	if (!difference_index(d, e))
		return 0;
	difference_free(d);
	return -ENOMEM;
}

void difference_free(struct difference *d)
{
	if (d->owned) {
		catalog_free(d->owned);
		free(d->owned);
	}
	free(d->row);
	free(d->object);
	*d = (struct difference){ 0 };
}

const struct difference_object *difference_find(
	const struct difference *d, const char *source, const char *object)
{
	for (uint32_t i = 0; i < d->object_count; i++)
		if (!strcmp(d->object[i].source, source) && !strcmp(d->object[i].object, object))
			return &d->object[i];
	return NULL;
}
