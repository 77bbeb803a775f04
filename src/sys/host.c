/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpus.h"
#include "sys/gpu.h"
#include "sys/host.h"
#include "sys/nic.h"
#include "sys/path.h"

static struct host_fact *find(const struct host_facts *facts, const char *name)
{
	for (size_t i = 0; i < facts->count; i++) {
		if (!strcmp(facts->fact[i].name, name))
			return (struct host_fact *)&facts->fact[i];
	}
	return NULL;
}

const char *host_facts_get(const struct host_facts *facts, const char *name)
{
	const struct host_fact *fact = find(facts, name);

	return fact ? fact->value : NULL;
}

int host_facts_add(struct host_facts *facts, const char *name, const char *format, ...)
{
	struct host_fact *fact = find(facts, name);
	char value[HOST_VALUE_SIZE];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	if (len < 0)
		return -EINVAL;
	if (len >= (int)sizeof(value))
		strcpy(value + sizeof(value) - sizeof("..."), "...");
	sys_clean(value);
	if (!value[0])
		return 0;

	if (!fact) {
		if (strlen(name) >= HOST_NAME_SIZE)
			return -ENAMETOOLONG;
		if (facts->count == HOST_FACTS_MAX)
			return -ENOSPC;
		fact = &facts->fact[facts->count++];
		strcpy(fact->name, name);
	}
	strcpy(fact->value, value);
	return 0;
}

/* Facts that are the text of one file. */
static const struct {
	const char *name, *path;
} files[] = {
	{ "hostname", "/proc/sys/kernel/hostname" },
	{ "kernel_release", "/proc/sys/kernel/osrelease" },
	{ "kernel_version", "/proc/sys/kernel/version" },
	{ "machine_vendor", "/sys/class/dmi/id/sys_vendor" },
	{ "machine_product", "/sys/class/dmi/id/product_name" },
	{ "cpus_online", "/sys/devices/system/cpu/online" },
	{ "clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
	{ "nvidia_driver_version", "/sys/module/nvidia/version" },
};

/* Below /proc/sys. */
static const char *const sysctls[] = {
	"net/core/busy_poll",
	"net/core/busy_read",
	"net/core/default_qdisc",
	"net/core/netdev_max_backlog",
	"net/core/optmem_max",
	"net/core/rmem_max",
	"net/core/somaxconn",
	"net/core/wmem_max",
	"net/ipv4/tcp_available_congestion_control",
	"net/ipv4/tcp_congestion_control",
	"net/ipv4/tcp_ecn",
	"net/ipv4/tcp_moderate_rcvbuf",
	"net/ipv4/tcp_mtu_probing",
	"net/ipv4/tcp_notsent_lowat",
	"net/ipv4/tcp_rmem",
	"net/ipv4/tcp_sack",
	"net/ipv4/tcp_timestamps",
	"net/ipv4/tcp_wmem",
};

static void add_file(struct host_facts *facts, const char *name, const char *path)
{
	char value[HOST_VALUE_SIZE];

	if (!sys_read(value, sizeof(value), "%s", path))
		host_facts_add(facts, name, "%s", value);
}

static void add_sysctls(struct host_facts *facts)
{
	char name[HOST_NAME_SIZE], path[PATH_MAX];

	for (size_t i = 0; i < sizeof(sysctls) / sizeof(sysctls[0]); i++) {
		snprintf(path, sizeof(path), "/proc/sys/%s", sysctls[i]);
		snprintf(name, sizeof(name), "%s", sysctls[i]);
		for (char *slash = name; (slash = strchr(slash, '/'));)
			*slash = '_';
		add_file(facts, name, path);
	}
}

/* The value of a line "key : value" as /proc/cpuinfo and /proc/meminfo have them. A last line
 * without its end may have been cut by the reader and does not count. */
static bool find_value(char *value, size_t size, const char *text, const char *key)
{
	const char *colon, *end;
	size_t len;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		if (strncmp(text, key, strlen(key)))
			continue;
		colon = text + strlen(key);
		colon += strspn(colon, " \t");
		len = (size_t)(end - colon);
		if (*colon != ':' || len > size)
			continue;
		memcpy(value, colon + 1, len - 1);
		value[len - 1] = '\0';
		sys_clean(value);
		return true;
	}
	return false;
}

