/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a generic netlink family of the kernel, and their answers. The only user of libmnl.
 *
 *	struct netlink n;
 *	struct netlink_request r;
 *	struct nlattr *nest;
 *
 *	ret = netlink_open(&n, "ethtool", e);
 *	if (ret)
 *		return ret;
 *	netlink_begin(&r, &n, ETHTOOL_MSG_RINGS_GET);
 *	nest = netlink_nest(&r, ETHTOOL_A_RINGS_HEADER);
 *	netlink_put_text(&r, ETHTOOL_A_HEADER_DEV_NAME, "eth1");
 *	netlink_nest_end(&r, nest);
 *	ret = netlink_call(&n, &r, take_rings, &rings, e);
 *	netlink_close(&n);
 *
 * The kernel's own words for a refusal (its extended ack) become the words of the error, and stay
 * in said. Every wait ends: an answer that does not come within NETLINK_WAIT_S is -ETIMEDOUT.
 * Without libmnl netlink_open() returns -ENOTSUP and nothing else is ever called. Not thread-safe.
 */
#ifndef WEIR_SYS_NETLINK_H
#define WEIR_SYS_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NETLINK_WAIT_S	      20
#define NETLINK_REQUEST_BYTES 8192
#define NETLINK_ATTRS	      64

struct netlink {
	void *socket; /* libmnl's, NULL when closed */
	uint16_t family;
	uint8_t version;
	uint32_t sequence;
	uint64_t commands; /* bit set: those below 64 that the running kernel has */
	char said[160];	   /* the kernel's words for the last refusal, empty: none */
};

struct netlink_request {
	bool too_long; /* something did not fit: netlink_call() refuses it */
	union {
		struct nlmsghdr head;
		char room[NETLINK_REQUEST_BYTES];
	};
};

/* A message of the answer: its attributes by type, NULL for those that are not there. Returns 0, or
 * -errno to end the call with it. */
typedef int netlink_take_fn(const struct nlattr *const *attr, void *context);

/* Whether weir was built with libmnl: -ENOTSUP is also what a driver says that cannot (EOPNOTSUPP). */
bool netlink_is_built(void);

/* -ENOTSUP without libmnl, -ENOENT when the kernel has no such family. */
int netlink_open(struct netlink *n, const char *family, struct err *e);
void netlink_close(struct netlink *n); /* a closed one is left alone */

/* Whether the running kernel has a command of the family. */
bool netlink_has(const struct netlink *n, unsigned int command);

void netlink_begin(struct netlink_request *r, const struct netlink *n, uint8_t command);
void netlink_put_u8(struct netlink_request *r, uint16_t type, uint8_t value);
void netlink_put_u32(struct netlink_request *r, uint16_t type, uint32_t value);
void netlink_put_text(struct netlink_request *r, uint16_t type, const char *text);
void netlink_put_flag(struct netlink_request *r, uint16_t type);
struct nlattr *netlink_nest(struct netlink_request *r, uint16_t type);
void netlink_nest_end(struct netlink_request *r, struct nlattr *nest);

/* Send, and take every message of the answer; take may be NULL. */
int netlink_call(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e);
/* The same for a request that asks for all objects of a kind. */
int netlink_dump(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e);

/* Values: an attribute that is not there, or has another size, is 0 or "". */
uint64_t netlink_number(const struct nlattr *a);
const char *netlink_text(const struct nlattr *a);

/* The attributes of a nest by type; and one after the other, where types repeat: NULL starts and
 * ends. */
void netlink_nested(const struct nlattr *nest, const struct nlattr **attr);
const struct nlattr *netlink_next(const struct nlattr *nest, const struct nlattr *last);

#endif
