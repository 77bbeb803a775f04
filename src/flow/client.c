// SPDX-License-Identifier: BSD-3-Clause
/* The client, from top to bottom: connect, greet, agree, connect the flows, run, exchange
 * results. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flow/counters.h"
#include "flow/endpoint.h"

#define RETRY_PAUSE_NS	 (300 * NS_PER_MS)
#define CONNECT_LEAST_NS (500 * NS_PER_MS) /* for one try, when --connect-timeout is 0 */

struct client {
	enum workload workload;
	struct flow_options *options;
	const struct endpoint_events *events;
	int control;
	struct sock_addr server;
	struct worker **workers;
	uint32_t worker_count;
	struct run run;
	struct outcome outcome;
	struct flow_counters counters;
	uint64_t heard_ns, ticked_ns; /* when the server was heard last, when we said TICK last */
	uint32_t intervals_told;
	uint64_t iostat_ns;
	struct flow_counts iostat_counts;
};

static uint64_t soon(void)
{
	return clock_ns() + CONTROL_TIMEOUT_NS;
}

/* Sleep, unless the user wants to end. */
static bool client_pause(const struct client *c, uint64_t ns)
{
	if (c->events->stop_fd < 0) {
		struct timespec t = { (time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S) };

		nanosleep(&t, NULL);
		return true;
	}
	return sock_wait(c->events->stop_fd, POLLIN, -1, clock_ns() + ns) == -ETIMEDOUT;
}

static int client_source(
	const struct client *c, int family, struct sock_addr *local, bool *given, struct err *e)
{
	struct sock_addr list[SOCK_ADDRS];
	char first[256];
	size_t count;
	int ret;

	*given = c->options->local_hosts != NULL;
	if (!*given)
		return 0;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(c->options->local_hosts, ","),
		c->options->local_hosts);
	ret = sock_resolve(first, NULL, family, true, list, &count, e);
	if (!ret)
		*local = list[0];
	return ret;
}

static int client_try_all(struct client *c, const struct sock_addr *addr, size_t count,
	uint64_t deadline_ns, struct err *e)
{
	struct sock_options options = { .device = c->options->bind_dev };
	struct sock_addr local;
	bool has_local;
	int ret = -ENOENT;

	for (size_t i = 0; i < count; i++) {
		ret = client_source(c, addr[i].storage.ss_family, &local, &has_local, e);
		if (ret)
			continue;
		ret = sock_connect(&addr[i], has_local ? &local : NULL, &options, deadline_ns, e);
		if (ret >= 0) {
			c->control = ret;
			c->server = addr[i];
			return 0;
		}
	}
	return ret;
}

/* The server may still be starting: a refusal is tried again for a while. */
static int client_connect(struct client *c, struct err *e)
{
	const struct flow_options *o = c->options;
	int family = o->ipv4 == o->ipv6 ? AF_UNSPEC : o->ipv4 ? AF_INET : AF_INET6;
	uint64_t give_up_ns = clock_ns() + CONNECT_LEAST_NS + (uint64_t)(o->connect_timeout * 1e9);
	struct sock_addr addr[SOCK_ADDRS];
	char port[16];
	size_t count;
	int ret;

	snprintf(port, sizeof(port), "%d", (int)o->control_port);
	ret = sock_resolve(o->host, port, family, false, addr, &count, e);
	if (ret)
		return ret;
	for (;;) {
		ret = client_try_all(c, addr, count, give_up_ns, e);
		if (ret != -ECONNREFUSED || clock_ns() + RETRY_PAUSE_NS > give_up_ns)
			break;
		if (!client_pause(c, RETRY_PAUSE_NS))
			return err_set(e, EINTR, "interrupted before the server was reached");
	}
	if (ret == -ECONNREFUSED)
		return err_hint(
			e, "start the server there first: weir %s", workload_name[c->workload]);
	if (ret && e && e->hint[0]) /* the reason is at this end, and was said */
		return ret;
	if (ret)
		return err_hint(e, "is the host up, and the port open in its firewall?");
	control_tune(c->control);
	return 0;
}

