/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/path.h"
#include "tree.h"

static char top[] = "/tmp/weir-tree-XXXXXX";

/* The path below the temporary directory, with the directories above it made. */
#define TREE_PATH(full, format)                                                                    \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		make_path(full, format, args);                                                     \
		va_end(args);                                                                      \
	} while (0)

static void make_path(char full[PATH_MAX], const char *format, va_list args)
{
	int used = snprintf(full, PATH_MAX, "%s", top);

	assert_true(vsnprintf(full + used, (size_t)(PATH_MAX - used), format, args) > 0);
	for (char *slash = full + used + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		assert_true(!mkdir(full, 0755) || errno == EEXIST);
		*slash = '/';
	}
}

void tree_dir(const char *format, ...)
{
	char full[PATH_MAX];

	TREE_PATH(full, format);
	assert_true(!mkdir(full, 0755) || errno == EEXIST);
}

void tree_fifo(const char *format, ...)
{
	char full[PATH_MAX];

	TREE_PATH(full, format);
	assert_int_equal(mkfifo(full, 0644), 0);
}

void tree_link(const char *target, const char *format, ...)
{
	char full[PATH_MAX];

	TREE_PATH(full, format);
	unlink(full);
	assert_int_equal(symlink(target, full), 0);
}

const char *tree_top(void)
{
	return top;
}

static void write_file(const char *full, const char *text, size_t bytes)
{
	int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	close(fd);
}

void tree_file(const char *text, const char *format, ...)
{
	char full[PATH_MAX];

	TREE_PATH(full, format);
	write_file(full, text, strlen(text));
}

void tree_long_file(char byte, size_t bytes, const char *format, ...)
{
	char full[PATH_MAX], *text = malloc(bytes);

	assert_non_null(text);
	memset(text, byte, bytes);
	TREE_PATH(full, format);
	write_file(full, text, bytes);
	free(text);
}

void tree_pci(const char *path, const char *vendor, const char *class, int numa_node)
{
	char target[PATH_MAX], node[16];

	tree_file(vendor, "/sys/devices/%s/vendor", path);
	tree_file(class, "/sys/devices/%s/class", path);
	tree_file("0x2335\n", "/sys/devices/%s/device", path);
	tree_file("32.0 GT/s PCIe\n", "/sys/devices/%s/max_link_speed", path);
	tree_file("16\n", "/sys/devices/%s/max_link_width", path);
	tree_file("16.0 GT/s PCIe\n", "/sys/devices/%s/current_link_speed", path);
	tree_file("8\n", "/sys/devices/%s/current_link_width", path);
	snprintf(node, sizeof(node), "%d\n", numa_node);
	tree_file(node, "/sys/devices/%s/numa_node", path);
	tree_file(numa_node == 1 ? "48-95,144-191\n" : "0-47,96-143\n",
		"/sys/devices/%s/local_cpulist", path);
	snprintf(target, sizeof(target), "../../../devices/%s", path);
	tree_link(target, "/sys/bus/pci/devices/%s", strrchr(path, '/') + 1);
}

void tree_nic(const char *device, const char *name, int ifindex, const char *speed)
{
	char dir[PATH_MAX], target[PATH_MAX], text[64];

	snprintf(dir, sizeof(dir), "%s/net/%s", device ? device : "virtual", name);
	snprintf(text, sizeof(text), "%d\n", ifindex);
	tree_file(text, "/sys/devices/%s/ifindex", dir);
	tree_file("8244\n", "/sys/devices/%s/mtu", dir);
	tree_file(speed, "/sys/devices/%s/speed", dir);
	tree_file("up\n", "/sys/devices/%s/operstate", dir);
	snprintf(text, sizeof(text), "02:00:00:00:00:%02x\n", (unsigned int)ifindex);
	tree_file(text, "/sys/devices/%s/address", dir);
	for (int i = 0; i < 4; i++)
		tree_dir("/sys/devices/%s/queues/tx-%d", dir, i);
	for (int i = 0; i < 3; i++)
		tree_dir("/sys/devices/%s/queues/rx-%d", dir, i);
	if (device) {
		tree_link("../..", "/sys/devices/%s/device", dir);
		tree_dir("/sys/bus/pci/drivers/railnic");
		snprintf(target, sizeof(target), "%s/sys/bus/pci/drivers/railnic", top);
		tree_link(target, "/sys/devices/%s/driver", device);
	}
	snprintf(target, sizeof(target), "../../devices/%s", dir);
	tree_link(target, "/sys/class/net/%s", name);
}

