/* SPDX-License-Identifier: BSD-3-Clause */
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string.h>
#include <sys/time.h>

#include "sys/netlink.h"

/* Plain reading of what was checked to be an attribute: needs no library. */
static const void *payload(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static size_t payload_bytes(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

uint64_t netlink_number(const struct nlattr *a)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	switch (a ? payload_bytes(a) : 0) {
	case 1:
		return *(const uint8_t *)payload(a);
	case 2:
		memcpy(&v16, payload(a), sizeof(v16));
		return v16;
	case 4:
		memcpy(&v32, payload(a), sizeof(v32));
		return v32;
	case 8:
		memcpy(&v64, payload(a), sizeof(v64));
		return v64;
	default:
		return 0;
	}
}

const char *netlink_text(const struct nlattr *a)
{
	return a && memchr(payload(a), '\0', payload_bytes(a)) ? payload(a) : "";
}

bool netlink_has(const struct netlink *n, unsigned int command)
{
	return command < 64 && n->commands >> command & 1;
}

#define ANSWER_BYTES 32768

static void gather(const struct nlattr *a, const struct nlattr **attr)
{
	if (mnl_attr_get_type(a) < NETLINK_ATTRS)
		attr[mnl_attr_get_type(a)] = a;
}

void netlink_nested(const struct nlattr *nest, const struct nlattr **attr)
{
	memset(attr, 0, NETLINK_ATTRS * sizeof(*attr));
	for (const struct nlattr *a = NULL; (a = netlink_next(nest, a));)
		gather(a, attr);
}

const struct nlattr *netlink_next(const struct nlattr *nest, const struct nlattr *last)
{
	const char *end = (const char *)payload(nest) + payload_bytes(nest);
	const struct nlattr *a = last ? mnl_attr_next(last) : payload(nest);

	return mnl_attr_ok(a, (int)(end - (const char *)a)) ? a : NULL;
}

void netlink_begin(struct netlink_request *r, const struct netlink *n, uint8_t command)
{
	struct genlmsghdr *genl;

	r->too_long = false;
	mnl_nlmsg_put_header(r->room);
	r->head.nlmsg_type = n->family;
	r->head.nlmsg_flags = NLM_F_REQUEST;
	genl = mnl_nlmsg_put_extra_header(&r->head, sizeof(*genl));
	genl->cmd = command;
	genl->version = n->version;
}

static void put(struct netlink_request *r, uint16_t type, size_t bytes, const void *data)
{
	r->too_long |= !mnl_attr_put_check(&r->head, sizeof(r->room), type, bytes, data);
}

void netlink_put_u8(struct netlink_request *r, uint16_t type, uint8_t value)
{
	put(r, type, sizeof(value), &value);
}

void netlink_put_u32(struct netlink_request *r, uint16_t type, uint32_t value)
{
	put(r, type, sizeof(value), &value);
}

void netlink_put_text(struct netlink_request *r, uint16_t type, const char *text)
{
	put(r, type, strlen(text) + 1, text);
}

void netlink_put_flag(struct netlink_request *r, uint16_t type)
{
	put(r, type, 0, "");
}

struct nlattr *netlink_nest(struct netlink_request *r, uint16_t type)
{
	struct nlattr *nest = mnl_attr_nest_start_check(&r->head, sizeof(r->room), type);

	r->too_long |= !nest;
	return nest;
}

void netlink_nest_end(struct netlink_request *r, struct nlattr *nest)
{
	if (nest)
		mnl_attr_nest_end(&r->head, nest);
}

/* The reason in an error message: its errno, and the kernel's words where it has some. */
static int refusal(struct netlink *n, const struct nlmsghdr *head)
{
	const struct nlmsgerr *why = mnl_nlmsg_get_payload(head);
	size_t skip = sizeof(*why);
	const struct nlattr *a;

	if (mnl_nlmsg_get_payload_len(head) < sizeof(*why))
		return -EBADMSG;
	if (!(head->nlmsg_flags & NLM_F_ACK_TLVS))
		return why->error;
	/* Without NLM_F_CAPPED the request itself is repeated before the attributes. */
	if (!(head->nlmsg_flags & NLM_F_CAPPED) && why->msg.nlmsg_len >= sizeof(why->msg))
		skip += MNL_ALIGN(why->msg.nlmsg_len - sizeof(why->msg));
	if (skip > mnl_nlmsg_get_payload_len(head))
		return why->error;
	mnl_attr_for_each(a, head, skip)
	{
		if (mnl_attr_get_type(a) != NLMSGERR_ATTR_MSG)
			continue;
		strncpy(n->said, netlink_text(a), sizeof(n->said) - 1);
	}
	return why->error;
}

/* Returns 1 when the answer is complete, 0 for more, or -errno. */
static int take_message(
	struct netlink *n, const struct nlmsghdr *head, netlink_take_fn *take, void *context)
{
	const struct nlattr *attr[NETLINK_ATTRS] = { 0 }, *a;
	int ret;

	if (head->nlmsg_seq != n->sequence)
		return 0; /* late, of a call that was given up */
	switch (head->nlmsg_type) {
	case NLMSG_ERROR:
		ret = refusal(n, head);
		return ret < 0 ? ret : 1;
	case NLMSG_DONE:
		if (mnl_nlmsg_get_payload_len(head) < sizeof(ret))
			return 1;
		memcpy(&ret, mnl_nlmsg_get_payload(head), sizeof(ret));
		return ret < 0 ? ret : 1;
	case NLMSG_NOOP:
	case NLMSG_OVERRUN:
		return 0;
	default:
		if (mnl_nlmsg_get_payload_len(head) < sizeof(struct genlmsghdr) || !take)
			return 0;
		mnl_attr_for_each(a, head, sizeof(struct genlmsghdr))
		{
			gather(a, attr);
		}
		return take(attr, context);
	}
}

static int take_answer(struct netlink *n, netlink_take_fn *take, void *context)
{
	char room[ANSWER_BYTES];
	const struct nlmsghdr *head;
	ssize_t got;
	int left, ret = 0;

	while (!ret) {
		got = mnl_socket_recvfrom(n->socket, room, sizeof(room));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		left = (int)got;
		for (head = (void *)room; !ret && mnl_nlmsg_ok(head, left);
			head = mnl_nlmsg_next(head, &left))
			ret = take_message(n, head, take, context);
	}
	return ret < 0 ? ret : 0;
}

static int talk(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e)
{
	int ret;

	n->said[0] = '\0';
	if (r->too_long)
		return err_set(
			e, E2BIG, "the request is longer than %d bytes", NETLINK_REQUEST_BYTES);
	r->head.nlmsg_seq = ++n->sequence;
	ret = mnl_socket_sendto(n->socket, r->room, r->head.nlmsg_len) < 0 ? -errno : 0;
	if (!ret)
		ret = take_answer(n, take, context);
	if (ret)
		return n->said[0] ? err_set(e, -ret, "%s", n->said) : err_set(e, -ret, "%m");
	return 0;
}

int netlink_call(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e)
{
	r->head.nlmsg_flags |= NLM_F_ACK;
	return talk(n, r, take, context, e);
}

int netlink_dump(struct netlink *n, struct netlink_request *r, netlink_take_fn *take, void *context,
	struct err *e)
{
	r->head.nlmsg_flags |= NLM_F_DUMP;
	return talk(n, r, take, context, e);
}

static int take_family(const struct nlattr *const *attr, void *context)
{
	const struct nlattr *op[NETLINK_ATTRS];
	struct netlink *found = context;
	uint64_t command;

	found->family = (uint16_t)netlink_number(attr[CTRL_ATTR_FAMILY_ID]);
	found->version = (uint8_t)netlink_number(attr[CTRL_ATTR_VERSION]);
	if (!attr[CTRL_ATTR_OPS])
		return 0;
	for (const struct nlattr *a = NULL; (a = netlink_next(attr[CTRL_ATTR_OPS], a));) {
		netlink_nested(a, op);
		command = netlink_number(op[CTRL_ATTR_OP_ID]);
		if (command < 64)
			found->commands |= 1ull << command;
	}
	return 0;
}

static int find_family(struct netlink *n, const char *family, struct err *e)
{
	struct netlink found = { 0 };
	struct netlink_request r;
	int ret;

	n->family = GENL_ID_CTRL;
	n->version = 1;
	netlink_begin(&r, n, CTRL_CMD_GETFAMILY);
	netlink_put_text(&r, CTRL_ATTR_FAMILY_NAME, family);
	ret = netlink_call(n, &r, take_family, &found, e);
	if (ret)
		return err_prefix(e, "cannot find the netlink family %s in this kernel", family);
	n->family = found.family;
	n->version = found.version;
	n->commands = found.commands;
	return 0;
}

bool netlink_is_built(void)
{
	return true;
}

int netlink_open(struct netlink *n, const char *family, struct err *e)
{
	struct timeval wait = { .tv_sec = NETLINK_WAIT_S };
	int on = 1, ret;

	*n = (struct netlink){ .socket = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC) };
	if (!n->socket)
		return err_set(e, errno, "cannot open a netlink socket: %m");
	if (mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID)) {
		ret = err_set(e, errno, "cannot bind a netlink socket: %m");
		goto close;
	}
	mnl_socket_setsockopt(n->socket, NETLINK_EXT_ACK, &on, sizeof(on));
	mnl_socket_setsockopt(n->socket, NETLINK_CAP_ACK, &on, sizeof(on));
	setsockopt(mnl_socket_get_fd(n->socket), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	ret = find_family(n, family, e);
	if (ret)
		goto close;
	return 0;

close:
	netlink_close(n);
	return ret;
}

void netlink_close(struct netlink *n)
{
	if (n->socket)
		mnl_socket_close(n->socket);
	n->socket = NULL;
}
