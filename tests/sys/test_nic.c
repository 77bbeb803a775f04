/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nic.h"
#include "sys/path.h"
#include "tree.h"

static void list_has_all_interfaces_by_name(void **state)
{
	static const char *const name[] = { "eth0", "eth1", "eth2", "eth3", "eth4", "eth10", "lo",
		"veth0" };
	struct nic *nics;
	size_t count;

	(void)state;
	tree_nic(NULL, "eth10", 10, "");
	tree_file("", "/sys/class/net/bonding_masters");
	tree_link("loop", "/sys/class/net/loop");
	tree_dir("/sys/class/net/a-name-longer-than-any-interface");
	assert_int_equal(nic_list(&nics, &count, NULL), 0);
	assert_int_equal(count, 8);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(nics[i].name, name[i]);
	free(nics);
}

static void list_fails_without_sysfs(void **state)
{
	struct nic *nics;
	size_t count;
	struct err e;

	(void)state;
	assert_int_equal(nic_list(&nics, &count, &e), -ENOENT);
	assert_null(nics);
	assert_int_equal(e.code, ENOENT);
}

static void rail_is_described_in_full(void **state)
{
	struct nic n;

	(void)state;
	assert_int_equal(nic_for_name(&n, "eth3", NULL), 0);
	assert_int_equal(n.ifindex, 0x80);
	assert_true(n.physical);
	assert_string_equal(n.driver, "railnic");
	assert_string_equal(n.state, "up");
	assert_string_equal(n.mac, "02:00:00:00:00:80");
	assert_int_equal(n.mtu_bytes, 8244);
	assert_int_equal(n.speed_bps, 200000000000);
	assert_int_equal(n.rx_queues, 3);
	assert_int_equal(n.tx_queues, 4);
	assert_string_equal(topo_address(&n.place), "0000:85:00.0");
	assert_int_equal(n.place.numa_node, 1);
	assert_true(cpus_has(&n.place.local_cpus, 144));
}

static void interface_without_a_device_is_virtual(void **state)
{
	struct nic n;

	(void)state;
	assert_int_equal(nic_for_name(&n, "veth0", NULL), 0);
	assert_false(n.physical);
	assert_int_equal(n.speed_bps, 10000000000);
	assert_string_equal(n.driver, "");
	assert_string_equal(topo_address(&n.place), "");
	assert_int_equal(n.place.numa_node, -1);
	assert_int_equal(n.place.local_cpus.count, 0);
}

static void speed_that_is_no_speed_is_unknown(void **state)
{
	static const char *const speed[] = { "-1\n", "4294967295\n", "0\n", "", "fast\n", "1e5\n" };
	struct nic n;

	(void)state;
	for (size_t i = 0; i < sizeof(speed) / sizeof(speed[0]); i++) {
		tree_nic(NULL, "bad", 5, speed[i]);
		assert_int_equal(nic_for_name(&n, "bad", NULL), 0);
		assert_int_equal(n.speed_bps, 0);
	}
}

static void broken_files_leave_values_unknown(void **state)
{
	static const char *const file[] = { "ifindex", "mtu", "speed", "operstate", "address" };
	struct nic n;

	(void)state;
	tree_nic("pci0000:00/0000:00:03.0", "bad", 5, "");
	for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++)
		tree_long_file('9', 65536, "/sys/class/net/bad/%s", file[i]);
	tree_link("driver", "/sys/devices/pci0000:00/0000:00:03.0/driver");
	tree_link("device", "/sys/class/net/bad/device");
	assert_int_equal(nic_for_name(&n, "bad", NULL), 0);
	assert_int_equal(n.ifindex, 0);
	assert_int_equal(n.mtu_bytes, 0);
	assert_string_equal(n.state, "");
	assert_string_equal(n.mac, "");
	assert_string_equal(n.driver, "");
	assert_true(n.physical);
	assert_string_equal(topo_address(&n.place), "");
}

static void directory_without_files_is_an_interface_of_unknowns(void **state)
{
	struct nic n;

	(void)state;
	tree_dir("/sys/class/net/bare");
	assert_int_equal(nic_for_name(&n, "bare", NULL), 0);
	assert_string_equal(n.name, "bare");
	assert_int_equal(n.ifindex, 0);
	assert_int_equal(n.rx_queues, 0);
}

static void names_that_are_no_names_are_refused(void **state)
{
	static const char *const bad[] = { "", ".", "..", "../lo", "a/b", "sixteen-letters-" };
	struct nic n;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(nic_for_name(&n, bad[i], &e), -EINVAL);
	assert_int_equal(nic_for_name(&n, "eth77", NULL), -ENODEV);
	assert_int_equal(nic_for_name(&n, "eth77", &e), -ENODEV);
	assert_non_null(strstr(e.what, "eth77"));
	assert_string_not_equal(e.hint, "");
}

