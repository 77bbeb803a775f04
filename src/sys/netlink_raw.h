/* SPDX-License-Identifier: BSD-3-Clause */
/* Dumps of the classic netlink families (routing, socket diagnosis): by the kernel's own headers, no library.
 *
 *	struct {
 *		struct nlmsghdr head;
 *		struct tcmsg body;
 *	} request = { .head = { .nlmsg_type = RTM_GETQDISC, .nlmsg_len = sizeof(request) } };
 *
 *	ret = netlink_raw_dump(&fd, NETLINK_ROUTE, &request.head, take, context);
 *
 * netlink.h is for the generic families. Every wait ends after two seconds. Not thread-safe for one fd.
 */
#ifndef WEIR_SYS_NETLINK_RAW_H
#define WEIR_SYS_NETLINK_RAW_H

#include <linux/netlink.h>
#include <stddef.h>

/* One message of the answer, checked to be whole. */
typedef void netlink_raw_fn(const struct nlmsghdr *message, void *context);

/* fd 0 is opened first, and stays open for the next call; the caller closes it. 0 or -errno. */
int netlink_raw_dump(
	int *fd, int protocol, struct nlmsghdr *request, netlink_raw_fn *take, void *context);

/* An attribute of a message after a body of so many bytes, NULL when there is none; and of a nest. */
const struct nlattr *netlink_raw_find(const struct nlmsghdr *message, size_t body, int type);
const struct nlattr *netlink_raw_nested(const struct nlattr *nest, int type);
size_t netlink_raw_bytes(const struct nlattr *a);
const void *netlink_raw_data(const struct nlattr *a);

#endif
