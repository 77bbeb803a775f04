/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "devmem.h"

/* The netdev family, its dma-buf attributes and those of one of its queues. */
enum { NETDEV_BIND_RX = 13, NETDEV_BIND_TX = 15 };
enum { DMABUF_IFINDEX = 1, DMABUF_QUEUES, DMABUF_FD, DMABUF_ID };
enum { QUEUE_ID = 1, QUEUE_TYPE = 3 };
/* The ethtool family. */
enum { RINGS_SET = 16, RINGS_HEADER = 1, RINGS_TCP_DATA_SPLIT = 11, RINGS_HDS_THRESH = 17 };
enum { HEADER_IFINDEX = 1 };

/* netlink */

struct message {
	char bytes[4096];
	size_t used;
};

static char words[512];

const char *netlink_words(void)
{
	return words;
}

void netlink_forget_words(void)
{
	words[0] = '\0';
}

int netlink_open(int protocol)
{
	int one = 1, sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	setsockopt(sock, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	return sock;
}

static void message_put(struct message *m, unsigned int type, const void *data, size_t bytes)
{
	struct nlattr attribute = { .nla_type = type, .nla_len = NLA_HDRLEN + bytes };

	memcpy(m->bytes + m->used, &attribute, sizeof(attribute));
	memcpy(m->bytes + m->used + NLA_HDRLEN, data, bytes);
	m->used += NLA_ALIGN(attribute.nla_len);
}

static void message_put_u32(struct message *m, unsigned int type, uint32_t value)
{
	message_put(m, type, &value, sizeof(value));
}

static void message_put_nested(struct message *m, unsigned int type, const struct message *inner)
{
	message_put(m, type | NLA_F_NESTED, inner->bytes, inner->used);
}

static void message_begin(struct message *m, int type, int flags, const void *header, size_t bytes)
{
	struct nlmsghdr *n;

	memset(m, 0, sizeof(*m));
	n = (void *)m->bytes;
	n->nlmsg_type = type;
	n->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	memcpy(m->bytes + NLMSG_HDRLEN, header, bytes);
	m->used = NLMSG_HDRLEN + NLMSG_ALIGN(bytes);
}

static void message_begin_generic(struct message *m, int family, int command)
{
	struct genlmsghdr header = { .cmd = command, .version = 1 };

	message_begin(m, family, 0, &header, sizeof(header));
}

static const struct nlattr *find_attribute(const void *from, size_t bytes, int type)
{
	const char *at = from, *end = at + bytes;

	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attribute = (const void *)at;

		if ((attribute->nla_type & NLA_TYPE_MASK) == type)
			return attribute;
		if (attribute->nla_len < NLA_HDRLEN)
			break;
		at += NLA_ALIGN(attribute->nla_len);
	}
	return NULL;
}

static const void *attribute_data(const struct nlattr *attribute)
{
	return (const char *)attribute + NLA_HDRLEN;
}

/* Keeps the words of an extended ack, or says which attribute it points at where it has none. */
static void keep_words(const struct nlmsghdr *n)
{
	const struct nlmsgerr *error = NLMSG_DATA(n);
	const char *from = (const char *)(error + 1);
	size_t bytes = (const char *)n + n->nlmsg_len - from;
	const struct nlattr *attribute;

	words[0] = '\0';
	if (!(n->nlmsg_flags & NLM_F_ACK_TLVS) || !(n->nlmsg_flags & NLM_F_CAPPED))
		return;
	attribute = find_attribute(from, bytes, NLMSGERR_ATTR_MSG);
	if (attribute) {
		snprintf(words, sizeof(words), "%s", (const char *)attribute_data(attribute));
		return;
	}
	attribute = find_attribute(from, bytes, NLMSGERR_ATTR_MISS_TYPE);
	if (attribute) {
		snprintf(words, sizeof(words), "(attribute %u is missing)",
			*(const uint32_t *)attribute_data(attribute));
		return;
	}
	attribute = find_attribute(from, bytes, NLMSGERR_ATTR_OFFS);
	if (attribute)
		snprintf(words, sizeof(words), "(the attribute at byte %u is refused)",
			*(const uint32_t *)attribute_data(attribute));
}