static void pci_address_finds_its_interface(void **state)
{
	struct nic n;
	struct err e;

	(void)state;
	assert_int_equal(nic_for_pci(&n, "00000000:97:00.0", NULL), 0);
	assert_string_equal(n.name, "eth4");
	assert_int_equal(nic_for_pci(&n, "0000:13:00.0", &e), -ENODEV);
	assert_int_equal(nic_for_pci(&n, "eth4", &e), -EINVAL);
}

static void recorded_machine_has_no_addresses_and_no_drivers(void **state)
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	struct nic_ethtool t;
	struct nic n;

	(void)state;
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(nic_for_address(&n, (struct sockaddr *)&here, NULL), -ENOTSUP);
	assert_int_equal(nic_ethtool_read(&t, "eth1", NULL), -ENOTSUP);
}

static void real_machine_has_lo_and_sane_interfaces(void **state)
{
	struct nic *nics;
	size_t count, loopbacks = 0;

	(void)state;
	assert_int_equal(nic_list(&nics, &count, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		const struct nic *n = &nics[i];

		assert_true(n->ifindex > 0);
		assert_true(n->mtu_bytes > 0);
		assert_true(n->place.numa_node >= -1);
		assert_true(n->physical || !n->place.depth);
		assert_true(n->place.link_now.width <= n->place.link_max.width);
		loopbacks += !strcmp(n->name, "lo") && !n->physical;
	}
	assert_int_equal(loopbacks, 1);
	free(nics);
}

static int lookup(struct nic *n, int family, const char *text, struct err *e)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(80) };

	if (family == AF_INET) {
		assert_int_equal(inet_pton(AF_INET, text, &v4.sin_addr), 1);
		return nic_for_address(n, (struct sockaddr *)&v4, e);
	}
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return nic_for_address(n, (struct sockaddr *)&v6, e);
}

static void loopback_addresses_belong_to_lo(void **state)
{
	struct nic n;

	(void)state;
	assert_int_equal(lookup(&n, AF_INET, "127.0.0.1", NULL), 0);
	assert_string_equal(n.name, "lo");
	assert_int_equal(lookup(&n, AF_INET, "127.3.2.1", NULL), 0);
	assert_string_equal(n.name, "lo");
	assert_int_equal(lookup(&n, AF_INET6, "::ffff:127.0.0.1", NULL), 0);
	assert_string_equal(n.name, "lo");
}

static void foreign_addresses_belong_to_nobody(void **state)
{
	struct sockaddr other = { .sa_family = AF_UNIX };
	struct nic n;
	struct err e;

	(void)state;
	assert_int_equal(lookup(&n, AF_INET, "192.0.2.77", &e), -EADDRNOTAVAIL);
	assert_non_null(strstr(e.what, "192.0.2.77"));
	assert_int_equal(lookup(&n, AF_INET6, "2001:db8::77", &e), -EADDRNOTAVAIL);
	assert_non_null(strstr(e.what, "2001:db8::77"));
	assert_int_equal(lookup(&n, AF_INET, "0.0.0.0", &e), -EADDRNOTAVAIL);
	assert_int_equal(nic_for_address(&n, &other, &e), -EAFNOSUPPORT);
}

static void ethtool_tells_each_offload_once(void **state)
{
	struct nic_ethtool t;
	struct err e;

	(void)state;
	assert_int_equal(nic_ethtool_read(&t, "no-such-nic", &e), -ENODEV);
	assert_int_equal(nic_ethtool_read(&t, "a/b", &e), -EINVAL);
	assert_int_equal(nic_ethtool_read(&t, "lo", &e), 0);
	for (size_t i = 0; i < t.offload_count; i++) {
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(t.offload[i].name, t.offload[j].name);
		/* Loopback cannot turn its checksum offload off. */
		if (!strcmp(t.offload[i].name, "tx_checksum"))
			assert_true(t.offload[i].on);
	}
}

#define ON_GPU_HOST(f) cmocka_unit_test_setup_teardown(f, tree_gpu_host, tree_remove)
#define IN_TREE(f)     cmocka_unit_test_setup_teardown(f, tree_empty, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_GPU_HOST(list_has_all_interfaces_by_name),
		IN_TREE(list_fails_without_sysfs),
		ON_GPU_HOST(rail_is_described_in_full),
		ON_GPU_HOST(interface_without_a_device_is_virtual),
		IN_TREE(speed_that_is_no_speed_is_unknown),
		IN_TREE(broken_files_leave_values_unknown),
		IN_TREE(directory_without_files_is_an_interface_of_unknowns),
		IN_TREE(names_that_are_no_names_are_refused),
		ON_GPU_HOST(pci_address_finds_its_interface),
		ON_GPU_HOST(recorded_machine_has_no_addresses_and_no_drivers),
		cmocka_unit_test(real_machine_has_lo_and_sane_interfaces),
		cmocka_unit_test(loopback_addresses_belong_to_lo),
		cmocka_unit_test(foreign_addresses_belong_to_nobody),
		cmocka_unit_test(ethtool_tells_each_offload_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
