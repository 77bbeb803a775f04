// SPDX-License-Identifier: BSD-3-Clause
/* Files of snapshots and differences: read, recognised, written. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "counters/known.h"
#include "counters/read.h"

#define FILE_MAX (1ull << 30)

/* What is no plain file (a pipe) is read to its end. */
int file_bytes_read(struct file_bytes *b, const char *path, struct err *e)
{
	size_t room = 0;
	ssize_t got = 1;
	struct stat st;
	int fd, ret = 0;

	*b = (struct file_bytes){ 0 };
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "cannot read %s: %m", path);
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		room = (size_t)st.st_size + 1;
	while (got > 0 && !ret) {
		if (b->length + 1 >= room || !b->text) {
			char *grown;

			room = room > b->length + 1 ? room : (b->length + 4096) * 2;
			grown = room <= FILE_MAX ? realloc(b->text, room) : NULL;
			if (!grown) {
				ret = err_set(e, room > FILE_MAX ? EFBIG : ENOMEM,
					"%s is too large to be read", path);
				break;
			}
			b->text = grown;
		}
		do
			got = read(fd, b->text + b->length, room - b->length - 1);
		while (got < 0 && errno == EINTR);
		if (got < 0)
			ret = err_set(e, errno, "cannot read %s: %m", path);
		else
			b->length += (size_t)got;
	}
	close(fd);
	if (ret)
		file_bytes_free(b);
	return ret;
}

void file_bytes_free(struct file_bytes *b)
{
	free(b->text);
	*b = (struct file_bytes){ 0 };
}

void file_problem(const struct reading_file *f, const char *at, const char *format, ...)
{
	char where[256], what[192];
	unsigned int line = 1;
	va_list args;

	/* Counting lines is only worth it for those that are kept. */
	if (f->s->problems.count < SNAPSHOT_PROBLEMS)
		for (const char *c = f->text; c < at; c++)
			line += *c == '\n';
	snprintf(where, sizeof(where), "%.200s:%u", f->label, line);
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	problems_add(&f->s->problems, where, "%s", what);
}

