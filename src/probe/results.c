// SPDX-License-Identifier: BSD-3-Clause
#include "probe/results.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/sock.h"

static int make_dir(const char *dir, struct err *e)
{
	char part[512];

	if (!dir[0])
		return err_set(e, EINVAL, "the folder of results has no name");
	snprintf(part, sizeof(part), "%s", dir);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0755);
		*slash = '/';
	}
	if (mkdir(part, 0755) && errno != EEXIST)
		return err_set(e, errno, "cannot make the folder of results %s: %m", dir);
	return 0;
}

static int open_file(struct results *r, struct err *e)
{
	r->fd = open(r->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (r->fd < 0)
		return err_set(e, errno, "cannot write results to %s: %m", r->path);
	return 0;
}

static int new_file(struct results *r, struct err *e)
{
	uint64_t wall_ns = clock_wall_ns();
	time_t second = (time_t)(wall_ns / NS_PER_S);
	char when[32];
	struct tm tm;

	gmtime_r(&second, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(r->path, sizeof(r->path), "%s/%s_%" PRIu64 "_%s.%06" PRIu64 "Z.csv", r->dir,
		r->prefix, r->counter, when, (uint64_t)(wall_ns % NS_PER_S / NS_PER_US));
	r->opened_ns = clock_ns();
	return open_file(r, e);
}

int results_open(
	struct results *r, const char *dir, const char *prefix, uint64_t rotation_ns, struct err *e)
{
	int ret;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	r->rotation_ns = rotation_ns;
	if (strlen(dir) >= sizeof(r->dir) || strlen(prefix) >= sizeof(r->prefix) ||
		strchr(prefix, '/'))
		return err_set(e, EINVAL, "%s/%s is no place for results", dir, prefix);
	strcpy(r->dir, dir);
	strcpy(r->prefix, prefix);
	ret = make_dir(dir, e);
	return ret ? ret : new_file(r, e);
}

static int make_room(struct results *r, size_t bytes)
{
	size_t room = r->room ? r->room : 65536;
	char *held;

	while (room < r->used + bytes)
		room *= 2;
	if (room == r->room)
		return 0;
	if (room > RESULTS_HELD_MAX)
		return -ENOBUFS;
	held = realloc(r->held, room);
	if (!held)
		return -ENOMEM;
	r->held = held;
	r->room = room;
	return 0;
}

/* By hand: printf() stood out in the profile of the thread that keeps the results. */
static char *put_number(char *to, uint64_t number, int digits)
{
	char text[20];
	int n = 0;

	do
		text[n++] = (char)('0' + number % 10);
	while ((number /= 10) || n < digits);
	while (n)
		*to++ = text[--n];
	return to;
}

static char *put_text(char *to, const char *text)
{
	size_t n = strlen(text);

	if (n > SOCK_ADDR_TEXT)
		n = SOCK_ADDR_TEXT;
	memcpy(to, text, n);
	return to + n;
}

void results_row(struct results *r, uint64_t wall_ns, const char *local, const char *peer,
	uint64_t rtt_ns, const char *words)
{
	static _Thread_local struct {
		time_t second;
		char text[32];
	} last;
	time_t second = (time_t)(wall_ns / NS_PER_S);
	char row[512], *to;
	struct tm tm;

	if (second != last.second) {
		gmtime_r(&second, &tm);
		strftime(last.text, sizeof(last.text), "%Y-%m-%dT%H:%M:%S", &tm);
		last.second = second;
	}
	to = put_text(row, last.text);
	*to++ = '.';
	to = put_text(put_number(to, wall_ns % NS_PER_S, 9), "+00:00,");
	to = put_text(to, local);
	*to++ = ',';
	to = put_text(to, peer);
	*to++ = ',';
	if (!words)
		to = put_number(to, rtt_ns, 1);
	for (const char *c = words; c && *c && to < row + sizeof(row) - 1; c++)
		if (*c != ',')
			*to++ = *c == '"' || (unsigned char)*c < ' ' ? ' ' : *c;
	*to++ = '\n';
	if (make_room(r, (size_t)(to - row))) {
		r->dropped++;
		return;
	}
	memcpy(r->held + r->used, row, (size_t)(to - row));
	r->used += (size_t)(to - row);
}

static void close_file(struct results *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

/* The name must still lead to our file: a reader may have taken it away. */
static bool is_there(const struct results *r)
{
	struct stat ours, named;

	return !fstat(r->fd, &ours) && !stat(r->path, &named) && ours.st_ino == named.st_ino &&
	       ours.st_dev == named.st_dev;
}

int results_flush(struct results *r, struct err *e)
{
	size_t done = 0;
	int ret = 0;

	if (r->rotation_ns && clock_ns() - r->opened_ns >= r->rotation_ns) {
		close_file(r);
		r->counter++;
		ret = new_file(r, e);
	} else if (r->used && (r->fd < 0 || !is_there(r))) {
		close_file(r);
		ret = open_file(r, e);
	}
	while (!ret && done < r->used) {
		ssize_t n = write(r->fd, r->held + done, r->used - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			ret = err_set(e, errno, "cannot write results to %s: %m", r->path);
	}
	if (done)
		memmove(r->held, r->held + done, r->used - done);
	r->used -= done;
	return ret;
}

void results_close(struct results *r)
{
	close_file(r);
	free(r->held);
	r->held = NULL;
	r->used = r->room = 0;
}
