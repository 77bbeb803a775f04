/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sys/topo.h"
#include "tree.h"

static struct topo_place place_of(const char *address)
{
	struct topo_place p;
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/0000:%s", address);
	assert_int_equal(topo_place_read(&p, path, NULL), 0);
	return p;
}

static const char *distance(const char *a, const char *b)
{
	struct topo_place pa = place_of(a), pb = place_of(b);

	assert_int_equal(topo_distance(&pa, &pb), topo_distance(&pb, &pa));
	return topo_distance_name(topo_distance(&pa, &pb));
}

static void place_names_all_bridges_from_the_root_port(void **state)
{
	struct topo_place p = place_of("97:00.0");
	static const char *const chain[] = { "0000:90:01.0", "0000:91:00.0", "0000:92:02.0",
		"0000:95:00.0", "0000:96:00.0", "0000:97:00.0" };

	(void)state;
	assert_string_equal(p.host_bridge, "pci0000:90");
	assert_int_equal(p.depth, 6);
	for (int i = 0; i < p.depth; i++)
		assert_string_equal(p.chain[i], chain[i]);
	assert_string_equal(topo_address(&p), "0000:97:00.0");
}

static void place_has_node_cpus_and_links(void **state)
{
	struct topo_place p = place_of("83:00.0");
	char cpus[64];

	(void)state;
	assert_int_equal(p.numa_node, 1);
	assert_string_equal(cpus_format(&p.local_cpus, cpus, sizeof(cpus)), "48-95,144-191");
	assert_int_equal(p.link_now.speed_mtps, 16000);
	assert_int_equal(p.link_now.width, 8);
	assert_int_equal(p.link_max.speed_mtps, 32000);
	assert_int_equal(p.link_max.width, 16);
}

static void place_of_virtio_is_that_of_its_pci_function(void **state)
{
	struct topo_place p;

	(void)state;
	tree_pci("pci0000:00/0000:00:03.0", "0x1af4\n", "0x020000\n", -1);
	tree_nic("pci0000:00/0000:00:03.0/virtio1", "eth9", 7, "-1\n");
	tree_file("5 GT/s\n", "/sys/devices/pci0000:00/0000:00:03.0/max_link_speed");
	tree_file("Unknown\n", "/sys/devices/pci0000:00/0000:00:03.0/current_link_speed");
	assert_int_equal(topo_place_read(&p, "/sys/class/net/eth9/device", NULL), 0);
	assert_string_equal(topo_address(&p), "0000:00:03.0");
	assert_int_equal(p.numa_node, -1);
	assert_int_equal(p.link_max.speed_mtps, 5000);
	assert_int_equal(p.link_now.speed_mtps, 0);
}

static void place_on_a_machine_of_one_node_is_node_0(void **state)
{
	(void)state;
	tree_file("-1\n", "/sys/devices/pci0000:10/0000:10:03.0/numa_node");
	assert_int_equal(place_of("10:03.0").numa_node, -1);
	tree_file("0\n", "/sys/devices/system/node/online");
	assert_int_equal(place_of("10:03.0").numa_node, 0);
}

static void place_off_pci_is_empty_but_known(void **state)
{
	struct topo_place p;

	(void)state;
	tree_file("1\n", "/sys/devices/platform/nic.0/numa_node");
	tree_file("48-95\n", "/sys/devices/system/node/node1/cpulist");
	assert_int_equal(topo_place_read(&p, "/sys/devices/platform/nic.0", NULL), 0);
	assert_string_equal(topo_address(&p), "");
	assert_string_equal(p.host_bridge, "");
	assert_int_equal(p.numa_node, 1);
	assert_int_equal(p.local_cpus.count, 48);
}

static void place_refuses_loops_and_endless_chains(void **state)
{
	char deep[PATH_MAX] = "/sys/devices/pci0000:00";
	struct topo_place p;
	struct err e;

	(void)state;
	tree_link("loop", "/sys/loop");
	assert_int_equal(topo_place_read(&p, "/sys/loop", &e), -ELOOP);
	assert_int_equal(p.numa_node, -1);
	for (int i = 0; i <= TOPO_DEPTH_MAX; i++)
		strcat(deep, "/0000:00:01.0");
	tree_dir("%s", deep);
	assert_int_equal(topo_place_read(&p, deep, &e), -E2BIG);
	assert_int_equal(p.depth, 0);
}

