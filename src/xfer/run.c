// SPDX-License-Identifier: BSD-3-Clause
#include "xfer/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "mem/cuda.h"

/* A message begins at one of so many places, so far apart: each differs from the last. */
#define SHIFTS	   16
#define SHIFT	   64
#define SHIFT_ROOM ((uint64_t)SHIFTS * SHIFT)
#define CYCLE	   ((size_t)480 << 10)
#define SEED	   0x77656972u
#define STEP_NS	   (100 * NS_PER_MS) /* how long a wait goes without a look at the stop flag */
#define SILENCE_NS (60 * NS_PER_S)   /* between two batches of a client */

static struct weir_error *pub(struct err *e)
{
	return (struct weir_error *)e;
}

void run_end_free(struct run_end *r)
{
	free(r->time_ns);
	r->time_ns = NULL;
	r->times = 0;
}

int party_open(struct party *p, const struct weir_p2p_config *config, const struct mem_where *where,
	struct err *e)
{
	int ret;

	p->where = *where;
	p->by_dmabuf = where->kind == MEM_UDMABUF && config->path != WEIR_P2P_PATH_STAGED;
	p->memory = (struct region){ .memfd = -1, .dmabuf = -1 };
	ret = pattern_init(&p->pattern, PATTERN_SEEDED, SEED, CYCLE, e);
	return ret ? ret : weir_p2p_open(&p->p2p, config, pub(e));
}

static void memory_free(struct party *p)
{
	if (p->region)
		weir_p2p_unregister(p->region, NULL);
	p->region = NULL;
	region_free(&p->memory);
	p->memory = (struct region){ .memfd = -1, .dmabuf = -1 };
}

void party_close(struct party *p)
{
	if (p->p2p)
		weir_p2p_close(p->p2p); /* with its regions */
	p->p2p = NULL;
	p->region = NULL;
	region_free(&p->memory);
	pattern_free(&p->pattern);
}

/* Memory for all messages under way; kept while it suffices. */
static int memory_for(struct party *p, const struct run_plan *plan, struct err *e)
{
	const unsigned int access = WEIR_P2P_REMOTE_READ | WEIR_P2P_REMOTE_WRITE;
	bool on_gpu = p->where.kind == MEM_CUDA;
	uint64_t need;
	void *address;
	int ret, fd;

	p->stride = (plan->bytes + SHIFT_ROOM + 4095) & ~4095ull;
	need = p->stride * plan->depth;
	if (p->region && p->memory.bytes >= need)
		return 0;
	memory_free(p);
	p->filled = false;
	ret = region_alloc_in(&p->memory, &p->where, need, e);
	if (ret)
		return ret;
	ret = p->by_dmabuf ? region_dmabuf(&p->memory, &fd, e) : 0;
	if (ret)
		return ret;
	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): region_alloc_in() has set it
	address = on_gpu ? (void *)(uintptr_t)p->memory.cuda->address : p->memory.data;
	if (p->by_dmabuf)
		return weir_p2p_register_dmabuf(p->p2p, fd, 0, address, p->memory.bytes,
			WEIR_P2P_HOST, access, &p->region, pub(e));
	return weir_p2p_register(p->p2p, address, p->memory.bytes,
		on_gpu ? WEIR_P2P_CUDA : WEIR_P2P_HOST, access, &p->region, pub(e));
}

static uint64_t shift_of(uint64_t message)
{
	return message % SHIFTS * SHIFT;
}

/* What is sent: each message from another place of the pattern. */
static int fill(struct party *p, struct err *e)
{
	int ret = 0;

	for (uint64_t at = 0; !ret && !p->filled && at + p->stride <= p->memory.bytes;
		at += p->stride)
		ret = region_fill(&p->memory, &p->pattern, at, p->stride, 0, e);
	p->filled = !ret;
	return ret;
}

static void check(
	struct party *p, uint64_t message, uint64_t slot, uint64_t bytes, struct run_end *mine)
{
	uint64_t done = 0, part;
	struct mem_mismatch m = { 0 };

	mine->checked++;
	while (done < bytes) {
		struct mem_fragment f = { .region_offset = slot * p->stride + done,
			.stream_position = shift_of(message) + done };

		part = bytes - done < (1u << 30) ? bytes - done : 1u << 30;
		f.bytes = (uint32_t)part;
		if (region_check(&p->memory, &p->pattern, &f, 1, &m, NULL)) {
			if (!mine->wrong++)
				mine->wrong_at = done + m.byte;
			return;
		}
		done += part;
	}
}

