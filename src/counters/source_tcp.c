// SPDX-License-Identifier: BSD-3-Clause
/* Every TCP connection of this network namespace, by socket diagnosis (ss -ti), and queueing
 * disciplines (tc -s qdisc). */
#include <arpa/inet.h>
#include <linux/gen_stats.h>
#include <linux/inet_diag.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/source.h"
#include "sys/netlink_raw.h"

#define CONNECTIONS_MAX 4096

/* ABI: TCP_LISTEN, TCP_TIME_WAIT and TCP_CLOSE have nothing to say. */
enum { STATE_TIME_WAIT = 6, STATE_CLOSE = 7, STATE_LISTEN = 10 };

struct raw_context {
	struct reader *r;
	uint64_t now_ns;
	uint32_t count;
};

static void put_field(struct raw_context *c, const char *object, const char *name, uint64_t value,
	size_t end, size_t length)
{
	if (end <= length)
		reader_put(c->r, object, name, value, c->now_ns);
}

#define PUT(name, field)                                                                           \
	put_field(c, object, name, info.field,                                                     \
		offsetof(struct tcp_info, field) + sizeof(info.field), length)

static void put_info(struct raw_context *c, const char *object, const void *data, size_t length)
{
	struct tcp_info info = { 0 };

	memcpy(&info, data, length < sizeof(info) ? length : sizeof(info));
	PUT("acked_bytes", tcpi_bytes_acked);
	PUT("busy_us", tcpi_busy_time);
	PUT("cwnd_segments", tcpi_snd_cwnd);
	PUT("delivered", tcpi_delivered);
	PUT("delivered_ce", tcpi_delivered_ce);
	PUT("dsack_duplicates", tcpi_dsack_dups);
	PUT("min_rtt_us", tcpi_min_rtt);
	PUT("receive_window_limited_us", tcpi_rwnd_limited);
	PUT("received_bytes", tcpi_bytes_received);
	PUT("received_out_of_order", tcpi_rcv_ooopack);
	PUT("reordering_segments", tcpi_reordering);
	PUT("retransmits", tcpi_total_retrans);
	PUT("retransmitted_bytes", tcpi_bytes_retrans);
	PUT("rtt_us", tcpi_rtt);
	PUT("send_buffer_limited_us", tcpi_sndbuf_limited);
	PUT("sent_bytes", tcpi_bytes_sent);
	PUT("sent_segments", tcpi_segs_out);
}

/* "10.0.0.1:5000>10.0.0.2:40000", an IPv6 address in brackets. */
static void connection_name(const struct inet_diag_msg *m, char name[COUNTER_TEXT])
{
	char from[INET6_ADDRSTRLEN] = "?", to[INET6_ADDRSTRLEN] = "?";
	bool six = m->idiag_family == AF_INET6;

	inet_ntop(m->idiag_family, m->id.idiag_src, from, sizeof(from));
	inet_ntop(m->idiag_family, m->id.idiag_dst, to, sizeof(to));
	snprintf(name, COUNTER_TEXT, six ? "[%s]:%u>[%s]:%u" : "%s:%u>%s:%u", from,
		ntohs(m->id.idiag_sport), to, ntohs(m->id.idiag_dport));
}

static void take_connection(const struct nlmsghdr *message, void *context)
{
	const struct inet_diag_msg *m = (const void *)(message + 1);
	struct raw_context *c = context;
	const struct nlattr *info;
	char object[COUNTER_TEXT];

	if (message->nlmsg_len < sizeof(*message) + sizeof(*m) || c->r->ret ||
		c->count == CONNECTIONS_MAX)
		return;
	info = netlink_raw_find(message, sizeof(*m), INET_DIAG_INFO);
	if (!info)
		return;
	connection_name(m, object);
	if (!reader_wants(c->r, object))
		return;
	c->count++;
	put_info(c, object, netlink_raw_data(info), netlink_raw_bytes(info));
}

static int *fd_of(void **state)
{
	if (!*state)
		*state = calloc(1, sizeof(int));
	return *state;
}

static void fd_forget(void *state)
{
	if (*(int *)state > 0)
		close(*(int *)state);
	free(state);
}

