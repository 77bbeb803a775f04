/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/ethtool_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/netlink.h"
#include "sys/nic_link.h"
#include "sys/uapi.h"

/* One request about one interface. */
struct question {
	struct netlink link;
	struct netlink_request request;
};

static int ask(struct question *q, const char *nic, uint8_t command, struct err *e)
{
	struct nlattr *header;
	int ret;

	ret = netlink_open(&q->link, ETHTOOL_GENL_NAME, e);
	if (ret)
		return ret;
	netlink_begin(&q->request, &q->link, command);
	/* ABI: the header is attribute 1 of every ethtool message. */
	header = netlink_nest(&q->request, ETHTOOL_A_RINGS_HEADER);
	netlink_put_text(&q->request, ETHTOOL_A_HEADER_DEV_NAME, nic);
	netlink_nest_end(&q->request, header);
	return 0;
}

static int answer(struct question *q, netlink_take_fn *take, void *context, const char *verb,
	const char *what, const char *nic, struct err *e)
{
	int ret = netlink_call(&q->link, &q->request, take, context, e);

	netlink_close(&q->link);
	switch (ret) {
	case 0:
		return 0;
	case -ENODEV:
		err_set(e, ENODEV, "there is no network interface %s in this network namespace",
			nic);
		err_hint(e, "list the interfaces with: weir nic show");
		return ret;
	case -EPERM:
		err_set(e, EPERM, "cannot %s %s of %s: this needs CAP_NET_ADMIN", verb, what, nic);
		err_hint(e, "run it as root");
		return ret;
	case -EOPNOTSUPP:
		err_prefix(e, "the driver of %s does not let weir %s %s", nic, verb, what);
		return ret;
	default:
		err_prefix(e, "cannot %s %s of %s", verb, what, nic);
		return ret;
	}
}

static int take_rings(const struct nlattr *const *attr, void *context)
{
	struct nic_rings *r = context;

	r->rx = (uint32_t)netlink_number(attr[ETHTOOL_A_RINGS_RX]);
	r->rx_max = (uint32_t)netlink_number(attr[ETHTOOL_A_RINGS_RX_MAX]);
	r->tx = (uint32_t)netlink_number(attr[ETHTOOL_A_RINGS_TX]);
	r->tx_max = (uint32_t)netlink_number(attr[ETHTOOL_A_RINGS_TX_MAX]);
	r->split = (enum nic_split)netlink_number(attr[ETHTOOL_A_RINGS_TCP_DATA_SPLIT]);
	r->has_hds_thresh = attr[UAPI_RINGS_HDS_THRESH];
	r->hds_thresh = (uint32_t)netlink_number(attr[UAPI_RINGS_HDS_THRESH]);
	r->hds_thresh_max = (uint32_t)netlink_number(attr[UAPI_RINGS_HDS_THRESH_MAX]);
	return 0;
}

int nic_rings_read(struct nic_rings *r, const char *nic, struct err *e)
{
	struct question q;
	int ret;

	*r = (struct nic_rings){ 0 };
	ret = ask(&q, nic, ETHTOOL_MSG_RINGS_GET, e);
	if (ret)
		return ret;
	return answer(&q, take_rings, r, "read", "the rings", nic, e);
}

int nic_rings_set(const char *nic, enum nic_ring what, uint32_t value, struct err *e)
{
	static const char *const words[] = { "the receive ring", "the transmit ring",
		"header split (tcp-data-split)", "the header split threshold (hds-thresh)" };
	struct question q;
	int ret;

	ret = ask(&q, nic, ETHTOOL_MSG_RINGS_SET, e);
	if (ret)
		return ret;
	switch (what) {
	case NIC_RING_RX:
		netlink_put_u32(&q.request, ETHTOOL_A_RINGS_RX, value);
		break;
	case NIC_RING_TX:
		netlink_put_u32(&q.request, ETHTOOL_A_RINGS_TX, value);
		break;
	case NIC_RING_SPLIT:
		netlink_put_u8(&q.request, ETHTOOL_A_RINGS_TCP_DATA_SPLIT, (uint8_t)value);
		break;
	case NIC_RING_HDS_THRESH:
		netlink_put_u32(&q.request, UAPI_RINGS_HDS_THRESH, value);
		break;
	}
	ret = answer(&q, NULL, NULL, "set", words[what], nic, e);
	if (ret == -EINVAL && e && strstr(e->what, "memory provider"))
		err_hint(e, "end the program whose device memory is bound to a queue of %s first",
			nic);
	return ret;
}

