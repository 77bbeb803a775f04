// SPDX-License-Identifier: BSD-3-Clause
/* Directories of small files with one number each. A file of sysfs is made anew for every read at its
 * beginning: it is opened once, and each further reading is one pread(). */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/emit.h"
#include "counters/source.h"
#include "sys/path.h"

#define VALUE_BYTES 128

struct counter_file {
	int fd; /* -1: opened for each reading */
	uint32_t index;
	uint32_t name; /* offset in names */
};

struct counter_dir {
	char *path, *object, *prefix;
	bool below_root;
	uint32_t hash; /* of the path */
	uint32_t first, count;
	char *names; /* NUL between them */
};

struct files {
	enum file_form form;
	struct counter_dir *dir;
	uint32_t dir_count, dir_room;
	struct counter_file *file;
	uint32_t count, room;
};

struct files *files_new(enum file_form form)
{
	struct files *f = calloc(1, sizeof(*f));

	if (f)
		f->form = form;
	return f;
}

void files_free(struct files *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->file[i].fd >= 0)
			close(f->file[i].fd);
	for (uint32_t i = 0; i < f->dir_count; i++) {
		free(f->dir[i].path);
		free(f->dir[i].object);
		free(f->dir[i].prefix);
		free(f->dir[i].names);
	}
	free(f->dir);
	free(f->file);
	free(f);
}

uint32_t files_count(const struct files *f)
{
	return f->count;
}

static int open_dir(const char *path, bool below_root)
{
	int fd = below_root ? sys_open("%s", path) : open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

	return fd < 0 && !below_root ? -errno : fd;
}

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && entry->d_type != DT_DIR && entry->d_type != DT_LNK &&
	       strcmp(entry->d_name, "ALL-in-binary"); /* cxi's, all of the others at once */
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int files_reserve(struct files *f, uint32_t more)
{
	struct counter_file *file;
	struct counter_dir *dir;

	if (f->count + more > f->room) {
		file = reallocarray(f->file, (size_t)f->count + more, sizeof(*file));
		if (!file)
			return -ENOMEM;
		f->file = file;
		f->room = f->count + more;
	}
	if (f->dir_count == f->dir_room) {
		dir = reallocarray(f->dir, f->dir_room ? f->dir_room * 2 : 16, sizeof(*dir));
		if (!dir)
			return -ENOMEM;
		f->dir = dir;
		f->dir_room = f->dir_room ? f->dir_room * 2 : 16;
	}
	return 0;
}

static bool is_wanted(const char *name, const char *const *only)
{
	if (!only)
		return true;
	for (; *only; only++)
		if (!strcmp(*only, name))
			return true;
	return false;
}

/* The directory with its names; files get their counters when they are first read. */
static int dir_learn(struct files *f, struct counter_dir *d, struct dirent **entry, int count,
	const char *const *only)
{
	size_t bytes = 1, used = 0;

	for (int i = 0; i < count; i++)
		bytes += strlen(entry[i]->d_name) + 1;
	d->names = malloc(bytes);
	if (!d->names || !d->path || !d->object || !d->prefix || bytes > UINT32_MAX)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		size_t length = strlen(entry[i]->d_name) + 1;

		if (!is_wanted(entry[i]->d_name, only))
			continue;
		memcpy(d->names + used, entry[i]->d_name, length);
		f->file[f->count++] = (struct counter_file){ -1, CATALOG_NONE, (uint32_t)used };
		used += length;
		d->count++;
	}
	return 0;
}

static uint32_t hash_path(const char *path)
{
	uint32_t hash = 2166136261u;

	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * 16777619u;
	return hash;
}

static bool is_there(const struct files *f, const char *directory, uint32_t hash)
{
	for (uint32_t i = 0; i < f->dir_count; i++)
		if (f->dir[i].hash == hash && !strcmp(f->dir[i].path, directory))
			return true;
	return false;
}

int files_add(struct files *f, struct reader *r, const char *object, const char *prefix,
	const char *directory, bool below_root, const char *const *only)
{
	uint32_t hash = hash_path(directory);
	struct dirent **entry = NULL;
	struct counter_dir *d;
	int fd, count, ret;

	if (is_there(f, directory, hash))
		return 0;
	fd = open_dir(directory, below_root);
	if (fd < 0)
		return fd;
	count = scandirat(fd, ".", &entry, no_dots, by_bytes);
	ret = count < 0 ? -errno : 0;
	close(fd);
	if (!ret)
		ret = files_reserve(f, (uint32_t)count);
	if (!ret) {
		d = &f->dir[f->dir_count++];
		*d = (struct counter_dir){ .path = strdup(directory),
			.object = strdup(object),
			.prefix = strdup(prefix),
			.below_root = below_root,
			.hash = hash,
			.first = f->count };
		ret = dir_learn(f, d, entry, count, only);
		if (ret)
			d->count = 0;
	}
	for (int i = 0; i < count; i++)
		free(entry[i]);
	free(entry);
	if (ret == -ENOMEM)
		r->ret = err_set(r->e, ENOMEM, "no memory for the files of %s", directory);
	return ret;
}

/* "2036@1746204071.662953620": whole, or refused. */
static bool parse_file(enum file_form form, const char *text, size_t length, bool allow_sign,
	uint64_t *value, uint64_t *time_ns)
{
	size_t at;

	while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
		length--;
	at = parse_number(text, length, allow_sign, value);
	if (!at)
		return false;
	if (form == FILE_NUMBER && length > 2 && length < 19 && !strncmp(text, "0x", 2)) {
		char *end;

		*value = strtoull(text, &end, 16);
		return end == text + length;
	}
	if (form == FILE_NUMBER)
		return at == length;
	if (at == length || text[at] != '@')
		return false;
	*time_ns = parse_seconds(text + at + 1, length - at - 1);
	return true;
}

