// SPDX-License-Identifier: BSD-3-Clause
#include "probe/engine.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/units.h"
#include "probe/worker.h"
#include "rpc/code.h"

#define HASH_BEGIN 0xcbf29ce484222325ull

/* Since Linux 6.15; before, it is refused, and 200 ms. */
#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45
#endif

/* A packet that was lost is sent again before the next probe is due, which would wait behind it; but not while the other end may still
 * hold back its acknowledgement, 40 ms. And what comes after a pause longer than this the kernel acknowledges as it comes in, at 5 probes a
 * second too: otherwise the thread that reads it has to, with the next probe of its tick to send. */
#define RESEND_US 50000

void data_socket(int fd)
{
	int on = 1, resend_us = RESEND_US;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_RTO_MIN_US, &resend_us, sizeof(resend_us));
}

/* A full ring means that the owner sleeps. Probes do not wait for it: rows that do not fit are counted, and leave an eighth for
 * changes of state. Those must not be lost, as the owner would believe the one before, or never free a target: when that eighth
 * is full too, this thread waits for the owner, who was called for each of them, or for worker_free(), which reads all. */
void worker_push(struct worker *w, const struct probe_result *r, bool urgent)
{
	uint32_t head = atomic_load_explicit(&w->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&w->tail, memory_order_acquire);
	uint32_t room = RING_RESULTS - (head - tail);

	if (room < RING_RESULTS / 8 && r->kind < PROBE_SETTLED) {
		atomic_fetch_add_explicit(&w->dropped, 1, memory_order_relaxed);
		return;
	}
	while (!room) {
		usleep(1000);
		room = RING_RESULTS - (head - atomic_load_explicit(&w->tail, memory_order_acquire));
	}
	w->ring[head % RING_RESULTS] = *r;
	/* The owner need not look for it in a target that is not in its cache. */
	w->ring[head % RING_RESULTS].context = r->target->want.context;
	atomic_store_explicit(&w->head, head + 1, memory_order_release);
	if ((urgent || room == RING_RESULTS / 2) && w->engine->config.notify)
		w->engine->config.notify(w->engine->config.context);
}

void worker_expect(struct worker *w, uint64_t now_ns)
{
	struct spin *spin = &w->loop.spin;

	if (now_ns - w->look_ns >= NS_PER_S) {
		w->look_ns = now_ns;
		spin->spent_ns = 0;
	}
	spin->limit_ns = spin->spent_ns >= LOOK_PER_S_NS ? 0
			 : w->in_flight			 ? LOOK_NS
			 : w->in_burst			 ? BURST_NS
							 : 0;
	/* Every burst has a last one, after which looking is in vain: no reason to give it up. */
	if (w->in_burst && !spin->credit)
		spin->credit = 1;
}

/* What the owner touches for the result after this one, into the cache while it takes this one. */
static void fetch_context(const struct probe_result *next)
{
	for (uintptr_t at = 0; at < PROBE_FETCHED; at += 64)
		__builtin_prefetch((const void *)((uintptr_t)next->context + at), 1);
}

static bool worker_pop(struct worker *w, struct probe_result *r)
{
	uint32_t tail = atomic_load_explicit(&w->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&w->head, memory_order_acquire);

	if (tail == head)
		return false;
	*r = w->ring[tail % RING_RESULTS];
	if (tail + 1 != head)
		fetch_context(&w->ring[(tail + 1) % RING_RESULTS]);
	atomic_store_explicit(&w->tail, tail + 1, memory_order_release);
	return true;
}

bool probe_engine_next(struct probe_engine *engine, struct probe_result *result)
{
	free(engine->gone);
	engine->gone = NULL;
	for (size_t i = 0; i < engine->workers; i++) {
		struct worker *w = &engine->worker[engine->turn];

		if (worker_pop(w, result)) {
			if (result->kind == PROBE_GONE)
				engine->gone = result->target; /* the caller may still look */
			return true;
		}
		engine->turn = (engine->turn + 1) % engine->workers;
	}
	return false;
}

