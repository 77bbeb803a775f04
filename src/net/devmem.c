// SPDX-License-Identifier: BSD-3-Clause
#include "net/devmem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "sys/uapi.h"

/* The kernel's own code for "the control buffer takes not even one message"; it should not get out. */
#define ERRNO_NO_CONTROL_ROOM 525

int devmem_rx_init(struct devmem_rx *rx, uint32_t dmabuf_id, struct err *e)
{
	memset(rx, 0, sizeof(*rx));
	rx->dmabuf_id = dmabuf_id;
	rx->control_bytes = DEVMEM_FRAGMENTS * CMSG_SPACE(sizeof(struct uapi_dmabuf_cmsg));
	rx->control = malloc(rx->control_bytes);
	rx->list = calloc(DEVMEM_FRAGMENTS, sizeof(*rx->list));
	rx->linear = calloc(DEVMEM_FRAGMENTS, sizeof(*rx->linear));
	rx->run = calloc(DEVMEM_FRAGMENTS + 1, sizeof(*rx->run));
	if (!rx->control || !rx->list || !rx->linear || !rx->run) {
		devmem_rx_free(rx);
		return err_set(e, ENOMEM, "no memory for %d fragments", DEVMEM_FRAGMENTS);
	}
	rx->run[0].token_start = UINT32_MAX; /* a token that never comes would follow it */
	return 0;
}

void devmem_rx_free(struct devmem_rx *rx)
{
	free(rx->control);
	free(rx->list);
	free(rx->linear);
	free(rx->run);
	rx->control = NULL;
	rx->list = NULL;
	rx->linear = NULL;
	rx->run = NULL;
}

/* What the control messages of one call come to, kept in registers: this runs for every packet. */
struct devmem_sum {
	struct mem_fragment *list, *linear; /* where the next one goes */
	struct uapi_dmabuf_token *run;	    /* the last one */
	uint32_t dmabuf_id, at, linear_bytes, foreign;
};

/* Tokens mostly follow each other: they go back in runs. */
static inline void devmem_take_token(struct devmem_sum *sum, uint32_t token)
{
	if (token == sum->run->token_start + sum->run->token_count)
		sum->run->token_count++;
	else
		*++sum->run = (struct uapi_dmabuf_token){ token, 1 };
}

static inline void devmem_take(struct devmem_sum *sum, const struct cmsghdr *cmsg)
{
	const struct uapi_dmabuf_cmsg *got = (const struct uapi_dmabuf_cmsg *)CMSG_DATA(cmsg);

	if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_len < CMSG_LEN(sizeof(*got)))
		return;
	if (cmsg->cmsg_type == UAPI_SO_DEVMEM_DMABUF) {
		*sum->list++ = (struct mem_fragment){ got->frag_offset, got->frag_size, sum->at };
		sum->foreign |= got->dmabuf_id ^ sum->dmabuf_id;
		devmem_take_token(sum, got->frag_token);
	} else if (cmsg->cmsg_type == UAPI_SO_DEVMEM_LINEAR) {
		*sum->linear++ =
			(struct mem_fragment){ sum->linear_bytes, got->frag_size, sum->at };
		sum->linear_bytes += got->frag_size;
	} else {
		return;
	}
	sum->at += got->frag_size;
}

/* What CMSG_NXTHDR() does, in half the instructions. The control buffer has room for DEVMEM_FRAGMENTS messages that
 * devmem_take() takes: the lists are long enough. */
static void devmem_take_all(struct devmem_rx *rx, struct devmem_sum *result, size_t control_bytes)
{
	const char *next = rx->control, *end = next + control_bytes;
	struct devmem_sum sum = {
		.list = rx->list, .linear = rx->linear, .run = rx->run, .dmabuf_id = rx->dmabuf_id
	};

	while ((size_t)(end - next) >= CMSG_LEN(sizeof(struct uapi_dmabuf_cmsg))) {
		const struct cmsghdr *cmsg = (const struct cmsghdr *)next;
		size_t bytes = CMSG_ALIGN(cmsg->cmsg_len);

		if (bytes < sizeof(*cmsg) || bytes > (size_t)(end - next))
			break;
		devmem_take(&sum, cmsg);
		next += bytes;
	}
	*result = sum;
}

static void devmem_count(struct devmem_rx *rx, const struct devmem_sum *sum)
{
	rx->count = (uint32_t)(sum->list - rx->list);
	rx->linear_count = (uint32_t)(sum->linear - rx->linear);
	rx->runs = (uint32_t)(sum->run - rx->run);
	rx->fragments += rx->count + rx->linear_count;
	rx->linear_bytes += sum->linear_bytes;
	rx->dmabuf_bytes += sum->at - sum->linear_bytes;
	rx->tokens_held += rx->count;
	if (rx->tokens_held > rx->tokens_held_most)
		rx->tokens_held_most = rx->tokens_held;
}