/* Whether a word is in a list parted by blanks or commas. An empty list holds the empty word. */
static bool has_word(const char *list, const char *word)
{
	size_t len;

	do {
		len = strcspn(list, " ,");
		if (len == strlen(word) && !memcmp(list, word, len))
			return true;
		list += len;
	} while (*list++);
	return false;
}

static void add_architecture(struct host_facts *facts)
{
	struct utsname name;

	add_file(facts, "architecture", "/proc/sys/kernel/arch"); /* since Linux 6.1 */
	if (sys_is_live() && !uname(&name))
		host_facts_add(facts, "architecture", "%s", name.machine);
}

static void add_cpu(struct host_facts *facts)
{
	char text[16384], value[8192]; /* the first CPU of the list speaks for all */
	int smt;

	sys_read_head(text, sizeof(text), "/proc/cpuinfo");
	if (find_value(value, sizeof(value), text, "model name"))
		host_facts_add(facts, "cpu_model", "%s", value);
	if (find_value(value, sizeof(value), text, "flags"))
		host_facts_add(facts, "virtual_machine", "%s",
			has_word(value, "hypervisor") ? "yes" : "no");

	sys_read_head(text, sizeof(text), "/proc/self/status");
	if (find_value(value, sizeof(value), text, "Cpus_allowed_list"))
		host_facts_add(facts, "cpus_allowed", "%s", value);
	if (!sys_read(value, sizeof(value), "/sys/devices/system/cpu/isolated"))
		host_facts_add(facts, "cpus_isolated", "%s", value[0] ? value : "none");
	smt = (int)sys_read_number(0, 1, -1, "/sys/devices/system/cpu/smt/active");
	if (smt >= 0)
		host_facts_add(facts, "smt", "%s", smt ? "on" : "off");
}

static void add_memory(struct host_facts *facts)
{
	char text[8192], value[64], *chosen;
	unsigned long long kib;
	struct cpus nodes;

	sys_read_head(text, sizeof(text), "/proc/meminfo");
	if (find_value(value, sizeof(value), text, "MemTotal") &&
		sscanf(value, "%16llu kB", &kib) == 1)
		host_facts_add(facts, "memory_bytes", "%llu", kib * 1024);

	if (!sys_read(text, sizeof(text), "/sys/devices/system/node/online") &&
		!cpus_parse(&nodes, text, NULL) && nodes.count)
		host_facts_add(facts, "numa_nodes", "%d", nodes.count);

	/* "always [madvise] never" */
	sys_read(text, sizeof(text), "/sys/kernel/mm/transparent_hugepage/enabled");
	chosen = strchr(text, '[');
	if (chosen && strchr(chosen, ']'))
		host_facts_add(facts, "transparent_hugepages", "%.*s",
			(int)strcspn(chosen + 1, "]"), chosen + 1);
}

static void add_governor(struct host_facts *facts)
{
	char governor[64] = "", value[64];
	struct sys_names policies;
	bool mixed = false;

	sys_list(&policies, "/sys/devices/system/cpu/cpufreq");
	for (int i = 0; i < policies.count; i++) {
		if (sys_read(value, sizeof(value),
			    "/sys/devices/system/cpu/cpufreq/%s/scaling_governor",
			    policies.entry[i]->d_name) ||
			!value[0])
			continue;
		mixed |= governor[0] && strcmp(governor, value);
		strcpy(governor, value);
	}
	sys_names_free(&policies);
	host_facts_add(facts, "cpu_governor", "%s", mixed ? "mixed" : governor);
}

