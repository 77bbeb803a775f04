// SPDX-License-Identifier: GPL-2.0-only
/* Which queue a frame goes to: n-tuple rules first, then the RSS table of the context. */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/jhash.h>
#include <linux/tcp.h>

#include "labnic.h"

/* Returns the transport protocol, or a negative number for what is not IP. */
static int labnic_parse_network(const struct sk_buff *frame, struct labnic_headers *h)
{
	const struct ethhdr *eth = (const void *)frame->data;
	const void *network = frame->data + ETH_HLEN;

	h->network = ETH_HLEN;
	if (skb_headlen(frame) < ETH_HLEN + sizeof(struct iphdr))
		return -1;
	if (eth->h_proto == htons(ETH_P_IP)) {
		const struct iphdr *ip = network;

		h->transport = h->network + ip->ihl * 4;
		h->source.s6_addr32[0] = ip->saddr;
		h->dest.s6_addr32[0] = ip->daddr;
		return ip->protocol;
	}
	if (eth->h_proto == htons(ETH_P_IPV6) &&
		skb_headlen(frame) >= ETH_HLEN + sizeof(struct ipv6hdr)) {
		const struct ipv6hdr *ip = network;

		h->transport = h->network + sizeof(*ip);
		h->ipv6 = true;
		h->source = ip->saddr;
		h->dest = ip->daddr;
		return ip->nexthdr;
	}
	return -1;
}

void labnic_parse(const struct sk_buff *frame, struct labnic_headers *h)
{
	const struct tcphdr *tcp;

	memset(h, 0, sizeof(*h));
	if (labnic_parse_network(frame, h) != IPPROTO_TCP)
		return;
	if (skb_headlen(frame) < h->transport + sizeof(*tcp))
		return;
	tcp = (const void *)(frame->data + h->transport);
	h->source_port = tcp->source;
	h->dest_port = tcp->dest;
	h->bytes = h->transport + tcp->doff * 4;
	h->tcp = skb_headlen(frame) >= h->bytes;
}

static bool labnic_differs(
	const __be32 *value, const __be32 *mask, const struct in6_addr *seen, int words)
{
	int i;

	for (i = 0; i < words; i++)
		if ((value[i] ^ seen->s6_addr32[i]) & mask[i])
			return true;
	return false;
}

static bool labnic_rule_matches(
	const struct ethtool_rx_flow_spec *flow, const struct labnic_headers *h)
{
	u32 type = flow->flow_type & ~FLOW_RSS;

	if (type == TCP_V4_FLOW && !h->ipv6) {
		const struct ethtool_tcpip4_spec *v = &flow->h_u.tcp_ip4_spec;
		const struct ethtool_tcpip4_spec *m = &flow->m_u.tcp_ip4_spec;

		return !labnic_differs(&v->ip4src, &m->ip4src, &h->source, 1) &&
		       !labnic_differs(&v->ip4dst, &m->ip4dst, &h->dest, 1) &&
		       !((v->psrc ^ h->source_port) & m->psrc) &&
		       !((v->pdst ^ h->dest_port) & m->pdst);
	}
	if (type == TCP_V6_FLOW && h->ipv6) {
		const struct ethtool_tcpip6_spec *v = &flow->h_u.tcp_ip6_spec;
		const struct ethtool_tcpip6_spec *m = &flow->m_u.tcp_ip6_spec;

		return !labnic_differs(v->ip6src, m->ip6src, &h->source, 4) &&
		       !labnic_differs(v->ip6dst, m->ip6dst, &h->dest, 4) &&
		       !((v->psrc ^ h->source_port) & m->psrc) &&
		       !((v->pdst ^ h->dest_port) & m->pdst);
	}
	return false;
}

static u32 labnic_hash(const struct labnic_headers *h)
{
	u32 ports = (__force u32)h->source_port << 16 | (__force u32)h->dest_port;

	return jhash(&h->dest, sizeof(h->dest), jhash(&h->source, sizeof(h->source), ports));
}