static int stopped(const struct party *p, struct err *e)
{
	return p->stop && *p->stop ? err_set(e, EINTR, "interrupted") : 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return clock_timespec_ns(t);
}

struct batch {
	struct party *p;
	struct weir_p2p_conn *conn;
	const struct run_plan *plan;
	struct run_end *mine;
	uint64_t key; /* of the other end's memory */
	struct weir_p2p_transfer *under_way[RUN_DEPTH_MAX];
	uint64_t begin_ns, last_ns, begin_cpu_ns;
	struct weir_p2p_stats before;
};

static int finish(struct batch *b, uint32_t slot, struct err *e)
{
	int ret;

	do {
		ret = stopped(b->p, e);
		if (ret)
			return ret;
		ret = weir_p2p_wait(b->under_way[slot], STEP_NS, NULL, pub(e));
	} while (!ret);
	b->under_way[slot] = NULL;
	return ret < 0 ? ret : 0;
}

/* After a failure: the connection is over, and with it what was under way. */
static void drop(struct batch *b)
{
	for (int i = 0; i < RUN_DEPTH_MAX; i++)
		if (b->under_way[i] && weir_p2p_test(b->under_way[i], NULL, NULL))
			b->under_way[i] = NULL;
}

static int batch_begin(struct batch *b, struct err *e)
{
	struct run_end *r = b->mine;

	*r = (struct run_end){ .times = 0 };
	r->time_ns = calloc(b->plan->count, sizeof(*r->time_ns));
	if (!r->time_ns)
		return err_set(e, ENOMEM, "no memory for the times of %u messages", b->plan->count);
	snprintf(r->memory, sizeof(r->memory), "%s", region_kind_name(&b->p->memory));
	snprintf(r->devices, sizeof(r->devices), "%s", weir_p2p_devices(b->conn));
	snprintf(r->unpack, sizeof(r->unpack), "%s", weir_p2p_unpacking(b->conn));
	weir_p2p_conn_stats(b->conn, &b->before);
	b->begin_cpu_ns = cpu_ns();
	b->begin_ns = b->last_ns = clock_ns();
	return 0;
}

static void message_over(struct batch *b, uint64_t bytes)
{
	struct run_end *r = b->mine;
	uint64_t now_ns = clock_ns();

	r->time_ns[r->times++] = now_ns - b->last_ns;
	b->last_ns = now_ns;
	r->count++;
	r->bytes += bytes;
	if (b->p->progress)
		b->p->progress(b->p->context, r->count, b->plan->count);
}

/* After the statistics were read, which know them. */
static void note_paths(struct batch *b)
{
	struct run_end *r = b->mine;
	const char *reason = weir_p2p_path_reason(b->conn);

	snprintf(r->rx_path, sizeof(r->rx_path), "%s", weir_p2p_path(b->conn, 0));
	snprintf(r->tx_path, sizeof(r->tx_path), "%s", weir_p2p_path(b->conn, 1));
	snprintf(r->path_reason, sizeof(r->path_reason), "%s", reason ? reason : "");
}

static void batch_over(struct batch *b)
{
	struct weir_p2p_stats *s = &b->mine->stats, *before = &b->before;
	double time;

	b->mine->elapsed_ns = b->last_ns - b->begin_ns;
	b->mine->cpu_ns = cpu_ns() - b->begin_cpu_ns;
	weir_p2p_conn_stats(b->conn, s);
	time = s->in_flight_mean * (double)s->active_ns -
	       before->in_flight_mean * (double)before->active_ns;
	s->active_ns -= before->active_ns;
	s->in_flight_mean = s->active_ns ? time / (double)s->active_ns : 0;
	s->sent_device_bytes -= before->sent_device_bytes;
	s->received_device_bytes -= before->received_device_bytes;
	s->received_linear_bytes -= before->received_linear_bytes;
	s->received_plain_bytes -= before->received_plain_bytes;
	note_paths(b);
	s->sent_bytes -= before->sent_bytes;
	s->received_bytes -= before->received_bytes;
	for (int i = 0; i < WEIR_P2P_STALLS; i++) {
		uint64_t now = s->stall_ns[i], then = before->stall_ns[i];

		s->stall_ns[i] = now > then ? now - then : 0;
	}
}