/* The control group of this process for a version 1 controller, "" for version 2: the lines of the
 * file are "4:cpu,cpuacct:/user.slice" and "0::/user.slice". */
static bool find_group(char *group, size_t size, const char *controller)
{
	char text[8192], *line, *controllers, *path, *rest = text;

	sys_read_head(text, sizeof(text), "/proc/self/cgroup");
	while ((line = strsep(&rest, "\n"))) {
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path = '\0';
		if (!has_word(controllers + 1, controller) || strlen(path + 1) >= size)
			continue;
		/* A group outside of what a container sees is written "/../..". */
		strcpy(group, strstr(path + 1, "/..") ? "" : path + 1);
		return true;
	}
	return false;
}

static double quota_v1(const char *mount, const char *group)
{
	int64_t quota_us, period_us;

	quota_us = sys_read_number(1, INT64_MAX, 0, "%s%s/cpu.cfs_quota_us", mount, group);
	period_us = sys_read_number(1, INT64_MAX, 0, "%s%s/cpu.cfs_period_us", mount, group);
	return period_us ? (double)quota_us / (double)period_us : 0;
}

static double quota_v2(const char *mount, const char *group)
{
	long long quota_us = 0, period_us = 0;
	char text[64];

	sys_read(text, sizeof(text), "%s%s/cpu.max", mount, group);
	if (sscanf(text, "%16lld %16lld", &quota_us, &period_us) != 2 || period_us <= 0)
		return 0;
	return (double)quota_us / (double)period_us;
}

/* A group may use no more than any group above it. */
static void add_quota(struct host_facts *facts, const char *name, const char *mount, char *group,
	double (*quota)(const char *mount, const char *group))
{
	double cpus, least = 0;
	char *slash;

	do {
		cpus = quota(mount, group);
		if (cpus > 0 && (least == 0 || cpus < least))
			least = cpus;
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);

	if (least > 0)
		host_facts_add(facts, name, "%g", least);
	else
		host_facts_add(facts, name, "none");
}

static void add_quotas(struct host_facts *facts)
{
	char group[PATH_MAX / 2], controllers[1024];

	if (sys_is_dir("/sys/fs/cgroup/cpu") && find_group(group, sizeof(group), "cpu"))
		add_quota(facts, "cgroup_v1_quota_cpus", "/sys/fs/cgroup/cpu", group, quota_v1);

	sys_read(controllers, sizeof(controllers), "/sys/fs/cgroup/cgroup.controllers");
	if (has_word(controllers, "cpu") && find_group(group, sizeof(group), ""))
		add_quota(facts, "cgroup_v2_quota_cpus", "/sys/fs/cgroup", group, quota_v2);
}

/* "no" is only known where all processes can be seen: then the kernel's own are among them. */
static void add_irqbalance(struct host_facts *facts)
{
	bool sees_all = false, runs = false;
	struct sys_names processes;
	char command[64];

	sys_list(&processes, "/proc");
	for (int i = 0; i < processes.count && !runs; i++) {
		const char *pid = processes.entry[i]->d_name;

		if (!isdigit((unsigned char)pid[0]) ||
			sys_read(command, sizeof(command), "/proc/%s/comm", pid))
			continue;
		runs = !strcmp(command, "irqbalance");
		sees_all |= !strcmp(command, "kthreadd");
	}
	sys_names_free(&processes);
	if (runs || sees_all)
		host_facts_add(facts, "irqbalance", "%s", runs ? "yes" : "no");
}

static void add_iommu(struct host_facts *facts)
{
	struct sys_names groups;

	if (!sys_list(&groups, "/sys/kernel/iommu_groups"))
		host_facts_add(facts, "iommu_groups", "%d", groups.count);
	sys_names_free(&groups);
}