const char *const nic_channel_name[NIC_CHANNELS] = { "rx", "tx", "other", "combined" };

/* ABI: the maxima and the counts follow each other in the order of enum nic_channel. */
static int take_channels(const struct nlattr *const *attr, void *context)
{
	struct nic_channels *c = context;

	for (int i = 0; i < NIC_CHANNELS; i++) {
		c->max[i] = (uint32_t)netlink_number(attr[ETHTOOL_A_CHANNELS_RX_MAX + i]);
		c->count[i] = (uint32_t)netlink_number(attr[ETHTOOL_A_CHANNELS_RX_COUNT + i]);
	}
	return 0;
}

int nic_channels_read(struct nic_channels *c, const char *nic, struct err *e)
{
	struct question q;
	int ret;

	*c = (struct nic_channels){ 0 };
	ret = ask(&q, nic, ETHTOOL_MSG_CHANNELS_GET, e);
	if (ret)
		return ret;
	return answer(&q, take_channels, c, "read", "the channels", nic, e);
}

int nic_channels_set(const char *nic, enum nic_channel which, uint32_t count, struct err *e)
{
	struct question q;
	int ret;

	ret = ask(&q, nic, ETHTOOL_MSG_CHANNELS_SET, e);
	if (ret)
		return ret;
	netlink_put_u32(&q.request, (uint16_t)(ETHTOOL_A_CHANNELS_RX_COUNT + (int)which), count);
	return answer(&q, NULL, NULL, "set", "the channels", nic, e);
}

struct bit_list {
	struct nic_bit *bit;
	size_t count, room;
};

static struct nic_bit *bit_named(struct bit_list *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->bit[i].name, name))
			return &l->bit[i];
	return NULL;
}

static struct nic_bit *bit_added(struct bit_list *l, const char *name)
{
	struct nic_bit *grown;

	if (l->count == l->room) {
		grown = reallocarray(l->bit, l->room + 64, sizeof(*grown));
		if (!grown)
			return NULL;
		l->bit = grown;
		l->room += 64;
	}
	grown = &l->bit[l->count++];
	*grown = (struct nic_bit){ 0 };
	snprintf(grown->name, sizeof(grown->name), "%s", name);
	return grown;
}

/* Walk a bit set of the verbose kind: each bit with its name, a flag where it is set. */
static const struct nlattr *bits_of(const struct nlattr *set)
{
	const struct nlattr *attr[NETLINK_ATTRS];

	if (!set)
		return NULL;
	netlink_nested(set, attr);
	return attr[ETHTOOL_A_BITSET_BITS];
}

static int add_all(struct bit_list *l, const struct nlattr *set, bool value_is_on)
{
	const struct nlattr *bits = bits_of(set), *attr[NETLINK_ATTRS];
	struct nic_bit *bit;

	for (const struct nlattr *a = NULL; bits && (a = netlink_next(bits, a));) {
		netlink_nested(a, attr);
		bit = bit_added(l, netlink_text(attr[ETHTOOL_A_BITSET_BIT_NAME]));
		if (!bit)
			return -ENOMEM;
		if (value_is_on)
			bit->on = bit->wanted = attr[ETHTOOL_A_BITSET_BIT_VALUE];
		else
			bit->fixed = !attr[ETHTOOL_A_BITSET_BIT_VALUE];
	}
	return 0;
}

