// SPDX-License-Identifier: BSD-3-Clause
/* A session: one run at the server, from the handshake to the results, in a thread of its own. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "flow/server.h"

#define BUFFERS_MAX_BYTES (1ull << 30) /* what a client may make this server allocate */
#define END_GRACE_NS	  (2 * NS_PER_S)
#define GOODBYE_NS	  (2 * NS_PER_S)
#define STALL_NS	  (60 * NS_PER_S)

static uint64_t soon(void)
{
	return clock_ns() + CONTROL_TIMEOUT_NS;
}

/* Open for flows: arrivals find the session from now on, until session_shut(). */
static void session_open(struct session *s)
{
	pthread_mutex_lock(&s->server->lock);
	s->next = s->server->sessions;
	s->server->sessions = s;
	s->open = true;
	s->server->token_sessions += !s->neper;
	pthread_mutex_unlock(&s->server->lock);
}

static void session_shut(struct session *s)
{
	pthread_mutex_lock(&s->server->lock);
	if (s->server->gathering == s)
		s->server->gathering = NULL;
	for (struct session **at = &s->server->sessions; s->open && *at; at = &(*at)->next) {
		if (*at == s) {
			*at = s->next;
			s->server->token_sessions -= !s->neper;
			break;
		}
	}
	s->open = false;
	pthread_mutex_unlock(&s->server->lock);
}

static int session_prepare(struct session *s, uint32_t threads, struct err *e)
{
	struct sock_options options;
	uint32_t count;
	int ret;

	flow_sock_options(&s->options, false, &options);
	ret = sock_try_options(&options, e);
	if (!ret)
		ret = server_workers(s->server, threads, &s->workers, &count, e);
	if (ret)
		return ret;
	if (run_samples_bytes(&s->options, count) > BUFFERS_MAX_BYTES)
		return err_set(e, E2BIG,
			"--interval %g over --test-length %g and --num-flows %lld makes more samples than this server keeps",
			s->options.interval, s->options.test_length,
			(long long)s->options.num_flows);
	if ((uint64_t)count * 2 * s->options.buffer_size > BUFFERS_MAX_BYTES)
		return err_set(e, E2BIG,
			"--buffer-size %llu for %u threads is more than this server gives",
			(unsigned long long)s->options.buffer_size, count);
	ret = run_init(&s->run, s->server->workload, &s->options, s->workers, count, e);
	if (ret)
		return ret;
	s->run.peer = s->peer[0];
	s->outcome.workload = s->server->workload;
	s->outcome.options = &s->options;
	s->outcome.neper = s->neper;
	s->outcome.run = &s->run;
	s->outcome.invalid_secret_count = s->server->invalid_secrets;
	outcome_describe(&s->outcome, s->control[0]);
	flow_counters_open(&s->counters, &s->options);
	return run_open_device(&s->run, &s->outcome.local_address, e);
}

static void session_tell_started(struct session *s)
{
	const struct endpoint_events *ev = s->server->events;

	pthread_mutex_lock(&s->server->telling);
	if (ev->started)
		ev->started(ev->context, &s->run);
	pthread_mutex_unlock(&s->server->telling);
}

static void session_tell_intervals(struct session *s)
{
	const struct endpoint_events *ev = s->server->events;
	struct interval_result iv;

	while (ev->interval && run_interval(&s->run, s->intervals_told, &iv)) {
		s->intervals_told++;
		pthread_mutex_lock(&s->server->telling);
		ev->interval(ev->context, &s->run, &iv);
		pthread_mutex_unlock(&s->server->telling);
	}
}

/* Whether somebody listens. */
static bool session_tell_failed(struct session *s, int code, const char *why)
{
	const struct endpoint_events *ev = s->server->events;
	struct err e = { 0 };

	if (!ev->failed)
		return false;
	err_set(&e, code ? code : EIO, "%s", why);
	pthread_mutex_lock(&s->server->telling);
	ev->failed(ev->context, &s->run, &e);
	pthread_mutex_unlock(&s->server->telling);
	return true;
}

