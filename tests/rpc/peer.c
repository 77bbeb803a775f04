// SPDX-License-Identifier: BSD-3-Clause
/* A gRPC server and a client of weir's own, for tests that stand at the other end with grpcio or raw frames.
 *
 *	peer serve [key=value ...]    prints "port N", serves until SIGTERM, then prints one line of statistics
 *	peer call [key=value ...]     makes one call, prints "code NAME", "words ...", "result N" or "report N"
 *
 * What the services do is asked for in the request: see the handlers.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/health.h"
#include "rpc/proto/agent.pb-c.h"
#include "rpc/proto/prober.pb-c.h"
#include "rpc/reflection.h"
#include "rpc/server.h"

struct peer {
	struct loop loop;
	struct rpc_server *server;
	struct rpc_health *health;
	struct loop_fd signals;
	unsigned int cancels, late, held;
};

static struct peer peer;

/* Something that ends later: a call that is answered after a while, or never. */
struct later {
	struct loop_timer timer;
	struct rpc_call *call;
	unsigned int reports, sent;
	size_t bytes;
};

static void fail(const struct err *e)
{
	fprintf(stderr, "peer: %s\n", e->what);
	exit(1);
}

static const char *argument(int argc, char **argv, const char *key)
{
	size_t n = strlen(key);

	for (int i = 2; i < argc; i++)
		if (!strncmp(argv[i], key, n) && argv[i][n] == '=')
			return argv[i] + n + 1;
	return NULL;
}

static uint64_t number(int argc, char **argv, const char *key, uint64_t otherwise)
{
	const char *value = argument(argc, argv, key);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

static struct later *later_new(struct rpc_call *call)
{
	struct later *later = calloc(1, sizeof(*later));

	if (!later)
		abort();
	later->call = call;
	peer.held++;
	return later;
}

static void later_end(struct later *later)
{
	loop_timer_cancel(&peer.loop, &later->timer);
	peer.held--;
	free(later);
}

static void later_cancelled(struct rpc_call *call, void *context)
{
	peer.cancels++;
	later_end(context);
	rpc_call_finish(call, RPC_CANCELLED, "was cancelled");
}

/* One result per target; "fail" as a peer's address fails it, and the call. */
static void answer_results(struct rpc_call *call, const Dxs__Prober__StartPingsRequest *request)
{
	Dxs__Prober__ConnectionResults results = DXS__PROBER__CONNECTION_RESULTS__INIT;
	Dxs__Prober__StartPingsReply reply = DXS__PROBER__START_PINGS_REPLY__INIT;
	Dxs__Prober__Result *result = calloc(request->n_targets + 1, sizeof(*result));
	bool good = true;

	if (!result)
		abort();
	for (size_t i = 0; i < request->n_targets; i++) {
		bool fails = !strcmp(request->targets[i]->peer_nic_ip_address, "fail");

		result[i] = fails ? DXS__PROBER__RESULT__FAILURE : DXS__PROBER__RESULT__SUCCESS;
		good = good && !fails;
	}
	results.results = result;
	results.n_results = request->n_targets;
	if (rpc_call_add_detail(call, &results.base))
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "too many results");
	else if (good)
		rpc_call_reply(call, &reply.base);
	else
		rpc_call_finish(call, RPC_INTERNAL, "100 %% of \"it\" \xc3\xa4nd\nmore failed");
	free(result);
}

static void reply_late(struct loop *l, struct loop_timer *timer)
{
	struct later *later = container_of(timer, struct later, timer);
	Dxs__Prober__StartPingsReply reply = DXS__PROBER__START_PINGS_REPLY__INIT;
	struct rpc_call *call = later->call;

	(void)l;
	later_end(later);
	peer.late++;
	rpc_call_reply(call, &reply.base);
}

/* probe_rate_qps: 0 or more answers at once, -1 never, less than -1 after so many milliseconds. */
static void start_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Dxs__Prober__StartPingsRequest *request = (const void *)message;
	struct later *later;

	(void)context;
	if (request->probe_rate_qps >= 0) {
		answer_results(call, request);
		return;
	}
	later = later_new(call);
	rpc_call_on_cancel(call, later_cancelled, later);
	if (request->probe_rate_qps < -1)
		loop_timer_set(&peer.loop, &later->timer,
			clock_ns() + (uint64_t)-request->probe_rate_qps * NS_PER_MS, reply_late);
}

