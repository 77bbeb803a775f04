/* SPDX-License-Identifier: BSD-3-Clause */
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/nic.h"
#include "sys/nic_bind.h"
#include "sys/nic_link.h"
#include "sys/uapi.h"

/* What a refusal means: the first row whose way, errno and part of the kernel's words fit. The
 * words get the NIC by their only %s, the step too. */
static const struct cause {
	enum nic_bind_way way;
	int code;
	const char *said; /* part of the kernel's words; NULL: whatever they are */
	const char *words;
	const char *step;
} causes[] = {
	{ NIC_BIND_RX, EINVAL, "tcp-data-split", "header split is off on %s",
		"turn it on with: weir nic prepare %s" },
	{ NIC_BIND_RX, EINVAL, "hds-thresh",
		"the header split threshold (hds-thresh) of %s is not 0",
		"set it with: weir nic prepare %s" },
	{ NIC_BIND_RX, EEXIST, "XDP", "an XDP program is attached to %s",
		"detach it with: ip link set dev %s xdp off" },
	{ NIC_BIND_RX, EEXIST, NULL, "a queue of %s is bound to device memory already",
		"end the program that has it, or choose other queues; weir nic show %s --stats lists them" },
	{ NIC_BIND_RX, EBUSY, NULL, "an AF_XDP socket has a queue of %s",
		"end the program that has it, or choose other queues; weir nic show %s --stats lists them" },
	{ NIC_BIND_RX, ENODATA, NULL,
		"the driver of %s does not put memory there that the CPU cannot read",
		"a newer driver may; weir nic show %s says which it is" },
	{ NIC_BIND_RX, EOPNOTSUPP, "DMA",
		"%s is no device that can reach memory by itself (no DMA)",
		"choose the physical NIC below %s" },
	{ NIC_BIND_RX, EOPNOTSUPP, NULL,
		"the driver of %s cannot give single queues other memory (no queue management)",
		"use a NIC whose driver can: gve, mlx5_core, bnxt_en, fbnic; weir nic show %s says more" },
	{ NIC_BIND_TX, EOPNOTSUPP, "DMA", "%s is no device that can reach memory by itself",
		"choose the physical NIC below %s" },
	{ NIC_BIND_TX, EOPNOTSUPP, NULL, "the driver of %s cannot send from device memory",
		"send from host memory; weir nic show %s says which driver it is" },
	{ NIC_BIND_RX, ENODEV, NULL, "there is no network interface %s in this network namespace",
		"list the interfaces with: weir nic show" },
	{ NIC_BIND_TX, ENODEV, NULL, "there is no network interface %s in this network namespace",
		"list the interfaces with: weir nic show" },
	{ NIC_BIND_RX, EPERM, NULL, "binding memory to %s needs CAP_NET_ADMIN",
		"run it as root, in the network namespace the machine started with" },
	{ NIC_BIND_TX, EPERM, NULL, "binding memory to %s needs CAP_NET_ADMIN",
		"run it as root, in the network namespace the machine started with" },
};