static ssize_t read_once(int fd, char text[VALUE_BYTES])
{
	ssize_t got;

	do
		got = pread(fd, text, VALUE_BYTES, 0);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* One file, by its descriptor or by its name in the directory that is open. */
static ssize_t file_bytes(struct counter_file *file, const struct counter_dir *d, int dir_fd,
	struct reader *r, char text[VALUE_BYTES], struct timespec *changed)
{
	int fd = file->fd, flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	ssize_t got;

	if (fd < 0) {
		fd = openat(dir_fd, d->names + file->name, flags);
		if (fd < 0)
			return -errno;
	}
	got = read_once(fd, text);
	/* A recording's file has the time of its reading. */
	if (!sys_is_live() && !fstat(fd, &st))
		*changed = st.st_mtim;
	if (got >= 0 && file->fd < 0 && r->descriptors > 0) {
		file->fd = fd;
		r->descriptors--;
	} else if (file->fd < 0) {
		close(fd);
	} else if (got < 0) {
		close(fd); /* the device has gone: another may come by the same name */
		file->fd = -1;
		r->descriptors++;
	}
	return got;
}

static void say(struct reader *r, const struct counter_dir *d, const struct counter_file *file,
	ssize_t got, const char *text)
{
	char where[PATH_MAX + 256];

	snprintf(where, sizeof(where), "%s/%s", d->path, d->names + file->name);
	if (got == VALUE_BYTES)
		reader_problem(r, where, "longer than a number");
	else if (got >= 0)
		reader_problem(r, where, "not a number: \"%.*s\"",
			(int)strcspn(text, "\n") > 40 ? 40 : (int)strcspn(text, "\n"), text);
	else
		reader_problem(r, where, "cannot read it: %s", strerror((int)-got));
}

static void file_read(struct files *f, struct counter_file *file, const struct counter_dir *d,
	int dir_fd, struct reader *r)
{
	struct timespec changed = { 0 };
	char text[VALUE_BYTES + 1], path[PATH_MAX];
	uint64_t value, time_ns = 0;
	ssize_t got;
	bool fine;

	got = file_bytes(file, d, dir_fd, r, text, &changed);
	if (got >= 0)
		text[got] = '\0';
	fine = got > 0 && got < VALUE_BYTES &&
	       parse_file(f->form, text, (size_t)got, true, &value, &time_ns);
	if (!fine) {
		/* Drivers list counters that they do not have: reading them is refused. */
		if (f->form == FILE_TELEMETRY || (got >= 0 && file->index != CATALOG_NONE))
			say(r, d, file, got, text);
		return;
	}
	if (r->record) {
		snprintf(path, sizeof(path), "%s/%s", d->path, d->names + file->name);
		reader_record(r, path, text, (size_t)got);
	}
	if (file->index == CATALOG_NONE) {
		char name[COUNTER_TEXT];

		snprintf(name, sizeof(name), "%s%s", d->prefix, d->names + file->name);
		file->index = reader_index(r, d->object, name);
	}
	if (!time_ns)
		time_ns = changed.tv_sec ? clock_timespec_ns(changed) : clock_wall_ns();
	if (file->index != CATALOG_NONE)
		reader_put_at(r, file->index, value, time_ns);
}

void files_read(struct files *f, struct reader *r)
{
	for (uint32_t i = 0; i < f->dir_count && !r->ret; i++) {
		struct counter_dir *d = &f->dir[i];
		int dir_fd = -1;

		for (uint32_t k = 0; k < d->count && !r->ret; k++) {
			struct counter_file *file = &f->file[d->first + k];

			if (file->fd < 0 && dir_fd == -1)
				dir_fd = open_dir(d->path, d->below_root);
			if (file->fd < 0 && dir_fd < 0)
				break; /* gone: its counters are absent */
			file_read(f, file, d, dir_fd, r);
		}
		if (dir_fd >= 0)
			close(dir_fd);
	}
}

size_t whole_file_read(struct whole_file *w, struct reader *r, const char *path)
{
	size_t used = 0;
	ssize_t got;

	if (!w->fd) {
		int fd = sys_open("%s", path);

		if (fd < 0) {
			if (fd != -ENOENT)
				reader_problem(r, path, "cannot read it: %s", strerror(-fd));
			return 0;
		}
		w->fd = fd;
		r->descriptors--;
	}
	for (;;) {
		if (used + 1 >= w->room) {
			char *grown = realloc(w->text, w->room ? w->room * 2 : 16384);

			if (!grown)
				break;
			w->text = grown;
			w->room = w->room ? w->room * 2 : 16384;
		}
		got = pread(w->fd, w->text + used, w->room - used - 1, (off_t)used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	if (w->text)
		w->text[used] = '\0';
	w->time_ns = clock_wall_ns();
	if (!sys_is_live()) {
		struct stat st;

		if (!fstat(w->fd, &st))
			w->time_ns = clock_timespec_ns(st.st_mtim);
	}
	if (r->record && used)
		reader_record(r, path, w->text, used);
	if (r->descriptors < 0) {
		close(w->fd);
		w->fd = 0;
		r->descriptors++;
	}
	return used;
}

void whole_file_free(struct whole_file *w)
{
	if (w->fd)
		close(w->fd);
	free(w->text);
	*w = (struct whole_file){ 0 };
}