/* Sends the message and waits for its ack. Of an answer, finds the attribute wanted after a generic
 * netlink header and copies its first bytes.
 */
static int message_talk(int sock, struct message *m, int wanted, void *to, size_t to_bytes)
{
	static char answer[16384];
	struct nlmsghdr *n = (void *)m->bytes;
	ssize_t bytes;

	n->nlmsg_len = m->used;
	if (send(sock, m->bytes, m->used, 0) < 0)
		return -errno;
	for (;;) {
		bytes = recv(sock, answer, sizeof(answer), 0);
		if (bytes < 0)
			return -errno;
		for (n = (void *)answer; NLMSG_OK(n, bytes); n = NLMSG_NEXT(n, bytes)) {
			const struct nlattr *attribute;

			if (n->nlmsg_type == NLMSG_ERROR) {
				keep_words(n);
				return ((struct nlmsgerr *)NLMSG_DATA(n))->error;
			}
			if (!to)
				continue;
			attribute = find_attribute((char *)NLMSG_DATA(n) + GENL_HDRLEN,
				n->nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN, wanted);
			if (attribute)
				memcpy(to, attribute_data(attribute), to_bytes);
		}
	}
}

static int generic_family(int sock, const char *name)
{
	struct message m;
	uint16_t family = 0;
	int ret;

	message_begin_generic(&m, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	message_put(&m, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	ret = message_talk(sock, &m, CTRL_ATTR_FAMILY_ID, &family, sizeof(family));
	return ret ? ret : family;
}

/* binding */

static int bind_dmabuf(
	int netlink, int command, int ifindex, int dmabuf, int first_queue, int queues, int type)
{
	int ret, family = generic_family(netlink, "netdev");
	struct message m;
	uint32_t id = 0;

	if (family < 0)
		return family;
	message_begin_generic(&m, family, command);
	message_put_u32(&m, DMABUF_IFINDEX, ifindex);
	message_put_u32(&m, DMABUF_FD, dmabuf);
	for (int i = 0; i < queues; i++) {
		struct message queue = { .used = 0 };

		message_put_u32(&queue, QUEUE_ID, first_queue + i);
		message_put_u32(&queue, QUEUE_TYPE, type);
		message_put_nested(&m, DMABUF_QUEUES, &queue);
	}
	ret = message_talk(netlink, &m, DMABUF_ID, &id, sizeof(id));
	return ret ? ret : (int)id;
}

int bind_rx(int netlink, int ifindex, int dmabuf, int first_queue, int queues)
{
	return bind_dmabuf(
		netlink, NETDEV_BIND_RX, ifindex, dmabuf, first_queue, queues, QUEUE_TYPE_RX);
}

int bind_rx_queue_type(int netlink, int ifindex, int dmabuf, int queue, int type)
{
	return bind_dmabuf(netlink, NETDEV_BIND_RX, ifindex, dmabuf, queue, 1, type);
}

int bind_tx(int netlink, int ifindex, int dmabuf)
{
	return bind_dmabuf(netlink, NETDEV_BIND_TX, ifindex, dmabuf, 0, 0, QUEUE_TYPE_TX);
}

/* the device */

int rings_set(int ifindex, int split, int hds_thresh)
{
	int ret, netlink = netlink_open(NETLINK_GENERIC);
	struct message m, header = { .used = 0 };
	uint8_t split_byte = split;

	if (netlink < 0)
		return netlink;
	ret = generic_family(netlink, "ethtool");
	if (ret < 0)
		goto close_netlink;
	message_begin_generic(&m, ret, RINGS_SET);
	message_put_u32(&header, HEADER_IFINDEX, ifindex);
	message_put_nested(&m, RINGS_HEADER, &header);
	if (split >= 0)
		message_put(&m, RINGS_TCP_DATA_SPLIT, &split_byte, sizeof(split_byte));
	if (hds_thresh >= 0)
		message_put_u32(&m, RINGS_HDS_THRESH, hds_thresh);
	ret = message_talk(netlink, &m, 0, NULL, 0);
close_netlink:
	close(netlink);
	return ret;
}

static int device_ioctl(const char *iface, unsigned long command, struct ifreq *request)
{
	int ret, sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", iface);
	ret = ioctl(sock, command, request) ? -errno : 0;
	close(sock);
	return ret;
}

int link_set_up(const char *iface, int up)
{
	struct ifreq request = { 0 };
	int ret;

	ret = device_ioctl(iface, SIOCGIFFLAGS, &request);
	if (ret)
		return ret;
	request.ifr_flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
	return device_ioctl(iface, SIOCSIFFLAGS, &request);
}

/* One request to the routing family. */
static int route_talk(struct message *m)
{
	int ret, netlink = netlink_open(NETLINK_ROUTE);

	if (netlink < 0)
		return netlink;
	ret = message_talk(netlink, m, 0, NULL, 0);
	close(netlink);
	return ret;
}

int link_add_netkit(const char *iface)
{
	struct ifinfomsg link = { 0 };
	struct message m, info = { .used = 0 };

	message_begin(&m, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof(link));
	message_put(&m, IFLA_IFNAME, iface, strlen(iface) + 1);
	message_put(&info, IFLA_INFO_KIND, "netkit", strlen("netkit"));
	message_put_nested(&m, IFLA_LINKINFO, &info);
	return route_talk(&m);
}

int link_set_xdp(int ifindex, int program)
{
	struct ifinfomsg link = { .ifi_index = ifindex };
	struct message m, xdp = { .used = 0 };

	message_begin(&m, RTM_SETLINK, 0, &link, sizeof(link));
	message_put_u32(&xdp, IFLA_XDP_FD, program);
	message_put_u32(&xdp, IFLA_XDP_FLAGS, XDP_FLAGS_SKB_MODE);
	message_put_nested(&m, IFLA_XDP, &xdp);
	return route_talk(&m);
}

int xdp_program_load(void)
{
	struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)code,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
		.license = (uintptr_t) "GPL",
		.prog_flags = BPF_F_XDP_HAS_FRAGS, /* others do not go with header split */
	};
	long program = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	return program < 0 ? -errno : (int)program;
}