static void session_tell_over(struct session *s)
{
	const struct endpoint_events *ev = s->server->events;
	const char *why = s->outcome.local.error[0] ? s->outcome.local.error : "no data came";

	s->served = true;
	if (!s->outcome.local.valid) {
		if (!session_tell_failed(s, ENODATA, why))
			log_error("nothing was measured: %s", why);
		return;
	}
	pthread_mutex_lock(&s->server->telling);
	if (ev->over)
		ev->over(ev->context, &s->outcome);
	pthread_mutex_unlock(&s->server->telling);
}

/* The last sample, and what was measured. */
static int session_collect(struct session *s, const struct err *why)
{
	struct err e = { 0 };
	int ret;

	run_finish(&s->run);
	session_tell_intervals(s);
	ret = run_collect(&s->run, &s->outcome.local, &e);
	if (!ret)
		flow_counters_end(&s->counters, &s->outcome.local);
	if (why && why->code)
		snprintf(s->outcome.local.error, sizeof(s->outcome.local.error), "%s", why->what);
	outcome_explain(&s->outcome, &s->run);
	if (ret && !session_tell_failed(s, e.code, e.what))
		log_error_err(&e);
	return ret;
}

/* Wait for one of: a control connection (but those that are done), the run's bell, the user's wish
 * to end. */
static void session_poll(
	struct session *s, struct pollfd *set, uint32_t controls, const bool *done, uint64_t nap_ns)
{
	struct timespec nap = { (time_t)(nap_ns / NS_PER_S), (long)(nap_ns % NS_PER_S) };
	uint64_t rings;

	for (uint32_t i = 0; i < controls; i++)
		set[i] = (struct pollfd){ .fd = done && done[i] ? -1 : s->control[i],
			.events = POLLIN };
	set[controls] = (struct pollfd){ .fd = s->run.bell, .events = POLLIN };
	set[controls + 1] = (struct pollfd){ .fd = s->server->events->stop_fd, .events = POLLIN };
	if (ppoll(set, controls + 2, &nap, NULL) < 0)
		for (uint32_t i = 0; i < controls + 2; i++)
			set[i].revents = 0;
	if (set[controls].revents && read(s->run.bell, &rings, sizeof(rings)) < 0)
		set[controls].revents = 0;
}

static uint64_t session_nap_ns(const struct session *s)
{
	return s->run.interval_ns < CONTROL_TICK_NS ? s->run.interval_ns : CONTROL_TICK_NS;
}

/* weir's protocol */

/* Before the run: the client is told why, unless it was refused already, and so is our user. */
static void session_give_up(struct session *s, const struct err *e)
{
	char text[SOCK_ADDR_TEXT], words[ENDPOINT_WORDS];

	endpoint_words(e, words);
	if (!s->refused)
		control_abort(s->control[0], words);
	if (session_tell_failed(s, e->code, words))
		return;
	log_warn("%s %s: %s", s->refused ? "refused" : "gave up",
		sock_addr_text(&s->peer[0], true, text), words);
}

static int session_refuse(struct session *s, const struct err *e)
{
	char words[ENDPOINT_WORDS];

	s->refused = true;
	endpoint_words(e, words);
	wire_send(s->control[0], WIRE_REFUSE, words, strlen(words), soon(), NULL);
	return -e->code;
}

