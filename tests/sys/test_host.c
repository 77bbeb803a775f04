/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "sys/host.h"
#include "tree.h"

static struct host_facts facts;

/* Compared as text; NULL: the fact is absent. */
static void assert_fact(const char *name, const char *value)
{
	const char *found = host_facts_get(&facts, name);

	if (!value)
		assert_null(found);
	else if (!found)
		fail_msg("%s is absent", name);
	else
		assert_string_equal(found, value);
}

static void read_host(void)
{
	assert_int_equal(host_facts_read(&facts, NULL, NULL), 0);
}

static void gpu_host_is_described(void **state)
{
	(void)state;
	read_host();
	assert_fact("hostname", "gpu-host-1");
	assert_fact("kernel_release", "6.8.0-test");
	assert_fact("architecture", "x86_64");
	assert_fact("cpu_model", "Example CPU @ 2.00GHz");
	assert_fact("virtual_machine", "yes");
	assert_fact("cpus_online", "0-191");
	assert_fact("cpus_allowed", "0-7");
	assert_fact("cpus_isolated", "none");
	assert_fact("smt", "on");
	assert_fact("numa_nodes", "2");
	assert_fact("memory_bytes", "2164382498816");
	assert_fact("transparent_hugepages", "madvise");
	assert_fact("clock_source", "tsc");
	assert_fact("irqbalance", "yes");
	assert_fact("iommu_groups", "1");
	assert_fact("net_ipv4_tcp_congestion_control", "cubic");
	assert_fact("net_ipv4_tcp_rmem", "4096 131072 6291456");
	assert_fact("net_core_rmem_max", "212992");
	assert_fact("gpu_count", "8");
	assert_fact("gpu_pci_addresses", "0000:13:00.0 0000:14:00.0 0000:23:00.0 0000:24:00.0 "
					 "0000:83:00.0 0000:84:00.0 0000:93:00.0 0000:94:00.0");
	assert_fact("nic_name", NULL);
}

static void nic_of_the_run_is_described(void **state)
{
	(void)state;
	assert_int_equal(host_facts_read(&facts, "eth3", NULL), 0);
	assert_fact("nic_name", "eth3");
	assert_fact("nic_kind", "physical");
	assert_fact("nic_driver", "railnic");
	assert_fact("nic_pci_address", "0000:85:00.0");
	assert_fact("nic_numa_node", "1");
	assert_fact("nic_local_cpus", "48-95,144-191");
	assert_fact("nic_mtu_bytes", "8244");
	assert_fact("nic_speed_bps", "200000000000");
	assert_fact("nic_rx_queues", "3");
	assert_fact("nic_tx_queues", "4");
	assert_fact("nic_pcie_link_now", "16.0 GT/s x8");
	assert_fact("nic_pcie_link_max", "32.0 GT/s x16");
	assert_fact("nic_firmware", NULL);
}

static void virtual_nic_has_no_place(void **state)
{
	(void)state;
	assert_int_equal(host_facts_read(&facts, "lo", NULL), 0);
	assert_fact("nic_kind", "virtual");
	assert_fact("nic_speed_bps", NULL);
	assert_fact("nic_pci_address", NULL);
	assert_fact("nic_numa_node", NULL);
	assert_fact("nic_local_cpus", NULL);
}

static void nic_that_is_not_there_is_an_error_and_the_host_is_still_read(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(host_facts_read(&facts, "eth77", &e), -ENODEV);
	assert_fact("hostname", "gpu-host-1");
}

static void nothing_is_invented_where_nothing_can_be_read(void **state)
{
	(void)state;
	read_host();
	assert_int_equal(facts.count, 0);
}

static void broken_files_are_absent_facts(void **state)
{
	(void)state;
	tree_file("", "/proc/sys/kernel/hostname");
	tree_file("model name\t: cut in the mid", "/proc/cpuinfo");
	tree_file("MemTotal: lots\n", "/proc/meminfo");
	tree_file("on\n", "/sys/devices/system/cpu/smt/active");
	tree_file("nodes\n", "/sys/devices/system/node/online");
	tree_file("always madvise never\n", "/sys/kernel/mm/transparent_hugepage/enabled");
	tree_long_file('1', 65536, "/proc/sys/net/core/rmem_max");
	tree_long_file('a', 65536, "/proc/self/status");
	tree_link("osrelease", "/proc/sys/kernel/osrelease");
	read_host();
	assert_int_equal(facts.count, 0);
}

static void governor_is_one_name_or_mixed(void **state)
{
	(void)state;
	tree_file("performance\n", "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor");
	tree_file("performance\n", "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor");
	tree_dir("/sys/devices/system/cpu/cpufreq/policy2");
	read_host();
	assert_fact("cpu_governor", "performance");
	tree_file("powersave\n", "/sys/devices/system/cpu/cpufreq/policy2/scaling_governor");
	read_host();
	assert_fact("cpu_governor", "mixed");
}

static void cgroup_v2_quota_is_the_least_of_the_path(void **state)
{
	(void)state;
	tree_file("0::/jobs/a\n", "/proc/self/cgroup");
	tree_file("cpuset cpu memory\n", "/sys/fs/cgroup/cgroup.controllers");
	tree_file("max 100000\n", "/sys/fs/cgroup/jobs/a/cpu.max");
	read_host();
	assert_fact("cgroup_v2_quota_cpus", "none");
	tree_file("150000 100000\n", "/sys/fs/cgroup/jobs/cpu.max");
	read_host();
	assert_fact("cgroup_v2_quota_cpus", "1.5");
	tree_file("800000 100000\n", "/sys/fs/cgroup/jobs/a/cpu.max");
	read_host();
	assert_fact("cgroup_v2_quota_cpus", "1.5");
	assert_fact("cgroup_v1_quota_cpus", NULL);
}

