// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "sys/netlink_raw.h"

#define ANSWER_BYTES 65536
#define WAIT_S	     2

static int open_socket(int *fd, int protocol)
{
	struct timeval wait = { .tv_sec = WAIT_S };

	if (*fd > 0)
		return 0;
	*fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (*fd < 0) {
		*fd = 0;
		return -errno;
	}
	setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	return 0;
}

/* 1: the last one was there. */
static int take_messages(
	const char *bytes, size_t length, uint32_t sequence, netlink_raw_fn *take, void *context)
{
	while (length >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *m = (const void *)bytes;
		size_t step = NLMSG_ALIGN(m->nlmsg_len);

		if (m->nlmsg_len < sizeof(*m) || m->nlmsg_len > length)
			return -EBADMSG;
		if (m->nlmsg_seq == sequence && m->nlmsg_type == NLMSG_DONE)
			return 1;
		if (m->nlmsg_seq == sequence && m->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *why = (const void *)(m + 1);

			return m->nlmsg_len >= sizeof(*m) + sizeof(*why) && why->error ? why->error
										       : 1;
		}
		if (m->nlmsg_seq == sequence && m->nlmsg_type >= NLMSG_MIN_TYPE)
			take(m, context);
		bytes += step < length ? step : length;
		length -= step < length ? step : length;
	}
	return 0;
}

int netlink_raw_dump(
	int *fd, int protocol, struct nlmsghdr *request, netlink_raw_fn *take, void *context)
{
	static _Thread_local char answer[ANSWER_BYTES] __attribute__((aligned(8)));
	static _Thread_local uint32_t sequence;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	ssize_t got;
	int ret;

	ret = open_socket(fd, protocol);
	if (ret)
		return ret;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request->nlmsg_seq = ++sequence;
	if (sendto(*fd, request, request->nlmsg_len, 0, (void *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	while (!ret) {
		got = recv(*fd, answer, sizeof(answer), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		ret = take_messages(answer, (size_t)got, sequence, take, context);
	}
	return ret < 0 ? ret : 0;
}

static const struct nlattr *find(const char *bytes, size_t length, int type)
{
	while (length >= sizeof(struct nlattr)) {
		const struct nlattr *a = (const void *)bytes;
		size_t step = NLA_ALIGN(a->nla_len);

		if (a->nla_len < sizeof(*a) || a->nla_len > length)
			return NULL;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		if (step >= length)
			return NULL;
		bytes += step;
		length -= step;
	}
	return NULL;
}

const struct nlattr *netlink_raw_find(const struct nlmsghdr *message, size_t body, int type)
{
	size_t begin = NLMSG_ALIGN(sizeof(*message) + body);

	if (message->nlmsg_len <= begin)
		return NULL;
	return find((const char *)message + begin, message->nlmsg_len - begin, type);
}

const struct nlattr *netlink_raw_nested(const struct nlattr *nest, int type)
{
	return nest ? find(netlink_raw_data(nest), netlink_raw_bytes(nest), type) : NULL;
}

size_t netlink_raw_bytes(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

const void *netlink_raw_data(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}