char *probe_result_words(const struct probe_result *r, char buf[PROBE_WORDS])
{
	static const char *const stage[] = { "", "agent", "connect", "hello", "probe" };
	char time[UNITS_TEXT];
	const char *why = r->stage == PROBE_AT_CONTROL ? rpc_code_name((enum rpc_code)r->code)
			  : r->code		       ? strerrordesc_np(r->code)
						       : NULL;

	switch (r->kind) {
	case PROBE_LOST:
		snprintf(buf, PROBE_WORDS, "no answer within %s",
			units_format_duration(time, (double)r->rtt_ns));
		break;
	case PROBE_CORRUPT:
		snprintf(buf, PROBE_WORDS, "the answer holds other bytes than were sent");
		break;
	case PROBE_HELD:
		snprintf(buf, PROBE_WORDS, "not sent: too many probes are under way");
		break;
	case PROBE_UNSENT:
	case PROBE_DOWN:
	case PROBE_SETTLED:
		snprintf(buf, PROBE_WORDS, "not connected%s%s%s%s", r->stage ? ": " : "",
			stage[r->stage <= PROBE_AT_PROBE ? r->stage : 0], why ? ": " : "",
			why ? why : "");
		break;
	default:
		buf[0] = '\0';
	}
	return buf;
}

int worker_order(struct worker *w, const struct order *what)
{
	struct order *o = malloc(sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = *what;
	o->next = NULL;
	pthread_mutex_lock(&w->inbox_lock);
	*w->inbox_end = o;
	w->inbox_end = &o->next;
	pthread_mutex_unlock(&w->inbox_lock);
	loop_wake(&w->loop);
	return 0;
}

static void hang_up(struct worker *w, const struct order *o)
{
	struct list *l, *next;

	for (l = w->answerers.next; l != &w->answerers; l = next) {
		struct answerer *a = container_of(l, struct answerer, link);

		next = l->next;
		if (sock_addr_same_host(&a->peer, &o->prober) &&
			sock_addr_same_host(&w->engine->nic[a->nic].addr, &o->responder))
			answerer_close(a);
	}
	for (l = w->pongs.next; l != &w->pongs; l = next) {
		next = l->next;
		if (pong_is_of(pong_of_link(l), &o->prober, &o->responder))
			pong_close(pong_of_link(l));
	}
}

static void remove_target(struct probe_target *t)
{
	struct probe_result gone = { .target = t, .kind = PROBE_GONE };
	struct worker *w = t->worker;

	target_end(t);
	list_del(&t->link);
	worker_push(w, &gone, true);
}

static void worker_woken(struct loop *l)
{
	struct worker *w = container_of(l, struct worker, loop);
	struct order *o, *next;

	pthread_mutex_lock(&w->inbox_lock);
	o = w->inbox;
	w->inbox = NULL;
	w->inbox_end = &w->inbox;
	pthread_mutex_unlock(&w->inbox_lock);
	for (; o; o = next) {
		next = o->next;
		if (o->kind == ORDER_ADD) {
			list_add(&w->targets, &o->target->link);
			target_begin(o->target);
		} else if (o->kind == ORDER_REMOVE) {
			remove_target(o->target);
		} else if (o->kind == ORDER_HANG_UP) {
			hang_up(w, o);
		} else if (o->kind == ORDER_PONG) {
			pong_begin(o->pong);
		} else {
			loop_stop(l);
		}
		free(o);
	}
	worker_next_turn(w);
}

static void *worker_main(void *context)
{
	struct worker *w = context;

	loop_run(&w->loop, NULL);
	return NULL;
}

static void discard_results(struct worker *w)
{
	struct probe_result r;

	while (w->ring && worker_pop(w, &r))
		if (r.kind == PROBE_GONE)
			free(r.target);
}

/* The thread may be waiting for room in the ring. */
static void stop_thread(struct worker *w)
{
	while (worker_order(w, &(struct order){ .kind = ORDER_STOP }))
		usleep(1000);
	while (pthread_tryjoin_np(w->thread, NULL) == EBUSY) {
		discard_results(w);
		usleep(100);
	}
}

static void worker_free(struct worker *w)
{
	struct list *l, *next;
	struct order *o;

	if (w->runs)
		stop_thread(w);
	discard_results(w);
	for (l = w->targets.next; l && l != &w->targets; l = next) {
		next = l->next;
		target_end(container_of(l, struct probe_target, link));
		free(container_of(l, struct probe_target, link));
	}
	for (l = w->answerers.next; l && l != &w->answerers; l = next) {
		next = l->next;
		answerer_close(container_of(l, struct answerer, link));
	}
	for (l = w->pongs.next; l && l != &w->pongs; l = next) {
		next = l->next;
		pong_close(pong_of_link(l));
	}
	for (size_t i = 0; i < w->doors; i++)
		door_close(&w->door[i]);
	while ((o = w->inbox)) {
		w->inbox = o->next;
		if (o->kind == ORDER_ADD)
			free(o->target);
		else if (o->kind == ORDER_PONG)
			pong_drop(o->pong);
		free(o);
	}
	rpc_tls_free(w->tls);
	if (w->loop.epoll > 0)
		loop_close(&w->loop);
	pthread_mutex_destroy(&w->inbox_lock);
	free(w->door);
	free(w->scratch);
	free(w->ring);
}

static int worker_init(struct worker *w, struct probe_engine *engine, size_t index, struct err *e)
{
	size_t first = index * PROBE_NICS_PER_LOOP;
	size_t doors = engine->nics - first;
	int ret;

	if (doors > PROBE_NICS_PER_LOOP)
		doors = PROBE_NICS_PER_LOOP;
	w->engine = engine;
	list_init(&w->targets);
	list_init(&w->turns);
	list_init(&w->answerers);
	list_init(&w->strangers);
	list_init(&w->pongs);
	w->inbox_end = &w->inbox;
	pthread_mutex_init(&w->inbox_lock, NULL);
	w->door = calloc(PROBE_NICS_PER_LOOP, sizeof(*w->door));
	w->scratch = malloc(SCRATCH_BYTES);
	w->ring = malloc(RING_RESULTS * sizeof(*w->ring));
	if (!w->door || !w->scratch || !w->ring)
		return err_set(e, ENOMEM, "no memory for the probe engine");
	ret = loop_init(&w->loop, worker_woken, e);
	/* An answer does not wait until all probes of a tick are sent, but those that are late are sent first. */
	w->loop.fire_max = 1;
	w->loop.late_ns = HURRY_NS;
	settle_init(&w->loop.settle, SETTLE_NS);
	pace_init(&w->pace);
	spin_init(&w->loop.spin, 0);
	w->loop.spin.failure = 1;
	if (!ret && engine->config.tls)
		ret = rpc_tls_new(&w->tls, engine->config.tls, e);
	while (!ret && w->doors < doors) {
		ret = door_open(&w->door[w->doors], w, first + w->doors, e);
		if (!ret)
			w->doors++;
	}
	if (ret)
		return ret;
	ret = pthread_create(&w->thread, NULL, worker_main, w);
	if (ret)
		return err_set(e, ret, "cannot start a probe thread: %s", strerror(ret));
	w->runs = true;
	return 0;
}

static int open_payload(struct probe_engine *engine, size_t nic, struct err *e)
{
	struct mem_where where = { .kind = engine->config.memory, .gpu = engine->nic[nic].gpu };
	char text[SOCK_ADDR_TEXT];
	int ret = payload_open(&engine->payload[nic], &where, &engine->pattern, e);

	if (ret)
		err_prefix(e, "no memory for the payloads of %s",
			sock_addr_text(&engine->nic[nic].addr, false, text));
	return ret;
}

int probe_engine_new(struct probe_engine **engine, const struct probe_config *config, struct err *e)
{
	struct probe_engine *en;
	int ret;

	if (!config->nics || config->nics > PROBE_NICS_MAX)
		return err_set(e, EINVAL, "an agent has 1 to %d NICs, not %zu", PROBE_NICS_MAX,
			config->nics);
	en = calloc(1, sizeof(*en));
	if (!en)
		return err_set(e, ENOMEM, "no memory for the probe engine");
	pthread_mutex_init(&en->expected_lock, NULL);
	en->config = *config;
	if (!en->config.memory_bytes)
		en->config.memory_bytes = 1ull << 30;
	en->nics = config->nics;
	en->workers = worker_of_nic(config->nics - 1) + 1;
	en->nic = calloc(en->nics, sizeof(*en->nic));
	en->probing = calloc(en->nics, sizeof(*en->probing));
	en->answering = calloc(en->nics, sizeof(*en->answering));
	en->worker = calloc(en->workers, sizeof(*en->worker));
	en->payload = calloc(en->nics, sizeof(*en->payload));
	if (!en->nic || !en->payload || !en->probing || !en->answering || !en->worker) {
		probe_engine_free(en);
		return err_set(e, ENOMEM, "no memory for the probe engine");
	}
	memcpy(en->nic, config->nic, en->nics * sizeof(*en->nic));
	ret = pattern_init(&en->pattern, PATTERN_SEEDED, 1, PATTERN_BYTES, e);
	for (size_t i = 0; !ret && i < en->nics; i++)
		ret = open_payload(en, i, e);
	for (size_t i = 0; !ret && i < en->workers; i++)
		ret = worker_init(&en->worker[i], en, i, e);
	if (ret) {
		probe_engine_free(en);
		return ret;
	}
	*engine = en;
	return 0;
}

void probe_engine_free(struct probe_engine *engine)
{
	if (!engine)
		return;
	for (size_t i = 0; engine->worker && i < engine->workers; i++)
		if (engine->worker[i].engine)
			worker_free(&engine->worker[i]);
	for (size_t i = 0; engine->payload && i < engine->nics; i++)
		payload_close(&engine->payload[i]);
	free(engine->payload);
	free(engine->gone);
	pthread_mutex_destroy(&engine->expected_lock);
	pattern_free(&engine->pattern);
	free(engine->worker);
	free(engine->answering);
	free(engine->probing);
	free(engine->nic);
	free(engine);
}

int probe_engine_nic(const struct probe_engine *engine, const struct sock_addr *addr)
{
	for (size_t i = 0; i < engine->nics; i++)
		if (sock_addr_same_host(&engine->nic[i].addr, addr))
			return (int)i;
	return -1;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

static uint64_t hash_address(uint64_t h, const struct sock_addr *addr)
{
	char text[SOCK_ADDR_TEXT];

	sock_addr_text(addr, false, text);
	return hash_bytes(h, text, strlen(text) + 1);
}

static uint64_t hash_end(uint64_t h)
{
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15ull;
	return h >> 16;
}

/* Where the ticks of an agent lie, from 0 on. */
static uint64_t grid_of(const struct probe_engine *engine)
{
	return hash_end(hash_address(HASH_BEGIN, &engine->nic[0].addr)) % PROBE_GRID_NS;
}

uint64_t probe_engine_lull_ns(const struct probe_engine *engine, uint64_t near_ns)
{
	uint64_t lull_ns = grid_of(engine) + PROBE_GRID_NS * 3 / 4;
	uint64_t from_ns = near_ns - PROBE_GRID_NS / 2;

	return from_ns + (lull_ns + PROBE_GRID_NS - from_ns % PROBE_GRID_NS) % PROBE_GRID_NS;
}

/* The tick for one more target, of those in its period: one that others have and that is not full, or the first of those that
 * nobody has, or, when all are full, the emptier of two. Chance alone would fill some twice as much as others. full 0: as few in each as can be. */
static uint64_t tick_for(const struct worker *w, uint64_t ticks, uint32_t full, uint64_t h)
{
	uint64_t first = h % ticks, other = (h >> 20) % ticks, free_one = ticks;

	for (uint64_t i = 0; i < ticks && i < TICKS; i++) {
		uint64_t tick = (first + i) % ticks;
		uint32_t targets = w->ticks[tick % TICKS];

		if (targets && targets < full)
			return tick;
		if (!targets && free_one == ticks)
			free_one = tick;
	}
	if (free_one < ticks)
		return free_one;
	return w->ticks[other % TICKS] < w->ticks[first % TICKS] ? other : first;
}

/* Where in its period a pair probes. To wake up is most of what a probe costs, so the pairs of an agent share the ticks of a
 * grid, or where it is shorter one in each period, and no more of them than they need; where the grid lies is made of the agent's first address, so
 * that a thousand agents with the same period do not send at the same moment. Within a tick each has a time of its own, as far from the one before as
 * sending that takes, so that none is late by those before it. */
static uint64_t phase_of(const struct probe_engine *engine, struct probe_target *t)
{
	uint64_t h = hash_address(hash_address(HASH_BEGIN, &t->want.local), &t->want.peer), tick;
	bool quick = engine->config.memory == MEM_HOST && t->want.payload_bytes <= TICK_PAYLOAD;

	h = hash_end(hash_bytes(h, &t->want.copy, sizeof(t->want.copy)));
	tick = tick_for(
		t->worker, t->want.period_ns / target_grid_ns(t), quick ? TICK_TARGETS : 0, h);
	t->in_tick = &t->worker->ticks[tick % TICKS];
	t->place = *t->in_tick;
	return grid_of(engine) % target_grid_ns(t) + tick * target_grid_ns(t);
}

int probe_engine_add(struct probe_engine *engine, struct probe_target **target,
	const struct probe_want *want, struct err *e)
{
	int nic = probe_engine_nic(engine, &want->local);
	char text[SOCK_ADDR_TEXT];
	struct probe_target *t;
	uint64_t now_ns = clock_ns();

	if (nic < 0)
		return err_set(e, EADDRNOTAVAIL, "%s is no NIC of this agent",
			sock_addr_text(&want->local, false, text));
	if (want->payload_bytes > PROBE_PAYLOAD_MAX || want->period_ns < NS_PER_S / PROBE_RATE_MAX)
		return err_set(e, EINVAL, "a probe has up to %u bytes and %.0f a second",
			PROBE_PAYLOAD_MAX, PROBE_RATE_MAX);
	if (engine->config.connections_per_nic &&
		engine->probing[nic] >= engine->config.connections_per_nic)
		return err_set(e, EUSERS, "%s has its %u connections already",
			sock_addr_text(&want->local, false, text),
			engine->config.connections_per_nic);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, ENOMEM, "no memory for a target");
	t->want = *want;
	if (!t->want.timeout_ns)
		t->want.timeout_ns = PROBE_TIMEOUT_NS;
	t->nic = (size_t)nic;
	t->worker = &engine->worker[worker_of_nic((size_t)nic)];
	t->is_local = probe_engine_nic(engine, &want->peer) >= 0;
	t->data.fd = -1;
	t->phase_ns = now_ns - now_ns % want->period_ns + phase_of(engine, t);
	list_init(&t->link);
	list_init(&t->turn);
	list_init(&t->in_lane);
	if (worker_order(t->worker, &(struct order){ .kind = ORDER_ADD, .target = t })) {
		free(t);
		return err_set(e, ENOMEM, "no memory for a target");
	}
	++*t->in_tick;
	engine->probing[nic]++;
	engine->targets++;
	*target = t;
	return 0;
}

void probe_engine_remove(struct probe_engine *engine, struct probe_target *target)
{
	if (target->removed)
		return;
	target->removed = true;
	--*target->in_tick;
	engine->probing[target->nic]--;
	engine->targets--;
	while (worker_order(
		target->worker, &(struct order){ .kind = ORDER_REMOVE, .target = target }))
		usleep(1000);
}

int probe_engine_expect(struct probe_engine *engine, const struct sock_addr *prober,
	const struct sock_addr *responder, uint32_t payload_bytes,
	unsigned char token[PROBE_TOKEN_BYTES], uint16_t *port, struct err *e)
{
	int nic = probe_engine_nic(engine, responder);
	uint64_t now_ns = clock_ns();
	struct expected *free_one = NULL;
	uint32_t waiting = 0;
	struct worker *w;
	char text[SOCK_ADDR_TEXT];

	if (nic < 0)
		return err_set(e, EADDRNOTAVAIL, "%s is no NIC of this agent",
			sock_addr_text(responder, false, text));
	if (payload_bytes > PROBE_PAYLOAD_MAX)
		return err_set(e, EMSGSIZE, "a probe has up to %u bytes", PROBE_PAYLOAD_MAX);
	if (getrandom(token, PROBE_TOKEN_BYTES, 0) != PROBE_TOKEN_BYTES)
		return err_set(e, EIO, "the system has no random bytes");
	pthread_mutex_lock(&engine->expected_lock);
	for (size_t i = 0; i < EXPECTED_MAX; i++) {
		struct expected *x = &engine->expected[i];

		if (x->until_ns < now_ns)
			free_one = free_one ? free_one : x;
		else if (x->nic == (size_t)nic)
			waiting++;
	}
	if (engine->config.connections_per_nic &&
		engine->answering[nic] + waiting >= engine->config.connections_per_nic)
		free_one = NULL;
	if (free_one) {
		*free_one = (struct expected){ .prober = *prober,
			.nic = (size_t)nic,
			.payload_bytes = payload_bytes,
			.until_ns = now_ns + PROBE_SET_UP_NS };
		memcpy(free_one->token, token, PROBE_TOKEN_BYTES);
	}
	pthread_mutex_unlock(&engine->expected_lock);
	if (!free_one)
		return err_set(e, EUSERS, "%s answers as many connections as it may",
			sock_addr_text(responder, false, text));
	w = &engine->worker[worker_of_nic((size_t)nic)];
	*port = w->door[(size_t)nic % PROBE_NICS_PER_LOOP].port;
	return 0;
}

bool engine_take_expected(struct probe_engine *engine, const struct probe_hello *hello,
	const struct sock_addr *peer, size_t nic)
{
	uint64_t now_ns = clock_ns();
	bool found = false;

	pthread_mutex_lock(&engine->expected_lock);
	for (size_t i = 0; !found && i < EXPECTED_MAX; i++) {
		struct expected *x = &engine->expected[i];

		if (x->until_ns < now_ns || memcmp(x->token, hello->token, PROBE_TOKEN_BYTES))
			continue;
		found = x->nic == nic && x->payload_bytes == hello->payload_bytes &&
			sock_addr_same_host(&x->prober, peer);
		x->until_ns = 0; /* a token serves once, well used or not */
		break;
	}
	pthread_mutex_unlock(&engine->expected_lock);
	return found;
}

void probe_engine_hang_up(struct probe_engine *engine, const struct sock_addr *prober,
	const struct sock_addr *responder)
{
	int nic = probe_engine_nic(engine, responder);

	if (nic >= 0)
		worker_order(&engine->worker[worker_of_nic((size_t)nic)],
			&(struct order){ .kind = ORDER_HANG_UP,
				.prober = *prober,
				.responder = *responder });
}

void probe_engine_stats(const struct probe_engine *engine, struct probe_stats *stats)
{
	*stats = (struct probe_stats){ .targets = engine->targets };
	for (size_t i = 0; i < engine->workers; i++) {
		const struct worker *w = &engine->worker[i];

		stats->sent += w->sent;
		stats->answered += w->answered;
		stats->lost += w->lost;
		stats->unsent += w->unsent;
		stats->skipped += w->skipped;
		stats->results_dropped += w->dropped;
	}
	for (size_t i = 0; i < engine->nics; i++)
		stats->answering += engine->answering[i];
}