/* A set without a mask lists those bits that are set. */
static void mark(struct bit_list *l, const struct nlattr *set, size_t flag_offset)
{
	const struct nlattr *bits = bits_of(set), *attr[NETLINK_ATTRS];
	struct nic_bit *bit;

	for (const struct nlattr *a = NULL; bits && (a = netlink_next(bits, a));) {
		netlink_nested(a, attr);
		bit = bit_named(l, netlink_text(attr[ETHTOOL_A_BITSET_BIT_NAME]));
		if (bit)
			*(bool *)((char *)bit + flag_offset) = true;
	}
}

static int take_features(const struct nlattr *const *attr, void *context)
{
	struct bit_list *l = context;
	int ret;

	ret = add_all(l, attr[ETHTOOL_A_FEATURES_HW], false);
	if (ret)
		return ret;
	mark(l, attr[ETHTOOL_A_FEATURES_WANTED], offsetof(struct nic_bit, wanted));
	mark(l, attr[ETHTOOL_A_FEATURES_ACTIVE], offsetof(struct nic_bit, on));
	mark(l, attr[ETHTOOL_A_FEATURES_NOCHANGE], offsetof(struct nic_bit, fixed));
	return 0;
}

static int take_flags(const struct nlattr *const *attr, void *context)
{
	return add_all(context, attr[ETHTOOL_A_PRIVFLAGS_FLAGS], true);
}

int nic_bits_read(
	struct nic_bit **bits, size_t *count, const char *nic, enum nic_bits set, struct err *e)
{
	bool features = set == NIC_FEATURES;
	struct bit_list list = { 0 };
	struct question q;
	int ret;

	*bits = NULL;
	*count = 0;
	ret = ask(&q, nic, features ? ETHTOOL_MSG_FEATURES_GET : ETHTOOL_MSG_PRIVFLAGS_GET, e);
	if (ret)
		return ret;
	ret = answer(&q, features ? take_features : take_flags, &list, "read",
		features ? "the features" : "the private flags", nic, e);
	if (ret == -EOPNOTSUPP && !features && netlink_is_built()) {
		err_clear(e);
		ret = 0;
	}
	if (ret) {
		free(list.bit);
		return ret;
	}
	*bits = list.bit;
	*count = list.count;
	return 0;
}

int nic_bit_find(
	struct nic_bit *bit, const char *nic, enum nic_bits set, const char *name, struct err *e)
{
	struct bit_list list = { 0 };
	struct nic_bit *found;
	int ret;

	ret = nic_bits_read(&list.bit, &list.count, nic, set, e);
	if (ret)
		return ret;
	found = bit_named(&list, name);
	if (found)
		*bit = *found;
	else
		ret = err_set(e, ENOENT, "%s has no %s named %s", nic,
			set == NIC_FEATURES ? "feature" : "private flag", name);
	free(list.bit);
	return ret;
}

int nic_bit_set(const char *nic, enum nic_bits set, const char *name, bool on, struct err *e)
{
	bool features = set == NIC_FEATURES;
	struct nlattr *bitset, *bits, *bit;
	struct question q;
	char what[64];
	int ret;

	ret = ask(&q, nic, features ? ETHTOOL_MSG_FEATURES_SET : ETHTOOL_MSG_PRIVFLAGS_SET, e);
	if (ret)
		return ret;
	bitset = netlink_nest(
		&q.request, features ? ETHTOOL_A_FEATURES_WANTED : ETHTOOL_A_PRIVFLAGS_FLAGS);
	bits = netlink_nest(&q.request, ETHTOOL_A_BITSET_BITS);
	bit = netlink_nest(&q.request, ETHTOOL_A_BITSET_BITS_BIT);
	netlink_put_text(&q.request, ETHTOOL_A_BITSET_BIT_NAME, name);
	if (on)
		netlink_put_flag(&q.request, ETHTOOL_A_BITSET_BIT_VALUE);
	netlink_nest_end(&q.request, bit);
	netlink_nest_end(&q.request, bits);
	netlink_nest_end(&q.request, bitset);
	snprintf(what, sizeof(what), "the %s %s", features ? "feature" : "private flag", name);
	return answer(&q, NULL, NULL, "set", what, nic, e);
}