/* neper knows whole numbers only. */
static int32_t neper_length(double length)
{
	if (length > 0 && length < 1)
		return 1;
	return length < INT32_MIN ? INT32_MIN : (int32_t)length;
}

static int client_greet(struct client *c, struct err *e)
{
	const struct flow_options *o = c->options;
	struct neper_message hello = {
		.magic = (int32_t)o->magic,
		.type = NEPER_HELLO,
		.num_threads = (uint32_t)o->num_threads,
		.num_flows = (uint32_t)o->num_flows * (o->split_bidir ? 2 : 1),
		.test_length = neper_length(o->test_length),
		.max_pacing_rate = o->max_pacing_rate,
		.remote_rate = o->protocol == PROTOCOL_NEPER ? 0 : WIRE_MARK,
	};
	struct neper_message ack;
	int ret;

	memcpy(hello.secret, neper_secret[c->workload], sizeof(hello.secret));
	ret = neper_send(c->control, &hello, soon(), e);
	if (!ret)
		ret = neper_recv(c->control, &ack, soon(), e);
	if (ret == -EPIPE || ret == -ECONNRESET) {
		err_set(e, EPROTO, "the server closed the connection at once");
		return err_hint(e, "it may run another workload than %s, or be busy",
			workload_name[c->workload]);
	}
	if (ret)
		return err_prefix(e, "handshake");
	if (ack.type != NEPER_ACK || ack.magic != hello.magic) {
		err_set(e, EPROTO,
			"the server's answer is not an acknowledgement (type %u, magic %d, ours %d)",
			ack.type, ack.magic, hello.magic);
		return err_hint(
			e, "is it a weir or neper server on that port, with the same --magic?");
	}
	c->outcome.neper = ack.remote_rate != WIRE_MARK || o->protocol == PROTOCOL_NEPER;
	if (c->outcome.neper && o->protocol == PROTOCOL_WEIR)
		return err_set(e, EPROTO, "the server does not speak weir's protocol");
	return 0;
}

/* A message that must be of one type; what the server says instead is passed on. */
static int client_expect(struct client *c, enum wire_type type, struct wire_message *m,
	uint64_t deadline_ns, struct err *e)
{
	int ret;

	do {
		ret = wire_recv(c->control, m, deadline_ns, e);
		if (ret)
			return err_prefix(e, "the server went away");
		if (m->type == type)
			return 0;
		if (m->type == WIRE_REFUSE || m->type == WIRE_ABORT)
			ret = err_set(e, EPROTO, "the server %s: %.480s",
				m->type == WIRE_REFUSE ? "refuses" : "gave up", m->body);
		else if (m->type != WIRE_TICK)
			ret = err_set(e, EPROTO, "the server sent message %d where %d was due",
				m->type, type);
		wire_free(m);
	} while (!ret);
	return ret;
}

static int client_agree(struct client *c, struct err *e)
{
	struct wire_message m;
	char request[4096], *token;
	int ret;

	ret = flow_options_request(c->options, c->workload, request, sizeof(request), e);
	if (!ret)
		ret = wire_send(c->control, WIRE_REQUEST, request, strlen(request), soon(), e);
	if (!ret)
		ret = client_expect(c, WIRE_ACCEPT, &m, soon(), e);
	if (ret)
		return ret;
	c->run.peer_receives_devmem = strstr(m.body, "\n" WIRE_RECEIVES_DEVMEM);
	c->run.peer_sends_devmem = strstr(m.body, "\n" WIRE_SENDS_DEVMEM);
	token = strncmp(m.body, "token=", 6) ? NULL : m.body + 6;
	if (token)
		token[strcspn(token, "\n")] = 0;
	if (!token || wire_token_parse(token, c->run.token))
		ret = err_set(e, EPROTO, "the server accepted without a token");
	c->run.tokens = true;
	wire_free(&m);
	return ret;
}

