// SPDX-License-Identifier: BSD-3-Clause
#include "net/steer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "sys/nic_rss.h"
#include "sys/nic_rule.h"

int steer_queues(struct cpus *queues, const char *nic, const char *list, struct err *e)
{
	uint32_t count, first;
	int ret;

	if (list)
		return cpus_parse(queues, list, e) ? err_prefix(e, "--queues") : 0;
	ret = nic_rss_queues(nic, &count, e);
	if (ret)
		return ret;
	if (count < 2) {
		err_set(e, EOPNOTSUPP, "%s has one receive queue: none is left for device memory",
			nic);
		return err_hint(e, "give it more: ethtool -L %s combined 8", nic);
	}
	cpus_clear(queues);
	first = count - (count >= 4 ? count / 4 : 1);
	for (uint32_t q = first; q < count; q++)
		cpus_add(queues, (int)q);
	return 0;
}

void steer_address(const struct sock_addr *addr, uint8_t ip[16], bool *ipv6, uint16_t *port)
{
	char text[SOCK_ADDR_TEXT];
	struct in_addr v4;

	*port = sock_addr_port(addr);
	*ipv6 = inet_pton(AF_INET, sock_addr_text(addr, false, text), &v4) != 1;
	if (*ipv6)
		memcpy(ip, &((const struct sockaddr_in6 *)&addr->storage)->sin6_addr, 16);
	else
		memcpy(ip, &v4, sizeof(v4));
}

int steer_socket(struct nic_plan *p, int fd, int queue, struct err *e)
{
	struct nic_rule rule = { .known = true, .has_src_ip = true, .has_dst_ip = true };
	char key[NIC_RULE_TEXT], to[32];
	struct sock_addr local, peer;
	int ret = sock_local(fd, &local);

	if (!ret)
		ret = sock_peer(fd, &peer);
	if (ret)
		return err_set(e, -ret, "cannot steer a connection to queue %d of %s: %s", queue,
			p->nic, strerror(-ret));
	steer_address(&peer, rule.src_ip, &rule.ipv6, &rule.src_port);
	steer_address(&local, rule.dst_ip, &rule.ipv6, &rule.dst_port);
	snprintf(to, sizeof(to), "queue %d", queue);
	return nic_plan_add(p, NIC_KIND_RULE, nic_rule_text(&rule, key), to, e);
}