static void stop_pings(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	Dxs__Prober__StopPingsReply reply = DXS__PROBER__STOP_PINGS_REPLY__INIT;

	(void)message;
	(void)context;
	rpc_call_reply(call, &reply.base);
}

static void send_reports(struct later *later);

static void send_more_reports(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	send_reports(container_of(timer, struct later, timer));
}

static void send_reports(struct later *later)
{
	Weir__V1__Report report = WEIR__V1__REPORT__INIT;
	Weir__V1__StateChange change = WEIR__V1__STATE_CHANGE__INIT, *changes = &change;
	char *reason = calloc(1, later->bytes + 1);
	int ret = 0;

	if (!reason)
		abort();
	memset(reason, 'x', later->bytes);
	change.reason = reason;
	report.change = &changes;
	report.n_change = 1;
	while (later->sent < later->reports && !ret) {
		report.sequence = later->sent + 1;
		ret = rpc_call_send(later->call, &report.base);
		if (!ret)
			later->sent++;
	}
	free(reason);
	if (ret == -EAGAIN)
		loop_timer_set(
			&peer.loop, &later->timer, clock_ns() + NS_PER_MS, send_more_reports);
	if (later->reports && (later->sent == later->reports || ret == -ENOBUFS)) {
		struct rpc_call *call = later->call;

		later_end(later);
		rpc_call_finish(call, ret ? RPC_RESOURCE_EXHAUSTED : RPC_OK, NULL);
	}
}

/* watcher: "COUNT BYTES": so many reports of so many bytes; 0 of them: silent until cancelled. */
static void watch(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__WatchRequest *request = (const void *)message;
	struct later *later = later_new(call);

	(void)context;
	if (sscanf(request->watcher, "%u %zu", &later->reports, &later->bytes) != 2) {
		later_end(later);
		rpc_call_finish(
			call, RPC_INVALID_ARGUMENT, "not COUNT BYTES: %s", request->watcher);
		return;
	}
	rpc_call_on_cancel(call, later_cancelled, later);
	send_reports(later);
}

/* Until when the client waits, as the server sees it. */
static void get_status(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	Weir__V1__AgentStatus reply = WEIR__V1__AGENT_STATUS__INIT;
	uint64_t deadline_ns = rpc_call_deadline_ns(call);

	(void)message;
	(void)context;
	reply.pinglist_generation = deadline_ns == UINT64_MAX ? 0 : deadline_ns - clock_ns();
	rpc_call_reply(call, &reply.base);
}

static void shut_down(struct rpc_server *server, void *context)
{
	(void)server;
	(void)context;
	loop_stop(&peer.loop);
}

static void print_stats(void)
{
	struct rpc_server_stats s;

	rpc_server_stats(peer.server, &s);
	printf("connections %u calls %u buffered %zu accepted %lu answered %lu refused %lu evicted %lu cancels %u late %u held %u\n",
		s.connections, s.calls, s.buffered_bytes, s.accepted, s.answered, s.refused,
		s.evicted, peer.cancels, peer.late, peer.held);
	fflush(stdout);
}

/* SIGTERM ends gracefully, SIGUSR1 prints statistics, SIGUSR2 says that the service is not well. */
static void signalled(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)l;
	(void)events;
	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1)
		print_stats();
	else if (info.ssi_signo == SIGUSR2)
		rpc_health_set(peer.health, "dxs.prober.AgentService", false);
	else
		rpc_server_shutdown(peer.server, clock_ns() + 2 * NS_PER_S, shut_down, NULL);
}

static int watch_signals(struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return loop_add(&peer.loop, &peer.signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
		EPOLLIN, signalled, e);
}

static struct rpc_tls *open_tls(int argc, char **argv)
{
	struct rpc_tls_files files = { argument(argc, argv, "cert"), argument(argc, argv, "key"),
		argument(argc, argv, "ca") };
	struct rpc_tls *tls = NULL;
	struct err e = { 0 };

	if (files.cert && rpc_tls_new(&tls, &files, &e))
		fail(&e);
	return tls;
}

