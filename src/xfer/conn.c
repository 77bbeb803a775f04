// SPDX-License-Identifier: BSD-3-Clause
/* A connection, from the first byte until all its channels are there, and its end. */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "xfer/engine.h"

#define RETRY_NS (50 * NS_PER_MS)

int conn_new(struct weir_p2p *p, struct weir_p2p_conn **conn, struct err *e)
{
	struct weir_p2p_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ENOMEM, "no memory for a connection");
	c->engine = p;
	c->link.fd = c->connecting = -1;
	c->deadline_ns = clock_ns() + p->config.connect_timeout_ns;
	move_reset(c);
	c->next = p->conns;
	p->conns = c;
	*conn = c;
	return 0;
}

static void channels_close(struct weir_p2p_conn *c, struct channel **channels)
{
	const struct net_ops *ops = c->engine->net->ops;

	for (unsigned int i = 0; *channels && i < c->agreed.channels; i++) {
		struct channel *ch = &(*channels)[i];

		for (unsigned int r = 0; ch->comm && ch->memory && r < c->engine->regions.used; r++)
			if (ch->memory[r])
				ops->dereg(ch->comm, ch->memory[r], NULL);
		if (ch->comm)
			ops->close_comm(ch->comm);
		if (ch->listener)
			ops->close_listener(ch->listener);
		free(ch->memory);
	}
	free(*channels);
	*channels = NULL;
}

static void notifications_free(struct notification **first)
{
	while (*first) {
		struct notification *n = *first;

		*first = n->next;
		free(n);
	}
}

void conn_over(struct weir_p2p_conn *c, const struct err *why)
{
	struct weir_p2p *p = c->engine;

	if (c->state == CONN_OVER)
		return;
	/* A stranger that never got in is not handed to anybody. */
	if (c->server && c->state != CONN_READY)
		engine_refuse(p, why);
	stats_read(c, &c->stats);
	c->state = CONN_OVER;
	c->error = *why;
	/* First of all nobody touches the memory any more. */
	if (c->unpacks && p->unpack)
		unpack_wait(p->unpack);
	channels_close(c, &c->out);
	channels_close(c, &c->in);
	for (int i = 0; i < TRANSFERS + SERVED; i++)
		if (c->pool[i].role != ROLE_FREE && !c->pool[i].result)
			transfer_finish(&c->pool[i], -why->code, c->error.what);
	if (c->connecting >= 0)
		close(c->connecting);
	c->connecting = -1;
	link_close(&c->link);
	notifications_free(&c->notify_first);
	c->notify_last = NULL;
	free(c->hearing);
	c->hearing = NULL;
	for (int i = 0; i < XFER_CREDIT; i++) {
		free(c->unexpected[i].data);
		c->unexpected[i].data = NULL;
	}
	p->finished++;
}

void conn_free(struct weir_p2p_conn *c)
{
	struct err gone = { .code = ECANCELED, .what = "the engine is closed" };
	struct weir_p2p_conn **at = &c->engine->conns;

	conn_over(c, &gone);
	notifications_free(&c->heard_first);
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	free(c);
}

bool conn_is_done_with(const struct weir_p2p_conn *c)
{
	return c->state == CONN_OVER && !c->own && (c->abandoned || (c->server && !c->accepted));
}

/* The client's way to a connection */

static void connect_failed(struct weir_p2p_conn *c, const struct err *why, uint64_t now_ns)
{
	link_close(&c->link);
	if (c->connecting >= 0)
		close(c->connecting);
	c->connecting = -1;
	c->watched = 0;
	c->error = *why;
	c->state = CONN_CONNECT;
	c->address_next++;
	c->retry_ns = c->address_next % c->addresses ? now_ns : now_ns + RETRY_NS;
}

