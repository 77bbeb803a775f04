/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/nic_journal.h"
#include "sys/path.h"

#define STATE_DIR     "/run/weir"
#define JOURNAL_BYTES (1 << 20)
#define MAGIC	      "weir-nic\t1\n"

static const char *state_dir(void)
{
	const char *dir = getenv("WEIR_STATE_DIR");

	return dir && dir[0] ? dir : STATE_DIR;
}

/* Two namespaces may each have an eth1. */
static unsigned long long namespace_number(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : (unsigned long long)st.st_ino;
}

static void boot_name(char boot[64])
{
	if (sys_read(boot, 64, "/proc/sys/kernel/random/boot_id"))
		strcpy(boot, "-");
}

static int journal_path(struct nic_journal *j, const char *nic, struct err *e)
{
	int len;

	if (!nic[0] || strlen(nic) >= sizeof(j->nic) || strchr(nic, '/'))
		return err_set(e, EINVAL, "'%s' cannot be the name of a network interface", nic);
	strcpy(j->nic, nic);
	len = snprintf(
		j->path, sizeof(j->path), "%s/nic-%llu-%s", state_dir(), namespace_number(), nic);
	if (len >= (int)sizeof(j->path))
		return err_set(e, ENAMETOOLONG, "the path of WEIR_STATE_DIR is too long");
	return 0;
}

static int no_journal(struct err *e, int code, const char *path)
{
	err_set(e, code, "cannot write the record of changes %s: %m", path);
	return err_hint(e,
		"nothing was changed; name another directory in WEIR_STATE_DIR or make room in this one");
}

/* Field 22 of the process's stat line; the second is a name in parentheses that may hold anything. */
static uint64_t start_of(pid_t pid)
{
	char stat[512], *at;
	uint64_t start = 0;

	if (sys_read_head(stat, sizeof(stat), "/proc/%d/stat", (int)pid))
		return 0;
	at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		sscanf(at, " %" SCNu64, &start);
	return start;
}

static void own_words(char *words, size_t size)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, words, size - 1);

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i + 1 < got; i++)
		if (!words[i])
			words[i] = ' ';
	words[got > 0 ? got : 0] = '\0';
	sys_clean(words);
}

static void forget_changes(struct nic_journal *j, size_t from)
{
	for (size_t i = from; i < j->count; i++)
		nic_change_free(&j->change[i]);
	j->count = from < j->count ? from : j->count;
}

static int remember(struct nic_journal *j, enum nic_kind kind, const char *key, const char *before,
	const char *after, struct err *e)
{
	struct nic_change *grown;
	int ret;

	grown = reallocarray(j->change, j->count + 1, sizeof(*grown));
	if (!grown)
		return err_set(e, ENOMEM, "no memory for the changes of %s", j->nic);
	j->change = grown;
	ret = nic_change_init(&j->change[j->count], kind, key, before, after, e);
	if (!ret)
		j->count++;
	return ret;
}

static void parse_nic(struct nic_journal *j, char **word)
{
	char boot[64];

	j->ifindex = (uint32_t)strtoul(word[2], NULL, 10);
	boot_name(boot);
	j->outlived = strcmp(boot, word[4]);
}

static void parse_owner(struct nic_journal *j, char **word)
{
	j->owner.pid = (pid_t)strtol(word[1], NULL, 10);
	j->owner.start = strtoull(word[2], NULL, 10);
	snprintf(j->owner.command, sizeof(j->owner.command), "%s", word[3]);
	sys_clean(j->owner.command);
}

/* One whole line; what is not known is the work of a later weir and is left alone. */
static int parse_line(struct nic_journal *j, char *line, struct err *e)
{
	char *word[5] = { "", "", "", "", "" };
	enum nic_kind kind;
	int words = 0;

	while (words < 5 && (word[words] = strsep(&line, "\t")))
		words++;
	if (words == 5 && !strcmp(word[0], "nic")) {
		parse_nic(j, word);
	} else if (words == 4 && !strcmp(word[0], "owner")) {
		parse_owner(j, word);
	} else if (words == 1 && !strcmp(word[0], "kept")) {
		j->kept = j->count;
		j->owner = (struct nic_owner){ 0 };
	} else if (!strcmp(word[0], "change")) {
		/* To leave one out would put the others back in part. */
		if (words < 5)
			return err_set(e, EBADMSG, "the record %s has a change of %d words",
				j->path, words);
		if (nic_kind_parse(&kind, word[1], e))
			return err_prefix(e, "cannot read the record %s", j->path);
		return remember(j, kind, word[2], word[3], word[4], e);
	}
	return 0;
}

