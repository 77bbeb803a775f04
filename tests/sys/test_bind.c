/* SPDX-License-Identifier: BSD-3-Clause */
/* Every refusal of the kernel to bind device memory has words and a next step of its own. The
 * laboratory provokes those it can (bind_faults.c); here are all of them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/nic_bind.h"

static void every_refusal_has_words_and_a_step(void **state)
{
	static const struct {
		enum nic_bind_way way;
		int code;
		const char *said, *words, *step;
	} rows[] = {
		{ NIC_BIND_RX, EPERM, "", "CAP_NET_ADMIN", "root" },
		{ NIC_BIND_RX, ENODEV, "", "no network interface eth1", "weir nic show" },
		{ NIC_BIND_RX, EOPNOTSUPP, "", "no queue management", "gve" },
		{ NIC_BIND_RX, EOPNOTSUPP, "Device doesn't support DMA", "no DMA", "physical NIC" },
		{ NIC_BIND_RX, EINVAL, "tcp-data-split is disabled", "header split is off on eth1",
			"weir nic prepare eth1" },
		{ NIC_BIND_RX, EINVAL, "hds-thresh is not zero", "hds-thresh",
			"weir nic prepare eth1" },
		{ NIC_BIND_RX, ERANGE, "", "no such receive queue", "weir nic show eth1" },
		{ NIC_BIND_RX, EBADF, "", "descriptor 0 is not open", "dma-buf" },
		{ NIC_BIND_RX, EEXIST, "designated queue already memory provider bound",
			"bound to device memory already", "weir nic show eth1 --stats" },
		{ NIC_BIND_RX, EEXIST, "unable to bind to XDP", "XDP program", "xdp off" },
		{ NIC_BIND_RX, EBUSY, "designated queue in use by AF_XDP", "AF_XDP",
			"other queues" },
		{ NIC_BIND_RX, ENODATA, "", "cannot read", "newer driver" },
		{ NIC_BIND_RX, EIO, "something new", "something new", "weir nic show eth1" },
		{ NIC_BIND_RX, EIO, "", "Input/output error", "weir nic show eth1" },
		{ NIC_BIND_TX, EOPNOTSUPP, "Driver does not support netmem TX",
			"cannot send from device memory", "host memory" },
		{ NIC_BIND_TX, EOPNOTSUPP, "No DMA-capable device found for netmem TX",
			"no device that can reach memory", "physical NIC" },
		{ NIC_BIND_TX, EOPNOTSUPP, "Device doesn't support DMA",
			"no device that can reach memory", "physical NIC" },
		{ NIC_BIND_TX, EPERM, "", "CAP_NET_ADMIN", "root" },
		{ NIC_BIND_TX, ENODEV, "", "no network interface eth1", "weir nic show" },
	};
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nic_bind_fault f = { .way = rows[i].way,
			.code = rows[i].code,
			.said = rows[i].said,
			.nic = "eth1",
			.queues = "8-11" };

		assert_int_equal(nic_bind_explain(&f, &e), -rows[i].code);
		assert_int_equal(e.code, rows[i].code);
		assert_non_null(strstr(e.what, rows[i].words));
		assert_non_null(strstr(e.what, rows[i].said));
		assert_non_null(strstr(e.hint, rows[i].step));
		assert_non_null(strstr(e.what, rows[i].way == NIC_BIND_TX ? "eth1" : "8-11"));
	}
}

static void a_descriptor_of_another_kind_is_named(void **state)
{
	struct nic_bind_fault f = { .code = EINVAL, .said = "", .nic = "eth1", .queues = "8" };
	struct err e;

	(void)state;
	f.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	nic_bind_explain(&f, &e);
	close(f.fd);
	assert_non_null(strstr(e.what, "is not a dma-buf"));
}

static void an_interface_that_is_not_there_is_said(void **state)
{
	struct cpus queues = { 0 };
	struct nic_binding b;
	struct err e;

	(void)state;
	cpus_add(&queues, 0);
	assert_int_equal(nic_bind_rx(&b, "no-such-nic", &queues, 0, &e), -ENODEV);
	assert_int_equal(b.id, 0);
	nic_unbind(&b);
	assert_int_equal(nic_bind_tx(&b, "no-such-nic", 0, &e), -ENODEV);
	nic_unbind(&b);
	cpus_clear(&queues);
	assert_int_equal(nic_bind_rx(&b, "lo", &queues, 0, &e), -EINVAL);
}

static void loopback_cannot_and_says_so(void **state)
{
	struct err e;
	int ret = nic_bind_probe("lo", &e);

	(void)state;
	/* Without the right, without libmnl: other words, but never a yes. */
	assert_int_not_equal(ret, 0);
	assert_true(e.what[0] && e.hint[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_refusal_has_words_and_a_step),
		cmocka_unit_test(a_descriptor_of_another_kind_is_named),
		cmocka_unit_test(an_interface_that_is_not_there_is_said),
		cmocka_unit_test(loopback_cannot_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
