/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel knows of a TCP connection (TCP_INFO), and what held its sender back.
 *
 *	tcp_state_read(fd, &before);
 *	...
 *	tcp_state_read(fd, &after);
 *	tcp_limits_between(&before, &after, elapsed_ns, sent_bytes, &limits);
 *	printf("limited by %s\n", tcp_limit_name(tcp_limits_main(&limits)));
 */
#ifndef WEIR_NET_TCP_STATE_H
#define WEIR_NET_TCP_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct tcp_state {
	uint32_t rtt_us, rttvar_us, min_rtt_us;
	uint32_t cwnd_segments, mss_bytes, reordering;
	uint32_t retransmits;		  /* segments, since the connection began */
	uint64_t retransmitted_bytes;	  /* since the connection began */
	uint64_t delivered, delivered_ce; /* segments; with a congestion mark */
	uint64_t received_out_of_order;	  /* segments */
	uint64_t delivery_bytes_per_s;	  /* most recent estimate */
	uint64_t pacing_bytes_per_s;	  /* UINT64_MAX: none */
	uint64_t max_pacing_bytes_per_s;  /* UINT64_MAX: none */
	uint64_t busy_us;		  /* time with data to send or unacknowledged */
	uint64_t receive_window_limited_us, send_buffer_limited_us; /* parts of busy */
};

/* 0 or -errno; an older kernel leaves what it does not know at zero. */
int tcp_state_read(int fd, struct tcp_state *s);

/* What a sender waited for. */
enum tcp_limit {
	TCP_LIMIT_APPLICATION,	  /* nothing to send */
	TCP_LIMIT_RECEIVE_WINDOW, /* the receiver's window was full */
	TCP_LIMIT_SEND_BUFFER,	  /* the send buffer was too small for the path */
	TCP_LIMIT_CONGESTION, /* the congestion window, that is the network or this host's stack */
	TCP_LIMIT_PACING,     /* the rate that was asked for */
	TCP_LIMITS,
};
const char *tcp_limit_name(enum tcp_limit limit); /* "receive window" */
const char *tcp_limit_key(enum tcp_limit limit);  /* "receive_window" */

struct tcp_limits {
	double share[TCP_LIMITS]; /* of the elapsed time; they add up to 1 */
};

/* Shares of the time between two readings. The kernel keeps time for busy, receive window and send
 * buffer; the rest of the busy time is the congestion window's, or pacing's when a rate is set and
 * was nearly reached. */
void tcp_limits_between(const struct tcp_state *before, const struct tcp_state *after,
	uint64_t elapsed_ns, uint64_t sent_bytes, struct tcp_limits *limits);
enum tcp_limit tcp_limits_main(const struct tcp_limits *limits);

#endif
