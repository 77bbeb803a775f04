// SPDX-License-Identifier: BSD-3-Clause
#include "net/tcp_state.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

int tcp_state_read(int fd, struct tcp_state *s)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	memset(&info, 0, sizeof(info));
	memset(s, 0, sizeof(*s));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return -errno;
	s->rtt_us = info.tcpi_rtt;
	s->rttvar_us = info.tcpi_rttvar;
	s->min_rtt_us = info.tcpi_min_rtt;
	s->cwnd_segments = info.tcpi_snd_cwnd;
	s->mss_bytes = info.tcpi_snd_mss;
	s->reordering = info.tcpi_reordering;
	s->retransmits = info.tcpi_total_retrans;
	s->retransmitted_bytes = info.tcpi_bytes_retrans;
	s->delivered = info.tcpi_delivered;
	s->delivered_ce = info.tcpi_delivered_ce;
	s->received_out_of_order = info.tcpi_rcv_ooopack;
	s->delivery_bytes_per_s = info.tcpi_delivery_rate;
	s->pacing_bytes_per_s = info.tcpi_pacing_rate;
	s->max_pacing_bytes_per_s = info.tcpi_max_pacing_rate;
	s->busy_us = info.tcpi_busy_time;
	s->receive_window_limited_us = info.tcpi_rwnd_limited;
	s->send_buffer_limited_us = info.tcpi_sndbuf_limited;
	return 0;
}

static const struct {
	const char *name, *key;
} limit_words[TCP_LIMITS] = {
	[TCP_LIMIT_APPLICATION] = { "application", "application" },
	[TCP_LIMIT_RECEIVE_WINDOW] = { "receive window", "receive_window" },
	[TCP_LIMIT_SEND_BUFFER] = { "send buffer", "send_buffer" },
	[TCP_LIMIT_CONGESTION] = { "congestion window", "congestion" },
	[TCP_LIMIT_PACING] = { "pacing", "pacing" },
};

const char *tcp_limit_name(enum tcp_limit limit)
{
	return limit_words[limit].name;
}

const char *tcp_limit_key(enum tcp_limit limit)
{
	return limit_words[limit].key;
}

static double share(uint64_t after, uint64_t before, double elapsed_us)
{
	double part = after > before ? (double)(after - before) / elapsed_us : 0;

	return part > 1 ? 1 : part;
}

void tcp_limits_between(const struct tcp_state *before, const struct tcp_state *after,
	uint64_t elapsed_ns, uint64_t sent_bytes, struct tcp_limits *limits)
{
	double elapsed_us = elapsed_ns ? (double)elapsed_ns / 1e3 : 1;
	double busy = share(after->busy_us, before->busy_us, elapsed_us);
	double window = share(
		after->receive_window_limited_us, before->receive_window_limited_us, elapsed_us);
	double buffer =
		share(after->send_buffer_limited_us, before->send_buffer_limited_us, elapsed_us);
	double over = window + buffer > busy ? busy / (window + buffer) : 1;
	double rest = busy - (window + buffer) * over;
	double rate = (double)sent_bytes / elapsed_us * 1e6;
	bool paced = after->max_pacing_bytes_per_s && after->max_pacing_bytes_per_s != UINT64_MAX &&
		     rate > 0.85 * (double)after->max_pacing_bytes_per_s;

	/* The three clocks are read one after the other and may disagree a little. */
	window *= over;
	buffer *= over;
	memset(limits, 0, sizeof(*limits));
	/* Under its own pacing rate a sender fills its buffer and seems to be limited by that. */
	if (paced) {
		limits->share[TCP_LIMIT_PACING] = busy - window;
	} else {
		limits->share[TCP_LIMIT_SEND_BUFFER] = buffer;
		limits->share[TCP_LIMIT_CONGESTION] = rest > 0 ? rest : 0;
	}
	limits->share[TCP_LIMIT_RECEIVE_WINDOW] = window;
	limits->share[TCP_LIMIT_APPLICATION] = 1 - busy;
}

enum tcp_limit tcp_limits_main(const struct tcp_limits *limits)
{
	enum tcp_limit most = TCP_LIMIT_APPLICATION;

	for (int i = 1; i < TCP_LIMITS; i++)
		if (limits->share[i] > limits->share[most])
			most = (enum tcp_limit)i;
	return most;
}
