/* SPDX-License-Identifier: BSD-3-Clause */
/* netlink.h where weir is built without libmnl: opening fails, so nothing else is ever called. */
#include <string.h>

#include "sys/netlink.h"

bool netlink_is_built(void)
{
	return false;
}

int netlink_open(struct netlink *n, const char *family, struct err *e)
{
	*n = (struct netlink){ 0 };
	err_set(e, ENOTSUP, "weir was built without libmnl and cannot ask the kernel's %s family",
		family);
	return err_hint(e, "build it with libmnl-dev installed: meson setup -Dnetlink=enabled");
}

void netlink_close(struct netlink *n)
{
	(void)n;
}

void netlink_begin(struct netlink_request *r, const struct netlink *n, uint8_t command)
{
	(void)n;
	(void)command;
	r->too_long = true;
}

void netlink_put_u8(struct netlink_request *r, uint16_t type, uint8_t value)
{
	(void)r;
	(void)type;
	(void)value;
}

void netlink_put_u32(struct netlink_request *r, uint16_t type, uint32_t value)
{
	(void)r;
	(void)type;
	(void)value;
}

void netlink_put_text(struct netlink_request *r, uint16_t type, const char *text)
{
	(void)r;
	(void)type;
	(void)text;
}

void netlink_put_flag(struct netlink_request *r, uint16_t type)
{
	(void)r;
	(void)type;
}

struct nlattr *netlink_nest(struct netlink_request *r, uint16_t type)
{
	(void)r;
	(void)type;
	return NULL;
}

void netlink_nest_end(struct netlink_request *r, struct nlattr *nest)
{
	(void)r;
	(void)nest;
}

int netlink_call(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e)
{
	(void)n;
	(void)r;
	(void)take;
	(void)context;
	return err_set(e, ENOTSUP, "weir was built without libmnl");
}

int netlink_dump(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e)
{
	return netlink_call(n, r, take, context, e);
}

void netlink_nested(const struct nlattr *nest, const struct nlattr **attr)
{
	(void)nest;
	memset(attr, 0, NETLINK_ATTRS * sizeof(*attr));
}

const struct nlattr *netlink_next(const struct nlattr *nest, const struct nlattr *last)
{
	(void)nest;
	(void)last;
	return NULL;
}

bool netlink_has(const struct netlink *n, unsigned int command)
{
	(void)n;
	(void)command;
	return false;
}

uint64_t netlink_number(const struct nlattr *a)
{
	(void)a;
	return 0;
}

const char *netlink_text(const struct nlattr *a)
{
	(void)a;
	return "";
}
