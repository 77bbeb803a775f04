/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way in which binding device memory to a NIC is refused, provoked on a NIC that can do it, and
 * the words that come of it. Needs a kernel and a NIC that can (the laboratory has both), root, and
 * WEIR_LAB_NIC with the name of the NIC, which is left as it was; skipped where there is none.
 *
 *	bind_faults NIC QUEUES ERRNO WORDS STEP		one refusal whose cause was made by others;
 *							QUEUES "tx": of sending
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/nic_bind.h"
#include "sys/nic_devmem.h"
#include "sys/nic_link.h"
#include "sys/nic_plan.h"
#include "sys/nic_queue.h"
#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

#define BYTES (1 << 20)

static const char *nic;
static int number, failed;

static void is(bool good, const char *what, const struct err *e)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
	if (e && e->code)
		printf("# %s. %s\n", e->what, e->hint);
	failed += !good;
}

/* ABI: what the kernel's udmabuf.h says. */
struct create {
	uint32_t memfd, flags;
	uint64_t offset, size;
};

static int make_dmabuf(int *memfd)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	struct create create = { .flags = 1, .size = BYTES };

	*memfd = memfd_create("bind", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	create.memfd = (uint32_t)*memfd;
	if (ftruncate(*memfd, BYTES) || fcntl(*memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		fd = -1;
	else
		fd = ioctl(device, _IOW('u', 0x42, struct create), &create);
	close(device);
	return fd;
}

static struct cpus queues(const char *list)
{
	struct cpus c = { 0 };

	cpus_parse(&c, list, NULL);
	return c;
}

/* Bind, expect this errno and these words, unbind. */
static void refused(const char *what, const char *name, const char *list, int fd, int code,
	const char *words, const char *step)
{
	struct cpus set = queues(list);
	struct nic_binding b;
	struct err e = { 0 };
	int ret = strcmp(list, "tx") ? nic_bind_rx(&b, name, &set, fd, &e)
				     : nic_bind_tx(&b, name, fd, &e);

	nic_unbind(&b);
	/* Linux 6.12 has another number for a queue that is not there. */
	if (ret == -ERANGE && code == EINVAL)
		ret = -EINVAL;
	is(ret == -code && strstr(e.what, words) && strstr(e.hint, step), what, &e);
}

static void bind_without_split(int dmabuf)
{
	struct nic_rings r;

	nic_rings_read(&r, nic, NULL);
	is(r.split == NIC_SPLIT_OFF, "header split is off at first", NULL);
	refused("header split off", nic, "2", dmabuf, EINVAL, "header split is off",
		"weir nic prepare");
}

static void bind_with_threshold(int dmabuf)
{
	struct nic_plan p;
	struct err e = { 0 };

	if (nic_plan_open(&p, nic, false, &e) || nic_plan_add(&p, NIC_KIND_SPLIT, "", "on", &e) ||
		nic_plan_add(&p, NIC_KIND_HDS_THRESH, "", "256", &e) || nic_plan_apply(&p, &e)) {
		printf("ok %d - hds-thresh # SKIP %s\n", ++number, e.what);
		err_clear(&e);
	} else {
		refused("hds-thresh not 0", nic, "2", dmabuf, EINVAL, "threshold (hds-thresh)",
			"weir nic prepare");
	}
	is(!nic_plan_close(&p, &e), "the threshold is put back", &e);
}

static void bind_without_rights(int dmabuf)
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (!child) {
		failed = 0;
		if (setuid(65534))
			_exit(1);
		refused("no CAP_NET_ADMIN", nic, "2", dmabuf, EPERM, "CAP_NET_ADMIN", "root");
		fflush(stdout);
		_exit(failed);
	}
	waitpid(child, &status, 0);
	number++;
	failed += status != 0;
}

static void wrong_queues_and_descriptors(int dmabuf, int memfd)
{
	refused("no such interface", "no-such-nic", "2", dmabuf, ENODEV, "no network interface",
		"weir nic show");
	refused("loopback has no queue management", "lo", "0", dmabuf, EOPNOTSUPP,
		"no queue management", "gve");
	refused("a memfd is no dma-buf", nic, "2", memfd, EINVAL, "not a dma-buf", "export");
	refused("a closed descriptor", nic, "2", 777, EBADF, "not open", "export");
	refused("no queue", nic, "", dmabuf, EINVAL, "cannot bind 0 queues", "8-11");
	refused("a queue beyond the last", nic, "200", dmabuf, EINVAL, "no such receive queue",
		"ethtool -L");
}

static void bind_and_bind_again(int dmabuf)
{
	struct cpus set = queues("2-3");
	struct nic_queue *list;
	struct nic_pool *pools;
	struct nic_rings rings;
	struct nic_binding b;
	struct err e = { 0 };
	size_t count, bound = 0;

	is(!nic_bind_rx(&b, nic, &set, dmabuf, &e) && b.id, "two queues are bound", &e);
	nic_queues_read(&list, &count, nic, &e);
	for (size_t i = 0; i < count; i++)
		bound += list[i].dmabuf == b.id;
	free(list);
	is(bound == 2, "both show the binding", &e);
	nic_pools_read(&pools, &count, nic, &e);
	for (size_t i = 0; i < count; i++)
		bound += pools[i].dmabuf == b.id;
	free(pools);
	is(bound == 4, "and so do their page pools", &e);
	refused("a queue that is bound", nic, "3", dmabuf, EEXIST, "bound to device memory already",
		"other queues");
	nic_rings_read(&rings, nic, NULL);
	if (rings.has_hds_thresh) { /* older kernels do not look */
		is(nic_rings_set(nic, NIC_RING_SPLIT, NIC_SPLIT_OFF, &e) == -EINVAL &&
				strstr(e.hint, "end the program"),
			"header split stays on under a binding", &e);
		is(nic_rings_set(nic, NIC_RING_HDS_THRESH, 100, &e) < 0,
			"and so does the threshold", &e);
	}
	nic_unbind(&b);
	e.code = 0;
	is(!nic_bind_rx(&b, nic, &set, dmabuf, &e), "after the end they are free again", &e);
	nic_unbind(&b);
}

static void bind_for_sending(int dmabuf, int memfd)
{
	struct nic_binding b;
	struct err e = { 0 };
	int ret = nic_bind_tx(&b, nic, dmabuf, &e);

	if (ret == -EOPNOTSUPP && strstr(e.what, "this kernel cannot send")) {
		is(strstr(e.hint, "6.16"), "a kernel without sending says so", &e);
		return;
	}
	is(!ret && b.id, "bound for sending", &e);
	nic_unbind(&b);
	ret = nic_bind_tx(&b, "lo", dmabuf, &e);
	is(ret == -EOPNOTSUPP && strstr(e.what, "cannot send from device memory"),
		"loopback cannot send from device memory", &e);
	ret = nic_bind_tx(&b, "no-such-nic", dmabuf, &e);
	is(ret == -ENODEV, "no such interface, sending", &e);
	ret = nic_bind_tx(&b, nic, memfd, &e);
	is(ret == -EINVAL && strstr(e.what, "not a dma-buf"), "a memfd is no dma-buf, sending", &e);
}

/* One refusal that was prepared outside: NIC QUEUES ERRNO WORDS STEP. */
static int one_refusal(char **argument, int dmabuf)
{
	struct nic_plan p;
	struct err e = { 0 };
	bool split;

	/* What has no header split is refused for other reasons. */
	split = !nic_plan_open(&p, argument[0], false, &e) &&
		!nic_plan_add(&p, NIC_KIND_SPLIT, "", "on", &e) && !nic_plan_apply(&p, &e);
	refused(argument[3], argument[0], argument[1], dmabuf, atoi(argument[2]), argument[3],
		argument[4]);
	if (split)
		is(!nic_plan_close(&p, &e), "the NIC is put back", &e);
	else
		nic_plan_close(&p, NULL);
	return failed != 0;
}

int main(int argc, char **argv)
{
	const char *const flows[] = { "dst-port=7000", "tcp6,dst-port=7001",
		"src-ip=10.9.0.1,dst-ip=10.9.0.2,src-port=1,dst-port=2" };
	struct nic_devmem_want want = { .flow = flows, .flow_count = 3 };
	struct nic_plan p;
	struct err e = { 0 };
	int dmabuf, memfd, ret;

	nic = getenv("WEIR_LAB_NIC");
	if (argc == 6)
		return one_refusal(argv + 1, make_dmabuf(&memfd));
	if (!nic) {
		printf("1..0 # SKIP WEIR_LAB_NIC names no NIC that can bind device memory\n");
		return 77;
	}
	dmabuf = make_dmabuf(&memfd);
	if (dmabuf < 0)
		return puts("Bail out! no udmabuf"), 1;
	ret = nic_bind_probe(nic, &e);
	is(!ret || ret == -ENODATA, "the driver can, and says so without being changed", &e);
	err_clear(&e);
	bind_without_split(dmabuf);
	bind_with_threshold(dmabuf);
	want.queues = queues("2-3");
	is(!nic_plan_open(&p, nic, false, &e) && !nic_devmem_plan(&p, &want, &e) &&
			!nic_plan_apply(&p, &e),
		"the NIC is prepared", &e);
	wrong_queues_and_descriptors(dmabuf, memfd);
	bind_without_rights(dmabuf);
	bind_and_bind_again(dmabuf);
	bind_for_sending(dmabuf, memfd);
	is(!nic_plan_close(&p, &e), "the NIC is put back", &e);
	printf("1..%d\n", number);
	return failed != 0;
}
