/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the kernel that hold counters, in a tree recorded elsewhere: the input is cut at '\1', each part becomes one
 * file. Read twice: the second time from files that are open. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters/collector.h"
#include "counters/difference.h"
#include "fuzz.h"
#include "sys/path.h"

static const char *const files[] = {
	"sys/class/cxi/cxi0/device/telemetry/hni_rx_paused_0",
	"sys/class/cxi/cxi0/device/telemetry/x",
	"proc/net/snmp",
	"proc/net/netstat",
	"proc/net/snmp6",
	"proc/net/softnet_stat",
	"proc/interrupts",
	"sys/class/net/eth0/statistics/rx_bytes",
	"sys/class/net/eth0/speed",
	"sys/class/infiniband/a/ports/1/counters/port_xmit_data",
	"sys/bus/pci/devices/0000:00:01.0/class",
	"sys/bus/pci/devices/0000:00:01.0/current_link_speed",
	"sys/bus/pci/devices/0000:00:01.0/aer_dev_correctable",
	"weir/ethtool.txt",
	"weir/tcp.txt",
};

#define FILES (sizeof(files) / sizeof(files[0]))

static char top[] = "/tmp/fuzz_telemetry.XXXXXX";
static int root = -1;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void remove_tree(void)
{
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_tree(void)
{
	char part[256];

	MUST(mkdtemp(top));
	atexit(remove_tree);
	root = open(top, O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < FILES; i++)
		for (const char *slash = strchr(files[i], '/'); slash;
			slash = strchr(slash + 1, '/')) {
			snprintf(part, sizeof(part), "%.*s", (int)(slash - files[i]), files[i]);
			mkdirat(root, part, 0755);
		}
	MUST(root >= 0 && !sys_set_root(top, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot before = { 0 }, after = { 0 };
	struct collector *c;
	struct difference d;
	size_t at = 0;

	if (root < 0)
		make_tree();
	for (size_t i = 0; i < FILES; i++) {
		const uint8_t *end = at < size ? memchr(data + at, 1, size - at) : NULL;
		size_t length = end ? (size_t)(end - data) - at : size - at;
		int fd = openat(root, files[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		MUST(fd >= 0 && write(fd, data + at, length) == (ssize_t)length);
		close(fd);
		at = at + length + 1 < size ? at + length + 1 : size;
	}
	MUST(!collector_open(&c, NULL, NULL) && !collector_read(c, &before, NULL) &&
		!collector_read(c, &after, NULL) && !difference_make(&d, &before, &after, NULL));
	MUST(d.states[ROW_MOVED] == 0);
	difference_free(&d);
	snapshot_free(&before);
	snapshot_free(&after);
	collector_close(c);
	return 0;
}