int xsk_open(int ifindex, int queue)
{
	const size_t bytes = 64UL * 4096;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct xdp_umem_reg umem = { .addr = (uintptr_t)memory, .len = bytes, .chunk_size = 4096 };
	struct sockaddr_xdp address = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = XDP_COPY,
		.sxdp_ifindex = ifindex,
		.sxdp_queue_id = queue,
	};
	int ret, entries = 64, sock = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	if (setsockopt(sock, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) ||
		setsockopt(sock, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof(entries)) ||
		setsockopt(sock, SOL_XDP, XDP_UMEM_COMPLETION_RING, &entries, sizeof(entries)) ||
		setsockopt(sock, SOL_XDP, XDP_RX_RING, &entries, sizeof(entries)) ||
		bind(sock, (struct sockaddr *)&address, sizeof(address))) {
		ret = -errno;
		close(sock);
		return ret;
	}
	return sock;
}

int steer_port(const char *iface, uint16_t port, int queue)
{
	struct ethtool_rxnfc rule = {
		.cmd = ETHTOOL_SRXCLSRLINS,
		.fs = {
			.flow_type = TCP_V4_FLOW,
			.h_u.tcp_ip4_spec.pdst = __builtin_bswap16(port),
			.m_u.tcp_ip4_spec.pdst = 0xffff,
			.ring_cookie = queue,
			.location = RX_CLS_LOC_ANY,
		},
	};
	struct ifreq request = { .ifr_data = (void *)&rule };
	int ret;

	ret = device_ioctl(iface, SIOCETHTOOL, &request);
	return ret ? ret : (int)rule.fs.location;
}