static const struct rpc_method agent_methods[] = {
	{ "StartPings", RPC_UNARY, start_pings },
	{ "StopPings", RPC_UNARY, stop_pings },
};
static const struct rpc_method native_methods[] = {
	{ "GetStatus", RPC_UNARY, get_status },
	{ "Watch", RPC_SERVER_STREAM, watch },
};
static const struct rpc_service agent_service = { &dxs__prober__agent_service__descriptor,
	agent_methods, 2, NULL };
static const struct rpc_service native_service = { &weir__v1__agent__descriptor, native_methods, 2,
	NULL };

static void set_up(int argc, char **argv, struct rpc_tls *tls, struct err *e)
{
	struct rpc_server_options options = { .tls = tls,
		.limits = { .message_bytes = number(argc, argv, "message_bytes", 0),
			.buffered_bytes = number(argc, argv, "buffered_bytes", 0),
			.connections = (uint32_t)number(argc, argv, "connections", 0),
			.streams = (uint32_t)number(argc, argv, "streams", 0),
			.calls = (uint32_t)number(argc, argv, "calls", 0),
			.patience_ns = number(argc, argv, "patience_ms", 0) * NS_PER_MS,
			.keepalive_ns = number(argc, argv, "keepalive_ms", 0) * NS_PER_MS } };
	struct sock_addr addr[SOCK_ADDRS];
	size_t count;
	int port;

	if (rpc_server_new(&peer.server, &peer.loop, &options, e) ||
		rpc_server_add(peer.server, &agent_service, e) ||
		rpc_server_add(peer.server, &native_service, e) ||
		rpc_health_new(&peer.health, peer.server, e) ||
		rpc_health_set(peer.health, "dxs.prober.AgentService", true) ||
		rpc_reflection_add(peer.server, e) ||
		sock_resolve("127.0.0.1", "0", AF_UNSPEC, true, addr, &count, e))
		fail(e);
	port = rpc_server_listen(peer.server, &addr[0], e);
	if (port < 0)
		fail(e);
	printf("port %d\n", port);
	fflush(stdout);
}

static int serve(int argc, char **argv)
{
	struct rpc_tls *tls = open_tls(argc, argv);
	struct err e = { 0 };

	if (loop_init(&peer.loop, NULL, &e) || watch_signals(&e))
		fail(&e);
	set_up(argc, argv, tls, &e);
	if (loop_run(&peer.loop, &e))
		fail(&e);
	print_stats();
	rpc_health_free(peer.health);
	rpc_server_free(peer.server);
	close(peer.signals.fd);
	loop_close(&peer.loop);
	rpc_tls_free(tls);
	return 0;
}

/* The client. */

static void reported(void *context, const ProtobufCMessage *message)
{
	const Weir__V1__Report *report = (const void *)message;

	(void)context;
	printf("report %lu %zu\n", report->sequence,
		report->n_change ? strlen(report->change[0]->reason) : 0);
}

static void print_results(const Google__Protobuf__Any *detail)
{
	Dxs__Prober__ConnectionResults *results = dxs__prober__connection_results__unpack(
		NULL, detail->value.len, detail->value.data);

	for (size_t i = 0; results && i < results->n_results; i++)
		printf("result %d\n", (int)results->results[i]);
	if (results)
		dxs__prober__connection_results__free_unpacked(results, NULL);
}

static void done(void *context, const struct rpc_reply *reply)
{
	enum rpc_code *code = context;

	*code = reply->code;
	printf("code %s\nwords %s\n", rpc_code_name(reply->code), reply->words);
	for (size_t i = 0; reply->status && i < reply->status->n_details; i++)
		if (!strcmp(reply->status->details[i]->type_url,
			    "type.googleapis.com/dxs.prober.ConnectionResults"))
			print_results(reply->status->details[i]);
	loop_stop(&peer.loop);
}

struct many {
	unsigned int left, by_code[RPC_UNAUTHENTICATED + 1];
};

static void one_of_many(void *context, const struct rpc_reply *reply)
{
	struct many *many = context;

	many->by_code[reply->code]++;
	if (!--many->left)
		loop_stop(&peer.loop);
}

/* So many calls at once over one connection; prints how many ended how. */
static int call_many(const struct sock_addr *to, const struct rpc_client_options *options,
	struct rpc_request *request, unsigned int count)
{
	struct many many = { .left = count };
	struct rpc_client *client;
	struct err e = { 0 };

