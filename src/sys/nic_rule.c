/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nic_ioctl.h"
#include "sys/nic_rule.h"

#define RULES_MAX 65536u

static int parse_address(
	struct nic_rule *r, const char *value, uint8_t ip[16], bool *has, int *family)
{
	int is = strchr(value, ':') ? AF_INET6 : AF_INET;

	if ((*family && *family != is) || inet_pton(is, value, ip) != 1)
		return -EINVAL;
	*has = true;
	*family = is;
	r->ipv6 = is == AF_INET6;
	return 0;
}

static int parse_port(const char *value, uint16_t *port)
{
	char *end;
	unsigned long v = strtoul(value, &end, 10);

	if (value[0] < '0' || value[0] > '9' || *end || !v || v > 65535)
		return -EINVAL;
	*port = (uint16_t)v;
	return 0;
}

static int parse_part(struct nic_rule *r, const char *part, int *family)
{
	const char *value = strchr(part, '=');
	size_t len = value ? (size_t)(value++ - part) : 0;

	if (!strcmp(part, "tcp4") || !strcmp(part, "tcp6")) {
		int is = part[3] == '6' ? AF_INET6 : AF_INET;

		if (*family && *family != is)
			return -EINVAL;
		*family = is;
		r->ipv6 = is == AF_INET6;
		return 0;
	}
	if (len == 6 && !strncmp(part, "src-ip", len))
		return parse_address(r, value, r->src_ip, &r->has_src_ip, family);
	if (len == 6 && !strncmp(part, "dst-ip", len))
		return parse_address(r, value, r->dst_ip, &r->has_dst_ip, family);
	if (len == 8 && !strncmp(part, "src-port", len))
		return parse_port(value, &r->src_port);
	if (len == 8 && !strncmp(part, "dst-port", len))
		return parse_port(value, &r->dst_port);
	return -EINVAL;
}

int nic_rule_parse(struct nic_rule *r, const char *text, struct err *e)
{
	char copy[NIC_RULE_TEXT], *rest = copy, *part;
	int family = 0;

	*r = (struct nic_rule){ .known = true };
	if (strlen(text) >= sizeof(copy))
		goto refuse;
	strcpy(copy, text);
	while ((part = strsep(&rest, ",")))
		if (parse_part(r, part, &family))
			goto refuse;
	if (!r->has_src_ip && !r->has_dst_ip && !r->src_port && !r->dst_port)
		goto refuse;
	return 0;

refuse:
	err_set(e, EINVAL, "'%s' is no flow", text);
	return err_hint(e,
		"give any of src-ip, dst-ip, src-port and dst-port: dst-ip=10.0.0.2,dst-port=12867");
}

static int add_text(char *buf, int used, const char *format, const char *value)
{
	return used + snprintf(buf + used, (size_t)(NIC_RULE_TEXT - used), format, value);
}

char *nic_rule_text(const struct nic_rule *r, char buf[NIC_RULE_TEXT])
{
	int family = r->ipv6 ? AF_INET6 : AF_INET, used;
	char ip[INET6_ADDRSTRLEN], port[8];

	if (!r->known) {
		snprintf(buf, NIC_RULE_TEXT, "other");
		return buf;
	}
	used = add_text(buf, 0, "tcp%s", r->ipv6 ? "6" : "4");
	if (r->has_src_ip)
		used = add_text(
			buf, used, ",src-ip=%s", inet_ntop(family, r->src_ip, ip, sizeof(ip)));
	if (r->has_dst_ip)
		used = add_text(
			buf, used, ",dst-ip=%s", inet_ntop(family, r->dst_ip, ip, sizeof(ip)));
	snprintf(port, sizeof(port), "%u", r->src_port);
	if (r->src_port)
		used = add_text(buf, used, ",src-port=%s", port);
	snprintf(port, sizeof(port), "%u", r->dst_port);
	if (r->dst_port)
		add_text(buf, used, ",dst-port=%s", port);
	return buf;
}

/* A mask of all ones or all zeros is what we make; others belong to somebody else. */
static bool is_whole(const void *mask, size_t bytes, bool *any)
{
	const uint8_t *m = mask;

	*any = m[0];
	for (size_t i = 0; i < bytes; i++)
		if (m[i] != (*any ? 0xff : 0))
			return false;
	return true;
}

static bool from_kernel_v4(struct nic_rule *r, const struct ethtool_rx_flow_spec *fs)
{
	const struct ethtool_tcpip4_spec *v = &fs->h_u.tcp_ip4_spec, *m = &fs->m_u.tcp_ip4_spec;
	bool src, dst;

	memcpy(r->src_ip, &v->ip4src, sizeof(v->ip4src));
	memcpy(r->dst_ip, &v->ip4dst, sizeof(v->ip4dst));
	if (!is_whole(&m->ip4src, 4, &r->has_src_ip) || !is_whole(&m->ip4dst, 4, &r->has_dst_ip) ||
		!is_whole(&m->psrc, 2, &src) || !is_whole(&m->pdst, 2, &dst) || m->tos)
		return false;
	r->src_port = src ? ntohs(v->psrc) : 0;
	r->dst_port = dst ? ntohs(v->pdst) : 0;
	return true;
}