/* Begin message i of the batch, in its slot. */
static int post(struct batch *b, uint32_t i, bool receive, struct err *e)
{
	const struct run_plan *plan = b->plan;
	uint64_t slot = i % plan->depth, at = slot * b->p->stride;
	uint64_t shift = shift_of(plan->first + i);
	struct weir_p2p_transfer **t = &b->under_way[slot];

	if (receive)
		return weir_p2p_recv(b->conn, b->p->region, at, plan->bytes, t, pub(e));
	if (plan->op == RUN_WRITE)
		return weir_p2p_write(
			b->conn, b->p->region, at + shift, plan->bytes, b->key, at, t, pub(e));
	if (plan->op == RUN_READ)
		return weir_p2p_read(
			b->conn, b->p->region, at, plan->bytes, b->key, at + shift, t, pub(e));
	return weir_p2p_send(b->conn, b->p->region, at + shift, plan->bytes, t, pub(e));
}

/* All messages of a batch, so many at once; checked where they arrive. */
static int pump(struct batch *b, bool receive, struct err *e)
{
	const struct run_plan *plan = b->plan;
	bool checks = plan->check && (receive || plan->op == RUN_READ);
	uint32_t posted = 0, done = 0;
	int ret = 0;

	while (!ret && done < plan->count) {
		while (!ret && posted < plan->count && posted - done < plan->depth)
			ret = post(b, posted++, receive, e);
		if (ret)
			break;
		// NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a plan has at least one
		ret = finish(b, done % plan->depth, e);
		if (ret)
			break;
		if (checks)
			check(b->p, plan->first + done, done % plan->depth, plan->bytes, b->mine);
		message_over(b, plan->bytes);
		done++;
	}
	drop(b);
	return ret;
}

/* One message there and back, one at a time: the client's half, then the server's. */
static int ping(struct batch *b, struct err *e)
{
	const struct run_plan *plan = b->plan;
	struct weir_p2p_transfer **out = &b->under_way[0], **back = &b->under_way[1];
	int ret = 0;

	for (uint32_t i = 0; !ret && i < plan->count; i++) {
		ret = weir_p2p_recv(b->conn, b->p->region, b->p->stride, plan->bytes, back, pub(e));
		if (!ret)
			ret = weir_p2p_send(b->conn, b->p->region, shift_of(plan->first + i),
				plan->bytes, out, pub(e));
		if (!ret)
			ret = finish(b, 1, e);
		if (!ret)
			ret = finish(b, 0, e);
		if (!ret && plan->check)
			check(b->p, plan->first + i, 1, plan->bytes, b->mine);
		if (!ret)
			message_over(b, plan->bytes);
	}
	drop(b);
	return ret;
}

static int pong(struct batch *b, struct err *e)
{
	const struct run_plan *plan = b->plan;
	struct weir_p2p_transfer **in = &b->under_way[0], **out = &b->under_way[1];
	int ret;

	ret = weir_p2p_recv(b->conn, b->p->region, 0, plan->bytes, in, pub(e));
	for (uint32_t i = 0; !ret && i < plan->count; i++) {
		uint64_t at = i % 2 * b->p->stride, next = (i + 1) % 2 * b->p->stride;

		ret = finish(b, 0, e);
		if (!ret)
			ret = weir_p2p_send(b->conn, b->p->region, at, plan->bytes, out, pub(e));
		if (!ret && i + 1 < plan->count)
			ret = weir_p2p_recv(b->conn, b->p->region, next, plan->bytes, in, pub(e));
		if (!ret)
			ret = finish(b, 1, e);
		if (!ret)
			message_over(b, plan->bytes);
	}
	drop(b);
	return ret;
}

/* Notifications */

static int hear(struct party *p, struct weir_p2p_conn *conn, uint64_t patience_ns, char **text,
	struct err *e)
{
	uint64_t until_ns = clock_ns() + patience_ns;
	size_t bytes;
	void *data;
	int ret;

	while (!(ret = weir_p2p_notification(conn, &data, &bytes, pub(e)))) {
		ret = stopped(p, e);
		if (ret)
			return ret;
		if (clock_ns() > until_ns)
			return err_set(e, ETIMEDOUT, "%s has said nothing for %.0f s",
				weir_p2p_peer(conn), (double)patience_ns / 1e9);
		weir_p2p_sleep(p->p2p, STEP_NS);
	}
	if (ret < 0)
		return ret;
	*text = data;
	if (strlen(*text) == bytes)
		return 0;
	free(data);
	*text = NULL;
	return err_set(e, EPROTO, "%s sent what is no text", weir_p2p_peer(conn));
}