static int connect_begin(struct weir_p2p_conn *c, uint64_t now_ns)
{
	const struct sock_addr *to = &c->address[c->address_next % c->addresses];
	struct sock_options options = { .no_delay = true };
	struct err e = { 0 };

	if (now_ns < c->retry_ns)
		return 0;
	sock_addr_text(to, true, c->peer);
	c->connecting = sock_connect_start(to, NULL, &options, &e);
	if (c->connecting >= 0)
		return 1;
	c->connecting = -1;
	connect_failed(c, &e, now_ns);
	return 0;
}

static int connect_turn(struct weir_p2p_conn *c, uint64_t now_ns, struct err *e)
{
	const struct sock_addr *to = &c->address[c->address_next % c->addresses];
	struct sock_options options = { .no_delay = true };
	uint8_t hello[XFER_HELLO_BYTES];
	struct err why = { 0 };
	int fd = c->connecting, ret;

	if (fd < 0)
		return connect_begin(c, now_ns);
	if (sock_wait(fd, POLLOUT, -1, now_ns) != 1)
		return 0;
	ret = sock_connect_wait(fd, to, now_ns + NS_PER_MS, &why);
	if (!ret)
		ret = sock_set_after(fd, &options, &why);
	if (ret) {
		connect_failed(c, &why, now_ns);
		return 1;
	}
	c->connecting = -1;
	ret = link_open(&c->link, fd, e);
	if (ret)
		return ret;
	xfer_hello_encode(&c->hello, hello);
	ret = link_put_bytes(&c->link, hello, sizeof(hello), e);
	c->state = CONN_WELCOME;
	return ret ? ret : 1;
}

/* Channels */

static int channels_new(struct weir_p2p_conn *c, struct channel **channels, struct err *e)
{
	*channels = calloc(c->agreed.channels, sizeof(**channels));
	for (unsigned int i = 0; *channels && i < c->agreed.channels; i++) {
		struct channel *ch = &(*channels)[i];

		ch->memory = calloc(REGIONS_MAX, sizeof(*ch->memory));
		if (!ch->memory)
			return err_set(e, ENOMEM, "no memory for channels");
	}
	return *channels ? 0 : err_set(e, ENOMEM, "no memory for channels");
}

static int check_device(struct weir_p2p_conn *c, int device, unsigned int *window, struct err *e)
{
	struct net_properties props = { 0 };
	struct weir_p2p *p = c->engine;
	int ret = p->net->ops->properties(p->net, device, &props, e);

	if (ret)
		return ret;
	c->unpacks |= props.unpacks;
	if (props.unpacks && !p->unpack) {
		ret = unpack_open(&p->unpack, p->config.unpack, p->config.gpu, e);
		if (ret)
			return ret;
	}
	if (props.requests > 0 && (unsigned int)props.requests < *window)
		*window = (unsigned int)props.requests;
	if (props.message_bytes && c->agreed.chunk_bytes > props.message_bytes)
		return err_set(e, EMSGSIZE,
			"%s sends at most %zu bytes at once, a chunk has %" PRIu64, props.name,
			props.message_bytes, c->agreed.chunk_bytes);
	return 0;
}

/* Both ends make their channels of what is agreed: which NICs, and for those that receive, a listener. */
static int channels_prepare(struct weir_p2p_conn *c, struct err *e)
{
	bool out = !c->server || c->hello.directions & XFER_TO_CLIENT;
	bool in = c->server || c->hello.directions & XFER_TO_CLIENT;
	unsigned int window = c->agreed.window, count = 0;
	struct weir_p2p *p = c->engine;
	int device[DEVICES_MAX], ret;

	ret = devices_choose(p, c->link.fd, device, &count, c->devices, sizeof(c->devices), e);
	if (!ret && !count)
		ret = err_set(e, ENODEV, "there is no NIC to use");
	for (unsigned int i = 0; !ret && i < count; i++)
		ret = check_device(c, device[i], &window, e);
	if (!ret && out)
		ret = channels_new(c, &c->out, e);
	if (!ret && in)
		ret = channels_new(c, &c->in, e);
	for (unsigned int i = 0; !ret && i < c->agreed.channels; i++) {
		int dev = device[i % count];

		if (out) {
			c->out[i].device = dev;
			window_init(&c->out[i].posted, window);
			window_init(&c->out[i].granted, c->agreed.window);
		}
		if (in) {
			c->in[i].device = dev;
			window_init(&c->in[i].posted, window);
			c->in_window[i] = &c->in[i].posted;
			ret = p->net->ops->listen(
				p->net, dev, c->in[i].handle, &c->in[i].listener, e);
		}
	}
	return ret;
}