static bool from_kernel_v6(struct nic_rule *r, const struct ethtool_rx_flow_spec *fs)
{
	const struct ethtool_tcpip6_spec *v = &fs->h_u.tcp_ip6_spec, *m = &fs->m_u.tcp_ip6_spec;
	bool src, dst;

	r->ipv6 = true;
	memcpy(r->src_ip, v->ip6src, sizeof(v->ip6src));
	memcpy(r->dst_ip, v->ip6dst, sizeof(v->ip6dst));
	if (!is_whole(m->ip6src, 16, &r->has_src_ip) || !is_whole(m->ip6dst, 16, &r->has_dst_ip) ||
		!is_whole(&m->psrc, 2, &src) || !is_whole(&m->pdst, 2, &dst) || m->tclass)
		return false;
	r->src_port = src ? ntohs(v->psrc) : 0;
	r->dst_port = dst ? ntohs(v->pdst) : 0;
	return true;
}

static void from_kernel(struct nic_rule *r, const struct ethtool_rxnfc *c)
{
	uint32_t type = c->fs.flow_type & ~(FLOW_EXT | FLOW_MAC_EXT | FLOW_RSS);

	*r = (struct nic_rule){ .location = c->fs.location };
	r->to_context = c->fs.flow_type & FLOW_RSS;
	r->context = r->to_context ? c->rss_context : 0;
	r->queue = (uint32_t)c->fs.ring_cookie;
	if (c->fs.flow_type & (FLOW_EXT | FLOW_MAC_EXT) || c->fs.ring_cookie > UINT32_MAX)
		return;
	if (type == TCP_V4_FLOW)
		r->known = from_kernel_v4(r, &c->fs);
	else if (type == TCP_V6_FLOW)
		r->known = from_kernel_v6(r, &c->fs);
}

static void to_kernel(const struct nic_rule *r, struct ethtool_rxnfc *c)
{
	uint16_t src = r->src_port ? 0xffff : 0, dst = r->dst_port ? 0xffff : 0;

	*c = (struct ethtool_rxnfc){ .cmd = ETHTOOL_SRXCLSRLINS };
	c->fs.flow_type = (r->ipv6 ? TCP_V6_FLOW : TCP_V4_FLOW) | (r->to_context ? FLOW_RSS : 0);
	if (r->ipv6) {
		struct ethtool_tcpip6_spec *v = &c->fs.h_u.tcp_ip6_spec,
					   *m = &c->fs.m_u.tcp_ip6_spec;

		memcpy(v->ip6src, r->src_ip, 16);
		memcpy(v->ip6dst, r->dst_ip, 16);
		memset(m->ip6src, r->has_src_ip ? 0xff : 0, 16);
		memset(m->ip6dst, r->has_dst_ip ? 0xff : 0, 16);
		v->psrc = htons(r->src_port);
		v->pdst = htons(r->dst_port);
		m->psrc = src;
		m->pdst = dst;
	} else {
		struct ethtool_tcpip4_spec *v = &c->fs.h_u.tcp_ip4_spec,
					   *m = &c->fs.m_u.tcp_ip4_spec;

		memcpy(&v->ip4src, r->src_ip, 4);
		memcpy(&v->ip4dst, r->dst_ip, 4);
		memset(&m->ip4src, r->has_src_ip ? 0xff : 0, 4);
		memset(&m->ip4dst, r->has_dst_ip ? 0xff : 0, 4);
		v->psrc = htons(r->src_port);
		v->pdst = htons(r->dst_port);
		m->psrc = src;
		m->pdst = dst;
	}
	c->fs.ring_cookie = r->to_context ? 0 : r->queue;
	if (r->to_context)
		c->rss_context = r->context;
}

static int count_rules(const char *nic, uint32_t *count, uint64_t *room, struct err *e)
{
	struct ethtool_rxnfc c = { .cmd = ETHTOOL_GRXCLSRLCNT };
	int ret;

	*count = 0;
	*room = 0;
	ret = nic_ioctl(nic, &c, "read the steering rules", e);
	if (ret)
		return ret;
	if (c.rule_cnt > RULES_MAX)
		return err_set(e, E2BIG, "%s has %u steering rules", nic, c.rule_cnt);
	*count = c.rule_cnt;
	*room = c.data;
	return 0;
}