/* memory */

struct udmabuf_range {
	uint32_t memfd;
	uint32_t flags;
	uint64_t offset;
	uint64_t bytes;
};

struct udmabuf_list {
	uint32_t flags;
	uint32_t count;
	struct udmabuf_range range[];
};

#define UDMABUF_CREATE_ONE  _IOW('u', 0x42, struct udmabuf_range)
#define UDMABUF_CREATE_MANY _IOW('u', 0x43, struct udmabuf_list)
#define UDMABUF_CLOEXEC	    1

static int udmabuf_ioctl(unsigned long command, const void *argument)
{
	int ret, device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (device < 0)
		return -errno;
	ret = ioctl(device, command, argument);
	if (ret < 0)
		ret = -errno;
	close(device);
	return ret;
}

int udmabuf_create(int memfd, uint64_t offset, uint64_t bytes)
{
	struct udmabuf_range range = { memfd, UDMABUF_CLOEXEC, offset, bytes };

	return udmabuf_ioctl(UDMABUF_CREATE_ONE, &range);
}

int udmabuf_create_list(int memfd, unsigned int count, size_t bytes)
{
	struct udmabuf_list *list = calloc(1, sizeof(*list) + count * sizeof(list->range[0]));
	int ret;

	if (!list)
		return -ENOMEM;
	list->flags = UDMABUF_CLOEXEC;
	list->count = count;
	for (unsigned int i = 0; i < count; i++)
		list->range[i] = (struct udmabuf_range){ .memfd = memfd, .bytes = bytes };
	ret = udmabuf_ioctl(UDMABUF_CREATE_MANY, list);
	free(list);
	return ret;
}

int memfd_sealed(size_t bytes, unsigned int flags, int seals)
{
	int memfd = memfd_create("lab", flags | MFD_CLOEXEC);

	if (memfd < 0 || ftruncate(memfd, bytes) || (seals && fcntl(memfd, F_ADD_SEALS, seals)))
		return -errno;
	return memfd;
}

int buffer_create(struct buffer *buffer, size_t bytes)
{
	buffer->bytes = bytes;
	buffer->memfd = memfd_sealed(bytes, MFD_ALLOW_SEALING, F_SEAL_SHRINK);
	if (buffer->memfd < 0)
		return buffer->memfd;
	buffer->dmabuf = udmabuf_create(buffer->memfd, 0, bytes);
	if (buffer->dmabuf < 0)
		return buffer->dmabuf;
	buffer->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->memfd, 0);
	return buffer->memory == MAP_FAILED ? -errno : 0;
}

/* traffic */

ssize_t send_devmem_vector(int sock, uint32_t dmabuf_id, size_t cmsg_bytes, struct iovec *vector,
	size_t count, int flags)
{
	char control[CMSG_SPACE(64)] = { 0 };
	struct msghdr m = {
		.msg_iov = vector,
		.msg_iovlen = count,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(cmsg_bytes),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	ssize_t sent;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = LAB_SO_DEVMEM_DMABUF;
	c->cmsg_len = CMSG_LEN(cmsg_bytes);
	memcpy(CMSG_DATA(c), &dmabuf_id, sizeof(dmabuf_id));
	sent = sendmsg(sock, &m, flags);
	return sent < 0 ? -errno : sent;
}

ssize_t send_devmem(int sock, uint32_t dmabuf_id, size_t offset, size_t bytes, int flags)
{
	struct iovec vector = { (void *)offset, bytes };

	return send_devmem_vector(sock, dmabuf_id, sizeof(dmabuf_id), &vector, 1, flags);
}

unsigned int completions_reap(int sock, unsigned int *copied)
{
	unsigned int done = 0;

	for (;;) {
		char control[256];
		struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(sock, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return done;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			const struct sock_extended_err *e = (const void *)CMSG_DATA(c);
			unsigned int n = e->ee_data - e->ee_info + 1;

			if (e->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
				continue;
			done += n;
			if (e->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
				*copied += n;
		}
	}
}
