/* SPDX-License-Identifier: BSD-3-Clause */
/* errors FAR [no-netmem-tx]: provokes every error of the device memory calls, and compares what the
 * kernel says with what we know.
 *
 * Runs on a kernel with the two test NICs: lab0 here (10.9.0.1), lab1 in the network namespace of
 * the process FAR (10.9.0.2), both up, set as after loading. Prints a TAP line for each case, with
 * the errno and the kernel's words. no-netmem-tx: only what a NIC without device memory TX says.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"

struct lab lab;

/* verdicts */

static const char *error_name(long error)
{
	static char number[32];
	const char *name = strerrorname_np(error);

	if (name)
		return name;
	snprintf(number, sizeof(number), "errno %ld", error);
	return number;
}

static void print_result(long result)
{
	if (result == SUCCESS)
		printf("success");
	else if (result < 0)
		printf("%s", error_name(-result));
	else
		printf("%ld", result);
}

void expect(const char *name, long got, long wanted, const char *said)
{
	const char *words = netlink_words();
	bool same = wanted == SUCCESS ? got >= 0 : got == wanted;

	if (same && said)
		same = strstr(words, said) != NULL;
	printf("%s - %s: ", same ? "ok" : "not ok", name);
	print_result(got);
	if (words[0])
		printf(" \"%s\"", words);
	if (!same) {
		printf("; wanted ");
		print_result(wanted);
		if (said)
			printf(" \"%s\"", said);
		lab.failed = true;
	}
	printf("\n");
	fflush(stdout);
	netlink_forget_words();
}

void expect_true(const char *name, bool holds, const char *what, long value)
{
	printf("%s - %s: %s %ld\n", holds ? "ok" : "not ok", name, what, value);
	fflush(stdout);
	if (!holds)
		lab.failed = true;
}

long by_kernel(long now, long on_6_12)
{
	return lab.has_tx ? now : on_6_12;
}

const char *words_by_kernel(const char *now, const char *on_6_12)
{
	return lab.has_tx ? now : on_6_12;
}

int must(const char *what, long result)
{
	if (result >= 0)
		return result;
	printf("not ok - %s: %s %s\n", what, error_name(-result), netlink_words());
	exit(1);
}

/* surroundings */

void enter(int ns)
{
	must("enter a network namespace", setns(ns, CLONE_NEWNET) ? -errno : 0);
}

void pause_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

void fault_set(const char *name, int value)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/labnic/parameters/%s", name);
	file = fopen(path, "w");
	must(path, file ? 0 : -errno);
	fprintf(file, "%d", value);
	must(path, fclose(file) ? -errno : 0);
}

/* Runs a case as a user without privileges. */
static void as_nobody(void (*run)(void))
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		lab.failed = false;
		must("become nobody", setuid(65534) ? -errno : 0);
		run();
		fflush(stdout);
		_exit(lab.failed ? 1 : 0);
	}
	if (waitpid(child, &status, 0) != child || status)
		lab.failed = true;
}

/* cases */

static void udmabuf_case(const char *name, unsigned int flags, int seals, size_t memfd_bytes,
	uint64_t offset, uint64_t bytes, long wanted)
{
	int memfd = must("memfd", memfd_sealed(memfd_bytes, flags, seals));
	int got = udmabuf_create(memfd, offset, bytes);

	expect(name, got, wanted, NULL);
	if (got >= 0)
		close(got);
	close(memfd);
}

static void udmabuf_as_nobody(void)
{
	expect("udmabuf, no permission for /dev/udmabuf", udmabuf_create(0, 0, PAGE), -EACCES,
		NULL);
}