static int client_start_workers(struct client *c, struct err *e)
{
	const struct flow_options *o = c->options;
	int ret = 0;

	c->workers = calloc((size_t)o->num_threads, sizeof(*c->workers));
	if (!c->workers)
		return err_set(e, ENOMEM, "no memory for %d threads", (int)o->num_threads);
	while (!ret && c->worker_count < o->num_threads) {
		uint32_t i = c->worker_count;

		ret = worker_start(&c->workers[i], i, endpoint_cpu(o, i), (int)o->maxevents, e);
		if (!ret)
			c->worker_count++;
	}
	return ret;
}

struct connect_call {
	struct lane *lane;
	struct err *e;
	int ret;
};

static void connect_act(struct worker *w, void *argument)
{
	struct connect_call *call = argument;

	(void)w;
	call->ret = lane_connect(call->lane, call->e);
}

static int client_connect_flows(struct client *c, struct err *e)
{
	struct wire_message m;
	const char *ready;
	int ret;

	for (uint32_t i = 0; i < c->run.lane_count; i++) {
		struct connect_call call = { .lane = &c->run.lanes[i], .e = e };

		worker_call(c->workers[i], connect_act, &call);
		if (call.ret)
			return call.ret;
	}
	ret = run_steer(&c->run, e);
	if (!ret && c->events->gate)
		c->events->gate(c->events->context);
	if (ret || c->outcome.neper)
		return ret;
	ready = c->run.device.tx == DEVICE_DEVMEM ? WIRE_SENDS_DEVMEM : "";
	ret = wire_send(c->control, WIRE_READY, ready, strlen(ready), soon(), e);
	if (!ret)
		ret = client_expect(c, WIRE_GO, &m, soon() + CONTROL_TIMEOUT_NS, e);
	if (!ret)
		wire_free(&m);
	return ret;
}

