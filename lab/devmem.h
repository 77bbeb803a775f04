/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's device memory calls, bare: for the programs of the lab.
 *
 * Nothing of src/ is used here on purpose: what the kernel answers is the evidence that weir's own
 * code is held against, so it must not come through that code.
 *
 *	struct buffer buffer;
 *	int netlink = netlink_open(NETLINK_GENERIC);
 *	buffer_create(&buffer, 8 << 20);
 *	id = bind_rx(netlink, if_nametoindex("lab1"), buffer.dmabuf, 2, 1);
 *	if (id < 0)
 *		printf("%s: %s\n", strerror(-id), netlink_words());
 *
 * Functions return -errno or what they were asked for. One thread only.
 */
#ifndef LAB_DEVMEM_H
#define LAB_DEVMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Newer than the distribution's headers. */
#define LAB_SO_DEVMEM_LINEAR   78
#define LAB_SO_DEVMEM_DMABUF   79
#define LAB_SO_DEVMEM_DONTNEED 80
#define LAB_MSG_SOCK_DEVMEM    0x2000000

struct lab_fragment {
	uint64_t offset;
	uint32_t bytes;
	uint32_t token;
	uint32_t dmabuf_id;
	uint32_t flags;
};

struct lab_token {
	uint32_t start;
	uint32_t count;
};

#define LAB_FRAGMENT_SPACE CMSG_SPACE(sizeof(struct lab_fragment)) /* 40 bytes */

/* A netlink socket. A binding lives as long as the socket it was made with. */
int netlink_open(int protocol);

/* What the kernel said in words about the last call, or "". */
const char *netlink_words(void);
void netlink_forget_words(void);

/* Bind a dma-buf to RX queues of a device or to its TX; return the dma-buf's id. */
enum { QUEUE_TYPE_RX, QUEUE_TYPE_TX };
int bind_rx(int netlink, int ifindex, int dmabuf, int first_queue, int queues);
int bind_rx_queue_type(int netlink, int ifindex, int dmabuf, int queue, int type);
int bind_tx(int netlink, int ifindex, int dmabuf);

/* Header split and its threshold; a negative value leaves that setting alone. */
enum { SPLIT_OFF = 1, SPLIT_ON = 2 };
int rings_set(int ifindex, int split, int hds_thresh);

int link_set_up(const char *iface, int up);
int link_add_netkit(const char *iface);
int link_set_xdp(int ifindex, int program); /* -1 takes it off */
int xdp_program_load(void);		    /* one that passes everything on */
int xsk_open(
	int ifindex, int queue); /* an AF_XDP socket in copy mode; close it to free the queue */

/* Steers TCP over IPv4 to a destination port into a queue; returns the rule's number. */
int steer_port(const char *iface, uint16_t port, int queue);

/* Memory that has a dma-buf, by udmabuf. */
struct buffer {
	int memfd;
	int dmabuf;
	size_t bytes;
	unsigned char *memory;
};
int buffer_create(struct buffer *buffer, size_t bytes);
int memfd_sealed(size_t bytes, unsigned int flags, int seals);
int udmabuf_create(int memfd, uint64_t offset, uint64_t bytes); /* the dma-buf */
int udmabuf_create_list(
	int memfd, unsigned int count, size_t bytes); /* count times the same bytes */

/* sendmsg of a range of the bound dma-buf; and of ranges, with a control message of any size. */
ssize_t send_devmem(int sock, uint32_t dmabuf_id, size_t offset, size_t bytes, int flags);
ssize_t send_devmem_vector(int sock, uint32_t dmabuf_id, size_t cmsg_bytes, struct iovec *vector,
	size_t count, int flags);

/* Takes all completions off the error queue; returns how many sends completed, *copied those the
 * kernel copied after all.
 */
unsigned int completions_reap(int sock, unsigned int *copied);

#endif