static int session_agree(struct session *s, struct err *e)
{
	char token[2 * WIRE_TOKEN_BYTES + 1], accept[96];
	struct wire_message m;
	int ret;

	ret = wire_recv(s->control[0], &m, soon(), e);
	if (ret)
		return ret;
	s->request = m.body;
	if (m.type != WIRE_REQUEST)
		return err_set(
			e, EPROTO, "the client sent message %d where its request was due", m.type);
	ret = flow_options_agree(&s->options, s->server->workload, s->server->given, m.body, e);
	if (!ret)
		ret = session_prepare(s, (uint32_t)s->options.num_threads, e);
	if (!ret)
		ret = wire_token_make(s->run.token, e);
	if (!ret) {
		s->seen = calloc(s->run.flow_count, 1);
		ret = s->seen ? 0 : err_set(e, ENOMEM, "no memory for %u flows", s->run.flow_count);
	}
	if (ret)
		return session_refuse(s, e);
	s->run.tokens = true;
	session_open(s);
	wire_token_text(s->run.token, token);
	snprintf(accept, sizeof(accept), "token=%s\n%s%s", token,
		s->run.device.rx == DEVICE_DEVMEM ? WIRE_RECEIVES_DEVMEM : "",
		s->run.device.tx == DEVICE_DEVMEM ? WIRE_SENDS_DEVMEM : "");
	return wire_send(s->control[0], WIRE_ACCEPT, accept, strlen(accept), soon(), e);
}

/* READY from the client, and all of its flows. crr connects later. */
static int session_gather(struct session *s, struct err *e)
{
	uint64_t give_up_ns = soon() + (uint64_t)s->options.wait_start * NS_PER_S;
	bool ready = false;
	struct wire_message m;
	struct pollfd set[3];
	int ret = 0;

	while (!ret && (!ready || (s->server->workload != WORKLOAD_CRR &&
					  s->run.arrived < s->run.flow_count))) {
		if (clock_ns() > give_up_ns)
			return err_set(e, ETIMEDOUT, "only %u of %u flows of the client arrived",
				s->run.arrived, s->run.flow_count);
		if (s->run.first_error)
			return err_set(e, s->run.first_error, "a flow ended before the run began");
		session_poll(s, set, 1, NULL, 100 * NS_PER_MS);
		if (set[2].revents)
			return err_set(e, EINTR, "the server was stopped");
		ret = device_check(&s->run.device, e);
		if (ret || !set[0].revents)
			continue;
		ret = wire_recv(s->control[0], &m, soon(), e);
		if (ret)
			return err_set(e, -ret, "the client went away before the run began");
		if (m.type == WIRE_READY) {
			ready = true;
			s->run.peer_sends_devmem = strstr(m.body, WIRE_SENDS_DEVMEM);
			give_up_ns = soon();
		} else if (m.type == WIRE_ABORT) {
			ret = err_set(e, ECONNABORTED, "the client gave up: %.300s", m.body);
		} else if (m.type != WIRE_TICK) {
			ret = err_set(
				e, EPROTO, "the client sent message %d before the run", m.type);
		}
		wire_free(&m);
	}
	return ret;
}

/* 1: the client's results came. */
static int session_hear(struct session *s, struct err *e)
{
	double after_s = (double)(clock_ns() - s->run.start_ns) / 1e9;
	struct wire_message m;
	int ret;

	ret = wire_recv(s->control[0], &m, soon(), e);
	if (ret)
		return err_set(e, -ret, "the client went away after %.1f s", after_s);
	s->heard_ns = clock_ns();
	if (m.type == WIRE_RESULT) {
		ret = result_decode(&s->outcome.remote, m.body, e);
		ret = ret ? ret : 1;
	} else if (m.type == WIRE_ABORT) {
		ret = err_set(e, ECONNABORTED, "the client gave up after %.1f s: %.300s", after_s,
			m.body);
	} else if (m.type != WIRE_TICK) {
		ret = err_set(e, EPROTO, "the client sent message %d during the run", m.type);
	}
	wire_free(&m);
	return ret;
}

