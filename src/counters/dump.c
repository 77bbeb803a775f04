// SPDX-License-Identifier: BSD-3-Clause
/* Text dumps of cxi telemetry: one value@time a line, all counters of interface 1 by name, then all of
 * interface 2, and so on. Only the place of a line says which counter it is. */
#include <stdlib.h>
#include <string.h>

#include "counters/known.h"
#include "counters/read.h"

struct names {
	struct file_bytes file;
	const char **name;
	size_t count;
};

/* The last word of each line: a plain list, or one by ls -l. */
static int names_read(struct names *n, const char *path, struct err *e)
{
	char *rest, *line;
	int ret;

	ret = file_bytes_read(&n->file, path, e);
	if (ret)
		return err_prefix(e, "the names of a text dump's lines");
	n->file.text[n->file.length] = '\0';
	for (size_t i = 0; i < n->file.length; i++)
		n->count += n->file.text[i] == '\n' || i + 1 == n->file.length;
	n->name = calloc(n->count + 1, sizeof(*n->name));
	if (!n->name)
		return err_set(e, ENOMEM, "no memory for the names of %s", path);
	n->count = 0;
	rest = n->file.text;
	while ((line = strsep(&rest, "\n"))) {
		size_t length = strlen(line);
		char *blank;

		while (length && strchr(" \t\r", line[length - 1]))
			line[--length] = '\0';
		blank = strrchr(line, ' ');
		if (length)
			n->name[n->count++] = blank ? blank + 1 : line;
	}
	return n->count ? 0 : err_set(e, EINVAL, "%s holds no names", path);
}

static void names_free(struct names *n)
{
	file_bytes_free(&n->file);
	free(n->name);
}

static int dump_line(const struct reading_file *f, const char *line, size_t length,
	const char *name, size_t interface, struct err *e)
{
	struct counter counter = { .source = "cxi", .name = name };
	uint64_t value, time_ns;
	char object[32];
	size_t at;

	while (length && (line[length - 1] == '\r' || line[length - 1] == ' '))
		length--;
	at = parse_number(line, length, true, &value);
	if (!at || at == length || line[at] != '@') {
		file_problem(f, line, "%s is not value@time: \"%.*s\"", name,
			(int)(length > 40 ? 40 : length), line);
		return 0;
	}
	time_ns = parse_seconds(line + at + 1, length - at - 1);
	snprintf(object, sizeof(object), "cxi%zu", interface);
	counter.object = object;
	counter_classify(&counter);
	if (time_ns && (!f->s->taken_ns || time_ns < f->s->taken_ns))
		f->s->taken_ns = time_ns;
	return snapshot_put(f->s, &counter, value, time_ns, e);
}

static size_t count_lines(const char *text, size_t length)
{
	size_t lines = 0;

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines + (length && text[length - 1] != '\n');
}

static int dump_lines(const struct reading_file *f, const struct names *n, struct err *e)
{
	size_t lines = count_lines(f->text, f->length), whole = lines - lines % n->count;
	const char *at = f->text, *end = f->text + f->length;
	int ret = 0;

	if (!whole)
		return err_set(e, EINVAL,
			"%s has %zu lines, and one interface has %zu: give the names of "
			"its lines with --names",
			f->label, lines, n->count);
	for (size_t i = 0; i < whole && !ret; i++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((newline ? newline : end) - at);

		ret = dump_line(f, at, length, n->name[i % n->count], i / n->count, e);
		at = newline ? newline + 1 : end;
	}
	if (whole < lines)
		file_problem(f, at,
			"%zu lines are no multiple of %zu: the last %zu are left out; if one is missing "
			"elsewhere, the names after it are wrong",
			lines, n->count, lines - whole);
	return ret;
}

int dump_parse(const struct reading_file *f, const char *path, struct err *e)
{
	struct names n = { 0 };
	int ret = 0;

	if (path) {
		ret = names_read(&n, path, e);
	} else {
		n.count = KNOWN_CXI_NAMES;
		n.name = malloc(n.count * sizeof(*n.name));
		if (n.name)
			memcpy(n.name, known_cxi_names(), n.count * sizeof(*n.name));
		else
			ret = err_set(e, ENOMEM, "no memory for names");
	}
	if (!ret)
		ret = dump_lines(f, &n, e);
	names_free(&n);
	return ret;
}
