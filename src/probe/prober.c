// SPDX-License-Identifier: BSD-3-Clause
/* The asking end: the life of a target, from its agent's address to a row per probe. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/worker.h"
#include "rpc/proto/agent.pb-c.h"

/* By edges: what is left after a frame is known from the probes under way, and a level would be looked at once more after
 * each of them. */
#define WATCHED (EPOLLIN | EPOLLRDHUP | EPOLLET)
#define ENDS	(EPOLLRDHUP | EPOLLHUP)

static void target_tick(struct loop *l, struct loop_timer *timer);
static void target_life(struct loop *l, struct loop_timer *timer);
static void target_ready(struct loop *l, struct loop_fd *source, uint32_t events);
static bool receive(struct probe_target *t);

static size_t frame_bytes(const struct probe_target *t)
{
	return PROBE_HEADER_BYTES + t->want.payload_bytes;
}

static struct flight *flight_of(struct probe_target *t, uint32_t sequence)
{
	return &t->flight[(sequence - t->first) % PROBE_IN_FLIGHT];
}

static void push(struct probe_target *t, enum probe_kind kind, bool urgent)
{
	struct probe_result r = { .target = t,
		.wall_ns = clock_wall_ns(),
		.kind = (uint8_t)kind,
		.stage = t->stage,
		.code = t->code };

	worker_push(t->worker, &r, urgent);
}