static int session_watch(struct session *s, struct err *e)
{
	struct pollfd set[3];
	uint64_t alive_ns;
	int ret = 0;

	s->heard_ns = s->ticked_ns = alive_ns = clock_ns();
	while (!ret) {
		uint64_t now_ns;

		session_poll(s, set, 1, NULL, session_nap_ns(s));
		now_ns = clock_ns();
		session_tell_intervals(s);
		if (set[2].revents)
			return err_set(e, EINTR, "the server was stopped");
		ret = device_check(&s->run.device, e);
		if (!ret && set[0].revents)
			ret = session_hear(s, e);
		if (s->run.live || s->server->workload == WORKLOAD_CRR)
			alive_ns = now_ns;
		else if (!ret && now_ns > alive_ns + END_GRACE_NS)
			ret = err_set(e, ECONNRESET, "all flows of the client ended early");
		if (!ret && now_ns > s->heard_ns + CONTROL_TIMEOUT_NS)
			ret = err_set(e, ETIMEDOUT, "the client has been silent for %.0f s",
				(double)(now_ns - s->heard_ns) / 1e9);
		if (!ret && now_ns - s->ticked_ns >= CONTROL_TICK_NS) {
			s->ticked_ns = now_ns;
			ret = wire_send(s->control[0], WIRE_TICK, "", 0, soon(), e);
		}
	}
	return ret < 0 ? ret : 0;
}

/* The client's clock may be a little ahead: our window ends soon as well, unless the client ended
 * early. */
static void session_await_end(struct session *s)
{
	bool whole = s->run.length_ns && s->outcome.remote.window_ns > s->run.length_ns / 100 * 99;
	uint64_t give_up_ns = clock_ns() + END_GRACE_NS;
	uint64_t rings;

	while (whole && !run_is_over(&s->run)) {
		if (sock_wait(s->run.bell, POLLIN, -1, give_up_ns) < 0)
			return;
		if (read(s->run.bell, &rings, sizeof(rings)) < 0)
			return;
	}
}

static int session_send_result(struct session *s, struct err *e)
{
	size_t length;
	char *text = result_encode(&s->outcome.local, &length, e), byte;
	int ret;

	if (!text)
		return -ENOMEM;
	ret = wire_send(s->control[0], WIRE_RESULT, text, length, soon(), e);
	free(text);
	/* The client closes its flows, then this connection: ours would look like failures to
	 * it. */
	if (!ret && sock_wait(s->control[0], POLLIN, -1, clock_ns() + GOODBYE_NS) == 1)
		ret = recv(s->control[0], &byte, 1, MSG_DONTWAIT) > 0 ? -EPROTO : 0;
	return ret;
}

static void session_weir(struct session *s)
{
	struct neper_message ack = {
		.magic = (int32_t)s->options.magic, .type = NEPER_ACK, .remote_rate = WIRE_MARK
	};
	struct err e = { 0 };
	int ret;

	ret = neper_send(s->control[0], &ack, soon(), &e);
	if (!ret)
		ret = session_agree(s, &e);
	if (!ret)
		ret = session_gather(s, &e);
	if (!ret)
		ret = run_steer(&s->run, &e);
	if (ret) {
		session_give_up(s, &e);
		return;
	}
	session_tell_started(s);
	flow_counters_begin(&s->counters);
	run_start(&s->run);
	ret = wire_send(s->control[0], WIRE_GO, "", 0, soon(), &e);
	if (!ret)
		ret = session_watch(s, &e);
	if (!ret)
		session_await_end(s);
	if (session_collect(s, ret ? &e : NULL))
		return;
	if (!ret)
		session_send_result(s, &e);
	else
		control_abort(s->control[0], e.what);
	session_tell_over(s);
}

/* neper's protocol */

static void session_ack(struct session *s, uint32_t member)
{
	const struct flow_options *o = s->server->options;
	struct neper_message ack = { .magic = (int32_t)s->options.magic,
		.type = NEPER_ACK,
		.num_threads = (uint32_t)o->num_threads,
		.num_flows = (uint32_t)o->num_flows,
		.test_length = (int32_t)o->test_length };

	neper_send(s->control[member], &ack, soon(), NULL);
}

/* A client said DONE, or vanished: either way it is not waited for. Its connection stays open for
 * BYE. */