int snapshot_parse(struct snapshot *s, const char *text, size_t length, const char *label,
	const char *names, enum snapshot_form *form, struct err *e)
{
	struct reading_file f = { .s = s, .label = label, .text = text, .length = length };
	enum snapshot_form found = SNAPSHOT_DUMP;
	size_t at = 0;
	int ret;

	ret = snapshot_init(s, e);
	if (ret)
		return ret;
	while (at < length &&
		(text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
		at++;
	if (at == length)
		ret = err_set(e, ENODATA, "%s is empty", label);
	else if (text[at] == '{' || text[at] == '[')
		ret = json_snapshot_parse(&f, &found, e);
	else if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9'))
		ret = dump_parse(&f, names, e);
	else
		ret = err_set(e, EINVAL, "%s is no snapshot: neither JSON nor lines of value@time",
			label);
	if (!ret && !s->count) {
		const struct problem *p = s->problems.problem;

		ret = p ? err_set(e, EINVAL, "%s holds no counter that can be read: %s: %s", label,
				  p->where, p->what)
			: err_set(e, ENODATA, "%s holds no counters", label);
	}
	if (ret)
		snapshot_free(s);
	else if (form)
		*form = found;
	return ret;
}

int snapshot_load(struct snapshot *s, const char *path, const char *names, struct err *e)
{
	struct file_bytes b;
	int ret;

	*s = (struct snapshot){ 0 };
	ret = file_bytes_read(&b, path, e);
	if (ret)
		return ret;
	ret = snapshot_parse(s, b.text, b.length, path, names, NULL, e);
	file_bytes_free(&b);
	return ret;
}

int difference_load(struct difference *d, struct findings *findings, const char *path,
	const char *end, struct err *e)
{
	struct file_bytes b;
	int ret;

	*d = (struct difference){ 0 };
	if (findings)
		*findings = (struct findings){ 0 };
	ret = file_bytes_read(&b, path, e);
	if (ret)
		return ret;
	ret = json_difference_parse(d, findings, b.text, b.length, path, end, e);
	file_bytes_free(&b);
	return ret;
}

/* Writing. */

static int write_weir(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	snapshot_emit(from, &o);
	return out_finish(&o, e);
}

/* cxi3 is interface 4; 0 for what is none. */
uint32_t cxi_interface_number(const struct counter *c)
{
	uint64_t number;
	size_t length;

	if (strcmp(c->source, "cxi") || strncmp(c->object, "cxi", 3))
		return 0;
	length = strlen(c->object + 3);
	if (parse_number(c->object + 3, length, false, &number) != length || !length ||
		number >= UINT32_MAX)
		return 0;
	return (uint32_t)number + 1;
}

static void write_groups(const struct counter_about *about, const struct counter *c, struct out *o)
{
	out_str(o, "group", NULL, about->group[0] ? about->group[0] : "UNGROUPED");
	out_str(o, "description", NULL, about->description);
	out_array(o, "groups");
	for (int i = 0; i < COUNTER_GROUPS && about->group[i]; i++)
		out_str(o, NULL, NULL, about->group[i]);
	if (!about->group[0])
		out_str(o, NULL, NULL, "UNGROUPED");
	out_end(o);
	out_array(o, "descriptions");
	for (int i = 0; i < COUNTER_GROUPS && (!i || about->group[i]); i++)
		out_str(o, NULL, NULL, about->description);
	out_end(o);
	out_array(o, "units");
	for (int i = 0; i < COUNTER_GROUPS && (!i || about->group[i]); i++)
		out_str(o, NULL, NULL, c->unit);
	out_end(o);
}

static void write_net_prof_counter(
	const struct counter *c, const struct reading *r, uint32_t id, struct out *o)
{
	struct counter_about about = counter_about(c);
	time_t seconds = (time_t)(r->time_ns / NS_PER_S);
	uint64_t us = r->time_ns / 1000; /* net_prof's clock is no finer */
	char text[48], iso[64];
	struct tm tm;

	out_object(o, NULL);
	out_u64(o, "id", NULL, id);
	out_u64(o, "interface", NULL, cxi_interface_number(c));
	out_str(o, "counter_name", NULL, c->name);
	emit_value("value", c->kind, r->value, o);
	out_f64(o, "timestamp", NULL, (double)us / 1e6);
	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm)) {
		snprintf(iso, sizeof(iso), "%s.%06u+00:00", text,
			(unsigned int)(r->time_ns % NS_PER_S / 1000));
		out_str(o, "timestamp_ISO_8601", NULL, iso);
	} else {
		out_null(o, "timestamp_ISO_8601");
	}
	write_groups(&about, c, o);
	out_end(o);
}

static void write_net_prof_list(const struct snapshot *s, const char *key, struct out *o)
{
	uint32_t count, id = 0, *order = snapshot_order(s, &count);
	const char *object = "";

	out_array(o, key);
	for (uint32_t i = 0; order && i < count; i++) {
		const struct counter *c = &s->catalog->counter[order[i]];

		if (!cxi_interface_number(c))
			continue;
		id = c->object == object ? id + 1 : 1;
		object = c->object;
		write_net_prof_counter(c, &s->reading[order[i]], id, o);
	}
	out_end(o);
	if (!order)
		o->error = ENOMEM;
	free(order);
}

static int write_net_prof_old(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	write_net_prof_list(from, NULL, &o);
	return out_finish(&o, e);
}

static int write_net_prof(FILE *file, const void *from, struct err *e)
{
	const struct snapshot *s = from;
	struct out o;

	out_init(&o, file, OUT_JSON);
	out_object(&o, NULL);
	out_object(&o, "meta");
	out_str(&o, "input_path", NULL, "/sys/class/cxi");
	emit_time("started_at", s->taken_ns, &o);
	emit_time("finished_at", s->taken_ns + s->took_ns, &o);
	out_f64(&o, "duration_s", NULL, (double)s->took_ns / 1e9);
	out_end(&o);
	write_net_prof_list(s, "counters", &o);
	out_end(&o);
	return out_finish(&o, e);
}

int snapshot_write(
	const struct snapshot *s, const char *path, enum snapshot_form form, struct err *e)
{
	switch (form) {
	case SNAPSHOT_WEIR:
		return file_replace(path, write_weir, s, e);
	case SNAPSHOT_NET_PROF:
		return file_replace(path, write_net_prof, s, e);
	case SNAPSHOT_NET_PROF_LIST:
		return file_replace(path, write_net_prof_old, s, e);
	default:
		return err_set(e, EINVAL, "a text dump is read, never written");
	}
}