static void udmabuf_cases(void)
{
	const size_t limit = 64 << 20; /* size_limit_mb */
	const unsigned int seal = MFD_ALLOW_SEALING;
	int fd;

	udmabuf_case("udmabuf, memfd without MFD_ALLOW_SEALING", 0, 0, PAGE, 0, PAGE, -EINVAL);
	udmabuf_case("udmabuf, memfd without F_SEAL_SHRINK", seal, 0, PAGE, 0, PAGE, -EINVAL);
	udmabuf_case("udmabuf, memfd with F_SEAL_WRITE", seal, F_SEAL_SHRINK | F_SEAL_WRITE, PAGE,
		0, PAGE, -EINVAL);
	udmabuf_case("udmabuf, memfd with F_SEAL_GROW", seal, F_SEAL_SHRINK | F_SEAL_GROW, PAGE, 0,
		PAGE, SUCCESS);
	udmabuf_case("udmabuf, size not in pages", seal, F_SEAL_SHRINK, 2 * PAGE, 0, 5000, -EINVAL);
	udmabuf_case(
		"udmabuf, offset not in pages", seal, F_SEAL_SHRINK, 2 * PAGE, 100, PAGE, -EINVAL);
	udmabuf_case("udmabuf, size 0", seal, F_SEAL_SHRINK, PAGE, 0, 0, -EINVAL);
	udmabuf_case("udmabuf, beyond the memfd", seal, F_SEAL_SHRINK, PAGE, 0, 2 * PAGE, -EINVAL);
	udmabuf_case("udmabuf, as large as size_limit_mb", seal, F_SEAL_SHRINK, limit, 0, limit,
		SUCCESS);
	udmabuf_case("udmabuf, larger than size_limit_mb", seal, F_SEAL_SHRINK, limit + PAGE, 0,
		limit + PAGE, -EINVAL);

	fd = open("/proc/self/exe", O_RDONLY);
	expect("udmabuf, of a plain file", udmabuf_create(fd, 0, PAGE), -EINVAL, NULL);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	expect("udmabuf, of a socket", udmabuf_create(fd, 0, PAGE), -EBADFD, NULL);
	close(fd);
	expect("udmabuf, of a closed descriptor", udmabuf_create(777, 0, PAGE), -EBADFD, NULL);

	fd = must("memfd", memfd_sealed(PAGE, seal, F_SEAL_SHRINK));
	expect("udmabuf, list of 1025", udmabuf_create_list(fd, 1025, PAGE), -EINVAL, NULL);
	expect("udmabuf, list of 1024", udmabuf_create_list(fd, 1024, PAGE), SUCCESS, NULL);
	close(fd);
	as_nobody(udmabuf_as_nobody);
}

/* A binding that is made to be refused, or closed at once where it is not. */
static long try_bind_rx(int ifindex, int dmabuf, int queue, int queues)
{
	int netlink = must("netlink", netlink_open(NETLINK_GENERIC));
	long ret = bind_rx(netlink, ifindex, dmabuf, queue, queues);

	close(netlink);
	return ret;
}

static void bind_rx_as_nobody(void)
{
	expect("bind-rx, without CAP_NET_ADMIN", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
		-EPERM, NULL);
}

/* Header split and its threshold; leaves split on and the threshold 0. */
static void split_cases(void)
{
	expect("bind-rx, header split off", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
		by_kernel(-EINVAL, SUCCESS), words_by_kernel("tcp-data-split is disabled", NULL));
	expect("rings, split on, hds-thresh 256", rings_set(lab.far_if, SPLIT_ON, 256),
		by_kernel(0, -EINVAL), words_by_kernel(NULL, "Unknown attribute type"));
	if (lab.has_tx)
		expect("bind-rx, hds-thresh 256", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
			-EINVAL, "hds-thresh is not zero");
	expect("rings, hds-thresh beyond the maximum", rings_set(lab.far_if, -1, 1 << 20), -EINVAL,
		words_by_kernel("requested ring size exceeds maximum", NULL));
	expect("rings, split on, hds-thresh 0",
		rings_set(lab.far_if, SPLIT_ON, lab.has_tx ? 0 : -1), 0, NULL);
}

