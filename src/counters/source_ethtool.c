// SPDX-License-Identifier: BSD-3-Clause
/* What drivers count: ethtool -S (names as each likes), and the standard groups by netlink. */
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "counters/source.h"
#include "sys/netlink.h"
#include "sys/nic_ioctl.h"
#include "sys/path.h"

#define STATS_MAX 65536

struct ethtool_nic {
	char name[IFNAMSIZ];
	bool seen; /* in this reading */
	uint32_t count;
	struct ethtool_gstrings *strings;
	struct ethtool_stats *stats;
	uint32_t room;
	struct ethtool_nic *next;
};

static int count_strings(const char *nic, uint32_t *count)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} ask = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_STATS } };
	int ret = nic_ioctl(nic, &ask, "count the statistics", NULL);

	*count = !ret && ask.info.sset_mask ? ask.count : 0;
	if (*count > STATS_MAX)
		*count = STATS_MAX;
	return ret;
}

/* A driver may have more of them than before: the kernel then writes more, and there is room. */
static int learn_strings(struct ethtool_nic *n, uint32_t count)
{
	uint32_t room = count * 2 + 64;

	free(n->strings);
	free(n->stats);
	n->strings = calloc(1, sizeof(*n->strings) + (size_t)room * ETH_GSTRING_LEN);
	n->stats = calloc(1, sizeof(*n->stats) + (size_t)room * sizeof(uint64_t));
	n->room = room;
	n->count = 0;
	if (!n->strings || !n->stats)
		return -ENOMEM;
	n->strings->cmd = ETHTOOL_GSTRINGS;
	n->strings->string_set = ETH_SS_STATS;
	n->strings->len = count;
	if (nic_ioctl(n->name, n->strings, "read the names of the statistics", NULL))
		return 0;
	n->count = n->strings->len < count ? n->strings->len : count;
	return 0;
}

