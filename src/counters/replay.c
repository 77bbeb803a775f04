// SPDX-License-Identifier: BSD-3-Clause
/* Recordings: raw files as they were read, and what system calls told as lines of text,
 *
 *	object TAB name TAB value TAB time_ns
 *
 * in DIR/weir/SOURCE.txt. Below a root that is such a directory all of it reads as on its machine. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/emit.h"
#include "counters/source.h"

static int make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0777) && errno != EEXIST) {
			*slash = '/';
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

void reader_record(struct reader *r, const char *path, const char *bytes, size_t length)
{
	char full[PATH_MAX];
	ssize_t put;
	int fd, code = 0;

	if (snprintf(full, sizeof(full), "%s%s", r->record, path) >= (int)sizeof(full))
		code = ENAMETOOLONG;
	fd = code ? -1 : open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 && !code) {
		code = -make_parents(full);
		fd = code ? -1 : open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0 && !code)
			code = errno;
	}
	if (fd >= 0) {
		put = write(fd, bytes, length);
		if (put < 0 || (size_t)put < length)
			code = put < 0 ? errno : ENOSPC;
		if (close(fd) && !code)
			code = errno;
	}
	if (code)
		r->ret = err_set(r->e, code, "cannot write %s: %s", full, strerror(code));
}

int replay_write(const struct snapshot *s, const char *source, const char *dir, struct err *e)
{
	struct reader r = { .record = dir, .e = e };
	char path[64], *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	if (!file)
		return err_set(e, ENOMEM, "no memory for a recording");
	for (uint32_t i = 0; i < s->count; i++) {
		const struct counter *c = &s->catalog->counter[i];

		if (s->reading[i].time_ns && !strcmp(c->source, source))
			fprintf(file, "%s\t%s\t%" PRId64 "\t%" PRIu64 "\n", c->object, c->name,
				(int64_t)s->reading[i].value, s->reading[i].time_ns);
	}
	if (fclose(file)) {
		free(text);
		return err_set(e, ENOMEM, "no memory for a recording");
	}
	snprintf(path, sizeof(path), "/weir/%s.txt", source);
	if (length)
		reader_record(&r, path, text, length);
	free(text);
	return r.ret;
}

static bool replay_line(struct reader *r, char *text)
{
	char *object = strsep(&text, "\t"), *name = strsep(&text, "\t");
	const char *value_text = strsep(&text, "\t"), *time_text = text;
	uint64_t value, time_ns;
	size_t length;

	if (!time_text || !object[0] || !name[0])
		return false;
	length = strlen(value_text);
	if (parse_number(value_text, length, true, &value) != length)
		return false;
	length = strlen(time_text);
	if (parse_number(time_text, length, false, &time_ns) != length)
		return false;
	if (reader_wants(r, object))
		reader_put(r, object, name, value, time_ns);
	return true;
}

void replay_read(struct reader *r)
{
	struct whole_file w = { 0 };
	char path[64], where[96], *rest, *one;
	uint32_t number = 0;

	snprintf(path, sizeof(path), "/weir/%s.txt", r->source);
	rest = whole_file_read(&w, r, path) ? w.text : NULL;
	while ((one = strsep(&rest, "\n"))) {
		number++;
		if (!one[0] || replay_line(r, one))
			continue;
		snprintf(where, sizeof(where), "%s:%u", path, number);
		reader_problem(r, where, "not object, name, value and time with tabs between them");
	}
	whole_file_free(&w);
}