static void cgroup_v2_quota_is_found_at_the_root_of_a_container(void **state)
{
	(void)state;
	tree_file("0::/../../other\n", "/proc/self/cgroup");
	tree_file("cpu\n", "/sys/fs/cgroup/cgroup.controllers");
	tree_file("400000 100000\n", "/sys/fs/cgroup/cpu.max");
	tree_file("100000 100000\n", "/sys/other/cpu.max");
	read_host();
	assert_fact("cgroup_v2_quota_cpus", "4");
}

static void cgroup_v1_quota_is_read_beside_an_unused_v2(void **state)
{
	(void)state;
	tree_file(
		"5:cpuset:/\n4:cpu,cpuacct:/jobs\n1:name=systemd:/x\n0::/\n", "/proc/self/cgroup");
	tree_file("-1\n", "/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us");
	tree_file("100000\n", "/sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us");
	read_host();
	assert_fact("cgroup_v1_quota_cpus", "none");
	tree_file("250000\n", "/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us");
	read_host();
	assert_fact("cgroup_v1_quota_cpus", "2.5");
	assert_fact("cgroup_v2_quota_cpus", NULL);
}

static void irqbalance_is_unknown_where_processes_are_hidden(void **state)
{
	(void)state;
	tree_file("weir\n", "/proc/1/comm");
	read_host();
	assert_fact("irqbalance", NULL);
	tree_file("kthreadd\n", "/proc/2/comm");
	read_host();
	assert_fact("irqbalance", "no");
}

static void add_replaces_cleans_and_cuts(void **state)
{
	char text[1024];
	const char *value;

	(void)state;
	facts.count = 0;
	assert_int_equal(host_facts_add(&facts, "a", "%d", 1), 0);
	assert_int_equal(host_facts_add(&facts, "b", " two\twords\n"), 0);
	assert_int_equal(host_facts_add(&facts, "a", "%d", 3), 0);
	assert_int_equal(host_facts_add(&facts, "c", "%s", ""), 0);
	assert_int_equal(facts.count, 2);
	assert_fact("a", "3");
	assert_fact("b", "two words");
	assert_fact("c", NULL);

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(host_facts_add(&facts, "long", "%s", text), 0);
	value = host_facts_get(&facts, "long");
	assert_int_equal(strlen(value), HOST_VALUE_SIZE - 1);
	assert_string_equal(value + strlen(value) - 4, "x...");
	assert_int_equal(host_facts_add(&facts, text, "1"), -ENAMETOOLONG);
}

static void add_refuses_more_than_there_is_room_for(void **state)
{
	char name[16];

	(void)state;
	facts.count = 0;
	for (int i = 0; i < HOST_FACTS_MAX; i++) {
		snprintf(name, sizeof(name), "fact_%d", i);
		assert_int_equal(host_facts_add(&facts, name, "%d", i), 0);
	}
	assert_int_equal(host_facts_add(&facts, "one_more", "1"), -ENOSPC);
	assert_int_equal(host_facts_add(&facts, "fact_7", "replaced"), 0);
}

static void real_machine_facts_are_well_formed(void **state)
{
	struct utsname name;

	(void)state;
	assert_int_equal(uname(&name), 0);
	assert_int_equal(host_facts_read(&facts, "lo", NULL), 0);
	assert_fact("kernel_release", name.release);
	assert_fact("architecture", name.machine);
	assert_fact("nic_kind", "virtual");
	assert_true(strtoull(host_facts_get(&facts, "memory_bytes"), NULL, 10) > 1 << 20);
	assert_true(atoi(host_facts_get(&facts, "nic_mtu_bytes")) > 0);
	assert_non_null(host_facts_get(&facts, "net_ipv4_tcp_congestion_control"));
	assert_true(facts.count < HOST_FACTS_MAX);
	for (size_t i = 0; i < facts.count; i++) {
		assert_string_not_equal(facts.fact[i].value, "");
		for (const char *c = facts.fact[i].name; *c; c++)
			assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) ||
				    *c == '_');
		for (const char *c = facts.fact[i].value; *c; c++)
			assert_true(isprint((unsigned char)*c));
	}
}

#define ON_GPU_HOST(f) cmocka_unit_test_setup_teardown(f, tree_gpu_host, tree_remove)
#define IN_TREE(f)     cmocka_unit_test_setup_teardown(f, tree_empty, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_GPU_HOST(gpu_host_is_described),
		ON_GPU_HOST(nic_of_the_run_is_described),
		ON_GPU_HOST(virtual_nic_has_no_place),
		ON_GPU_HOST(nic_that_is_not_there_is_an_error_and_the_host_is_still_read),
		IN_TREE(nothing_is_invented_where_nothing_can_be_read),
		IN_TREE(broken_files_are_absent_facts),
		IN_TREE(governor_is_one_name_or_mixed),
		IN_TREE(cgroup_v2_quota_is_the_least_of_the_path),
		IN_TREE(cgroup_v2_quota_is_found_at_the_root_of_a_container),
		IN_TREE(cgroup_v1_quota_is_read_beside_an_unused_v2),
		IN_TREE(irqbalance_is_unknown_where_processes_are_hidden),
		cmocka_unit_test(add_replaces_cleans_and_cuts),
		cmocka_unit_test(add_refuses_more_than_there_is_room_for),
		cmocka_unit_test(real_machine_facts_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
