// SPDX-License-Identifier: BSD-3-Clause
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/emit.h"
#include "counters/known.h"
#include "counters/source.h"
#include "sys/path.h"

#define DESCRIPTORS_LEFT 512 /* for the run that is measured */

static const struct source *const sources[] = {
	&source_cxi,
	&source_cxi_link,
	&source_ethtool,
	&source_ethtool_std,
	&source_queue,
	&source_page_pool,
	&source_netdev,
	&source_qdisc,
	&source_infiniband,
	&source_tcp,
	&source_snmp,
	&source_netstat,
	&source_snmp6,
	&source_softnet,
	&source_interrupts,
	&source_pcie,
	&source_nvml,
};
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

struct collector {
	struct catalog catalog;
	struct collector_options options;
	char *source_list, *object_list, *cxi;
	void *state[SOURCES];
	bool wanted[SOURCES];
	int descriptors;
};

const struct collector_source *collector_sources(void)
{
	static struct collector_source list[SOURCES + 1];

	for (size_t i = 0; i < SOURCES; i++)
		list[i] = (struct collector_source){ sources[i]->name, sources[i]->about };
	return list;
}

static int choose(struct collector *c, struct err *e)
{
	char *copy = strdup(c->source_list), *rest = copy, *one;

	if (!copy)
		return err_set(e, ENOMEM, "no memory for the list of sources");
	while ((one = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < SOURCES && strcmp(sources[i]->name, one))
			i++;
		if (i < SOURCES) {
			c->wanted[i] = true;
			continue;
		}
		err_set(e, EINVAL, "there is no source of counters \"%.60s\"", one);
		err_hint(e,
			"weir counters list names the sources; for example: --source netdev,tcp");
		free(copy);
		return -EINVAL;
	}
	free(copy);
	return 0;
}

/* Files stay open for the next reading, but for some that the process needs otherwise. */
static int spare_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	if (limit.rlim_cur > INT_MAX)
		return INT_MAX;
	return limit.rlim_cur > (rlim_t)2 * DESCRIPTORS_LEFT
		       ? (int)limit.rlim_cur - DESCRIPTORS_LEFT
		       : 0;
}

int collector_open(struct collector **out, const struct collector_options *options, struct err *e)
{
	struct collector *c = calloc(1, sizeof(*c));
	int ret = 0;

	*out = NULL;
	if (!c)
		return err_set(e, ENOMEM, "no memory for counters");
	catalog_init(&c->catalog);
	c->descriptors = spare_descriptors();
	if (options && options->objects)
		c->options.objects = c->object_list = strdup(options->objects);
	if (options && options->cxi)
		c->options.cxi = c->cxi = strdup(options->cxi);
	if (options && options->sources)
		c->options.sources = c->source_list = strdup(options->sources);
	for (size_t i = 0; i < SOURCES; i++)
		c->wanted[i] =
			!c->source_list && (!options || !options->without ||
						   strcmp(sources[i]->name, options->without));
	if (c->source_list)
		ret = choose(c, e);
	if (ret)
		collector_close(c);
	else
		*out = c;
	return ret;
}

void collector_close(struct collector *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < SOURCES; i++)
		if (c->state[i])
			sources[i]->forget(c->state[i]);
	catalog_free(&c->catalog);
	free(c->source_list);
	free(c->object_list);
	free(c->cxi);
	free(c);
}

static int prepare(struct collector *c, struct snapshot *s, struct err *e)
{
	if (s->catalog != &c->catalog) {
		*s = (struct snapshot){ .catalog = &c->catalog };
		s->catalog = &c->catalog;
	}
	problems_free(&s->problems);
	if (gethostname(s->host, sizeof(s->host) - 1))
		s->host[0] = '\0';
	s->count = 0; /* all absent */
	return snapshot_reserve(s, e);
}

static int read_all(struct collector *c, struct snapshot *s, const char *record, struct err *e)
{
	struct reader r = { .s = s,
		.options = &c->options,
		.descriptors = c->descriptors,
		.record = record,
		.e = e };
	uint64_t began_ns;

	r.ret = prepare(c, s, e);
	s->taken_ns = clock_wall_ns();
	began_ns = clock_ns();
	for (size_t i = 0; i < SOURCES && !r.ret; i++) {
		if (!c->wanted[i])
			continue;
		r.source = sources[i]->name;
		if (sources[i]->calls && !sys_is_live())
			replay_read(&r);
		else
			sources[i]->read(&r, &c->state[i]);
	}
	s->took_ns = clock_ns() - began_ns;
	c->descriptors = r.descriptors;
	return r.ret;
}

int collector_read(struct collector *c, struct snapshot *s, struct err *e)
{
	return read_all(c, s, NULL, e);
}

int collector_record(struct collector *c, struct snapshot *s, const char *dir, struct err *e)
{
	int ret;

	ret = read_all(c, s, dir, e);
	for (size_t i = 0; i < SOURCES && !ret; i++)
		if (sources[i]->calls && c->wanted[i])
			ret = replay_write(s, sources[i]->name, dir, e);
	return ret;
}

/* What sources read with. */

uint32_t reader_index(struct reader *r, const char *object, const char *name)
{
	struct catalog *c = r->s->catalog;
	struct counter counter = { .source = r->source, .object = object, .name = name };
	uint32_t index;

	if (r->cursor < c->count && !strcmp(c->counter[r->cursor].name, name) &&
		!strcmp(c->counter[r->cursor].object, object) &&
		!strcmp(c->counter[r->cursor].source, r->source))
		return r->cursor++;
	/* New, or out of its usual order: the catalog knows. */
	counter_classify(&counter);
	r->ret = catalog_add(c, &counter, &index, r->e);
	if (!r->ret)
		r->ret = snapshot_reserve(r->s, r->e);
	r->cursor = index + 1;
	return r->ret ? CATALOG_NONE : index;
}

void reader_put_at(struct reader *r, uint32_t index, uint64_t value, uint64_t time_ns)
{
	r->s->reading[index] = (struct reading){ value, time_ns ? time_ns : 1 };
}

void reader_put(
	struct reader *r, const char *object, const char *name, uint64_t value, uint64_t time_ns)
{
	uint32_t index = r->ret ? CATALOG_NONE : reader_index(r, object, name);

	if (index != CATALOG_NONE)
		reader_put_at(r, index, value, time_ns);
}

bool reader_wants(const struct reader *r, const char *object)
{
	char glob[COUNTER_TEXT];
	const char *list = r->options->objects;

	if (!list)
		return true;
	while (*list) {
		size_t length = strcspn(list, ",");

		snprintf(glob, sizeof(glob), "%.*s", (int)length, list);
		if (!fnmatch(glob, object, 0))
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

void reader_problem(struct reader *r, const char *where, const char *format, ...)
{
	char what[192];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	problems_add(&r->s->problems, where, "%s", what);
}