static int parse(struct nic_journal *j, char *text, struct err *e)
{
	char *line = text, *end;
	int ret = 0;

	forget_changes(j, 0);
	j->kept = 0;
	j->bytes = j->kept_bytes = 0;
	if (!strchr(text, '\n'))
		return 0; /* new, or cut short before the first change */
	if (strncmp(text, MAGIC, strlen(MAGIC)))
		return err_set(e, EBADMSG, "%s is no record of NIC changes", j->path);
	while (!ret && (end = strchr(line, '\n'))) {
		*end = '\0';
		j->bytes = end + 1 - text;
		ret = parse_line(j, line, e);
		if (j->kept == j->count && !strcmp(line, "kept"))
			j->kept_bytes = j->bytes;
		line = end + 1;
	}
	return ret;
}

/* The whole file, allocated; NULL and errno when it cannot be read. */
static char *read_whole(int fd)
{
	char *text = calloc(1, JOURNAL_BYTES + 1);
	size_t used = 0;
	ssize_t got = 1;
	int code;

	while (text && got > 0 && used < JOURNAL_BYTES) {
		got = pread(fd, text + used, JOURNAL_BYTES - used, (off_t)used);
		used += got > 0 ? (size_t)got : 0;
	}
	if (!text || !got)
		return text;
	code = got < 0 ? errno : EFBIG;
	free(text);
	errno = code;
	return NULL;
}

int nic_journal_reload(struct nic_journal *j, struct err *e)
{
	char *text;
	int ret;

	text = read_whole(j->fd);
	if (!text)
		return err_set(e, errno, "cannot read the record %s: %m", j->path);
	ret = parse(j, text, e);
	free(text);
	return ret;
}

static bool is_alive(const struct nic_owner *o)
{
	return o->pid > 0 && o->start && start_of(o->pid) == o->start;
}

/* The lock is taken: say by whom. */
static int blame_owner(struct nic_journal *j, struct err *e)
{
	if (nic_journal_reload(j, NULL) || !j->owner.pid) {
		err_set(e, EBUSY, "another weir is just changing %s", j->nic);
		return err_hint(e, "try again");
	}
	if (!is_alive(&j->owner)) {
		err_set(e, EBUSY, "%s is just being put back after pid %d (%s) was killed", j->nic,
			(int)j->owner.pid, j->owner.command);
		return err_hint(e, "try again in a moment");
	}
	err_set(e, EBUSY, "%s is in use by pid %d: %s", j->nic, (int)j->owner.pid,
		j->owner.command);
	return err_hint(e, "wait for it, or end it with: kill %d  (it puts %s back)",
		(int)j->owner.pid, j->nic);
}

/* Whoever can write the file can make root change a NIC. */
static int check_trust(const struct nic_journal *j, const struct stat *st, struct err *e)
{
	if (S_ISREG(st->st_mode) && (st->st_uid == geteuid() || !st->st_uid) &&
		!(st->st_mode & (S_IWGRP | S_IWOTH)))
		return 0;
	err_set(e, EPERM, "the record %s belongs to somebody else or can be written by others",
		j->path);
	return err_hint(e, "look at it, then remove it");
}

/* 1: the file was removed while we waited for nothing, try again. */
static int open_locked(struct nic_journal *j, bool create, struct err *e)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, ret;
	struct stat ours, there;

	j->fd = open(j->path, flags | (create ? O_CREAT : 0), 0644);
	if (j->fd < 0 && errno == ENOENT && !create)
		return err_set(e, ENOENT, "weir has changed nothing on %s", j->nic);
	if (j->fd < 0)
		return no_journal(e, errno, j->path);
	if (fstat(j->fd, &ours)) {
		ret = no_journal(e, errno, j->path);
		goto close_fd;
	}
	ret = check_trust(j, &ours, e);
	if (ret)
		goto close_fd;
	if (flock(j->fd, LOCK_EX | LOCK_NB)) {
		ret = errno == EWOULDBLOCK ? blame_owner(j, e) : no_journal(e, errno, j->path);
		goto close_fd;
	}
	if (!stat(j->path, &there) && there.st_ino == ours.st_ino && there.st_dev == ours.st_dev)
		return 0;
	ret = 1;
close_fd:
	close(j->fd);
	j->fd = -1;
	return ret;
}