static void gather_handles(const struct weir_p2p_conn *c, uint8_t *handles)
{
	for (unsigned int i = 0; i < c->agreed.channels; i++)
		memcpy(handles + (size_t)i * NET_HANDLE_BYTES, c->in[i].handle, NET_HANDLE_BYTES);
}

static void take_handles(struct weir_p2p_conn *c, const uint8_t *handles)
{
	for (unsigned int i = 0; i < c->agreed.channels; i++)
		memcpy(c->out[i].handle, handles + (size_t)i * NET_HANDLE_BYTES, NET_HANDLE_BYTES);
}

static int welcome_turn(struct weir_p2p_conn *c, uint64_t now_ns, struct err *e)
{
	const uint8_t *bytes;
	struct err why = { 0 };
	int ret = link_fill(&c->link);

	if (ret < 0) {
		/* Perhaps it is just being started, or ended. */
		err_set(&why, -ret, "%s closed the connection without an answer", c->peer);
		err_hint(&why, "is it a weir p2p server?");
		connect_failed(c, &why, now_ns);
		return 1;
	}
	bytes = link_take_bytes(&c->link, XFER_WELCOME_BYTES);
	if (!bytes)
		return 0;
	ret = xfer_welcome_decode(bytes, &c->hello, &c->agreed, e);
	if (ret)
		return err_prefix(e, "%s", c->peer);
	c->state = CONN_HANDLES;
	return 1;
}

static int handles_turn(struct weir_p2p_conn *c, struct err *e)
{
	uint8_t handles[WEIR_P2P_CHANNELS_MAX * NET_HANDLE_BYTES];
	struct xfer_frame back = { .type = XFER_BACK, .count = c->agreed.channels };
	size_t bytes = (size_t)c->agreed.channels * NET_HANDLE_BYTES;
	const uint8_t *theirs;
	int ret;

	ret = link_fill(&c->link);
	if (ret < 0)
		return err_set(e, ECONNRESET,
			"%s closed the connection in the middle of its answer", c->peer);
	theirs = link_take_bytes(&c->link, bytes);
	if (!theirs)
		return 0;
	ret = channels_prepare(c, e);
	if (ret)
		return ret;
	take_handles(c, theirs);
	if (c->in) {
		gather_handles(c, handles);
		back.data = handles;
		back.data_bytes = bytes;
		ret = link_put(&c->link, &back, e);
	}
	c->state = CONN_CHANNELS;
	return ret ? ret : 1;
}

/* The server's */

