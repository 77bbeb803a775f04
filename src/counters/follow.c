// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "counters/collector.h"
#include "counters/emit.h"
#include "counters/follow.h"

struct follow {
	struct collector *collector;
	struct snapshot now;
	struct snapshot last; /* the latest reading of each connection that was ever seen */
};

int follow_open(struct follow **out, struct err *e)
{
	struct follow *f = calloc(1, sizeof(*f));
	int ret;

	*out = NULL;
	if (!f)
		return err_set(e, ENOMEM, "no memory to follow connections");
	ret = collector_open(&f->collector, &(struct collector_options){ .sources = "tcp" }, e);
	if (ret) {
		free(f);
		return ret;
	}
	*out = f;
	follow_look(f);
	return 0;
}

void follow_look(struct follow *f)
{
	if (!f || collector_read(f->collector, &f->now, NULL))
		return;
	if (!f->last.catalog)
		f->last = (struct snapshot){ .catalog = f->now.catalog };
	if (snapshot_reserve(&f->last, NULL))
		return;
	for (uint32_t i = 0; i < f->now.count; i++)
		if (f->now.reading[i].time_ns)
			f->last.reading[i] = f->now.reading[i];
}

/* One that is in neither snapshot, or only in the second. */
static int add_one(const struct counter *c, const struct reading *r, struct snapshot *before,
	struct snapshot *after, struct err *e)
{
	uint32_t at = catalog_find(after->catalog, c->source, c->object, c->name);
	int ret = 0;

	if (at == CATALOG_NONE || !snapshot_has(after, at))
		ret = snapshot_put(after, c, r->value, r->time_ns, e);
	at = catalog_find(before->catalog, c->source, c->object, c->name);
	if (!ret && counter_grows(c->kind) && (at == CATALOG_NONE || !snapshot_has(before, at)))
		ret = snapshot_put(before, c, 0, before->taken_ns, e);
	return ret;
}

int follow_finish(
	const struct follow *f, struct snapshot *before, struct snapshot *after, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; f && i < f->last.count && !ret; i++)
		if (f->last.reading[i].time_ns)
			ret = add_one(&f->last.catalog->counter[i], &f->last.reading[i], before,
				after, e);
	return ret;
}

void follow_close(struct follow *f)
{
	if (!f)
		return;
	snapshot_free(&f->now);
	snapshot_free(&f->last);
	collector_close(f->collector);
	free(f);
}