static void place_ignores_names_that_only_resemble_addresses(void **state)
{
	struct topo_place p;

	(void)state;
	tree_dir("/sys/devices/pci0000:00x/0000:00:1.0/+000:00:01.0/0000:00:01.8/0000:00:20.0");
	assert_int_equal(topo_place_read(&p,
				 "/sys/devices/pci0000:00x/0000:00:1.0/+000:00:01.0/0000:00:01.8/"
				 "0000:00:20.0",
				 NULL),
		0);
	assert_int_equal(p.depth, 0);
	assert_string_equal(p.host_bridge, "");
}

static void distance_under_one_switch_is_pix(void **state)
{
	(void)state;
	assert_string_equal(distance("13:00.0", "15:00.0"), "PIX");
	assert_string_equal(distance("13:00.0", "14:00.0"), "PIX");
	assert_string_equal(distance("13:00.0", "13:00.0"), "PIX");
}

static void distance_across_cascaded_switches_is_pxb(void **state)
{
	(void)state;
	assert_string_equal(distance("93:00.0", "97:00.0"), "PXB");
}

static void distance_across_root_ports_of_one_host_bridge_is_phb(void **state)
{
	(void)state;
	assert_string_equal(distance("13:00.0", "18:00.0"), "PHB");
}

static void distance_across_host_bridges_of_one_node_is_node(void **state)
{
	(void)state;
	assert_string_equal(distance("13:00.0", "25:00.0"), "NODE");
}

static void distance_across_nodes_is_sys(void **state)
{
	(void)state;
	assert_string_equal(distance("13:00.0", "85:00.0"), "SYS");
}

static void distance_is_sys_where_the_node_is_unknown(void **state)
{
	struct topo_place unknown = { .numa_node = -1 };

	(void)state;
	assert_int_equal(topo_distance(&unknown, &unknown), TOPO_SYS);
}

static void address_is_read_as_drivers_write_it(void **state)
{
	static const char *const same[] = { "0000:0a:1f.7", "0a:1f.7", "00000000:0A:1F.7",
		"0:a:1f.7" };
	char address[TOPO_ADDRESS_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(topo_address_parse(address, same[i], NULL), 0);
		assert_string_equal(address, "0000:0a:1f.7");
	}
	assert_int_equal(topo_address_parse(address, "FFFFFFFF:ff:1f.7", NULL), 0);
	assert_string_equal(address, "ffffffff:ff:1f.7");
}

static void address_refuses_anything_else(void **state)
{
	static const char *const bad[] = { "", "eth0", "0a", "0a:1f", "0a:20.0", "0a:1f.8",
		"0a:1f.0 ", "0000:0a:1f.0/..", "-1:00.0", "123456789:0a:1f.0" };
	char address[TOPO_ADDRESS_SIZE];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(topo_address_parse(address, bad[i], &e), -EINVAL);
	assert_string_not_equal(e.hint, "");
}

#define ON_GPU_HOST(f) cmocka_unit_test_setup_teardown(f, tree_gpu_host, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_GPU_HOST(place_names_all_bridges_from_the_root_port),
		ON_GPU_HOST(place_has_node_cpus_and_links),
		ON_GPU_HOST(place_of_virtio_is_that_of_its_pci_function),
		ON_GPU_HOST(place_on_a_machine_of_one_node_is_node_0),
		ON_GPU_HOST(place_off_pci_is_empty_but_known),
		ON_GPU_HOST(place_refuses_loops_and_endless_chains),
		ON_GPU_HOST(place_ignores_names_that_only_resemble_addresses),
		ON_GPU_HOST(distance_under_one_switch_is_pix),
		ON_GPU_HOST(distance_across_cascaded_switches_is_pxb),
		ON_GPU_HOST(distance_across_root_ports_of_one_host_bridge_is_phb),
		ON_GPU_HOST(distance_across_host_bridges_of_one_node_is_node),
		ON_GPU_HOST(distance_across_nodes_is_sys),
		cmocka_unit_test(distance_is_sys_where_the_node_is_unknown),
		cmocka_unit_test(address_is_read_as_drivers_write_it),
		cmocka_unit_test(address_refuses_anything_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