static void close_data(struct probe_target *t)
{
	struct linger at_once = { .l_onoff = 1 };

	if (t->data.fd < 0)
		return;
	/* A path that is dead would keep a FIN, and its memory, for minutes. */
	setsockopt(t->data.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	loop_remove(&t->worker->loop, &t->data);
	close(t->data.fd);
	t->data.fd = -1;
}

static void close_client(struct probe_target *t)
{
	if (t->client)
		rpc_client_free(t->client);
	t->client = NULL;
}

static void leave_turn(struct probe_target *t)
{
	if (t->holds_turn)
		t->worker->set_ups--;
	t->holds_turn = false;
	list_del(&t->turn);
}

static void count_in_flight(struct worker *w, int change, uint64_t now_ns)
{
	w->in_flight += (uint32_t)change;
	worker_expect(w, now_ns);
}

static void push_lost(struct probe_target *t)
{
	struct flight *f = flight_of(t, t->oldest);
	struct probe_result r = { .target = t,
		.wall_ns = f->wall_ns,
		.rtt_ns = t->want.timeout_ns,
		.late_ns = f->late_ns,
		.starved_ns = f->starved_ns,
		.kind = PROBE_LOST };

	worker_push(t->worker, &r, false);
	t->worker->lost++;
	t->oldest++;
	count_in_flight(t->worker, -1, clock_ns());
	t->losses++;
}

/* Its own timer: the deadline of the oldest, and the next probe where no lane sees to that. */
static void arm_tick(struct probe_target *t)
{
	uint64_t slot_ns = target_due_ns(t), due_ns = t->lane ? UINT64_MAX : slot_ns, lost_ns;

	if (t->oldest != t->next) {
		lost_ns = flight_of(t, t->oldest)->sent_ns + t->want.timeout_ns;
		if (lost_ns < slot_ns)
			due_ns = lost_ns;
	}
	if (due_ns != UINT64_MAX)
		loop_timer_set(&t->worker->loop, &t->tick, due_ns, target_tick);
}

/* When after its tick the next probe is due: known from here on, whatever is learned meanwhile. */
static void plan(struct probe_target *t)
{
	t->after_tick_ns = pace_after_ns(&t->worker->pace, t->place) % target_grid_ns(t);
}

/* The first set-up has ended, one way or the other: from now on every slot is a row. */
static void settle(struct probe_target *t)
{
	uint64_t now_ns = clock_ns();

	if (t->settled)
		return;
	t->settled = true;
	push(t, PROBE_SETTLED, true);
	if (now_ns > t->phase_ns)
		t->slot = (now_ns - t->phase_ns) / t->want.period_ns + 1;
	plan(t);
	arm_tick(t);
}

static uint64_t jitter(const struct probe_target *t, uint64_t ns)
{
	uint64_t x = (t->phase_ns ^ t->failures) * 0x9e3779b97f4a7c15ull;

	return ns * 3 / 4 + (x >> 33) % (ns / 2 + 1);
}

static void fail(struct probe_target *t, enum probe_stage stage, int code)
{
	bool was_up = t->state == TARGET_UP, first = !t->settled;

	close_data(t);
	close_client(t);
	leave_turn(t);
	while (t->oldest != t->next)
		push_lost(t);
	t->state = TARGET_BACKOFF;
	t->stage = (uint8_t)stage;
	t->code = code;
	if (was_up || first)
		push(t, PROBE_DOWN, true);
	settle(t);
	t->backoff_ns = t->failures ? t->backoff_ns * 2 : PROBE_BACKOFF_MIN_NS;
	if (t->backoff_ns > PROBE_BACKOFF_MAX_NS)
		t->backoff_ns = PROBE_BACKOFF_MAX_NS;
	t->failures++;
	loop_timer_set(
		&t->worker->loop, &t->life, clock_ns() + jitter(t, t->backoff_ns), target_life);
}

static void stand(struct probe_target *t)
{
	leave_turn(t);
	loop_timer_cancel(&t->worker->loop, &t->life);
	t->state = TARGET_UP;
	t->stage = PROBE_AT_NOTHING;
	t->code = 0;
	t->next = t->oldest = t->answer = 1;
	t->losses = 0;
	t->received = 0;
	t->sent = frame_bytes(t);
	t->corrupt = false;
	push(t, PROBE_UP, true);
	settle(t);
	worker_next_turn(t->worker);
}

/* Set-up */

static void answered(void *context, const struct rpc_reply *reply)
{
	const Weir__V1__SetUpProbeReply *r = (const void *)reply->message;
	struct probe_target *t = context;

	t->code = reply->code;
	if (!reply->code && (r->token.len != PROBE_TOKEN_BYTES || !r->port || r->port > 65535))
		t->code = RPC_INTERNAL;
	if (!t->code) {
		memcpy(t->token, r->token.data, PROBE_TOKEN_BYTES);
		t->port = (uint16_t)r->port;
	}
	/* The client is not freed from within its own callback. */
	t->state = TARGET_CALLED;
	loop_timer_set(&t->worker->loop, &t->life, clock_ns(), target_life);
}

static void call_agent(struct probe_target *t)
{
	struct probe_engine *engine = t->worker->engine;
	Weir__V1__SetUpProbeRequest message = WEIR__V1__SET_UP_PROBE_REQUEST__INIT;
	char prober[SOCK_ADDR_TEXT], responder[SOCK_ADDR_TEXT];
	struct sock_addr to = t->want.peer, from = t->want.local;
	const char *device = t->is_local ? "" : engine->nic[t->nic].device;
	struct rpc_client_options options = { .tls = t->worker->tls,
		.local = &from,
		.device = device[0] ? device : NULL,
		.connect_ns = PROBE_SET_UP_NS };
	struct rpc_request request = { .service = &weir__v1__agent__descriptor,
		.method = "SetUpProbe",
		.message = &message.base,
		.done = answered,
		.context = t };

	t->state = TARGET_CALLING;
	t->holds_turn = true;
	t->worker->set_ups++;
	t->set_up_deadline_ns = clock_ns() + PROBE_SET_UP_NS;
	loop_timer_set(
		&t->worker->loop, &t->life, t->set_up_deadline_ns + 100 * NS_PER_MS, target_life);
	sock_addr_set_port(&to, engine->config.control_port);
	sock_addr_set_port(&from, 0);
	message.prober_address = sock_addr_text(&t->want.local, false, prober);
	message.responder_address = sock_addr_text(&t->want.peer, false, responder);
	message.payload_bytes = t->want.payload_bytes;
	message.verify = t->want.verify;
	request.deadline_ns = t->set_up_deadline_ns;
	if (rpc_client_new(&t->client, &t->worker->loop, &to, &options, NULL) ||
		rpc_client_call(t->client, &request, NULL))
		fail(t, PROBE_AT_CONTROL, RPC_RESOURCE_EXHAUSTED);
}

static void connect_data(struct probe_target *t)
{
	struct probe_engine *engine = t->worker->engine;
	const char *device = t->is_local ? "" : engine->nic[t->nic].device;
	struct sock_options options = { .device = device[0] ? device : NULL };
	struct sock_addr to = t->want.peer, from = t->want.local;
	int fd;

	sock_addr_set_port(&to, t->port);
	sock_addr_set_port(&from, 0);
	fd = sock_connect_start(&to, &from, &options, NULL);
	if (fd < 0) {
		fail(t, PROBE_AT_CONNECT, -fd);
		return;
	}
	data_socket(fd);
	if (loop_add(&t->worker->loop, &t->data, fd, EPOLLOUT, target_ready, NULL)) {
		close(fd);
		t->data.fd = -1;
		fail(t, PROBE_AT_CONNECT, ENOMEM);
		return;
	}
	t->state = TARGET_CONNECTING;
	loop_timer_set(&t->worker->loop, &t->life, t->set_up_deadline_ns, target_life);
}

static void greet(struct probe_target *t)
{
	struct probe_hello hello = { .payload_bytes = t->want.payload_bytes };
	unsigned char bytes[PROBE_HELLO_BYTES];
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(t->data.fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		fail(t, PROBE_AT_CONNECT, error);
		return;
	}
	stamp_enable(t->data.fd);
	memcpy(hello.token, t->token, PROBE_TOKEN_BYTES);
	probe_hello_encode(&hello, bytes);
	if (send(t->data.fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(bytes)) {
		fail(t, PROBE_AT_HELLO, errno);
		return;
	}
	t->state = TARGET_GREETING;
	t->received = 0;
	loop_change(&t->worker->loop, &t->data, WATCHED);
}

static void take_turn(struct probe_target *t)
{
	t->state = TARGET_WAITING;
	list_del(&t->turn);
	/* Those that were just lost come before those that have long been dead: a turn that waits for
	 * nobody's answer takes its whole deadline. */
	list_add(t->failures > 2 ? &t->worker->turns : t->worker->turns.next, &t->turn);
	worker_next_turn(t->worker);
}

void worker_next_turn(struct worker *w)
{
	while (w->set_ups < SET_UPS_MAX && w->turns.next != &w->turns) {
		struct probe_target *t = container_of(w->turns.next, struct probe_target, turn);

		list_del(&t->turn);
		call_agent(t);
	}
}

static void target_life(struct loop *l, struct loop_timer *timer)
{
	struct probe_target *t = container_of(timer, struct probe_target, life);

	(void)l;
	switch (t->state) {
	case TARGET_CALLED:
		close_client(t);
		if (t->code)
			fail(t, PROBE_AT_CONTROL, t->code);
		else
			connect_data(t);
		break;
	case TARGET_BACKOFF:
		take_turn(t);
		return;
	case TARGET_CALLING:
		fail(t, PROBE_AT_CONTROL, RPC_DEADLINE_EXCEEDED);
		break;
	default:
		fail(t, t->state == TARGET_CONNECTING ? PROBE_AT_CONNECT : PROBE_AT_HELLO,
			ETIMEDOUT);
	}
	worker_next_turn(t->worker);
}

void target_begin(struct probe_target *t)
{
	take_turn(t);
}

void target_end(struct probe_target *t)
{
	uint32_t under_way = t->next - t->oldest;

	t->worker->sent -= under_way; /* there will be no row of them */
	count_in_flight(t->worker, -(int)under_way, clock_ns());
	close_data(t);
	close_client(t);
	leave_turn(t);
	lane_leave(t);
	loop_timer_cancel(&t->worker->loop, &t->life);
	loop_timer_cancel(&t->worker->loop, &t->tick);
}

/* Sending */

/* The stamps of sends that have come back from the kernel. */
static void collect_stamps(struct probe_target *t, unsigned int most)
{
	struct stamp s;

	while (most-- && stamp_sent(t->data.fd, &s)) {
		/* The last byte of frame n stands at hello + n * frame - 1, modulo 2^32; only
		 * frames under way are asked. */
		for (uint32_t n = t->oldest; n != t->next; n++) {
			uint32_t last = PROBE_HELLO_BYTES + n * (uint32_t)frame_bytes(t) - 1;

			if (last != s.offset)
				continue;
			flight_of(t, n)->software_ns =
				s.software_ns ? s.software_ns : flight_of(t, n)->software_ns;
			flight_of(t, n)->hardware_ns =
				s.hardware_ns ? s.hardware_ns : flight_of(t, n)->hardware_ns;
		}
	}
}

static struct payload *payload_of(const struct probe_target *t)
{
	return &t->worker->engine->payload[t->nic];
}

static uint64_t pattern_position(const struct probe_target *t, uint32_t sequence)
{
	return t->want.verify ? (uint64_t)sequence * 257 : 0;
}

/* What is left of the frame that was begun. Its bytes are made anew: no target has a buffer. */
static void send_rest(struct probe_target *t)
{
	struct probe_header h = { .sequence = t->next - 1, .payload_bytes = t->want.payload_bytes };
	unsigned char *frame = t->worker->scratch;
	size_t whole = frame_bytes(t);
	ssize_t n;
	int ret;

	probe_header_encode(&h, frame);
	ret = payload_make(payload_of(t), frame + PROBE_HEADER_BYTES, t->want.payload_bytes,
		pattern_position(t, h.sequence));
	if (ret) {
		fail(t, PROBE_AT_PROBE, -ret);
		return;
	}
	/* Not libc's, which is a point of cancellation. */
	n = syscall(SYS_sendto, t->data.fd, frame + t->sent, whole - t->sent,
		MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		fail(t, PROBE_AT_PROBE, errno);
		return;
	}
	if (n > 0)
		t->sent += (size_t)n;
	if (t->sent < whole)
		loop_change(&t->worker->loop, &t->data, WATCHED | EPOLLOUT);
	else if (t->data.events & EPOLLOUT)
		loop_change(&t->worker->loop, &t->data, WATCHED);
}

/* The first of a tick is as late as the thread woke up; those after it wait for those before, which says
 * nothing about the host unless it takes longer than sending does. */
static uint32_t starved_ns(const struct probe_target *t, uint64_t tick_ns, uint32_t late_ns)
{
	struct worker *w = t->worker;

	if (tick_ns == w->tick_ns && late_ns < w->tick_late_ns + TICK_NS)
		return late_ns < w->tick_late_ns ? late_ns : w->tick_late_ns;
	if (tick_ns != w->tick_ns)
		pace_tick(&w->pace, w->loop.served_ns, target_grid_ns(t),
			settle_early_ns(&w->loop.settle, 0));
	w->tick_ns = tick_ns;
	w->tick_late_ns = late_ns;
	return late_ns;
}

static void send_probe(struct probe_target *t, uint64_t due_ns, uint64_t now_ns)
{
	uint64_t late_ns = now_ns - due_ns;
	struct flight *f;

	if (t->state != TARGET_UP) {
		t->worker->unsent++;
		push(t, PROBE_UNSENT, false);
		return;
	}
	if (t->next - t->oldest >= PROBE_IN_FLIGHT || t->sent < frame_bytes(t)) {
		push(t, PROBE_HELD, false);
		return;
	}
	if (t->next == t->oldest)
		t->first = t->next;
	f = flight_of(t, t->next);
	*f = (struct flight){ .late_ns = late_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)late_ns };
	f->starved_ns = starved_ns(t, due_ns - t->after_tick_ns, f->late_ns);
	pace_probe(&t->worker->pace, late_ns, t->worker->loop.served_ns);
	t->next++;
	count_in_flight(t->worker, 1, now_ns);
	t->sent = 0;
	t->worker->sent++;
	f->wall_ns = clock_wall_ns();
	f->sent_ns = clock_ns();
	send_rest(t);
	if (t->state == TARGET_UP && t->sent == frame_bytes(t))
		collect_stamps(t, 1);
}

static bool is_overdue(struct probe_target *t, uint64_t now_ns)
{
	return t->oldest != t->next &&
	       flight_of(t, t->oldest)->sent_ns + t->want.timeout_ns <= now_ns;
}

/* A thread that slept past the deadline may have the answer waiting: that one is not lost. */
static void look_for_overdue(struct probe_target *t, uint64_t now_ns)
{
	for (int i = 0; i < PROBE_IN_FLIGHT && t->state == TARGET_UP && is_overdue(t, now_ns); i++)
		if (!receive(t))
			break;
	while (is_overdue(t, now_ns))
		push_lost(t);
}

void target_turn(struct probe_target *t)
{
	uint64_t now_ns = clock_ns(), due_ns, skipped;

	look_for_overdue(t, now_ns);
	if (t->state == TARGET_UP && t->losses >= PROBE_LOSSES_MAX)
		fail(t, PROBE_AT_PROBE, ETIMEDOUT);
	due_ns = target_due_ns(t);
	if (due_ns <= now_ns) {
		/* Slots that this thread slept through are not made up for: a burst would measure itself. */
		skipped = (now_ns - due_ns) / t->want.period_ns;
		t->worker->skipped += skipped;
		t->slot += skipped;
		send_probe(t, target_due_ns(t), now_ns);
		t->slot++;
		plan(t);
		lane_join(t);
	}
	arm_tick(t);
}

static void target_tick(struct loop *l, struct loop_timer *timer)
{
	(void)l;
	target_turn(container_of(timer, struct probe_target, tick));
}

/* Receiving */

static void split(struct probe_result *r, const struct flight *f, const struct stamp *came,
	const struct probe_header *h)
{
	bool hardware = f->hardware_ns && came->hardware_ns;
	uint64_t left_ns = hardware ? f->hardware_ns : f->software_ns;
	uint64_t came_ns = hardware ? came->hardware_ns : came->software_ns;

	if (!left_ns || came_ns <= left_ns || h->stamps == PROBE_STAMPS_NONE)
		return;
	/* A clock that was stepped meanwhile shows as more time than there was. */
	if (came_ns - left_ns > r->rtt_ns || h->residence_ns > came_ns - left_ns)
		return;
	r->stamps = hardware ? PROBE_STAMPS_HARDWARE : PROBE_STAMPS_SOFTWARE;
	r->residence_ns = h->residence_ns;
	r->network_ns = came_ns - left_ns - h->residence_ns;
}

static void take_answer(struct probe_target *t, const struct stamp *came)
{
	struct probe_result r = { .target = t };
	uint64_t now_ns = clock_ns();
	struct probe_header h;
	struct flight *f;

	/* Not one more than were asked for: a peer could keep this thread busy with them. */
	if (probe_header_decode(&h, t->head, t->want.payload_bytes) || h.sequence != t->answer ||
		t->answer == t->next) {
		fail(t, PROBE_AT_PROBE, EPROTO);
		return;
	}
	t->answer++;
	t->losses = 0;
	t->failures = 0;
	if (h.sequence != t->oldest)
		return; /* too late: its row says lost */
	f = flight_of(t, h.sequence);
	if (!f->software_ns)
		collect_stamps(t, 4);
	t->oldest++;
	count_in_flight(t->worker, -1, now_ns);
	r.kind = t->corrupt ? PROBE_CORRUPT : PROBE_ANSWERED;
	r.wall_ns = f->wall_ns;
	r.late_ns = f->late_ns;
	r.starved_ns = f->starved_ns;
	r.rtt_ns = now_ns - f->sent_ns;
	split(&r, f, came, &h);
	t->worker->answered++;
	worker_push(t->worker, &r, false);
}

/* 0, also when the bytes are wrong: that is the probe's; or -errno of where payloads lie. */
static int take_payload(struct probe_target *t, const unsigned char *bytes, size_t count)
{
	size_t skip = t->received < PROBE_HEADER_BYTES ? PROBE_HEADER_BYTES - t->received : 0;
	struct probe_header h;
	int ret;

	if (count <= skip || t->corrupt)
		return 0;
	if (probe_header_decode(&h, t->head, t->want.payload_bytes))
		return 0; /* found out when the frame is complete */
	ret = payload_take(payload_of(t), bytes + skip, count - skip,
		pattern_position(t, h.sequence) + t->received + skip - PROBE_HEADER_BYTES,
		t->want.verify);
	t->corrupt = ret == -EBADMSG;
	return t->corrupt ? 0 : ret;
}

static void take_frame(struct probe_target *t, const struct stamp *came)
{
	struct probe_header welcome;

	t->received = 0;
	if (t->state == TARGET_UP)
		take_answer(t, came);
	else if (probe_header_decode(&welcome, t->head, 0) || welcome.sequence)
		fail(t, PROBE_AT_HELLO, EPROTO);
	else
		stand(t);
	t->corrupt = false;
}

/* true: a whole frame was taken, and the connection still stands. */
static bool receive(struct probe_target *t)
{
	size_t whole = t->state == TARGET_GREETING ? PROBE_HEADER_BYTES : frame_bytes(t), part;
	struct stamp came;
	ssize_t got;
	int ret;

	do {
		got = stamp_recv(t->data.fd, t->worker->scratch, whole - t->received, &came);
		if (got == -EAGAIN || got == -EINTR)
			return false;
		if (got <= 0) {
			fail(t, t->state == TARGET_GREETING ? PROBE_AT_HELLO : PROBE_AT_PROBE,
				got ? (int)-got : ECONNRESET);
			return false;
		}
		if (t->received < PROBE_HEADER_BYTES) {
			part = PROBE_HEADER_BYTES - t->received;
			memcpy(t->head + t->received, t->worker->scratch,
				(size_t)got < part ? (size_t)got : part);
		}
		ret = take_payload(t, t->worker->scratch, (size_t)got);
		if (ret) {
			fail(t, PROBE_AT_PROBE, -ret);
			return false;
		}
		t->received += (size_t)got;
	} while (t->received < whole && whole > 65536);
	if (t->received < whole)
		return false;
	take_frame(t, &came);
	return t->state == TARGET_UP;
}

/* All that an edge stands for: answers of probes under way, and the end of the connection. A peer that gives one answer in
 * a few can save up the others, so after as many as can be under way it is others' turn, and this one's edge comes again. */
static void receive_all(struct probe_target *t, uint32_t events)
{
	for (int i = 0; i < PROBE_IN_FLIGHT; i++)
		if (!receive(t) || (t->oldest == t->next && !(events & ENDS)))
			return;
	loop_change(&t->worker->loop, &t->data, t->data.events);
}

static void target_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct probe_target *t = container_of(source, struct probe_target, data);
	int error = 0;
	socklen_t length = sizeof(error);

	(void)l;
	if (t->state == TARGET_CONNECTING) {
		greet(t);
		return;
	}
	if (events & EPOLLERR) {
		collect_stamps(t, PROBE_IN_FLIGHT);
		getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error) {
			fail(t, PROBE_AT_PROBE, error);
			return;
		}
	}
	if (events & (EPOLLIN | EPOLLHUP))
		receive_all(t, events);
	if (events & EPOLLOUT && t->state == TARGET_UP && t->sent < frame_bytes(t))
		send_rest(t);
}
