// SPDX-License-Identifier: BSD-3-Clause
/* Directories of small files with one number each. A file of sysfs is made anew for every read at its
 * beginning: it is opened once, and each further reading is one pread(). */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "counters/emit.h"
#include "counters/source.h"
#include "sys/path.h"

#define VALUE_BYTES 62

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
	_Atomic bool done; /* its files were read this time */
	char *names;	   /* NUL between them */
};

struct files {
	enum file_form form;
	struct raw_file {    /* what was read of each file: by threads, then looked at by one */
		int16_t got; /* bytes, or -errno; -ENODEV: the directory has gone */
		char text[VALUE_BYTES];
	} * raw;
	_Atomic uint32_t next_dir;
	_Atomic int descriptors;
	struct counter_dir *dir;
	uint32_t dir_count, dir_room;
	uint32_t *slot; /* hash of the paths: index + 1, 0 is free; twice as many as dir_room */
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
	free(f->slot);
	free(f->file);
	free(f->raw);
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

static void slot_put(struct files *f, uint32_t index)
{
	uint32_t mask = f->dir_room * 2 - 1, at = f->dir[index].hash & mask;

	while (f->slot[at])
		at = (at + 1) & mask;
	f->slot[at] = index + 1;
}

static int files_reserve(struct files *f, uint32_t more)
{
	uint32_t room = f->count + more > f->room * 2 ? f->count + more : f->room * 2;
	struct counter_file *file;
	struct counter_dir *dir;
	struct raw_file *raw;

	if (f->count + more > f->room) {
		file = reallocarray(f->file, room, sizeof(*file));
		if (file)
			f->file = file;
		raw = reallocarray(f->raw, room, sizeof(*raw));
		if (raw)
			f->raw = raw;
		if (!file || !raw)
			return -ENOMEM;
		f->room = room;
	}
	if (f->dir_count == f->dir_room) {
		uint32_t dir_room = f->dir_room ? f->dir_room * 2 : 16;
		uint32_t *slot = calloc(dir_room, 2 * sizeof(*slot));

		dir = reallocarray(f->dir, dir_room, sizeof(*dir));
		if (dir)
			f->dir = dir;
		if (!dir || !slot) {
			free(slot);
			return -ENOMEM;
		}
		free(f->slot);
		f->slot = slot;
		f->dir_room = dir_room;
		for (uint32_t i = 0; i < f->dir_count; i++)
			slot_put(f, i);
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
	uint32_t mask = f->dir_room * 2 - 1;

	for (uint32_t at = hash & mask; f->slot && f->slot[at]; at = (at + 1) & mask)
		if (!strcmp(f->dir[f->slot[at] - 1].path, directory))
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
		else
			slot_put(f, f->dir_count - 1);
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

static ssize_t read_once(int fd, char *text, size_t size)
{
	ssize_t got;

	do
		got = pread(fd, text, size, 0);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* One file, by its descriptor or by its name in the directory that is open. */
static ssize_t file_bytes(struct files *f, struct counter_file *file, const struct counter_dir *d,
	int dir_fd, char *text, size_t size)
{
	int fd = file->fd, flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	ssize_t got;

	if (fd < 0) {
		fd = openat(dir_fd, d->names + file->name, flags);
		if (fd < 0)
			return -errno;
	}
	got = read_once(fd, text, size);
	if (got >= 0 && file->fd < 0 && atomic_fetch_sub(&f->descriptors, 1) > 0) {
		file->fd = fd;
	} else if (file->fd < 0) {
		if (got >= 0)
			atomic_fetch_add(&f->descriptors, 1); /* there was none to take */
		close(fd);
	} else if (got < 0) {
		close(fd); /* the device has gone: another may come by the same name */
		file->fd = -1;
		atomic_fetch_add(&f->descriptors, 1);
	}
	return got;
}

/* The bytes of every file of a directory. */
static void dir_bytes(struct files *f, struct counter_dir *d)
{
	int dir_fd = -1;

	for (uint32_t i = d->first; i < d->first + d->count; i++) {
		struct counter_file *file = &f->file[i];

		if (file->fd < 0 && dir_fd == -1)
			dir_fd = open_dir(d->path, d->below_root);
		/* Gone: its counters are absent. */
		f->raw[i].got = -ENODEV;
		if (file->fd >= 0 || dir_fd >= 0)
			f->raw[i].got = (int16_t)file_bytes(
				f, file, d, dir_fd, f->raw[i].text, sizeof(f->raw[i].text));
	}
	if (dir_fd >= 0)
		close(dir_fd);
	atomic_store_explicit(&d->done, true, memory_order_release);
}

/* The next directory that nobody has taken; false when there is none. */
static bool next_bytes(struct files *f)
{
	uint32_t next = atomic_fetch_add(&f->next_dir, 1);

	if (next >= f->dir_count)
		return false;
	dir_bytes(f, &f->dir[next]);
	return true;
}

static void *bytes_thread(void *argument)
{
	while (next_bytes(argument))
		;
	return NULL;
}

#define THREADS_MAX   8
#define THREADS_FILES 4096 /* below this they are not worth their start */

/* The kernel grows the table of descriptors by doubling, and where threads share it waits for all CPUs
 * each time: once is enough, and before there are threads. */
static void grow_descriptors(const struct files *f)
{
	int spare = atomic_load(&f->descriptors);
	int most = spare > 0 && (uint32_t)spare > f->count ? (int)f->count : spare;
	int fd = most > 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, most) : -1;

	if (fd >= 0)
		close(fd);
}

static void say(struct reader *r, const struct counter_dir *d, const struct counter_file *file,
	ssize_t got, const char *text)
{
	int shown = got > 0 ? (int)strcspn(text, "\n") : 0;
	char where[PATH_MAX + 256];

	snprintf(where, sizeof(where), "%s/%s", d->path, d->names + file->name);
	if (got == VALUE_BYTES)
		reader_problem(r, where, "longer than a number");
	else if (got >= 0)
		reader_problem(r, where, "not a number: \"%.*s\"", shown > 40 ? 40 : shown, text);
	else
		reader_problem(r, where, "cannot read it: %s", strerror((int)-got));
}

/* A recording's file has the time of its reading. */
static uint64_t time_of(const struct counter_file *file, const struct counter_dir *d)
{
	char path[PATH_MAX];
	struct stat st;
	int fd = file->fd;
	bool known;

	if (sys_is_live())
		return clock_wall_ns();
	snprintf(path, sizeof(path), "%s/%s", d->path, d->names + file->name);
	if (fd < 0)
		fd = sys_open("%s", path);
	known = fd >= 0 && !fstat(fd, &st);
	if (fd >= 0 && fd != file->fd)
		close(fd);
	return known ? clock_timespec_ns(st.st_mtim) : clock_wall_ns();
}

static uint32_t file_index(
	const struct counter_file *file, const struct counter_dir *d, struct reader *r)
{
	const char *name = d->names + file->name;
	char whole[COUNTER_TEXT];

	if (!d->prefix[0])
		return reader_index(r, d->object, name);
	snprintf(whole, sizeof(whole), "%s%s", d->prefix, name);
	return reader_index(r, d->object, whole);
}

static void file_take(struct files *f, uint32_t i, const struct counter_dir *d, struct reader *r)
{
	struct counter_file *file = &f->file[i];
	char text[VALUE_BYTES + 1], path[PATH_MAX];
	ssize_t got = f->raw[i].got;
	uint64_t value, time_ns = 0;

	if (got == -ENODEV)
		return;
	memcpy(text, f->raw[i].text, got > 0 ? (size_t)got : 0);
	text[got > 0 ? got : 0] = '\0';
	if (got <= 0 || got == VALUE_BYTES ||
		!parse_file(f->form, text, (size_t)got, true, &value, &time_ns)) {
		/* Drivers list counters that they do not have: reading them is refused. */
		if (f->form == FILE_TELEMETRY || (got >= 0 && file->index != CATALOG_NONE))
			say(r, d, file, got, text);
		return;
	}
	if (r->record) {
		snprintf(path, sizeof(path), "%s/%s", d->path, d->names + file->name);
		reader_record(r, path, text, (size_t)got);
	}
	if (file->index == CATALOG_NONE)
		file->index = file_index(file, d, r);
	/* Telemetry tells its own time. */
	if (!time_ns)
		time_ns = time_of(file, d);
	if (file->index != CATALOG_NONE)
		reader_put_at(r, file->index, value, time_ns);
}

/* Most of the time goes to the kernel's opening and reading, which several CPUs do at once. How many
 * threads help; the caller does its share. */
static int start_threads(struct files *f, pthread_t thread[THREADS_MAX])
{
	struct cpus cpus;
	int wanted = 0, started = 0;

	atomic_store(&f->next_dir, 0);
	for (uint32_t i = 0; i < f->dir_count; i++)
		atomic_store_explicit(&f->dir[i].done, false, memory_order_relaxed);
	if (f->count >= THREADS_FILES && f->dir_count > 1 && !cpus_allowed(&cpus, NULL))
		wanted = cpus.count < THREADS_MAX ? cpus.count : THREADS_MAX;
	if (wanted > 1)
		grow_descriptors(f);
	while (started + 1 < wanted && !pthread_create(&thread[started], NULL, bytes_thread, f))
		started++;
	return started;
}

static void dir_take(struct files *f, const struct counter_dir *d, struct reader *r)
{
	for (uint32_t i = 0; i < d->count && !r->ret; i++)
		file_take(f, d->first + i, d, r);
}

/* Directories are looked at in their order, as soon as somebody has read them. */
void files_read(struct files *f, struct reader *r)
{
	pthread_t thread[THREADS_MAX];
	int threads;

	atomic_store(&f->descriptors, r->descriptors);
	threads = start_threads(f, thread);
	for (uint32_t taken = 0; taken < f->dir_count;) {
		if (atomic_load_explicit(&f->dir[taken].done, memory_order_acquire)) {
			dir_take(f, &f->dir[taken++], r);
		} else if (!next_bytes(f)) {
			/* The others are at the last ones. */
			while (threads)
				pthread_join(thread[--threads], NULL);
		}
	}
	while (threads)
		pthread_join(thread[--threads], NULL);
	r->descriptors = atomic_load(&f->descriptors);
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
