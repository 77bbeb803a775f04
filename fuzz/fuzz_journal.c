/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of what was changed on a NIC: whoever can write the file makes root change a NIC, so reading it must never
 * do more than say what it holds. The input is the file; nothing is undone. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "sys/nic_journal.h"

#define NIC "fuzz0" /* no interface has this name */

static char folder[] = "/tmp/fuzz_journal.XXXXXX";
static char path[128];

static void remove_folder(void)
{
	unlink(path);
	rmdir(folder);
}

static void make_folder(void)
{
	struct stat ns;

	MUST(mkdtemp(folder));
	MUST(!setenv("WEIR_STATE_DIR", folder, 1));
	MUST(!stat("/proc/self/ns/net", &ns));
	snprintf(path, sizeof(path), "%s/nic-%llu-%s", folder, (unsigned long long)ns.st_ino, NIC);
	atexit(remove_folder);
}

static void write_file(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	MUST(fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check_text(const char *text)
{
	for (; *text; text++)
		MUST((unsigned char)*text >= ' ' && *text != 127);
}

static void check(const struct nic_journal *j, size_t size)
{
	MUST(j->kept <= j->count);
	MUST(j->bytes >= 0 && (size_t)j->bytes <= size);
	MUST(j->kept_bytes >= 0 && j->kept_bytes <= j->bytes);
	MUST(memchr(j->owner.command, 0, sizeof(j->owner.command)));
	check_text(j->owner.command);
	for (size_t i = 0; i < j->count; i++) {
		MUST(j->change[i].kind < NIC_KINDS && nic_kind_name(j->change[i].kind));
		check_text(j->change[i].key);
		check_text(j->change[i].before);
		check_text(j->change[i].after);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nic_journal j;
	struct nic_owner owner;
	struct err e = { 0 };
	bool kept;
	size_t count;

	if (!path[0])
		make_folder();
	write_file(data, size);
	nic_journal_peek(NIC, &owner, &kept, &e);
	if (nic_journal_open(&j, NIC, true, &e)) {
		MUST(e.what[0]);
		return 0;
	}
	check(&j, size);
	count = j.count;
	/* An interface that is not there has nothing to put back. */
	MUST(!nic_journal_is_current(&j));
	MUST(!nic_journal_undo(&j, 0, NULL, NULL, &e));
	MUST(!nic_journal_drop(&j, count / 2, &e));
	MUST(!nic_journal_reload(&j, &e));
	MUST(j.count == count / 2);
	nic_journal_finish(&j);
	return 0;
}