unsigned int labnic_steer(const struct labnic *nic, const struct labnic_headers *h)
{
	unsigned int i, count = nic->dev->real_num_rx_queues;
	u32 context = 0;

	if (!h->tcp)
		return 0;
	for_each_set_bit (i, nic->rules, LABNIC_RULES) {
		const struct labnic_rule *rule = &nic->rule[i];

		if (!labnic_rule_matches(&rule->flow, h))
			continue;
		if (!(rule->flow.flow_type & FLOW_RSS))
			return rule->flow.ring_cookie;
		context = rule->context;
		break;
	}
	return min(nic->indir[context][labnic_hash(h) % LABNIC_INDIR], count - 1);
}

int labnic_rule_get(struct labnic *nic, struct ethtool_rxnfc *nfc, u32 *locations)
{
	unsigned int i, n = 0;

	switch (nfc->cmd) {
#ifndef LABNIC_HAS_RING_COUNT
	case ETHTOOL_GRXRINGS:
		nfc->data = nic->dev->real_num_rx_queues;
		return 0;
#endif
	case ETHTOOL_GRXCLSRLCNT:
		nfc->rule_cnt = bitmap_weight(nic->rules, LABNIC_RULES);
		nfc->data = LABNIC_RULES | RX_CLS_LOC_SPECIAL;
		return 0;
	case ETHTOOL_GRXCLSRULE:
		i = nfc->fs.location;
		if (i >= LABNIC_RULES || !test_bit(i, nic->rules))
			return -ENOENT;
		nfc->rss_context = nic->rule[i].context;
		nfc->fs = nic->rule[i].flow;
		return 0;
	case ETHTOOL_GRXCLSRLALL:
		for_each_set_bit (i, nic->rules, LABNIC_RULES) {
			if (n == nfc->rule_cnt)
				return -EMSGSIZE;
			locations[n++] = i;
		}
		nfc->rule_cnt = n;
		nfc->data = LABNIC_RULES;
		return 0;
	}
	return -EOPNOTSUPP;
}

static int labnic_rule_check(const struct labnic *nic, const struct ethtool_rxnfc *nfc)
{
	const struct ethtool_rx_flow_spec *flow = &nfc->fs;

	switch (flow->flow_type) {
	case TCP_V4_FLOW | FLOW_RSS:
	case TCP_V6_FLOW | FLOW_RSS:
		if (nfc->rss_context >= LABNIC_CONTEXTS) /* that it exists the core has checked */
			return -EINVAL;
		fallthrough;
	case TCP_V4_FLOW:
	case TCP_V6_FLOW:
		return flow->ring_cookie < nic->dev->real_num_rx_queues ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

int labnic_rule_set(struct labnic *nic, struct ethtool_rxnfc *nfc)
{
	u32 location = nfc->fs.location;
	int err;

	switch (nfc->cmd) {
	case ETHTOOL_SRXCLSRLINS:
		err = labnic_rule_check(nic, nfc);
		if (err)
			return err;
		if (location & RX_CLS_LOC_SPECIAL)
			location = find_first_zero_bit(nic->rules, LABNIC_RULES);
		if (location >= LABNIC_RULES)
			return -ENOSPC;
		nfc->fs.location = location;
		/* Nobody may match a rule that is half written. */
		clear_bit(location, nic->rules);
		synchronize_net();
		nic->rule[location].flow = nfc->fs;
		nic->rule[location].context = nfc->fs.flow_type & FLOW_RSS ? nfc->rss_context : 0;
		smp_wmb();
		set_bit(location, nic->rules);
		return 0;
	case ETHTOOL_SRXCLSRLDEL:
		if (location >= LABNIC_RULES || !test_and_clear_bit(location, nic->rules))
			return -ENOENT;
		return 0;
	}
	return -EOPNOTSUPP;
}