static void device_cases(void)
{
	expect("bind-rx, no such interface", try_bind_rx(9999, lab.rx.dmabuf, 2, 1), -ENODEV, NULL);
	if (lab.has_tx) { /* 6.12 warns in its log about a device that has no parent: never ask it */
		expect("bind-rx, device without queue management",
			try_bind_rx(1, lab.rx.dmabuf, 0, 1), -EOPNOTSUPP, NULL);
		must("make a netkit", link_add_netkit("netkit0"));
		expect("bind-rx, virtual device",
			try_bind_rx(if_nametoindex("netkit0"), lab.rx.dmabuf, 0, 1), -EOPNOTSUPP,
			"Device doesn't support DMA");
		fault_set("no_dma", 1);
		expect("bind-rx, device without DMA", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
			-EOPNOTSUPP, "Device doesn't support DMA");
		fault_set("no_dma", 0);
	}
	fault_set("no_unreadable", 1);
	expect("bind-rx, pools that take no unreadable memory",
		try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1), -ENODATA, NULL);
	fault_set("no_unreadable", 0);
}

static void xdp_cases(void)
{
	int program = must("load an XDP program", xdp_program_load()), sock;

	must("attach XDP", link_set_xdp(lab.far_if, program));
	expect("bind-rx, XDP attached", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1), -EEXIST,
		"XDP");
	must("detach XDP", link_set_xdp(lab.far_if, -1));
	sock = must("AF_XDP", xsk_open(lab.far_if, 2));
	expect("bind-rx, AF_XDP on the queue", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1), -EBUSY,
		"AF_XDP");
	close(sock);
	close(program);
	/* The queue is freed behind our back. */
	for (int i = 0; i < 500 && try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1) == -EBUSY; i++)
		pause_ms(20);
}

static void bind_rx_refusals(void)
{
	int netlink = must("netlink", netlink_open(NETLINK_GENERIC));

	expect("bind-rx, a memfd instead of a dma-buf", try_bind_rx(lab.far_if, lab.rx.memfd, 2, 1),
		-EINVAL, NULL);
	expect("bind-rx, a closed descriptor", try_bind_rx(lab.far_if, 777, 2, 1), -EBADF, NULL);
	expect("bind-rx, no queue", try_bind_rx(lab.far_if, lab.rx.dmabuf, 0, 0), -EINVAL, NULL);
	expect("bind-rx, queue out of range", try_bind_rx(lab.far_if, lab.rx.dmabuf, 64, 1),
		by_kernel(-EINVAL, -ERANGE), words_by_kernel(NULL, "rx queue index out of range"));
	expect("bind-rx, a TX queue",
		bind_rx_queue_type(netlink, lab.far_if, lab.rx.dmabuf, 2, QUEUE_TYPE_TX), -EINVAL,
		NULL);
	close(netlink);
	as_nobody(bind_rx_as_nobody);
}

/* What works; leaves queues 2 and 3 bound. */
static void bind_rx_successes(void)
{
	struct buffer page;

	must("link down", link_set_up("lab1", 0));
	expect("bind-rx, device down", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1), SUCCESS, NULL);
	must("link up", link_set_up("lab1", 1));
	must("one page", buffer_create(&page, PAGE));
	expect("bind-rx, one page", try_bind_rx(lab.far_if, page.dmabuf, 3, 1), SUCCESS, NULL);
	pause_ms(100);
	lab.rx_netlink = must("netlink", netlink_open(NETLINK_GENERIC));
	lab.rx_id = bind_rx(lab.rx_netlink, lab.far_if, lab.rx.dmabuf, 2, 2);
	expect("bind-rx, two queues", lab.rx_id, SUCCESS, NULL);
	expect("bind-rx, queue already bound", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
		-EEXIST, "designated queue already memory provider bound");
	expect("bind-rx, second binding of the dma-buf",
		try_bind_rx(lab.far_if, lab.rx.dmabuf, 1, 1), SUCCESS, NULL);
	if (lab.has_tx) { /* 6.12 lets it happen */
		expect("rings, split off under a binding", rings_set(lab.far_if, SPLIT_OFF, -1),
			-EINVAL, "can't disable tcp-data-split");
		expect("rings, hds-thresh raised under a binding", rings_set(lab.far_if, -1, 100),
			-EINVAL, "can't set non-zero hds_thresh");
	}
	must("link down", link_set_up("lab1", 0));
	must("link up", link_set_up("lab1", 1));
	expect("bind-rx, binding outlives link down", try_bind_rx(lab.far_if, lab.rx.dmabuf, 2, 1),
		-EEXIST, NULL);
}