static void tcp_read(struct reader *r, void **state)
{
	static const uint8_t family[] = { AF_INET, AF_INET6 };
	struct raw_context c = { .r = r, .now_ns = clock_wall_ns() };
	int *fd = fd_of(state), ret = 0;

	for (int i = 0; fd && i < 2 && !ret; i++) {
		struct {
			struct nlmsghdr head;
			struct inet_diag_req_v2 body;
		} ask = {
			.head = { .nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY },
			.body = { .sdiag_family = family[i],
				.sdiag_protocol = IPPROTO_TCP,
				.idiag_ext = 1 << (INET_DIAG_INFO - 1),
				.idiag_states = ~(1u << STATE_TIME_WAIT | 1u << STATE_CLOSE |
						  1u << STATE_LISTEN) },
		};

		ret = netlink_raw_dump(fd, NETLINK_SOCK_DIAG, &ask.head, take_connection, &c);
	}
	if (ret && ret != -ENOENT && ret != -EPROTONOSUPPORT)
		reader_problem(r, "tcp", "cannot list the connections: %s", strerror(-ret));
	if (c.count == CONNECTIONS_MAX)
		reader_problem(
			r, "tcp", "only the first %d connections were read", CONNECTIONS_MAX);
}

const struct source source_tcp = {
	.name = "tcp",
	.about = "every TCP connection: what held it back, what was lost (TCP_INFO)",
	.calls = true,
	.read = tcp_read,
	.forget = fd_forget,
};

/* Queueing disciplines */

static void take_qdisc(const struct nlmsghdr *message, void *context)
{
	const struct tcmsg *m = (const void *)(message + 1);
	const struct nlattr *kind, *stats, *basic, *queue;
	struct raw_context *c = context;
	char object[COUNTER_TEXT], nic[IF_NAMESIZE];
	struct gnet_stats_basic b;
	struct gnet_stats_queue q;

	if (message->nlmsg_len < sizeof(*message) + sizeof(*m) || c->r->ret ||
		!if_indextoname((unsigned int)m->tcm_ifindex, nic) || !reader_wants(c->r, nic))
		return;
	kind = netlink_raw_find(message, sizeof(*m), TCA_KIND);
	stats = netlink_raw_find(message, sizeof(*m), TCA_STATS2);
	basic = netlink_raw_nested(stats, TCA_STATS_BASIC);
	queue = netlink_raw_nested(stats, TCA_STATS_QUEUE);
	if (!kind || !basic || !queue || netlink_raw_bytes(basic) < sizeof(b) - 4 ||
		netlink_raw_bytes(queue) < sizeof(q) ||
		!memchr(netlink_raw_data(kind), '\0', netlink_raw_bytes(kind)))
		return;
	if (!strcmp(netlink_raw_data(kind), "noqueue"))
		return;
	memset(&b, 0, sizeof(b));
	memcpy(&b, netlink_raw_data(basic),
		netlink_raw_bytes(basic) < sizeof(b) ? netlink_raw_bytes(basic) : sizeof(b));
	memcpy(&q, netlink_raw_data(queue), sizeof(q));
	snprintf(object, sizeof(object), "%s/%s-%x:%x", nic, (const char *)netlink_raw_data(kind),
		m->tcm_handle >> 16, m->tcm_parent == TC_H_ROOT ? 0 : m->tcm_parent & 0xffff);
	reader_put(c->r, object, "backlog_bytes", q.backlog, c->now_ns);
	reader_put(c->r, object, "backlog_packets", q.qlen, c->now_ns);
	reader_put(c->r, object, "bytes", b.bytes, c->now_ns);
	reader_put(c->r, object, "drops", q.drops, c->now_ns);
	reader_put(c->r, object, "overlimits", q.overlimits, c->now_ns);
	reader_put(c->r, object, "packets", b.packets, c->now_ns);
	reader_put(c->r, object, "requeues", q.requeues, c->now_ns);
}

static void qdisc_read(struct reader *r, void **state)
{
	struct raw_context c = { .r = r, .now_ns = clock_wall_ns() };
	struct {
		struct nlmsghdr head;
		struct tcmsg body;
	} ask = { .head = { .nlmsg_len = sizeof(ask), .nlmsg_type = RTM_GETQDISC } };
	int *fd = fd_of(state), ret;

	ret = fd ? netlink_raw_dump(fd, NETLINK_ROUTE, &ask.head, take_qdisc, &c) : -ENOMEM;
	if (ret && ret != -EOPNOTSUPP)
		reader_problem(r, "qdisc", "cannot list them: %s", strerror(-ret));
}

const struct source source_qdisc = {
	.name = "qdisc",
	.about = "queueing disciplines: what they held back and dropped (tc -s qdisc)",
	.calls = true,
	.read = qdisc_read,
	.forget = fd_forget,
};