/* The kernel has no words for a descriptor that is something else. */
static bool is_dmabuf(int fd)
{
	char path[40], target[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	return strstr(target, "dmabuf");
}

static int begin_words(const struct nic_bind_fault *f, struct err *e)
{
	if (f->way == NIC_BIND_TX)
		return err_prefix(e, "cannot send from device memory by %s", f->nic);
	return err_prefix(e, "cannot bind queues %s of %s to device memory", f->queues, f->nic);
}

int nic_bind_explain(const struct nic_bind_fault *f, struct err *e)
{
	const struct cause *end = causes + sizeof(causes) / sizeof(causes[0]), *c;
	struct err words;

	if (f->code == EBADF || (f->code == EINVAL && !f->said[0] && !is_dmabuf(f->fd))) {
		err_set(e, f->code, "descriptor %d is %s", f->fd,
			f->code == EBADF ? "not open" : "not a dma-buf");
		begin_words(f, e);
		return err_hint(e, "export the memory as a dma-buf first, and keep it open");
	}
	if (f->way == NIC_BIND_RX && (f->code == ERANGE || (f->code == EINVAL && !f->said[0]))) {
		err_set(e, f->code, "the NIC has no such receive queue");
		begin_words(f, e);
		return err_hint(e, "weir nic show %s says how many there are; ethtool -L adds some",
			f->nic);
	}
	for (c = causes; c < end; c++)
		if (c->way == f->way && c->code == f->code &&
			(!c->said || strstr(f->said, c->said)))
			break;
	if (c == end) {
		if (f->said[0])
			err_set(e, f->code, "%s", f->said);
		else
			err_set(e, f->code, "%m");
		begin_words(f, e);
		return err_hint(e, "weir nic show %s says what is missing", f->nic);
	}
	err_set(&words, f->code, c->words, f->nic);
	err_hint(&words, c->step, f->nic);
	if (f->said[0])
		err_set(e, f->code, "%s (%s)", words.what, f->said);
	else
		err_set(e, f->code, "%s", words.what);
	begin_words(f, e);
	return err_hint(e, "%s", words.hint);
}

static int take_id(const struct nlattr *const *attr, void *context)
{
	*(uint32_t *)context = (uint32_t)netlink_number(attr[UAPI_DMABUF_ID]);
	return 0;
}

/* An open link to a kernel that has the command. */
static int open_for(struct netlink *n, enum nic_bind_way way, struct err *e)
{
	int ret;

	ret = netlink_open(n, UAPI_NETDEV_FAMILY, e);
	if (ret == -ENOENT) {
		err_set(e, EOPNOTSUPP, "this kernel has no device memory");
		return err_hint(e, "receiving needs Linux 6.12, sending Linux 6.16");
	}
	if (ret)
		return ret;
	if (netlink_has(n, way == NIC_BIND_RX ? UAPI_NETDEV_BIND_RX : UAPI_NETDEV_BIND_TX))
		return 0;
	netlink_close(n);
	err_set(e, EOPNOTSUPP, "this kernel cannot %s device memory",
		way == NIC_BIND_RX ? "receive into" : "send from");
	return err_hint(e, "receiving needs Linux 6.12, sending Linux 6.16");
}

static void put_queue(struct netlink_request *r, uint32_t queue)
{
	struct nlattr *nest = netlink_nest(r, UAPI_DMABUF_QUEUES);

	netlink_put_u32(r, UAPI_QUEUE_ID, queue);
	netlink_put_u32(r, UAPI_QUEUE_TYPE, UAPI_QUEUE_TYPE_RX);
	netlink_nest_end(r, nest);
}

/* Before Linux 6.16 the kernel looks at the memory first and at the NIC afterwards: it stumbles, with a
 * warning in its log, over one without a device behind it. */
static bool is_virtual(const struct netlink *n, const char *nic, uint32_t ifindex)
{
	struct nic there;

	return !netlink_has(n, UAPI_NETDEV_BIND_TX) && !nic_for_name(&there, nic, NULL) &&
	       there.ifindex == (int)ifindex && !there.physical;
}

static int bind_memory(struct nic_binding *b, const struct nic_bind_fault *about,
	const struct cpus *queues, struct err *e)
{
	struct nic_bind_fault fault = *about;
	uint32_t ifindex = if_nametoindex(about->nic);
	struct netlink_request r;
	int ret;

	if (!ifindex) {
		fault.code = ENODEV;
		return nic_bind_explain(&fault, e);
	}
	ret = open_for(&b->link, about->way, e);
	if (ret)
		return begin_words(about, e);
	if (is_virtual(&b->link, about->nic, ifindex)) {
		fault.code = EOPNOTSUPP;
		ret = nic_bind_explain(&fault, e);
		nic_unbind(b);
		return ret;
	}
	netlink_begin(&r, &b->link,
		about->way == NIC_BIND_RX ? UAPI_NETDEV_BIND_RX : UAPI_NETDEV_BIND_TX);
	netlink_put_u32(&r, UAPI_DMABUF_IFINDEX, ifindex);
	netlink_put_u32(&r, UAPI_DMABUF_FD, (uint32_t)about->fd);
	for (int i = 0; queues && i < queues->count; i++)
		put_queue(&r, (uint32_t)cpus_nth(queues, i));
	ret = netlink_call(&b->link, &r, take_id, &b->id, e);
	if (!ret)
		return 0;
	fault.code = -ret;
	fault.said = b->link.said;
	ret = nic_bind_explain(&fault, e);
	nic_unbind(b);
	return ret;
}

/* Linux 6.12 binds whatever the split is, and the payload then arrives in host memory without a word.
 */
static int check_split(const struct nic_bind_fault *about, struct err *e)
{
	struct nic_bind_fault fault = *about;
	struct nic_rings rings;

	if (nic_rings_read(&rings, about->nic, NULL) || rings.split != NIC_SPLIT_OFF)
		return 0;
	fault.code = EINVAL;
	fault.said = "tcp-data-split is disabled";
	return nic_bind_explain(&fault, e);
}

int nic_bind_rx(struct nic_binding *b, const char *nic, const struct cpus *queues, int dmabuf_fd,
	struct err *e)
{
	char list[128];
	struct nic_bind_fault about = { .way = NIC_BIND_RX,
		.said = "",
		.nic = nic,
		.queues = cpus_format(queues, list, sizeof(list)),
		.fd = dmabuf_fd };
	int ret;

	*b = (struct nic_binding){ 0 };
	if (!queues->count || queues->count > NIC_BIND_QUEUES_MAX) {
		err_set(e, EINVAL, "cannot bind %d queues of %s to device memory: it takes 1 to %d",
			queues->count, nic, NIC_BIND_QUEUES_MAX);
		return err_hint(e, "name the receive queues, for example: 8-11");
	}
	ret = check_split(&about, e);
	if (ret)
		return ret;
	return bind_memory(b, &about, queues, e);
}

int nic_bind_tx(struct nic_binding *b, const char *nic, int dmabuf_fd, struct err *e)
{
	struct nic_bind_fault about = {
		.way = NIC_BIND_TX, .said = "", .nic = nic, .queues = "", .fd = dmabuf_fd
	};

	*b = (struct nic_binding){ 0 };
	return bind_memory(b, &about, NULL, e);
}

void nic_unbind(struct nic_binding *b)
{
	netlink_close(&b->link);
	b->id = 0;
}

/* A descriptor that cannot be one: the kernel refuses it after it has looked at the driver, since
 * Linux 6.16. */
int nic_bind_probe(const char *nic, struct err *e)
{
	struct nic_binding b = { 0 };
	struct cpus first;
	struct netlink n;
	bool tells;
	int ret;

	cpus_clear(&first);
	cpus_add(&first, 0);
	ret = bind_memory(&b,
		&(struct nic_bind_fault){
			.way = NIC_BIND_RX, .said = "", .nic = nic, .queues = "0", .fd = -1 },
		&first, e);
	nic_unbind(&b);
	if (ret != -EBADF)
		return ret;
	tells = !netlink_open(&n, UAPI_NETDEV_FAMILY, NULL) && netlink_has(&n, UAPI_NETDEV_BIND_TX);
	netlink_close(&n);
	if (!tells)
		return err_set(
			e, ENODATA, "this kernel does not tell whether the driver of %s can", nic);
	err_clear(e);
	return 0;
}
