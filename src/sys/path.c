/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/path.h"

/* Canonical, so that resolved paths start with it; empty stands for "/". */
static char root[PATH_MAX];

int sys_set_root(const char *dir, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	if (!dir)
		dir = "/";
	if (!realpath(dir, real) || stat(real, &st))
		return err_set(e, errno, "cannot read the machine below %s: %m", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(
			e, ENOTDIR, "cannot read the machine below %s: not a directory", dir);

	strcpy(root, strcmp(real, "/") ? real : "");
	return 0;
}

bool sys_is_live(void)
{
	return !root[0];
}

static int below_root(char full[PATH_MAX], const char *format, va_list args)
{
	size_t used = strlen(root);
	int len;

	memcpy(full, root, used);
	len = vsnprintf(full + used, PATH_MAX - used, format, args);
	return len < 0 || (size_t)len >= PATH_MAX - used ? -ENAMETOOLONG : 0;
}

static int open_below(const char *format, va_list args)
{
	char full[PATH_MAX];
	int fd, ret;

	ret = below_root(full, format, args);
	if (ret)
		return ret;
	/* Not to wait for a writer where a made tree holds a FIFO. */
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	return fd;
}

int sys_open(const char *format, ...)
{
	va_list args;
	int fd;

	va_start(args, format);
	fd = open_below(format, args);
	va_end(args);
	return fd;
}

/* Returns the bytes read, at most size, or -errno. */
static ssize_t read_file(char *buf, size_t size, const char *format, va_list args)
{
	size_t used = 0;
	ssize_t got;
	int fd, ret;

	fd = open_below(format, args);
	if (fd < 0)
		return fd;

	do {
		got = read(fd, buf + used, size - used);
		if (got > 0)
			used += (size_t)got;
	} while ((got > 0 && used < size) || (got < 0 && errno == EINTR));
	ret = got < 0 ? -errno : 0;
	close(fd);
	return ret ? ret : (ssize_t)used;
}

void sys_clean(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		unsigned char byte = (unsigned char)*from;

		if (byte > ' ' && byte != 0x7f)
			*to++ = byte < 0x7f ? *from : '?';
		else if (to > text && to[-1] != ' ')
			*to++ = ' ';
	}
	if (to > text && to[-1] == ' ')
		to--;
	*to = '\0';
}

int sys_read(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	ssize_t used;

	va_start(args, format);
	used = read_file(buf, size, format, args);
	va_end(args);

	if (used == (ssize_t)size)
		used = -EFBIG;
	buf[used > 0 ? used : 0] = '\0';
	if (used < 0)
		return (int)used;
	sys_clean(buf);
	return 0;
}

int sys_read_head(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	ssize_t used;

	va_start(args, format);
	used = read_file(buf, size - 1, format, args);
	va_end(args);

	buf[used > 0 ? used : 0] = '\0';
	return used < 0 ? (int)used : 0;
}

int64_t sys_read_number(int64_t low, int64_t high, int64_t fallback, const char *format, ...)
{
	char text[32], *end;
	long long value;
	va_list args;
	ssize_t used;

	va_start(args, format);
	used = read_file(text, sizeof(text), format, args);
	va_end(args);
	if (used <= 0 || used == (ssize_t)sizeof(text))
		return fallback;
	text[used] = '\0';
	sys_clean(text);

	errno = 0;
	value = strtoll(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	if (errno || end == text || *end || value < low || value > high)
		return fallback;
	return value;
}

bool sys_is_dir(const char *format, ...)
{
	char full[PATH_MAX];
	struct stat st;
	va_list args;
	int ret;

	va_start(args, format);
	ret = below_root(full, format, args);
	va_end(args);
	return !ret && !stat(full, &st) && S_ISDIR(st.st_mode);
}

int sys_resolve(char *buf, size_t size, const char *format, ...)
{
	char full[PATH_MAX], real[PATH_MAX];
	size_t above = strlen(root);
	va_list args;
	int ret;

	buf[0] = '\0';
	va_start(args, format);
	ret = below_root(full, format, args);
	va_end(args);
	if (ret)
		return ret;
	if (!realpath(full, real))
		return -errno;
	if (strncmp(real, root, above) || real[above] != '/')
		return -EXDEV;
	if (strlen(real + above) >= size)
		return -ENAMETOOLONG;
	strcpy(buf, real + above);
	return 0;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int sys_list(struct sys_names *names, const char *format, ...)
{
	char full[PATH_MAX];
	va_list args;
	int ret;

	*names = (struct sys_names){ 0 };
	va_start(args, format);
	ret = below_root(full, format, args);
	va_end(args);
	if (ret)
		return ret;

	ret = scandir(full, &names->entry, is_visible, by_bytes);
	if (ret < 0)
		return -errno;
	names->count = ret;
	return 0;
}

void sys_names_free(struct sys_names *names)
{
	for (int i = 0; i < names->count; i++)
		free(names->entry[i]);
	free(names->entry);
	*names = (struct sys_names){ 0 };
}
