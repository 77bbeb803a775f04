/* SPDX-License-Identifier: BSD-3-Clause */
/* All that a peer may send on a connection: to a server behind the preface, and to a client that waits for an answer.
 * The bytes are frames in short: a length byte, type, flags, stream, then the body; so that what is found is
 * deep, not a frame header that fits. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz.h"
#include "rpc/call.h"
#include "rpc/client.h"
#include "rpc/health.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/reflection.h"
#include "rpc/server.h"

static struct loop loop;

static void echo(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	Dxs__Prober__StartPingsReply reply = DXS__PROBER__START_PINGS_REPLY__INIT;

	(void)message;
	(void)context;
	rpc_call_reply(call, &reply.base);
}

/* Frames of the input, written out in full. Returns how many bytes. */
static size_t expand(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
	size_t n = 0;

	while (size >= 4 && n + 9 + 255 < room) {
		size_t length = data[0] < size - 4 ? data[0] : size - 4;

		out[n++] = 0;
		out[n++] = 0;
		out[n++] = (uint8_t)length;
		out[n++] = data[1] % 11;
		out[n++] = data[2];
		memset(out + n, 0, 4);
		out[n + 3] = data[3];
		n += 4;
		memcpy(out + n, data + 4, length);
		n += length;
		data += 4 + length;
		size -= 4 + length;
	}
	return n;
}

static void stop(struct loop *l, struct loop_timer *timer)
{
	(void)timer;
	loop_stop(l);
}

/* Turn the loop until nothing is left to do. */
static void turn(unsigned int times)
{
	struct loop_timer timer = { 0 };

	while (times--) {
		loop_timer_set(&loop, &timer, clock_ns(), stop);
		MUST(!loop_run(&loop, NULL));
	}
}

static void to_server(const uint8_t *bytes, size_t count)
{
	static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	static const struct rpc_method methods[] = { { "StartPings", RPC_UNARY, echo } };
	static const struct rpc_service service = { &dxs__prober__agent_service__descriptor,
		methods, 1, NULL };
	struct rpc_server_options options = { .limits = { .message_bytes = 4096,
						      .buffered_bytes = 65536 } };
	struct rpc_conn_setup setup = { .loop = &loop,
		.ops = &rpc_call_ops,
		.streams = 10,
		.patience_ns = NS_PER_S,
		.keepalive_ns = NS_PER_S,
		.open_deadline_ns = clock_ns() + NS_PER_S };
	struct rpc_server_stats stats;
	struct rpc_server *server;
	struct rpc_health *health;
	int fd[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd));
	MUST(!rpc_server_new(&server, &loop, &options, NULL));
	MUST(!rpc_server_add(server, &service, NULL) && !rpc_health_new(&health, server, NULL));
	MUST(!rpc_reflection_add(server, NULL));
	setup.owner = server;
	setup.fd = fd[0];
	setup.in = (struct rpc_budget){ .limit = 16384, .of = &server->requests };
	MUST(!rpc_conn_new(&server->conns, &setup, NULL));
	server->conns->link = &server->conns;
	server->stats.connections = 1;
	MUST(write(fd[1], opening, sizeof(opening) - 1) == sizeof(opening) - 1);
	MUST(!count || write(fd[1], bytes, count) == (ssize_t)count);
	turn(6);
	rpc_server_stats(server, &stats);
	MUST(stats.buffered_bytes <= 65536);
	rpc_health_free(health);
	rpc_server_free(server);
	close(fd[1]);
}

static void answered(void *context, const struct rpc_reply *reply)
{
	unsigned int *done = context;

	MUST(reply->words && reply->code <= RPC_UNAUTHENTICATED);
	MUST(!reply->message || reply->code == RPC_OK);
	++*done;
}

static void received(void *context, const ProtobufCMessage *message)
{
	(void)context;
	MUST(message->descriptor == &dxs__prober__start_pings_reply__descriptor);
}

static void to_client(const uint8_t *bytes, size_t count, bool stream)
{
	static const char opening[] = "\0\0\0\4\0\0\0\0\0";
	Dxs__Prober__StartPingsRequest message = DXS__PROBER__START_PINGS_REQUEST__INIT;
	unsigned int done = 0;
	struct rpc_request request = { .service = &dxs__prober__agent_service__descriptor,
		.method = "StartPings",
		.message = &message.base,
		.deadline_ns = clock_ns() + 100 * NS_PER_S,
		.received = stream ? received : NULL,
		.done = answered,
		.context = &done };
	struct rpc_client *client;
	struct sock_addr addr[SOCK_ADDRS];
	size_t addrs;
	int listener, fd;

	MUST(!sock_resolve("127.0.0.1", "0", AF_INET, true, addr, &addrs, NULL));
	listener = sock_listen(&addr[0], &(struct sock_listen){ .backlog = 1 }, NULL);
	MUST(listener >= 0 && !sock_local(listener, &addr[0]));
	MUST(!rpc_client_new(&client, &loop, &addr[0], NULL, NULL));
	MUST(!rpc_client_call(client, &request, NULL));
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	MUST(fd >= 0);
	turn(1);
	MUST(write(fd, opening, sizeof(opening) - 1) == sizeof(opening) - 1);
	MUST(!count || write(fd, bytes, count) == (ssize_t)count);
	turn(5);
	MUST(done <= 1);
	rpc_client_free(client);
	close(fd);
	close(listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[32768];
	size_t count;

	if (!size)
		return 0;
	if (!loop.epoll)
		MUST(!loop_init(&loop, NULL, NULL));
	count = expand(data + 1, size - 1, bytes, sizeof(bytes));
	if (data[0] < 160)
		to_server(bytes, count);
	else
		to_client(bytes, count, data[0] & 1);
	return 0;
}