static void nic_stats(struct reader *r, struct ethtool_nic *n)
{
	char name[ETH_GSTRING_LEN + 1];
	uint64_t now_ns;
	uint32_t count;

	if (count_strings(n->name, &count) || !count)
		return;
	if (count != n->count && learn_strings(n, count)) {
		r->ret = err_set(r->e, ENOMEM, "no memory for the statistics of %s", n->name);
		return;
	}
	n->stats->cmd = ETHTOOL_GSTATS;
	n->stats->n_stats = n->count;
	if (!n->count || nic_ioctl(n->name, n->stats, "read the statistics", NULL))
		return;
	now_ns = clock_wall_ns();
	for (uint32_t i = 0; i < n->count && !r->ret; i++) {
		memcpy(name, n->strings->data + (size_t)i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		name[ETH_GSTRING_LEN] = '\0';
		if (name[0])
			reader_put(r, n->name, name, n->stats->data[i], now_ns);
	}
}

static struct ethtool_nic *nic_of(struct reader *r, void **state, const char *name)
{
	struct ethtool_nic *n;

	for (n = *state; n; n = n->next)
		if (!strcmp(n->name, name))
			return n;
	n = calloc(1, sizeof(*n));
	if (!n) {
		r->ret = err_set(r->e, ENOMEM, "no memory for the statistics of %s", name);
		return NULL;
	}
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->next = *state;
	*state = n;
	return n;
}

static void ethtool_read(struct reader *r, void **state)
{
	struct sys_names nics;

	if (sys_list(&nics, "/sys/class/net"))
		return;
	for (int i = 0; i < nics.count && !r->ret; i++) {
		const char *name = nics.entry[i]->d_name;
		struct ethtool_nic *n = NULL;

		if (strlen(name) < IFNAMSIZ && reader_wants(r, name))
			n = nic_of(r, state, name);
		if (n)
			nic_stats(r, n);
	}
	sys_names_free(&nics);
}

static void ethtool_forget(void *state)
{
	struct ethtool_nic *next;

	for (struct ethtool_nic *n = state; n; n = next) {
		next = n->next;
		free(n->strings);
		free(n->stats);
		free(n);
	}
}

const struct source source_ethtool = {
	.name = "ethtool",
	.about = "what each driver counts, by its own names: ethtool -S",
	.calls = true,
	.read = ethtool_read,
	.forget = ethtool_forget,
};

/* Standard groups */

static const char *const phy_names[] = { "SymbolErrorDuringCarrier" };
static const char *const mac_names[] = { "FramesTransmittedOK", "SingleCollisionFrames",
	"MultipleCollisionFrames", "FramesReceivedOK", "FrameCheckSequenceErrors",
	"AlignmentErrors", "OctetsTransmittedOK", "FramesWithDeferredXmissions", "LateCollisions",
	"FramesAbortedDueToXSColls", "FramesLostDueToIntMACXmitError", "CarrierSenseErrors",
	"OctetsReceivedOK", "FramesLostDueToIntMACRcvError", "MulticastFramesXmittedOK",
	"BroadcastFramesXmittedOK", "FramesWithExcessiveDeferral", "MulticastFramesReceivedOK",
	"BroadcastFramesReceivedOK", "InRangeLengthErrors", "OutOfRangeLengthField",
	"FrameTooLongErrors" };
static const char *const ctrl_names[] = { "MACControlFramesTransmitted", "MACControlFramesReceived",
	"UnsupportedOpcodesReceived" };
static const char *const rmon_names[] = { "etherStatsUndersizePkts", "etherStatsOversizePkts",
	"etherStatsFragments", "etherStatsJabbers" };

static const struct group {
	const char *name;
	uint32_t bit; /* ABI: ETHTOOL_STATS_* */
	const char *const *names;
	size_t count;
} groups[] = {
	{ "phy", 0, phy_names, sizeof(phy_names) / sizeof(phy_names[0]) },
	{ "mac", 1, mac_names, sizeof(mac_names) / sizeof(mac_names[0]) },
	{ "ctrl", 2, ctrl_names, sizeof(ctrl_names) / sizeof(ctrl_names[0]) },
	{ "rmon", 3, rmon_names, sizeof(rmon_names) / sizeof(rmon_names[0]) },
};

struct std_context {
	struct reader *r;
	const struct group *group;
	uint64_t now_ns;
};

static int attr_type(const struct nlattr *a)
{
	return a->nla_type & NLA_TYPE_MASK;
}

/* "Not counted" is all ones. */
static void std_put(struct std_context *c, const char *nic, const char *name, uint64_t value)
{
	if (value != UINT64_MAX && nic[0] && reader_wants(c->r, nic))
		reader_put(c->r, nic, name, value, c->now_ns);
}

static const char *nic_in(const struct nlattr *header)
{
	const struct nlattr *attr[NETLINK_ATTRS];

	if (!header)
		return "";
	netlink_nested(header, attr);
	return netlink_text(attr[ETHTOOL_A_HEADER_DEV_NAME]);
}

static void take_bucket(
	struct std_context *c, const char *nic, const char *way, const struct nlattr *bucket)
{
	const struct nlattr *attr[NETLINK_ATTRS];
	char name[COUNTER_TEXT];

	netlink_nested(bucket, attr);
	if (!attr[ETHTOOL_A_STATS_GRP_HIST_VAL])
		return;
	snprintf(name, sizeof(name), "rmon.%s_%uto%u_pkts", way,
		(unsigned int)netlink_number(attr[ETHTOOL_A_STATS_GRP_HIST_BKT_LOW]),
		(unsigned int)netlink_number(attr[ETHTOOL_A_STATS_GRP_HIST_BKT_HI]));
	std_put(c, nic, name, netlink_number(attr[ETHTOOL_A_STATS_GRP_HIST_VAL]));
}

static int take_group(const struct nlattr *const *attr, void *context)
{
	const char *nic = nic_in(attr[ETHTOOL_A_STATS_HEADER]);
	const struct nlattr *a = NULL, *stat;
	struct std_context *c = context;
	char name[COUNTER_TEXT];

	while (attr[ETHTOOL_A_STATS_GRP] && (a = netlink_next(attr[ETHTOOL_A_STATS_GRP], a))) {
		if (attr_type(a) == ETHTOOL_A_STATS_GRP_HIST_RX)
			take_bucket(c, nic, "rx", a);
		if (attr_type(a) == ETHTOOL_A_STATS_GRP_HIST_TX)
			take_bucket(c, nic, "tx", a);
		stat = attr_type(a) == ETHTOOL_A_STATS_GRP_STAT ? netlink_next(a, NULL) : NULL;
		if (!stat || (size_t)attr_type(stat) >= c->group->count)
			continue;
		snprintf(name, sizeof(name), "%s.%s", c->group->name,
			c->group->names[attr_type(stat)]);
		std_put(c, nic, name, netlink_number(stat));
	}
	return c->r->ret;
}

static int take_pause(const struct nlattr *const *attr, void *context)
{
	const char *nic = nic_in(attr[ETHTOOL_A_PAUSE_HEADER]);
	const struct nlattr *stat[NETLINK_ATTRS];
	struct std_context *c = context;

	if (!attr[ETHTOOL_A_PAUSE_STATS])
		return 0;
	netlink_nested(attr[ETHTOOL_A_PAUSE_STATS], stat);
	if (stat[ETHTOOL_A_PAUSE_STAT_TX_FRAMES])
		std_put(c, nic, "pause.tx_frames",
			netlink_number(stat[ETHTOOL_A_PAUSE_STAT_TX_FRAMES]));
	if (stat[ETHTOOL_A_PAUSE_STAT_RX_FRAMES])
		std_put(c, nic, "pause.rx_frames",
			netlink_number(stat[ETHTOOL_A_PAUSE_STAT_RX_FRAMES]));
	return c->r->ret;
}

/* The total, then one for each lane. */
static void put_fec(
	struct std_context *c, const char *nic, const char *name, const struct nlattr *a)
{
	uint64_t total;

	if (!a || a->nla_len < NLA_HDRLEN + sizeof(total))
		return;
	memcpy(&total, (const char *)a + NLA_HDRLEN, sizeof(total));
	std_put(c, nic, name, total);
}

static int take_fec(const struct nlattr *const *attr, void *context)
{
	const char *nic = nic_in(attr[ETHTOOL_A_FEC_HEADER]);
	const struct nlattr *stat[NETLINK_ATTRS];
	struct std_context *c = context;

	if (!attr[ETHTOOL_A_FEC_STATS])
		return 0;
	netlink_nested(attr[ETHTOOL_A_FEC_STATS], stat);
	put_fec(c, nic, "fec.corrected_blocks", stat[ETHTOOL_A_FEC_STAT_CORRECTED]);
	put_fec(c, nic, "fec.uncorrectable_blocks", stat[ETHTOOL_A_FEC_STAT_UNCORR]);
	put_fec(c, nic, "fec.corrected_bits", stat[ETHTOOL_A_FEC_STAT_CORR_BITS]);
	return c->r->ret;
}

static void ask_group(struct netlink *n, struct std_context *c)
{
	struct netlink_request r;
	struct nlattr *header, *set, *bits, *bit;

	if (!netlink_has(n, ETHTOOL_MSG_STATS_GET))
		return;
	netlink_begin(&r, n, ETHTOOL_MSG_STATS_GET);
	header = netlink_nest(&r, ETHTOOL_A_STATS_HEADER);
	netlink_nest_end(&r, header);
	set = netlink_nest(&r, ETHTOOL_A_STATS_GROUPS);
	netlink_put_flag(&r, ETHTOOL_A_BITSET_NOMASK);
	bits = netlink_nest(&r, ETHTOOL_A_BITSET_BITS);
	bit = netlink_nest(&r, ETHTOOL_A_BITSET_BITS_BIT);
	netlink_put_u32(&r, ETHTOOL_A_BITSET_BIT_INDEX, c->group->bit);
	netlink_nest_end(&r, bit);
	netlink_nest_end(&r, bits);
	netlink_nest_end(&r, set);
	netlink_dump(n, &r, take_group, c, NULL);
}

static void ask_with_stats(struct netlink *n, uint8_t command, uint16_t header_type,
	netlink_take_fn *take, struct std_context *c)
{
	struct netlink_request r;
	struct nlattr *header;

	if (!netlink_has(n, command))
		return;
	netlink_begin(&r, n, command);
	header = netlink_nest(&r, header_type);
	netlink_put_u32(&r, ETHTOOL_A_HEADER_FLAGS, ETHTOOL_FLAG_STATS);
	netlink_nest_end(&r, header);
	netlink_dump(n, &r, take, c, NULL);
}

static void std_read(struct reader *r, void **state)
{
	struct std_context c = { .r = r, .now_ns = clock_wall_ns() };
	struct netlink *n = *state;

	if (!n) {
		n = *state = calloc(1, sizeof(*n));
		if (n && netlink_open(n, ETHTOOL_GENL_NAME, NULL))
			n->socket = NULL;
	}
	if (!n || !n->socket)
		return;
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		c.group = &groups[i];
		ask_group(n, &c);
	}
	ask_with_stats(n, ETHTOOL_MSG_PAUSE_GET, ETHTOOL_A_PAUSE_HEADER, take_pause, &c);
	ask_with_stats(n, ETHTOOL_MSG_FEC_GET, ETHTOOL_A_FEC_HEADER, take_fec, &c);
}

static void std_forget(void *state)
{
	netlink_close(state);
	free(state);
}

const struct source source_ethtool_std = {
	.name = "ethtool-std",
	.about = "pause, FEC, MAC and RMON by the kernel's own names: ethtool -S --all-groups, -I",
	.calls = true,
	.read = std_read,
	.forget = std_forget,
};
