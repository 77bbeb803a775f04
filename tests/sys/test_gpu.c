/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "sys/gpu.h"
#include "sys/nic.h"
#include "tree.h"

static void list_has_all_gpus_by_address_and_no_other_display(void **state)
{
	static const char *const address[] = { "0000:13:00.0", "0000:14:00.0", "0000:23:00.0",
		"0000:24:00.0", "0000:83:00.0", "0000:84:00.0", "0000:93:00.0", "0000:94:00.0" };
	struct gpu *gpus;
	size_t count;

	(void)state;
	assert_int_equal(gpu_list(&gpus, &count, NULL), 0);
	assert_int_equal(count, 8);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(topo_address(&gpus[i].place), address[i]);
		assert_int_equal(gpus[i].place.numa_node, i / 4);
		assert_string_equal(gpu_vendor_name(&gpus[i]), "NVIDIA");
		assert_int_equal(gpus[i].device, 0x2335);
	}
	free(gpus);
}

static void every_gpu_has_a_rail_before_the_host_bridge(void **state)
{
	static const char *const rail[] = { "eth1", "eth2", "eth3", "eth4" };
	struct gpu *gpus;
	struct nic n;
	size_t count;

	(void)state;
	assert_int_equal(gpu_list(&gpus, &count, NULL), 0);
	for (size_t g = 0; g < count; g++) {
		for (size_t r = 0; r < 4; r++) {
			assert_int_equal(nic_for_name(&n, rail[r], NULL), 0);
			assert_int_equal(
				topo_distance(&gpus[g].place, &n.place) <= TOPO_PXB, g / 2 == r);
		}
	}
	free(gpus);
}

static void list_knows_accelerators_that_are_no_display(void **state)
{
	struct gpu *gpus;
	size_t count;

	(void)state;
	tree_pci("pci0000:00/0000:05:00.0", "0x1002\n", "0x120000\n", 0);
	tree_pci("pci0000:00/0000:06:00.0", "0x1002\n", "0x038000\n", 0);
	tree_pci("pci0000:00/0000:07:00.0", "0x10ee\n", "0x120000\n", 0);
	tree_pci("pci0000:00/0000:08:00.0", "0x10de\n", "0x068000\n", 0);
	assert_int_equal(gpu_list(&gpus, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_string_equal(gpu_vendor_name(&gpus[0]), "AMD");
	assert_string_equal(topo_address(&gpus[1].place), "0000:06:00.0");
	free(gpus);
}

static void list_leaves_out_devices_that_cannot_be_read(void **state)
{
	struct gpu *gpus;
	size_t count;

	(void)state;
	tree_pci("pci0000:00/0000:05:00.0", "", "0x030200\n", 0);
	tree_pci("pci0000:00/0000:06:00.0", "0x10de\n", "display\n", 0);
	tree_pci("pci0000:00/0000:07:00.0", "0x10de\n", "", 0);
	tree_long_file('3', 65536, "/sys/devices/pci0000:00/0000:07:00.0/class");
	tree_link("0000:08:00.0", "/sys/bus/pci/devices/0000:08:00.0");
	assert_int_equal(gpu_list(&gpus, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(gpus);
}

static void list_is_empty_without_pci_and_fails_without_sysfs(void **state)
{
	struct gpu *gpus;
	size_t count;
	struct err e;

	(void)state;
	assert_int_equal(gpu_list(&gpus, &count, &e), -ENOENT);
	assert_null(gpus);
	tree_dir("/sys/bus/virtio");
	assert_int_equal(gpu_list(&gpus, &count, &e), 0);
	assert_int_equal(count, 0);
	free(gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(list_has_all_gpus_by_address_and_no_other_display,
			tree_gpu_host, tree_remove),
		cmocka_unit_test_setup_teardown(
			every_gpu_has_a_rail_before_the_host_bridge, tree_gpu_host, tree_remove),
		cmocka_unit_test_setup_teardown(
			list_knows_accelerators_that_are_no_display, tree_empty, tree_remove),
		cmocka_unit_test_setup_teardown(
			list_leaves_out_devices_that_cannot_be_read, tree_empty, tree_remove),
		cmocka_unit_test_setup_teardown(
			list_is_empty_without_pci_and_fails_without_sysfs, tree_empty, tree_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