int conn_serve(struct weir_p2p *p, int fd, struct err *e)
{
	struct weir_p2p_conn *c = NULL;
	struct sock_addr peer;
	int one = 1, ret;

	ret = conn_new(p, &c, e);
	if (ret || !c) {
		close(fd);
		return ret;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->server = true;
	c->state = CONN_HELLO;
	if (!sock_peer(fd, &peer))
		sock_addr_text(&peer, true, c->peer);
	ret = link_open(&c->link, fd, e);
	if (ret)
		conn_free(c);
	return ret;
}

static const char *const refusal_words[XFER_REFUSALS] = {
	[XFER_WRONG_VERSION] = "speaks another version of the p2p protocol",
	[XFER_WRONG_TOKEN] = "has another token",
	[XFER_WRONG_COUNT] = "asks for impossible channels, windows or chunks",
	[XFER_WRONG_RANK] = "asks for another GPU",
	[XFER_NO_CHANNELS] = "could not be given channels",
	[XFER_WRONG_TRANSPORT] = "moves data by another transport",
};

/* Say no, and why, before hanging up. */
static int turn_away(
	struct weir_p2p_conn *c, enum xfer_refusal refusal, const struct err *cause, struct err *e)
{
	struct xfer_welcome no = {
		.version = XFER_VERSION, .refusal = refusal, .rank = c->engine->config.rank
	};
	uint8_t bytes[XFER_WELCOME_BYTES];

	snprintf(no.transport, sizeof(no.transport), "%s", c->engine->net->ops->name);
	xfer_welcome_encode(&no, bytes);
	if (!link_put_bytes(&c->link, bytes, sizeof(bytes), NULL))
		link_flush(&c->link);
	shutdown(c->link.fd, SHUT_WR);
	if (cause && cause->code) {
		*e = *cause;
		return -e->code;
	}
	return err_set(e, refusal == XFER_WRONG_TOKEN ? EACCES : EPROTO, "%s %s", c->peer,
		refusal_words[refusal]);
}

static int hello_turn(struct weir_p2p_conn *c, struct err *e)
{
	uint8_t answer[XFER_WELCOME_BYTES], handles[WEIR_P2P_CHANNELS_MAX * NET_HANDLE_BYTES];
	enum xfer_refusal refusal;
	struct err why = { 0 };
	const uint8_t *bytes;
	int ret;

	ret = link_fill(&c->link);
	bytes = link_take_bytes(&c->link, XFER_HELLO_BYTES);
	if (!bytes)
		return ret < 0 ? err_set(e, ECONNRESET, "%s hung up before it said what it wants",
					 c->peer)
			       : 0;
	ret = xfer_hello_decode(bytes, &c->hello, e);
	if (ret)
		return err_prefix(e, "%s", c->peer);
	refusal = xfer_hello_judge(
		&c->hello, c->engine->token, c->engine->config.rank, c->engine->net->ops->name);
	if (refusal)
		return turn_away(c, refusal, NULL, e);
	c->agreed = (struct xfer_welcome){ .version = XFER_VERSION,
		.channels = c->hello.channels,
		.window = c->hello.window,
		.chunk_bytes = c->hello.chunk_bytes,
		.rank = c->engine->config.rank };
	if (channels_prepare(c, &why))
		return turn_away(c, XFER_NO_CHANNELS, &why, e);
	xfer_welcome_encode(&c->agreed, answer);
	gather_handles(c, handles);
	ret = link_put_bytes(&c->link, answer, sizeof(answer), e);
	if (!ret)
		ret = link_put_bytes(
			&c->link, handles, (size_t)c->agreed.channels * NET_HANDLE_BYTES, e);
	c->state = c->out ? CONN_BACK : CONN_CHANNELS;
	return ret ? ret : 1;
}

/* The next frame on the way to READY: 1, 0 none. */
static int next_frame(struct weir_p2p_conn *c, struct xfer_frame *f, struct err *e)
{
	int came = link_fill(&c->link), ret = link_take(&c->link, f, e);

	if (!ret && came < 0)
		return err_set(e, ECONNRESET, "%s hung up before all channels were there", c->peer);
	return ret;
}

static int back_turn(struct weir_p2p_conn *c, struct err *e)
{
	struct xfer_frame f;
	int ret = next_frame(c, &f, e);

	if (ret <= 0)
		return ret;
	if (f.type != XFER_BACK || f.count != c->agreed.channels)
		return err_set(e, EPROTO, "%s did not send a handle for each channel", c->peer);
	take_handles(c, f.data);
	c->state = CONN_CHANNELS;
	return 1;
}

/* Both */

/* 1: one more is there, 2: this one was there. */
static int open_out(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	struct net *n = c->engine->net;
	int ret;

	if (ch->comm)
		return 2;
	ret = n->ops->connect(n, ch->device, ch->handle, &ch->comm, e);
	if (ret)
		return err_prefix(e, "cannot open a channel to %s", c->peer);
	return ch->comm != NULL;
}

static int open_in(struct weir_p2p_conn *c, struct channel *ch, struct err *e)
{
	const struct net_ops *ops = c->engine->net->ops;
	int ret;

	if (ch->comm)
		return 2;
	ret = ops->accept(ch->listener, &ch->comm, e);
	if (ret)
		return err_prefix(e, "cannot open a channel from %s", c->peer);
	if (!ch->comm)
		return 0;
	ops->close_listener(ch->listener);
	ch->listener = NULL;
	return 1;
}

static int channels_turn(struct weir_p2p_conn *c, uint64_t now_ns, struct err *e)
{
	struct xfer_frame f, ready = { .type = XFER_READY };
	unsigned int there = 0, wanted = 0;
	int ret, moved = 0;

	for (unsigned int i = 0; i < c->agreed.channels; i++) {
		for (int way = 0; way < 2; way++) {
			if (!(way ? c->in : c->out))
				continue;
			wanted++;
			ret = way ? open_in(c, &c->in[i], e) : open_out(c, &c->out[i], e);
			if (ret < 0)
				return ret;
			moved |= ret == 1;
			there += ret > 0;
		}
	}
	if (there == wanted && !c->ready_put) {
		c->ready_put = true;
		ret = link_put(&c->link, &ready, e);
		if (ret)
			return ret;
		moved = 1;
	}
	if (!c->ready_here) {
		ret = next_frame(c, &f, e);
		if (ret < 0)
			return ret;
		if (ret && f.type != XFER_READY)
			return err_set(e, EPROTO, "%s did not wait for all channels", c->peer);
		c->ready_here = ret;
		moved |= ret;
	}
	if (c->ready_here && c->ready_put) {
		c->state = CONN_READY;
		c->heard_ns = c->turn_ns = now_ns;
		c->engine->finished++;
	}
	return moved;
}

static int state_turn(struct weir_p2p_conn *c, uint64_t now_ns, struct err *e)
{
	switch (c->state) {
	case CONN_CONNECT:
		return connect_turn(c, now_ns, e);
	case CONN_WELCOME:
		return welcome_turn(c, now_ns, e);
	case CONN_HANDLES:
		return handles_turn(c, e);
	case CONN_HELLO:
		return hello_turn(c, e);
	case CONN_BACK:
		return back_turn(c, e);
	case CONN_CHANNELS:
		return channels_turn(c, now_ns, e);
	default:
		return 0;
	}
}

static void time_is_over(struct weir_p2p_conn *c, struct err *e)
{
	static const char *const waited_for[] = {
		[CONN_CONNECT] = "a connection",
		[CONN_WELCOME] = "an answer",
		[CONN_HANDLES] = "the rest of the answer",
		[CONN_HELLO] = "the first word",
		[CONN_BACK] = "the handles of the channels",
		[CONN_CHANNELS] = "all channels to be there",
	};

	/* Why the last try failed says more than that time is over. */
	if (c->state == CONN_CONNECT && c->error.code) {
		*e = c->error;
		if (!e->hint[0])
			err_hint(e, "start the server first: weir p2p server");
		return;
	}
	err_set(e, ETIMEDOUT, "%s: waited %.1f s for %s", c->peer[0] ? c->peer : "the peer",
		(double)c->engine->config.connect_timeout_ns / 1e9, waited_for[c->state]);
}

int conn_open_turn(struct weir_p2p_conn *c, uint64_t now_ns)
{
	struct err e = { 0 };
	int ret, sent;

	ret = state_turn(c, now_ns, &e);
	if (ret >= 0 && c->link.fd >= 0) {
		sent = link_flush(&c->link);
		if (sent < 0)
			ret = err_set(&e, -sent, "the connection to %s broke: %s", c->peer,
				strerror(-sent));
		else
			ret |= sent;
	}
	if (ret >= 0 && c->state < CONN_READY && now_ns > c->deadline_ns) {
		time_is_over(c, &e);
		ret = -e.code;
	}
	if (ret < 0)
		conn_over(c, &e);
	return ret != 0;
}