static bool session_hear_done(struct session *s, uint32_t member, struct err *e)
{
	struct neper_message done;
	int ret;

	ret = neper_recv(s->control[member], &done, soon(), e);
	if (!ret && (done.type != NEPER_DONE || done.magic != s->options.magic))
		ret = err_set(
			e, EPROTO, "a client's last message is not DONE (type %u)", done.type);
	if (ret) {
		s->failed++;
		return false;
	}
	s->outcome.remote.rate = done.remote_rate;
	return true;
}

/* When a client that never says DONE is given up: by its own length, or when nothing moves any
 * more. */
static bool session_neper_stalled(struct session *s, uint64_t *moved_ns, struct flow_counts *last)
{
	uint64_t now_ns = clock_ns(), start_ns = s->run.start_ns;
	struct flow_counts counts;

	if (start_ns && s->run.length_ns && now_ns > start_ns + s->run.length_ns + STALL_NS)
		return true;
	run_counts(&s->run, &counts);
	if (memcmp(&counts, last, sizeof(counts)))
		*moved_ns = now_ns;
	*last = counts;
	return now_ns - *moved_ns > STALL_NS;
}

static void session_neper_watch(struct session *s, struct err *e)
{
	bool done[SERVER_MEMBERS_MAX] = { false }, started = false;
	struct pollfd *set = calloc(SERVER_MEMBERS_MAX + 2, sizeof(*set));
	uint32_t acked = 0, finished = 0, members;
	struct flow_counts last = { 0 };
	uint64_t moved_ns = clock_ns();

	while (set && finished < s->members_wanted) {
		pthread_mutex_lock(&s->server->lock);
		members = s->members;
		pthread_mutex_unlock(&s->server->lock);
		while (acked < members)
			session_ack(s, acked++);
		session_poll(s, set, members, done, session_nap_ns(s));
		if (!started && s->run.start_ns)
			session_tell_started(s);
		started = s->run.start_ns;
		session_tell_intervals(s);
		if (set[members + 1].revents) {
			err_set(e, EINTR, "the server was stopped");
			break;
		}
		if (device_check(&s->run.device, e))
			break;
		for (uint32_t i = 0; i < members; i++) {
			if (!set[i].revents)
				continue;
			done[i] = true;
			finished++;
			session_hear_done(s, i, e);
		}
		if (session_neper_stalled(s, &moved_ns, &last)) {
			err_set(e, ETIMEDOUT, "no data and no end from the client for %d s",
				(int)(STALL_NS / NS_PER_S));
			break;
		}
	}
	free(set);
}

static void session_neper(struct session *s)
{
	struct err e = { 0 };

	s->run.starts_by_data = true;
	session_open(s);
	session_neper_watch(s, &e);
	session_shut(s);
	if (!session_collect(s, &e)) {
		struct neper_message bye = { .magic = (int32_t)s->options.magic,
			.type = NEPER_BYE,
			.remote_rate = outcome_neper_rate(&s->outcome) };

		session_tell_over(s);
		for (uint32_t i = 0; i < s->members; i++)
			neper_send(s->control[i], &bye, soon(), NULL);
	}
}

static void session_free(struct session *s)
{
	for (uint32_t i = 0; i < s->members; i++)
		close(s->control[i]);
	if (s->run.lanes) {
		run_close(&s->run);
		flow_counters_free(&s->counters);
		outcome_free(&s->outcome);
		run_free(&s->run);
	}
	free(s->workers);
	free(s->request);
	free(s->seen);
	free(s);
}

static void *session_main(void *argument)
{
	struct session *s = argument;
	struct server *server = s->server;
	bool served;

	if (s->neper)
		session_neper(s);
	else
		session_weir(s);
	session_shut(s);
	served = s->served;
	session_free(s);
	server_session_over(server, served);
	return NULL;
}

/* With device memory a port belongs to a queue, and a queue to a thread: as many as there are ports. */
static uint32_t session_neper_threads(const struct session *s)
{
	uint32_t ports = (uint32_t)s->options.num_ports, threads = s->hello.num_threads;

	if (!s->options.memory || s->options.path == PATH_STAGED || threads <= ports)
		return threads;
	log_warn(
		"a neper client asks for %u threads, and device memory gives it one for each data port "
		"(--num-ports %u)",
		threads, ports);
	return ports;
}