static int say(struct weir_p2p_conn *conn, const char *text, struct err *e)
{
	return weir_p2p_notify(conn, text, strlen(text), pub(e));
}

static int say_end(struct weir_p2p_conn *conn, const struct run_end *r, struct err *e)
{
	char *text = malloc(RUN_TEXT_MAX);
	int ret;

	if (!text)
		return err_set(e, ENOMEM, "no memory for a report");
	run_end_format(r, text, RUN_TEXT_MAX);
	ret = say(conn, text, e);
	free(text);
	return ret;
}

/* The other end is ready: it says where its memory is; or it says why not. */
static int hear_ready(struct batch *b, struct err *e)
{
	char *text = NULL;
	int ret = hear(b->p, b->conn, SILENCE_NS, &text, e);

	if (ret)
		return ret;
	if (sscanf(text, "ready key=%" SCNu64, &b->key) != 1)
		ret = err_set(e, EPROTO, "the server refuses: %.200s",
			!strncmp(text, "no ", 3) ? text + 3 : "it does not say why");
	free(text);
	return ret;
}

static int hear_end(struct batch *b, struct run_end *theirs, struct err *e)
{
	char *text = NULL;
	int ret = hear(b->p, b->conn, SILENCE_NS, &text, e);

	if (ret)
		return ret;
	ret = run_end_parse(text, theirs, e);
	free(text);
	return ret;
}

static int data_was_right(const struct run_end *r, const char *where, struct err *e)
{
	if (!r->wrong)
		return 0;
	return err_set(e, EBADMSG,
		"wrong data: %u of %u messages that the %s checked, the first at byte %" PRIu64,
		r->wrong, r->checked, where, r->wrong_at);
}

/* What is dropped cannot be checked; both ends must know that it is not. */
static int can_check(struct weir_p2p_conn *conn, const struct run_plan *plan, struct err *e)
{
	if (!plan->check || strcmp(weir_p2p_unpacking(conn), "none") != 0)
		return 0;
	return err_set(e, EINVAL,
		"what comes is dropped at the end that has --unpack none, and cannot be checked: say "
		"--no-check");
}

static int run_client(struct batch *b, struct run_end *theirs, struct err *e)
{
	char text[256];
	bool receives = b->plan->op == RUN_READ || b->plan->op == RUN_PINGPONG;
	int ret;

	ret = receives ? can_check(b->conn, b->plan, e) : 0;
	if (!ret)
		ret = memory_for(b->p, b->plan, e);
	if (!ret && b->plan->op != RUN_READ)
		ret = fill(b->p, e);
	if (!ret) {
		run_plan_format(b->plan, text, sizeof(text));
		ret = say(b->conn, text, e);
	}
	if (!ret)
		ret = hear_ready(b, e);
	if (!ret)
		ret = batch_begin(b, e);
	if (!ret)
		ret = b->plan->op == RUN_PINGPONG ? ping(b, e) : pump(b, false, e);
	/* What came back or was read overwrote the pattern. */
	if (receives)
		b->p->filled = false;
	if (ret)
		return ret;
	batch_over(b);
	ret = say(b->conn, "over", e);
	return ret ? ret : hear_end(b, theirs, e);
}

int run_batch(struct party *p, struct weir_p2p_conn *conn, const struct run_plan *plan,
	struct run_end *mine, struct run_end *theirs, struct err *e)
{
	struct run_plan exact = *plan;
	struct batch b = { .p = p, .conn = conn, .plan = &exact, .mine = mine };
	int ret;

	*mine = *theirs = (struct run_end){ 0 };
	if (exact.op == RUN_PINGPONG)
		exact.depth = 2; /* one place each way */
	ret = run_client(&b, theirs, e);
	if (!ret)
		ret = data_was_right(theirs, "server", e);
	return ret ? ret : data_was_right(mine, "client", e);
}

void run_end_session(struct weir_p2p_conn *conn)
{
	say(conn, "end", NULL);
}