int nic_journal_open(struct nic_journal *j, const char *nic, bool create, struct err *e)
{
	int ret;

	*j = (struct nic_journal){ .fd = -1 };
	ret = journal_path(j, nic, e);
	if (ret)
		return ret;
	if (create && mkdir(state_dir(), 0755) && errno != EEXIST)
		return no_journal(e, errno, state_dir());
	do
		ret = open_locked(j, create, e);
	while (ret == 1);
	if (!ret)
		ret = nic_journal_reload(j, e);
	if (ret)
		nic_journal_close(j);
	return ret;
}

static int write_lines(struct nic_journal *j, const char *text, size_t bytes, struct err *e)
{
	ssize_t done = pwrite(j->fd, text, bytes, j->bytes);
	int code = done < 0 ? errno : done < (ssize_t)bytes ? ENOSPC : 0;

	if (!code && fdatasync(j->fd) && errno != EINVAL && errno != EROFS)
		code = errno;
	if (!code) {
		j->bytes += (off_t)bytes;
		return 0;
	}
	/* A part of a line is no line, but a whole one of a change that is not made would confuse. */
	if (ftruncate(j->fd, j->bytes))
		code = code ? code : errno;
	return no_journal(e, code, j->path);
}

int nic_journal_claim(struct nic_journal *j, struct err *e)
{
	char text[1024], boot[64], command[sizeof(j->owner.command)];
	struct nic_owner owner = { .pid = getpid() };
	int len = 0;

	owner.start = start_of(owner.pid);
	own_words(command, sizeof(command));
	strcpy(owner.command, command);
	if (!j->bytes) {
		j->ifindex = if_nametoindex(j->nic);
		boot_name(boot);
		len = snprintf(text, sizeof(text), MAGIC "nic\t%s\t%u\t%llu\t%s\n", j->nic,
			j->ifindex, namespace_number(), boot);
	}
	len += snprintf(text + len, sizeof(text) - (size_t)len, "owner\t%d\t%" PRIu64 "\t%s\n",
		(int)owner.pid, owner.start, owner.command);
	j->owner = owner;
	if (ftruncate(j->fd, j->bytes)) /* a line that was cut short */
		return no_journal(e, errno, j->path);
	return write_lines(j, text, (size_t)len, e);
}

int nic_journal_add(struct nic_journal *j, const struct nic_change *c, size_t count, struct err *e)
{
	size_t had = j->count, bytes;
	char *text = NULL;
	int ret = 0;
	FILE *f;

	f = open_memstream(&text, &bytes);
	if (!f)
		return err_set(e, ENOMEM, "no memory for the changes of %s", j->nic);
	for (size_t i = 0; !ret && i < count; i++) {
		fprintf(f, "change\t%s\t%s\t%s\t%s\n", nic_kind_name(c[i].kind), c[i].key,
			c[i].before, c[i].after);
		ret = remember(j, c[i].kind, c[i].key, c[i].before, c[i].after, e);
	}
	if (fclose(f) && !ret)
		ret = err_set(e, ENOMEM, "no memory for the changes of %s", j->nic);
	if (!ret && (size_t)j->bytes + bytes > JOURNAL_BYTES)
		ret = err_set(e, EFBIG, "too many changes of %s for one record", j->nic);
	if (!ret)
		ret = write_lines(j, text, bytes, e);
	if (ret)
		forget_changes(j, had);
	free(text);
	return ret;
}

/* The changes of a journal are its last lines: those that follow the owner's. */
int nic_journal_drop(struct nic_journal *j, size_t from, struct err *e)
{
	char *text, *line, *end;
	size_t changes = 0;
	int ret = 0;

	text = read_whole(j->fd);
	if (!text)
		return err_set(e, errno, "cannot read the record %s: %m", j->path);
	for (line = text; (end = strchr(line, '\n')); line = end + 1)
		if (!strncmp(line, "change\t", 7) && changes++ == from)
			break;
	if (ftruncate(j->fd, line - text))
		ret = err_set(e, errno, "cannot write the record %s: %m", j->path);
	else
		j->bytes = line - text;
	free(text);
	if (!ret)
		forget_changes(j, from);
	return ret;
}

int nic_journal_keep(struct nic_journal *j, struct err *e)
{
	int ret = write_lines(j, "kept\n", 5, e);

	if (ret)
		return ret;
	j->kept = j->count;
	j->kept_bytes = j->bytes;
	return 0;
}

bool nic_journal_is_current(const struct nic_journal *j)
{
	unsigned int now = if_nametoindex(j->nic);

	return !j->outlived && now && (!j->ifindex || now == j->ifindex);
}