/* neper's clients name a length and a number of flows; the rest is as this server was started. */
static int session_init_neper(struct session *s, struct err *e)
{
	const struct opt_table *t = &flow_option_table[s->server->workload];
	int ret;

	s->options.warmup = 0;
	if (s->hello.test_length > 0 && !opt_was_given(t, s->server->given, "test-length"))
		s->options.test_length = s->hello.test_length;
	s->flows_wanted = s->hello.num_flows;
	s->options.num_flows = s->hello.num_flows ? s->hello.num_flows : 1;
	s->members_wanted = (uint32_t)s->options.num_clients;
	if (s->members_wanted == 1 && s->hello.test_length < 0)
		s->options.test_length = s->hello.test_length;
	ret = session_prepare(s, session_neper_threads(s), e);
	/* Its data follows the ACK at once. */
	if (!ret)
		ret = device_steer_ports(&s->run, &s->outcome.local_address,
			s->members_wanted == 1 ? &s->peer[0] : NULL, e);
	if (ret)
		return ret;
	/* The client ends the run, by its clock; so does the count of its transactions, at its
	 * end. */
	s->run.counted = false;
	s->run.end_ns = 0;
	return 0;
}

/* A further client of a session that waits for several. */
static bool session_join(struct server *server, int control, const struct sock_addr *peer,
	const struct neper_message *hello)
{
	struct session *s;

	pthread_mutex_lock(&server->lock);
	s = server->gathering;
	if (s) {
		s->control[s->members] = control;
		s->peer[s->members] = *peer;
		s->members++;
		s->flows_wanted += hello->num_flows;
		if (s->members == s->members_wanted)
			server->gathering = NULL;
		run_ring(&s->run);
	}
	pthread_mutex_unlock(&server->lock);
	return s != NULL;
}

int session_start(struct server *server, int control, const struct sock_addr *peer,
	const struct neper_message *hello, struct err *e)
{
	bool neper = hello->remote_rate != WIRE_MARK || server->options->num_clients > 1 ||
		     server->options->protocol == PROTOCOL_NEPER;
	struct session *s;
	pthread_attr_t attr;
	pthread_t thread;
	bool busy;
	int ret = 0;

	if (neper && server->options->protocol == PROTOCOL_WEIR)
		return err_set(e, EPROTO, "a neper client came, and --protocol weir excludes it");
	if (neper && server->options->num_clients > 1 && session_join(server, control, peer, hello))
		return 0;
	pthread_mutex_lock(&server->lock);
	busy = server->session_threads == SERVER_SESSIONS_MAX ||
	       (server->options->once && (server->session_threads || server->sessions_served));
	server->session_threads += !busy;
	pthread_mutex_unlock(&server->lock);
	if (busy)
		return err_set(e, EBUSY,
			"a client was turned away: this server has all the sessions it may have");
	s = calloc(1, sizeof(*s));
	if (!s) {
		ret = err_set(e, ENOMEM, "no memory for a session");
		goto not_started;
	}
	s->server = server;
	s->neper = neper;
	s->control[0] = control;
	s->peer[0] = *peer;
	s->members = 1;
	s->hello = *hello;
	s->options = *server->options;
	s->run.bell = -1;
	if (neper)
		ret = session_init_neper(s, e);
	if (ret)
		goto free_session;
	if (neper && s->members_wanted > 1)
		server->gathering = s;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, session_main, s);
	pthread_attr_destroy(&attr);
	if (!ret)
		return 0;
	server->gathering = NULL;
	ret = err_set(e, ret, "cannot start a thread for a session");
free_session:
	s->members = 0; /* the caller closes it */
	session_free(s);
not_started:
	pthread_mutex_lock(&server->lock);
	server->session_threads--;
	pthread_mutex_unlock(&server->lock);
	return ret;
}