	if (rpc_client_new(&client, &peer.loop, to, options, &e))
		fail(&e);
	request->done = one_of_many;
	request->context = &many;
	for (unsigned int i = 0; i < count; i++)
		if (rpc_client_call(client, request, &e))
			fail(&e);
	if (loop_run(&peer.loop, &e))
		fail(&e);
	for (int i = 0; i <= RPC_UNAUTHENTICATED; i++)
		if (many.by_code[i])
			printf("%s %u\n", rpc_code_name((enum rpc_code)i), many.by_code[i]);
	rpc_client_free(client);
	return 0;
}

static int call_one(const struct sock_addr *to, const struct rpc_client_options *options,
	struct rpc_request *request)
{
	enum rpc_code code = RPC_UNKNOWN;
	struct rpc_client *client;
	struct err e = { 0 };

	request->done = done;
	request->context = &code;
	if (rpc_client_new(&client, &peer.loop, to, options, &e) ||
		rpc_client_call(client, request, &e) || loop_run(&peer.loop, &e))
		fail(&e);
	rpc_client_free(client);
	return code ? 1 : 0;
}

/* method=StartPings|Watch port=N qps=N targets=N fail=I watcher="N BYTES" deadline_ms=N many=N */
static int call(int argc, char **argv)
{
	Dxs__Prober__StartPingsRequest start = DXS__PROBER__START_PINGS_REQUEST__INIT;
	Dxs__Prober__Target target = DXS__PROBER__TARGET__INIT, failing = DXS__PROBER__TARGET__INIT;
	Weir__V1__WatchRequest watching = WEIR__V1__WATCH_REQUEST__INIT;
	struct rpc_client_options options = { .tls = open_tls(argc, argv),
		.server_name = argument(argc, argv, "name"),
		.message_bytes = number(argc, argv, "message_bytes", 0),
		.connect_ns = number(argc, argv, "connect_ms", 0) * NS_PER_MS,
		.keepalive_ns = number(argc, argv, "keepalive_ms", 0) * NS_PER_MS };
	struct rpc_request request = { .service = &dxs__prober__agent_service__descriptor,
		.method = "StartPings",
		.message = &start.base,
		.deadline_ns = clock_ns() + number(argc, argv, "deadline_ms", 10000) * NS_PER_MS };
	const char *host = argument(argc, argv, "host"), *method = argument(argc, argv, "method");
	Dxs__Prober__Target **targets;
	struct sock_addr addr[SOCK_ADDRS];
	size_t count, fails = number(argc, argv, "fail", SIZE_MAX);
	struct err e = { 0 };
	int ret;

	if (loop_init(&peer.loop, NULL, &e) ||
		sock_resolve(host ? host : "127.0.0.1", argument(argc, argv, "port"), AF_UNSPEC,
			false, addr, &count, &e))
		fail(&e);
	start.probe_rate_qps = (int32_t)strtol(
		argument(argc, argv, "qps") ? argument(argc, argv, "qps") : "1", NULL, 10);
	start.n_targets = number(argc, argv, "targets", 0);
	targets = calloc(start.n_targets + 1, sizeof(*targets));
	if (!targets)
		return 1;
	target.local_nic_ip_address = target.peer_nic_ip_address = (char *)"10.0.0.1";
	failing.peer_nic_ip_address = (char *)"fail";
	for (size_t i = 0; i < start.n_targets; i++)
		targets[i] = i == fails ? &failing : &target;
	start.targets = targets;
	if (method && !strcmp(method, "Watch")) {
		watching.watcher = (char *)argument(argc, argv, "watcher");
		request.service = &weir__v1__agent__descriptor;
		request.method = method;
		request.message = &watching.base;
		request.received = reported;
	}
	if (argument(argc, argv, "many"))
		ret = call_many(
			&addr[0], &options, &request, (unsigned int)number(argc, argv, "many", 1));
	else
		ret = call_one(&addr[0], &options, &request);
	loop_close(&peer.loop);
	free(targets);
	rpc_tls_free(options.tls);
	return ret;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return serve(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "call"))
		return call(argc, argv);
	fprintf(stderr, "usage: peer serve|call [key=value ...]\n");
	return 2;
}