/* "unknown" leaves it to the driver, which may well show what it decides. */
static bool is_back(const struct nic_change *c, const char *now)
{
	return !strcmp(now, c->before) ||
	       (c->kind == NIC_KIND_SPLIT && !strcmp(c->before, "unknown") && strcmp(now, "on"));
}

static int undo_one(const char *nic, const struct nic_change *c, char **now, struct err *e)
{
	char *then = NULL;
	int ret;

	ret = nic_change_read(nic, c->kind, c->key, now, e);
	if (ret || is_back(c, *now))
		return ret;
	ret = nic_change_write(nic, c->kind, c->key, c->before, e);
	if (!ret)
		ret = nic_change_read(nic, c->kind, c->key, &then, e);
	if (!ret && !is_back(c, then)) {
		err_set(e, EIO, "%s %s of %s was to be %s again, but is %s", nic_kind_name(c->kind),
			c->key, nic, c->before, then);
		ret = -EIO;
	}
	free(then);
	return ret;
}

int nic_journal_undo(
	struct nic_journal *j, size_t from, nic_told_fn *told, void *context, struct err *e)
{
	struct err why = { 0 };
	int first = 0, ret;
	char *now;

	if (!nic_journal_is_current(j))
		return 0;
	for (size_t i = j->count; i > from; i--) {
		now = NULL;
		ret = undo_one(j->nic, &j->change[i - 1], &now, &why);
		if (told)
			told(context, &j->change[i - 1], now, ret);
		free(now);
		if (ret && !first) {
			first = ret;
			if (e)
				*e = why;
		}
	}
	if (first) {
		err_prefix(e, "cannot put %s back", j->nic);
		err_hint(e, "try again with: weir nic restore %s  (what is left is in %s)", j->nic,
			j->path);
	}
	return first;
}

void nic_journal_finish(struct nic_journal *j)
{
	if (j->fd >= 0 && j->kept) {
		if (ftruncate(j->fd, j->kept_bytes))
			j->bytes = j->kept_bytes; /* the rest is undone: harmless */
	} else if (j->fd >= 0) {
		unlink(j->path);
	}
	j->bytes = -1;
	nic_journal_close(j);
}

void nic_journal_close(struct nic_journal *j)
{
	if (j->fd >= 0) {
		if (!j->bytes)
			unlink(j->path);
		close(j->fd);
	}
	j->fd = -1;
	forget_changes(j, 0);
	free(j->change);
	j->change = NULL;
}

int nic_journal_list(char (**nics)[IF_NAMESIZE], size_t *count, size_t *elsewhere, struct err *e)
{
	unsigned long long own = namespace_number(), other;
	struct sys_names names;
	int used = 0, ret;

	*nics = NULL;
	*count = *elsewhere = 0;
	ret = sys_list(&names, "%s", state_dir());
	if (ret == -ENOENT)
		return 0;
	if (ret)
		return err_set(e, -ret, "cannot read the records in %s: %m", state_dir());
	*nics = calloc((size_t)names.count + 1, sizeof(**nics));
	if (!*nics)
		ret = err_set(e, ENOMEM, "no memory for a list of interfaces");
	for (int i = 0; *nics && i < names.count; i++) {
		const char *name = names.entry[i]->d_name;

		if (sscanf(name, "nic-%llu-%n", &other, &used) < 1 ||
			strlen(name + used) >= IF_NAMESIZE)
			continue;
		if (other == own)
			strcpy((*nics)[(*count)++], name + used);
		else
			++*elsewhere;
	}
	sys_names_free(&names);
	return ret;
}

int nic_journal_peek(const char *nic, struct nic_owner *owner, bool *kept, struct err *e)
{
	struct nic_journal j = { .fd = -1 };
	int ret;

	*owner = (struct nic_owner){ 0 };
	*kept = false;
	ret = journal_path(&j, nic, e);
	if (ret)
		return ret;
	j.fd = open(j.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (j.fd < 0)
		return err_set(e, errno, "weir has changed nothing on %s", nic);
	ret = nic_journal_reload(&j, e);
	/* Of one that was killed before it had written its first change. */
	if (!ret && !j.count && !is_alive(&j.owner))
		ret = err_set(e, ENOENT, "weir has changed nothing on %s", nic);
	*owner = j.owner;
	*kept = j.kept;
	j.bytes = -1;
	nic_journal_close(&j);
	return ret;
}