ssize_t devmem_recv(struct devmem_rx *rx, int fd, void *plain, size_t length)
{
	struct iovec iov = { plain, length };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = rx->control,
		.msg_controllen = rx->control_bytes };
	struct devmem_sum sum;
	ssize_t n;

	rx->count = 0;
	rx->runs = 0;
	rx->linear_count = 0;
	n = recvmsg(fd, &msg, UAPI_MSG_SOCK_DEVMEM | MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	rx->calls++;
	devmem_take_all(rx, &sum, msg.msg_controllen);
	devmem_count(rx, &sum);
	/* No control message at all: the kernel copied ordinary bytes. */
	if (!rx->count && !rx->linear_count) {
		rx->plain_bytes += (uint64_t)n;
		return n;
	}
	if (sum.foreign) {
		devmem_release(rx, fd);
		return -EIO;
	}
	return sum.at;
}

static_assert(DEVMEM_FRAGMENTS <= UAPI_DONTNEED_FRAGS_MAX, "one call frees what one call brought");

/* One call takes so many runs; it says how many fragments it freed. */
static int devmem_dontneed(struct devmem_rx *rx, int fd, const struct uapi_dmabuf_token *tokens,
	uint32_t runs, uint32_t fragments)
{
	int freed = setsockopt(fd, SOL_SOCKET, UAPI_SO_DEVMEM_DONTNEED, tokens,
		(socklen_t)(runs * sizeof(*tokens)));

	if (freed < 0)
		return -errno;
	rx->releases++;
	rx->tokens_held -= (uint32_t)freed < fragments ? (uint32_t)freed : fragments;
	return (uint32_t)freed < fragments ? -EINVAL : 0;
}

int devmem_release(struct devmem_rx *rx, int fd)
{
	int ret = 0;

	for (uint32_t first = 1; first <= rx->runs; first += UAPI_DONTNEED_TOKENS_MAX) {
		uint32_t runs = rx->runs - first + 1, fragments = 0;
		int failed;

		if (runs > UAPI_DONTNEED_TOKENS_MAX)
			runs = UAPI_DONTNEED_TOKENS_MAX;
		for (uint32_t i = first; i < first + runs; i++)
			fragments += rx->run[i].token_count;
		failed = devmem_dontneed(rx, fd, &rx->run[first], runs, fragments);
		ret = ret ? ret : failed;
	}
	rx->count = 0;
	rx->linear_count = 0;
	rx->runs = 0;
	return ret;
}

ssize_t devmem_send(int fd, uint32_t dmabuf_id, uint64_t offset, size_t length, int flags)
{
	/* For a dma-buf the address is the offset in it. */
	struct iovec iov = { (void *)(uintptr_t)offset, length };
	union {
		char bytes[CMSG_SPACE(sizeof(uint32_t))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = UAPI_SO_DEVMEM_DMABUF;
	cmsg->cmsg_len = CMSG_LEN(sizeof(dmabuf_id));
	memcpy(CMSG_DATA(cmsg), &dmabuf_id, sizeof(dmabuf_id));
	n = sendmsg(fd, &msg, flags | MSG_ZEROCOPY | MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : n;
}

static const struct {
	int sending, error;
	const char *what, *hint;
} devmem_errors[] = {
	{ 0, EFAULT, "device-memory data came on a connection that is read as ordinary",
		"another program bound this queue: weir nic show NIC" },
	{ 0, ERRNO_NO_CONTROL_ROOM, "the kernel found no room for its control messages",
		"this is a fault in weir: please report it with the kernel's version" },
	{ 0, ENODEV,
		"one packet holds both device memory and ordinary memory: header split is broken",
		"update the NIC's driver and firmware, or use --path staged" },
	{ 0, EIO, "a fragment of another dma-buf came",
		"end what else uses this queue: weir nic show NIC" },
	{ 0, EINVAL, "the kernel did not take device memory back (SO_DEVMEM_DONTNEED)",
		"this is a fault in weir: please report it with the kernel's version" },
	{ 1, EINVAL, "the kernel does not take the dma-buf for this connection",
		"is the interface still bound? weir nic show NIC; sending needs Linux 6.16" },
	{ 1, EFAULT, "the range is beyond the dma-buf",
		"this is a fault in weir: please report it" },
	{ 1, ENODEV,
		"the route to the peer leaves by another interface than the dma-buf is bound to",
		"name the right one with --nic, see: ip route get PEER" },
	{ 1, EOPNOTSUPP, "the interface cannot send from device memory",
		"use --path staged, or a driver with netmem TX (Linux 6.16)" },
};

int devmem_explain(int error, int sending, struct err *e)
{
	for (size_t i = 0; i < sizeof(devmem_errors) / sizeof(devmem_errors[0]); i++) {
		if (devmem_errors[i].error != error || devmem_errors[i].sending != sending)
			continue;
		err_set(e, error, "%s", devmem_errors[i].what);
		err_hint(e, "%s", devmem_errors[i].hint);
		return -error;
	}
	return err_set(e, error, "%s", strerror(error));
}