static void add_gpus(struct host_facts *facts)
{
	char list[HOST_VALUE_SIZE + 1] = ""; /* one more than fits, so that cutting it shows */
	struct gpu *gpus;
	size_t count, used = 0;

	if (gpu_list(&gpus, &count, NULL))
		return;
	for (size_t i = 0; i < count && used < sizeof(list); i++)
		used += (size_t)snprintf(
			list + used, sizeof(list) - used, "%s ", topo_address(&gpus[i].place));
	free(gpus);
	host_facts_add(facts, "gpu_count", "%zu", count);
	host_facts_add(facts, "gpu_pci_addresses", "%s", list);
}

static void add_number(struct host_facts *facts, const char *name, uint64_t value)
{
	if (value)
		host_facts_add(facts, name, "%llu", (unsigned long long)value);
}

static void add_link(struct host_facts *facts, const char *name, const struct topo_link *l)
{
	if (l->speed_mtps && l->width)
		host_facts_add(facts, name, "%d.%d GT/s x%d", l->speed_mtps / 1000,
			l->speed_mtps % 1000 / 100, l->width);
}

static void add_ethtool(struct host_facts *facts, const char *nic)
{
	struct nic_ethtool t;
	char name[HOST_NAME_SIZE];

	if (nic_ethtool_read(&t, nic, NULL))
		return;
	host_facts_add(facts, "nic_driver", "%s", t.driver);
	host_facts_add(facts, "nic_driver_version", "%s", t.version);
	host_facts_add(facts, "nic_firmware", "%s", t.firmware);
	for (size_t i = 0; i < t.offload_count; i++) {
		snprintf(name, sizeof(name), "nic_offload_%s", t.offload[i].name);
		host_facts_add(facts, name, "%s", t.offload[i].on ? "on" : "off");
	}
}

static int add_nic(struct host_facts *facts, const char *name, struct err *e)
{
	char cpus[HOST_VALUE_SIZE];
	struct nic n;
	int ret;

	ret = nic_for_name(&n, name, e);
	if (ret)
		return ret;
	host_facts_add(facts, "nic_name", "%s", n.name);
	host_facts_add(facts, "nic_kind", "%s", n.physical ? "physical" : "virtual");
	host_facts_add(facts, "nic_state", "%s", n.state);
	add_number(facts, "nic_mtu_bytes", (uint64_t)n.mtu_bytes);
	add_number(facts, "nic_speed_bps", n.speed_bps);
	add_number(facts, "nic_rx_queues", (uint64_t)n.rx_queues);
	add_number(facts, "nic_tx_queues", (uint64_t)n.tx_queues);
	host_facts_add(facts, "nic_pci_address", "%s", topo_address(&n.place));
	if (n.place.numa_node >= 0)
		host_facts_add(facts, "nic_numa_node", "%d", n.place.numa_node);
	host_facts_add(facts, "nic_local_cpus", "%s",
		cpus_format(&n.place.local_cpus, cpus, sizeof(cpus)));
	add_link(facts, "nic_pcie_link_now", &n.place.link_now);
	add_link(facts, "nic_pcie_link_max", &n.place.link_max);
	host_facts_add(facts, "nic_driver", "%s", n.driver);
	add_ethtool(facts, n.name);
	return 0;
}

int host_facts_read(struct host_facts *facts, const char *nic, struct err *e)
{
	facts->count = 0;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		add_file(facts, files[i].name, files[i].path);
	add_architecture(facts);
	add_cpu(facts);
	add_memory(facts);
	add_governor(facts);
	add_quotas(facts);
	add_irqbalance(facts);
	add_iommu(facts);
	add_sysctls(facts);
	add_gpus(facts);
	return nic ? add_nic(facts, nic, e) : 0;
}

int host_system_time(uint64_t *ns)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq;
	char line[256];
	int ret;

	ret = sys_read_head(line, sizeof(line), "/proc/stat");
	if (ret)
		return ret;
	if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		    &iowait, &irq, &softirq) != 7)
		return -EINVAL;
	*ns = (system + irq + softirq) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}