static void bind_tx_cases(void)
{
	lab.tx_netlink = must("netlink", netlink_open(NETLINK_GENERIC));
	expect("bind-tx, no such interface", bind_tx(lab.tx_netlink, 9999, lab.tx.dmabuf),
		by_kernel(-ENODEV, -EOPNOTSUPP), NULL);
	expect("bind-tx, driver without it", bind_tx(lab.tx_netlink, 1, lab.tx.dmabuf), -EOPNOTSUPP,
		words_by_kernel("Driver does not support netmem TX", NULL));
	must("make a netkit", link_add_netkit("netkit1"));
	expect("bind-tx, virtual device",
		bind_tx(lab.tx_netlink, if_nametoindex("netkit1"), lab.tx.dmabuf), -EOPNOTSUPP,
		words_by_kernel("No DMA-capable device found for netmem TX", NULL));
	expect("bind-tx, a memfd instead of a dma-buf",
		bind_tx(lab.tx_netlink, lab.near_if, lab.tx.memfd), by_kernel(-EINVAL, -EOPNOTSUPP),
		NULL);
	lab.tx_id = bind_tx(lab.tx_netlink, lab.near_if, lab.tx.dmabuf);
	expect("bind-tx", lab.tx_id, by_kernel(SUCCESS, -EOPNOTSUPP), NULL);
	expect("bind-tx, second binding of the dma-buf",
		bind_tx(lab.tx_netlink, lab.near_if, lab.tx.dmabuf),
		by_kernel(SUCCESS, -EOPNOTSUPP), NULL);
}

static void no_netmem_tx_case(void)
{
	int netlink = must("netlink", netlink_open(NETLINK_GENERIC));

	expect("bind-tx, NIC without it", bind_tx(netlink, lab.near_if, lab.tx.dmabuf), -EOPNOTSUPP,
		words_by_kernel("Driver does not support netmem TX", NULL));
	close(netlink);
}

static void find_lab(const char *far_pid)
{
	struct utsname kernel;
	char path[64];
	int major, minor;

	must("uname", uname(&kernel) ? -errno : 0);
	if (sscanf(kernel.release, "%d.%d", &major, &minor) != 2)
		must("kernel version", -EINVAL);
	lab.has_tx = major > 6 || (major == 6 && minor >= 16);
	snprintf(path, sizeof(path), "/proc/%s/ns/net", far_pid);
	lab.far_ns = must(path, open(path, O_RDONLY | O_CLOEXEC));
	lab.near_ns = must("own namespace", open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
	lab.near_if = must("lab0", if_nametoindex("lab0") ? (int)if_nametoindex("lab0") : -ENODEV);
	enter(lab.far_ns);
	lab.far_if = must("lab1", if_nametoindex("lab1") ? (int)if_nametoindex("lab1") : -ENODEV);
	enter(lab.near_ns);
	must("udmabuf", buffer_create(&lab.rx, BUFFER_BYTES));
	must("udmabuf", buffer_create(&lab.tx, BUFFER_BYTES));
	memset(lab.tx.memory, 0x5a, lab.tx.bytes);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: errors FAR [no-netmem-tx]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	find_lab(argv[1]);
	if (argc > 2) {
		no_netmem_tx_case();
		return lab.failed ? 1 : 0;
	}
	udmabuf_cases();
	enter(lab.far_ns);
	split_cases();
	device_cases();
	xdp_cases();
	bind_rx_refusals();
	bind_rx_successes();
	enter(lab.near_ns);
	bind_tx_cases();
	traffic_cases();
	return lab.failed ? 1 : 0;
}