/* Something came on the control connection while the run runs. */
static int client_hear(struct client *c, struct err *e)
{
	struct wire_message m;
	double after_s = (double)(clock_ns() - c->run.start_ns) / 1e9;
	char byte;
	int ret;

	c->heard_ns = clock_ns();
	if (c->outcome.neper) {
		ssize_t n = recv(c->control, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

		if (n < 0 && errno == EAGAIN)
			return 0;
		return err_set(e, EPIPE, "the server %s after %.1f s",
			n > 0 ? "spoke out of turn" : "went away", after_s);
	}
	ret = wire_recv(c->control, &m, soon(), e);
	if (ret)
		return err_set(e, EPIPE, "the server went away after %.1f s", after_s);
	if (m.type == WIRE_ABORT)
		ret = err_set(
			e, EPROTO, "the server gave up after %.1f s: %.300s", after_s, m.body);
	else if (m.type != WIRE_TICK)
		ret = err_set(e, EPROTO, "the server sent message %d during the run", m.type);
	wire_free(&m);
	return ret;
}

static void client_tell(struct client *c, uint64_t now_ns)
{
	const struct endpoint_events *ev = c->events;
	uint64_t iostat_gap_ns = (uint64_t)c->options->iostat_ms * NS_PER_MS;
	struct interval_result iv;
	struct flow_counts counts;

	while (ev->interval && run_interval(&c->run, c->intervals_told, &iv)) {
		c->intervals_told++;
		ev->interval(ev->context, &c->run, &iv);
	}
	if (ev->iostat && iostat_gap_ns && now_ns - c->iostat_ns >= iostat_gap_ns) {
		run_counts(&c->run, &counts);
		ev->iostat(ev->context, &c->run, now_ns - c->run.start_ns, &counts,
			&c->iostat_counts, now_ns - c->iostat_ns);
		c->iostat_counts = counts;
		c->iostat_ns = now_ns;
	}
}

/* How long to sleep: for the next interval, TICK or iostat line, whichever is most frequent. */
static uint64_t client_nap_ns(const struct client *c)
{
	uint64_t nap_ns =
		c->run.interval_ns < CONTROL_TICK_NS ? c->run.interval_ns : CONTROL_TICK_NS;

	if (c->options->iostat_ms && (uint64_t)c->options->iostat_ms * NS_PER_MS < nap_ns)
		nap_ns = (uint64_t)c->options->iostat_ms * NS_PER_MS;
	return nap_ns;
}

static int client_watch(struct client *c, struct err *e)
{
	uint64_t rings;
	int ret = 0;

	c->heard_ns = c->ticked_ns = c->iostat_ns = clock_ns();
	while (!ret && !run_is_over(&c->run)) {
		struct pollfd set[3] = { { .fd = c->control, .events = POLLIN },
			{ .fd = c->run.bell, .events = POLLIN },
			{ .fd = c->events->stop_fd, .events = POLLIN } };
		uint64_t nap_ns = client_nap_ns(c), now_ns;
		struct timespec nap = { (time_t)(nap_ns / NS_PER_S), (long)(nap_ns % NS_PER_S) };

		if (ppoll(set, 3, &nap, NULL) < 0 && errno != EINTR)
			return err_set(e, errno, "cannot wait: %m");
		now_ns = clock_ns();
		client_tell(c, now_ns);
		if (set[2].revents) {
			c->outcome.interrupted = true;
			break;
		}
		if (set[1].revents && read(c->run.bell, &rings, sizeof(rings)) < 0)
			continue;
		ret = device_check(&c->run.device, e);
		if (!ret && set[0].revents)
			ret = client_hear(c, e);
		if (c->outcome.neper || ret)
			continue;
		if (now_ns - c->ticked_ns >= CONTROL_TICK_NS) {
			c->ticked_ns = now_ns;
			ret = wire_send(c->control, WIRE_TICK, "", 0, soon(), e);
		}
		if (!ret && now_ns > c->heard_ns + CONTROL_TIMEOUT_NS)
			ret = err_set(e, ETIMEDOUT, "the server has been silent for %.0f s",
				(double)(now_ns - c->heard_ns) / 1e9);
	}
	return ret;
}

static int client_exchange_neper(struct client *c, struct err *e)
{
	struct neper_message done = { .magic = (int32_t)c->options->magic,
		.type = NEPER_DONE,
		.remote_rate = outcome_neper_rate(&c->outcome) };
	struct neper_message bye;
	uint64_t patience_ns = CONTROL_TIMEOUT_NS;
	int ret;

	/* A neper server that serves several clients answers when the last of them is done. */
	if (c->run.length_ns)
		patience_ns += c->run.length_ns;
	ret = neper_send(c->control, &done, soon(), e);
	shutdown(c->control, SHUT_WR);
	if (!ret)
		ret = neper_recv(c->control, &bye, clock_ns() + patience_ns, e);
	if (ret)
		return err_prefix(e, "the server did not say its result");
	if (bye.type != NEPER_BYE || bye.magic != c->options->magic)
		return err_set(e, EPROTO, "the server's last message is not a goodbye (type %u)",
			bye.type);
	c->outcome.remote.rate = bye.remote_rate;
	return 0;
}

static int client_exchange(struct client *c, struct err *e)
{
	struct wire_message m;
	size_t length;
	char *text;
	int ret;

	text = result_encode(&c->outcome.local, &length, e);
	if (!text)
		return -ENOMEM;
	ret = wire_send(c->control, WIRE_RESULT, text, length, soon(), e);
	free(text);
	if (!ret)
		ret = client_expect(c, WIRE_RESULT, &m, soon(), e);
	if (ret)
		return err_prefix(e, "the server's results are missing");
	ret = result_decode(&c->outcome.remote, m.body, e);
	wire_free(&m);
	return ret;
}

/* The flows are there: measure, whatever happens report what was measured. */
static int client_measure(struct client *c, struct err *e)
{
	struct err ignored;
	int ret, failed;

	if (c->events->started)
		c->events->started(c->events->context, &c->run);
	run_start(&c->run);
	ret = client_watch(c, e);
	if (c->outcome.neper)
		run_stop(&c->run);
	run_finish(&c->run);
	client_tell(c, clock_ns());
	failed = run_collect(&c->run, &c->outcome.local, ret ? &ignored : e);
	if (failed)
		return ret ? ret : failed;
	flow_counters_end(&c->counters, &c->outcome.local);
	if (ret)
		snprintf(c->outcome.local.error, sizeof(c->outcome.local.error), "%s", e->what);
	outcome_explain(&c->outcome, &c->run);
	if (!ret)
		ret = c->outcome.neper ? client_exchange_neper(c, e) : client_exchange(c, e);
	if (!ret && !c->outcome.local.valid)
		ret = err_set(e, ENODATA, "nothing was measured: %s",
			c->outcome.local.error[0] ? c->outcome.local.error
						  : "the window did not open");
	if (ret && !c->outcome.local.error[0])
		snprintf(c->outcome.local.error, sizeof(c->outcome.local.error), "%s", e->what);
	if (c->outcome.local.error[0])
		c->outcome.local.complete = false;
	run_stop(&c->run);
	return ret;
}

static int client_prepare(struct client *c, struct err *e)
{
	struct sock_options options;
	int ret;

	flow_sock_options(c->options, true, &options);
	ret = sock_try_options(&options, e);
	if (!ret)
		ret = client_connect(c, e);
	if (!ret)
		ret = client_greet(c, e);
	if (ret)
		return ret;
	c->outcome.workload = c->workload;
	c->outcome.options = c->options;
	/* neper's window is the whole run: a warm-up would only be ours. */
	if (c->outcome.neper && c->options->warmup < 0)
		c->options->warmup = 0;
	ret = client_start_workers(c, e);
	if (!ret)
		ret = run_init(&c->run, c->workload, c->options, c->workers, c->worker_count, e);
	if (ret)
		return ret;
	c->run.peer = c->server;
	outcome_describe(&c->outcome, c->control);
	c->outcome.run = &c->run;
	flow_counters_open(&c->counters, c->options);
	ret = run_open_device(&c->run, &c->outcome.local_address, e);
	if (!ret && !c->outcome.neper)
		ret = client_agree(c, e);
	if (!ret && c->options->wait_start &&
		!client_pause(c, (uint64_t)c->options->wait_start * NS_PER_S))
		ret = err_set(e, EINTR, "interrupted before the run began");
	if (!ret && c->events->ready)
		c->events->ready(c->events->context, &c->server);
	/* Not after GO: the server's clock runs by then. */
	flow_counters_begin(&c->counters);
	if (!ret)
		ret = client_connect_flows(c, e);
	return ret;
}

int client_run(enum workload w, struct flow_options *o, const struct endpoint_events *events,
	struct err *e)
{
	struct client *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return err_set(e, ENOMEM, "no memory for a client");
	c->workload = w;
	c->options = o;
	c->events = events;
	c->control = c->run.bell = -1;
	ret = client_prepare(c, e);
	if (!ret) {
		ret = client_measure(c, e);
		if (c->outcome.local.valid && events->over)
			events->over(events->context, &c->outcome);
	} else if (c->control >= 0 && !c->outcome.neper && c->run.tokens) {
		control_abort(c->control, e->what);
	}
	if (c->run.lanes)
		run_close(&c->run);
	for (uint32_t i = 0; i < c->worker_count; i++)
		worker_stop(c->workers[i]);
	free(c->workers);
	flow_counters_free(&c->counters);
	outcome_free(&c->outcome);
	if (c->run.lanes)
		run_free(&c->run);
	if (c->control >= 0)
		close(c->control);
	free(c);
	return ret;
}