/* What was written is checked afterwards: the last message of each slot. */
static void check_written(struct batch *b)
{
	const struct run_plan *plan = b->plan;
	uint32_t last = plan->count < plan->depth ? plan->count : plan->depth;

	for (uint32_t i = plan->count - last; plan->check && i < plan->count; i++)
		check(b->p, plan->first + i, i % plan->depth, plan->bytes, b->mine);
}

static int serve_one_sided(struct batch *b, struct err *e)
{
	char *text = NULL;
	int ret;

	ret = hear(b->p, b->conn, 3600 * NS_PER_S, &text, e);
	if (ret)
		return ret;
	free(text);
	b->last_ns = clock_ns();
	b->mine->count = b->plan->count;
	b->mine->bytes = b->plan->bytes * b->plan->count;
	batch_over(b);
	if (b->plan->op == RUN_WRITE)
		check_written(b);
	return 0;
}

static int serve_messages(struct batch *b, struct err *e)
{
	char *text = NULL;
	int ret;

	ret = b->plan->op == RUN_PINGPONG ? pong(b, e) : pump(b, true, e);
	if (ret)
		return ret;
	batch_over(b);
	ret = hear(b->p, b->conn, SILENCE_NS, &text, e);
	if (!ret)
		free(text);
	return ret;
}

static int serve_batch(struct batch *b, struct err *e)
{
	char text[64];
	int ret;

	b->p->filled = b->p->filled && b->plan->op == RUN_READ;
	ret = b->plan->op == RUN_READ ? fill(b->p, e) : 0;
	snprintf(text, sizeof(text), "ready key=%" PRIu64, weir_p2p_key(b->p->region));
	if (!ret)
		ret = batch_begin(b, e);
	if (!ret)
		ret = say(b->conn, text, e);
	if (!ret)
		ret = b->plan->op == RUN_SEND || b->plan->op == RUN_PINGPONG
			      ? serve_messages(b, e)
			      : serve_one_sided(b, e);
	return ret ? ret : say_end(b->conn, b->mine, e);
}

static int refuse(struct weir_p2p_conn *conn, struct err *why)
{
	char text[600];

	snprintf(text, sizeof(text), "no %s", why->what);
	return say(conn, text, NULL);
}

/* Whether this can be served: 1; 0: the client was told why not. */
static int prepare(struct party *p, struct weir_p2p_conn *conn, const char *text,
	uint64_t memory_max, struct run_plan *plan)
{
	struct err why = { 0 };

	if (!run_plan_parse(text, plan, &why) &&
		plan->bytes + SHIFT_ROOM + 4096 > memory_max / plan->depth)
		err_set(&why, E2BIG,
			"%u messages of %" PRIu64
			" bytes at once are more memory than a client gets here (--memory-max)",
			plan->depth, plan->bytes);
	else if (!why.code && plan->op != RUN_READ)
		can_check(conn, plan, &why);
	if (!why.code)
		memory_for(p, plan, &why);
	if (why.code)
		refuse(conn, &why);
	return !why.code;
}

/* Whether the last batch was warm-up is not known before the client says what comes after it: it is kept so long. */
struct kept {
	struct run_plan plan;
	struct run_end mine;
	bool any;
	void (*over)(void *context, const struct run_plan *plan, const struct run_end *mine);
	void *context;
};

static void kept_tell(struct kept *k, bool warmup)
{
	if (k->any && !warmup && k->over)
		k->over(k->context, &k->plan, &k->mine);
	run_end_free(&k->mine);
	k->any = false;
}

int run_serve(struct party *p, struct weir_p2p_conn *conn, uint64_t memory_max,
	void (*over)(void *context, const struct run_plan *plan, const struct run_end *mine),
	void *context, struct err *e)
{
	struct kept last = { .over = over, .context = context };
	struct batch b = { .p = p, .conn = conn, .plan = &last.plan, .mine = &last.mine };
	struct run_plan plan;
	char *text = NULL;
	bool good, end;
	int ret;

	for (;;) {
		ret = hear(p, conn, SILENCE_NS, &text, e);
		if (ret)
			break;
		end = !strcmp(text, "end");
		good = !end && prepare(p, conn, text, memory_max, &plan);
		free(text);
		if (end)
			break;
		if (!good)
			continue;
		kept_tell(&last, plan.warmed);
		last.plan = plan;
		ret = serve_batch(&b, e);
		last.any = !ret;
		if (ret)
			break;
	}
	kept_tell(&last, false);
	return ret;
}
