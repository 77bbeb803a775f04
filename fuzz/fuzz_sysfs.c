/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel's files may hold, in a tree that was recorded elsewhere: the input is cut at '\1', each part becomes
 * one file. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "sys/gpu.h"
#include "sys/host.h"
#include "sys/nic.h"
#include "sys/path.h"

#define PCI "sys/devices/pci0000:00/0000:00:01.0"

static const char *const files[] = {
	PCI "/net/eth0/mtu",
	PCI "/net/eth0/speed",
	PCI "/net/eth0/operstate",
	PCI "/net/eth0/address",
	PCI "/net/eth0/ifindex",
	PCI "/numa_node",
	PCI "/local_cpulist",
	PCI "/vendor",
	PCI "/class",
	PCI "/device",
	PCI "/current_link_speed",
	PCI "/current_link_width",
	"proc/cpuinfo",
	"proc/meminfo",
	"proc/stat",
	"proc/self/status",
	"proc/self/cgroup",
	"proc/sys/net/ipv4/tcp_rmem",
	"proc/sys/kernel/hostname",
	"sys/devices/system/node/online",
	"sys/devices/system/cpu/online",
	"sys/devices/system/cpu/isolated",
	"sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
	"sys/kernel/mm/transparent_hugepage/enabled",
	"sys/fs/cgroup/cgroup.controllers",
	"sys/fs/cgroup/cpu.max",
	"sys/fs/cgroup/a/cpu.max",
};

#define FILES (sizeof(files) / sizeof(files[0]))

static char top[] = "/tmp/fuzz_sysfs.XXXXXX";
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

static void make_dirs(const char *path)
{
	char part[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		mkdirat(root, part, 0755);
	}
}

static void make_tree(void)
{
	MUST(mkdtemp(top));
	atexit(remove_tree);
	root = open(top, O_DIRECTORY | O_CLOEXEC);
	MUST(root >= 0);
	for (size_t i = 0; i < FILES; i++)
		make_dirs(files[i]);
	make_dirs("sys/class/net/x");
	make_dirs("sys/bus/pci/devices/x");
	MUST(!symlinkat(
		"../../devices/pci0000:00/0000:00:01.0/net/eth0", root, "sys/class/net/eth0"));
	MUST(!symlinkat("../../../0000:00:01.0", root, PCI "/net/eth0/device"));
	MUST(!symlinkat("../../../devices/pci0000:00/0000:00:01.0", root,
		"sys/bus/pci/devices/0000:00:01.0"));
	MUST(!sys_set_root(top, NULL));
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	MUST(fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check_facts(const struct host_facts *facts)
{
	MUST(facts->count <= HOST_FACTS_MAX);
	for (size_t i = 0; i < facts->count; i++) {
		const char *value = facts->fact[i].value;

		MUST(facts->fact[i].name[0] && value[0]);
		for (; *value; value++)
			MUST(*value >= ' ' && *value < 127);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct host_facts facts;
	char address[TOPO_ADDRESS_SIZE], *text;
	struct gpu *gpus;
	struct nic nic;
	size_t count;

	if (root < 0)
		make_tree();
	text = fuzz_string(data, size);
	topo_address_parse(address, text, NULL);
	free(text);
	for (size_t i = 0; i < FILES; i++) {
		const uint8_t *end = size ? memchr(data, 1, size) : NULL;
		size_t part = end ? (size_t)(end - data) : size;

		write_file(files[i], data, part);
		data += end ? part + 1 : part;
		size -= end ? part + 1 : part;
	}
	if (!nic_for_name(&nic, "eth0", NULL))
		MUST(nic.mtu_bytes >= 0 && memchr(nic.mac, 0, sizeof(nic.mac)));
	if (!gpu_list(&gpus, &count, NULL))
		free(gpus);
	host_facts_read(&facts, "eth0", NULL);
	check_facts(&facts);
	return 0;
}