/* A switch with two GPUs and a rail NIC on a host bridge; cascaded: the NIC is behind another
 * switch. */
static void make_switch(int bus, int numa_node, const char *rail, bool cascaded)
{
	char above[256], path[512];

	snprintf(above, sizeof(above), "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", bus, bus,
		bus + 1);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/0000:%02x:%02x.0/0000:%02x:00.0", above, bus + 2,
			i, bus + 3 + i);
		tree_pci(path, "0x10de\n", "0x030200\n", numa_node);
	}
	if (cascaded)
		snprintf(path, sizeof(path),
			"%s/0000:%02x:02.0/0000:%02x:00.0/0000:%02x:00.0/0000:%02x:00.0", above,
			bus + 2, bus + 5, bus + 6, bus + 7);
	else
		snprintf(path, sizeof(path), "%s/0000:%02x:02.0/0000:%02x:00.0", above, bus + 2,
			bus + 5);
	tree_pci(path, "0x15b3\n", "0x020000\n", numa_node);
	tree_nic(path, rail, bus, "200000\n");
}

static void make_proc(void)
{
	tree_file("gpu-host-1\n", "/proc/sys/kernel/hostname");
	tree_file("6.8.0-test\n", "/proc/sys/kernel/osrelease");
	tree_file("x86_64\n", "/proc/sys/kernel/arch");
	tree_file("processor\t: 0\nmodel name\t: Example CPU @ 2.00GHz\n"
		  "flags\t\t: fpu vme hypervisor lm\n\nprocessor\t: 1\nmodel name\t: Other CPU\n",
		"/proc/cpuinfo");
	tree_file("MemTotal:       2113654784 kB\nMemFree: 12 kB\n", "/proc/meminfo");
	tree_file("Name:\tweir\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n", "/proc/self/status");
	tree_file("kthreadd\n", "/proc/2/comm");
	tree_file("irqbalance\n", "/proc/812/comm");
	tree_file("cubic\n", "/proc/sys/net/ipv4/tcp_congestion_control");
	tree_file("4096\t131072\t6291456\n", "/proc/sys/net/ipv4/tcp_rmem");
	tree_file("212992\n", "/proc/sys/net/core/rmem_max");
}

int tree_empty(void **state)
{
	(void)state;
	strcpy(strrchr(top, '-'), "-XXXXXX");
	assert_non_null(mkdtemp(top));
	return sys_set_root(top, NULL);
}

int tree_gpu_host(void **state)
{
	const char *front = "pci0000:10/0000:10:02.0/0000:18:00.0";

	tree_empty(state);
	make_switch(0x10, 0, "eth1", false);
	make_switch(0x20, 0, "eth2", false);
	make_switch(0x80, 1, "eth3", false);
	make_switch(0x90, 1, "eth4", true);
	tree_pci(front, "0x15b3\n", "0x020000\n", 0);
	tree_nic(front, "eth0", 2, "100000\n");
	tree_pci("pci0000:10/0000:10:03.0", "0x1a03\n", "0x030000\n", 0);
	tree_nic(NULL, "lo", 1, "");
	tree_nic(NULL, "veth0", 9, "10000\n");
	tree_file("0-1\n", "/sys/devices/system/node/online");
	tree_file("0-191\n", "/sys/devices/system/cpu/online");
	tree_file("\n", "/sys/devices/system/cpu/isolated");
	tree_file("1\n", "/sys/devices/system/cpu/smt/active");
	tree_file("always [madvise] never\n", "/sys/kernel/mm/transparent_hugepage/enabled");
	tree_file("tsc\n", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	tree_dir("/sys/kernel/iommu_groups/0");
	make_proc();
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int tree_remove(void **state)
{
	(void)state;
	nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return sys_set_root(NULL, NULL);
}
