// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

typedef int emit_fn(FILE *file, const void *from, struct err *e);

/* What the user sees is the file, not where in our code it failed. */
static int cannot(const char *path, int code, struct err *e)
{
	errno = code;
	return err_set(e, code, "cannot write %s: %m", path);
}

/* Write and close. stdio reports a full disk as late as at the flush, and NFS as late as at close.
 */
static int write_all(
	FILE *file, emit_fn *emit, const void *from, bool sync, const char *path, struct err *e)
{
	int ret, code = 0;

	ret = emit(file, from, e);
	errno = 0;
	if (!ret && (fflush(file) || ferror(file)))
		code = errno ? errno : EIO;
	if (!ret && !code && sync && fsync(fileno(file)))
		code = errno;
	if (fclose(file) && !ret && !code)
		code = errno;
	if (ret)
		return cannot(path, -ret, e);
	return code ? cannot(path, code, e) : 0;
}

/* A name beside the file that nobody uses: the mode is what the user's umask makes of it, which
 * mkstemp() would not ask. */
static int open_beside(const char *path, char name[PATH_MAX])
{
	int fd = -1;

	for (int i = 0; i < 100; i++) {
		if (snprintf(name, PATH_MAX, "%s.%d-%d.tmp", path, (int)getpid(), i) >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	return fd;
}

static int write_in_place(const char *path, emit_fn *emit, const void *from, struct err *e)
{
	FILE *file = fopen(path, "we");

	return file ? write_all(file, emit, from, false, path, e) : cannot(path, errno, e);
}

static bool is_in_place(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode);
}

/* A link stays one: what it points to is replaced. */
static void find_target(const char *path, char target[PATH_MAX])
{
	if (!realpath(path, target))
		snprintf(target, PATH_MAX, "%s", path);
}

/* What is no plain file is not opened: a pipe would wait for its reader. */
static int try_write(const char *path)
{
	char target[PATH_MAX], beside[PATH_MAX];
	struct stat st;
	int fd;

	if (!path[0])
		return ENOENT;
	if (is_in_place(path)) {
		if (!stat(path, &st) && S_ISDIR(st.st_mode))
			return EISDIR;
		return access(path, W_OK) ? errno : 0;
	}
	find_target(path, target);
	fd = open_beside(target, beside);
	if (fd < 0)
		return errno;
	close(fd);
	unlink(beside);
	return 0;
}

int file_try(const char *path, const char *option, struct err *e)
{
	int code = path ? try_write(path) : 0;

	if (!code)
		return 0;
	cannot(path, code, e);
	err_prefix(e, "--%s", option);
	err_hint(e, code == ENOENT || code == ENOTDIR
			    ? "make its folder first, or name another file"
			    : "name another file");
	return -code;
}

int file_replace(const char *path, emit_fn *emit, const void *from, struct err *e)
{
	char target[PATH_MAX], beside[PATH_MAX];
	FILE *file;
	int fd, ret;

	if (is_in_place(path))
		return write_in_place(path, emit, from, e);
	find_target(path, target);
	fd = open_beside(target, beside);
	if (fd < 0)
		return cannot(path, errno, e);
	file = fdopen(fd, "w");
	if (!file) {
		ret = cannot(path, errno, e);
		close(fd);
		goto remove;
	}
	ret = write_all(file, emit, from, true, path, e);
	if (ret)
		goto remove;
	if (!rename(beside, target))
		return 0;
	ret = cannot(path, errno, e);
remove:
	unlink(beside);
	return ret;
}