static int read_places(struct ethtool_rxnfc **all, const char *nic, uint32_t count, struct err *e)
{
	int ret;

	*all = calloc(1, sizeof(**all) + (count + 1) * sizeof((*all)->rule_locs[0]));
	if (!*all)
		return err_set(e, ENOMEM, "no memory for %u steering rules", count);
	(*all)->cmd = ETHTOOL_GRXCLSRLALL;
	(*all)->rule_cnt = count;
	ret = nic_ioctl(nic, *all, "read the steering rules", e);
	if (!ret && (*all)->rule_cnt > count)
		ret = err_set(
			e, EAGAIN, "the steering rules of %s change while they are read", nic);
	if (ret) {
		free(*all);
		*all = NULL;
	}
	return ret;
}

int nic_rules_read(struct nic_rule **rules, size_t *count, const char *nic, struct err *e)
{
	struct ethtool_rxnfc *all, one;
	uint32_t wanted;
	uint64_t room;
	int ret;

	*rules = NULL;
	*count = 0;
	ret = count_rules(nic, &wanted, &room, e);
	if (ret || !wanted)
		return ret;
	ret = read_places(&all, nic, wanted, e);
	if (ret)
		return ret;
	*rules = calloc(wanted, sizeof(**rules));
	if (!*rules) {
		ret = err_set(e, ENOMEM, "no memory for %u steering rules", wanted);
		goto free_all;
	}
	for (uint32_t i = 0; i < all->rule_cnt; i++) {
		one = (struct ethtool_rxnfc){ .cmd = ETHTOOL_GRXCLSRULE };
		one.fs.location = all->rule_locs[i];
		/* One may have gone since. */
		if (!nic_ioctl(nic, &one, "read a steering rule", NULL))
			from_kernel(&(*rules)[(*count)++], &one);
	}
free_all:
	free(all);
	return ret;
}

static bool matches_same(const struct nic_rule *a, const struct nic_rule *b)
{
	size_t bytes = a->ipv6 ? 16 : 4;

	return a->known && b->known && a->ipv6 == b->ipv6 && a->has_src_ip == b->has_src_ip &&
	       a->has_dst_ip == b->has_dst_ip && a->src_port == b->src_port &&
	       a->dst_port == b->dst_port &&
	       (!a->has_src_ip || !memcmp(a->src_ip, b->src_ip, bytes)) &&
	       (!a->has_dst_ip || !memcmp(a->dst_ip, b->dst_ip, bytes));
}

int nic_rule_find(
	const char *nic, const struct nic_rule *like, struct nic_rule *found, struct err *e)
{
	char text[NIC_RULE_TEXT];
	struct nic_rule *rules;
	size_t count, i;
	int ret;

	ret = nic_rules_read(&rules, &count, nic, e);
	if (ret)
		return ret;
	for (i = 0; i < count && !matches_same(&rules[i], like); i++)
		;
	if (i < count)
		*found = rules[i];
	else
		ret = err_set(e, ENOENT, "%s has no steering rule for %s", nic,
			nic_rule_text(like, text));
	free(rules);
	return ret;
}

/* The last free place: drivers that look from the first let a user's own rules go before ours. */
static int free_place(const char *nic, uint32_t *place, struct err *e)
{
	struct ethtool_rxnfc *all;
	uint32_t count, last, i;
	uint64_t room;
	int ret;

	ret = count_rules(nic, &count, &room, e);
	if (ret)
		return ret;
	*place = RX_CLS_LOC_ANY;
	if (room & RX_CLS_LOC_SPECIAL)
		return 0;
	ret = read_places(&all, nic, count, e);
	if (ret)
		return ret;
	room = all->data ? all->data : room;
	for (last = (uint32_t)room; last--;) {
		for (i = 0; i < all->rule_cnt && all->rule_locs[i] != last; i++)
			;
		if (i == all->rule_cnt)
			break;
	}
	*place = last;
	free(all);
	return last == UINT32_MAX ? err_set(e, ENOSPC, "the table of steering rules is full") : 0;
}

int nic_rule_add(const char *nic, const struct nic_rule *r, struct err *e)
{
	char text[NIC_RULE_TEXT];
	struct ethtool_rxnfc c;
	uint32_t place;
	int ret;

	ret = free_place(nic, &place, e);
	if (ret)
		return err_prefix(e, "cannot steer %s on %s", nic_rule_text(r, text), nic);
	to_kernel(r, &c);
	c.fs.location = place;
	ret = nic_ioctl(nic, &c, "add a steering rule", e);
	if (ret == -ENOSPC)
		err_hint(e, "remove rules that are not needed; ethtool -n %s lists them", nic);
	else if (ret == -EOPNOTSUPP)
		err_hint(e, "its driver has no rules of this kind, or rx-ntuple-filter is off");
	return ret;
}

int nic_rule_remove(const char *nic, uint32_t location, struct err *e)
{
	struct ethtool_rxnfc c = { .cmd = ETHTOOL_SRXCLSRLDEL };

	c.fs.location = location;
	return nic_ioctl(nic, &c, "remove a steering rule", e);
}
