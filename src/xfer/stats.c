// SPDX-License-Identifier: BSD-3-Clause
/* How full the windows were, and what nothing moved for. */
#include "xfer/engine.h"

static unsigned int in_flight(const struct weir_p2p_conn *c)
{
	unsigned int n = c->receives_posted;

	for (unsigned int i = 0; c->out && i < c->agreed.channels; i++)
		n += c->out[i].posted.count;
	return n;
}

/* What would have to happen for something to move. */
static int stall_cause(const struct weir_p2p_conn *c)
{
	bool granted = false;

	for (unsigned int i = 0; c->in && i < c->agreed.channels; i++)
		if (c->in[i].unpacking)
			return WEIR_P2P_STALL_UNPACK;

	for (unsigned int i = 0; c->out && i < c->agreed.channels; i++)
		granted |= c->out[i].posted.count || c->out[i].granted.count;
	if (granted)
		return WEIR_P2P_STALL_SOCKET; /* or the peer: stats_read() tells them apart */
	if (c->offers_open || c->announce[WAY_MESSAGE].first)
		return WEIR_P2P_STALL_CREDIT;
	return WEIR_P2P_STALL_PEER;
}

/* Time is put down to what was so when it began to pass. */
void stats_account(struct weir_p2p_conn *c, uint64_t now_ns, bool moved)
{
	uint64_t passed = now_ns - c->turn_ns;

	c->turn_ns = now_ns;
	if (c->active) {
		c->stats.active_ns += passed;
		c->in_flight_time += (double)passed * c->in_flight;
		if (c->stalled >= 0)
			c->stats.stall_ns[c->stalled] += passed;
	}
	c->active = c->under_way;
	c->stalled = c->active && !moved ? stall_cause(c) : -1;
	c->in_flight = in_flight(c);
	if (c->in_flight > c->stats.in_flight_max)
		c->stats.in_flight_max = c->in_flight;
}

/* The transport knows more of what its comms waited for than a turn can see. */
static void add_comms(const struct net_ops *ops, const struct channel *channels, unsigned int count,
	struct net_stats *sum)
{
	struct net_stats s;

	for (unsigned int i = 0; ops->stats && channels && i < count; i++) {
		if (!channels[i].comm)
			continue;
		s = (struct net_stats){ 0 };
		ops->stats(channels[i].comm, &s);
		sum->socket_full_ns += s.socket_full_ns;
		sum->unacknowledged_ns += s.unacknowledged_ns;
		sum->starved_ns += s.starved_ns;
		sum->staging_ns += s.staging_ns;
		sum->device_bytes += s.device_bytes;
		sum->linear_bytes += s.linear_bytes;
		sum->plain_bytes += s.plain_bytes;
		sum->path = s.path;
		if (s.reason)
			sum->reason = s.reason;
		sum->connections = s.connections;
	}
}

static uint64_t share(uint64_t of, uint64_t part, uint64_t other)
{
	return part + other ? (uint64_t)((double)of * (double)part / (double)(part + other)) : 0;
}

void stats_read(struct weir_p2p_conn *c, struct weir_p2p_stats *s)
{
	const struct net_ops *ops = c->engine->net->ops;
	struct net_stats out = { 0 }, in = { 0 };
	uint64_t waited = c->stats.stall_ns[WEIR_P2P_STALL_SOCKET];
	uint64_t starved = c->stats.stall_ns[WEIR_P2P_STALL_PEER], socket, unpack;

	add_comms(ops, c->out, c->agreed.channels, &out);
	add_comms(ops, c->in, c->agreed.channels, &in);
	*s = c->stats;
	s->channels = c->agreed.channels;
	s->window = c->agreed.window;
	s->chunk_bytes = c->agreed.chunk_bytes;
	s->sockets = (unsigned int)(out.connections ? out.connections : in.connections);
	s->in_flight_mean = s->active_ns ? c->in_flight_time / (double)s->active_ns : 0;
	socket = share(waited, out.socket_full_ns, out.unacknowledged_ns);
	unpack = share(starved, in.staging_ns, in.starved_ns);
	s->sent_device_bytes = out.device_bytes;
	s->received_device_bytes = in.device_bytes;
	s->received_linear_bytes = in.linear_bytes;
	s->received_plain_bytes = in.plain_bytes;
	c->path[0] = in.path;
	c->path[1] = out.path;
	c->path_reason = in.reason ? in.reason : out.reason;
	s->stall_ns[WEIR_P2P_STALL_SOCKET] = socket;
	s->stall_ns[WEIR_P2P_STALL_UNPACK] += unpack;
	s->stall_ns[WEIR_P2P_STALL_PEER] = starved - unpack + (waited - socket);
}
