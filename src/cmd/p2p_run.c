// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p: one run of a client, and the serving of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/p2p.h"

static struct weir_error *pub(struct err *e)
{
	return (struct weir_error *)e;
}

/* "[=========>          ] 9 of 20   10.1 GB/s" */
static void show_progress(void *context, uint32_t done, uint32_t count)
{
	static uint64_t shown_ns;
	const struct p2p_client *c = context;
	uint64_t now_ns = clock_ns();
	char bar[] = "                    ", line[128];
	double seconds = (double)(now_ns - c->begin_ns) / 1e9;
	size_t filled = (size_t)done * (sizeof(bar) - 1) / count;

	if (now_ns - shown_ns < 100 * NS_PER_MS)
		return;
	shown_ns = now_ns;
	memset(bar, '=', filled);
	snprintf(line, sizeof(line), "GPU %d [%s] %u of %u   %.2f GB/s", c->gpu, bar, done, count,
		seconds > 0 ? (double)done * (double)c->record.plan.bytes / seconds / 1e9 : 0);
	log_progress(line);
}

static int connect_to_server(
	struct p2p_client *c, struct party *p, struct weir_p2p_conn **conn, struct err *e)
{
	const struct p2p_options *o = c->options;
	int peer = o->peer_gpu >= 0 ? (int)o->peer_gpu : c->gpu;
	uint64_t until_ns = clock_ns() + o->timeout + NS_PER_S;
	int ret;

	c->record.peer_gpu = peer;
	ret = weir_p2p_connect(p->p2p, o->host, p2p_port(o, peer), conn, pub(e));
	while (!ret && !(ret = weir_p2p_connected(*conn, pub(e)))) {
		if (p2p_stop || clock_ns() > until_ns)
			return err_set(e, EINTR, "interrupted");
		weir_p2p_sleep(p->p2p, 100 * NS_PER_MS);
	}
	snprintf(c->record.peer, sizeof(c->record.peer), "%s",
		ret < 0 ? o->host : weir_p2p_peer(*conn));
	return ret < 0 ? ret : 0;
}

static void note_agreed(struct p2p_client *c, struct weir_p2p_conn *conn)
{
	struct weir_p2p_stats s;

	weir_p2p_conn_stats(conn, &s);
	c->record.channels = s.channels;
	c->record.window = s.window;
	c->record.chunk_bytes = s.chunk_bytes;
	c->record.sockets = s.sockets;
}

/* As many messages as were asked for, or as take so long: twice as many each time until they take at least half of it.
 * How fast others let this run go is not known before they all run. What was not enough was warm-up. */
static int run_measured(
	struct p2p_client *c, struct party *p, struct weir_p2p_conn *conn, struct err *e)
{
	uint64_t length_ns = c->options->length;
	struct run_plan *plan = &c->record.plan;
	int ret;

	if (length_ns)
		plan->count = 1;
	for (;;) {
		c->begin_ns = clock_ns();
		ret = run_batch(p, conn, plan, &c->mine, &c->theirs, e);
		c->end_ns = clock_ns();
		if (ret || c->end_ns - c->begin_ns >= length_ns / 2 ||
			plan->count > RUN_COUNT_MAX / 2)
			return ret;
		run_end_free(&c->mine);
		run_end_free(&c->theirs);
		c->record.warmup += plan->count;
		plan->first += plan->count;
		plan->count *= 2;
		plan->warmed = true;
	}
}

static int run_all(struct p2p_client *c, struct party *p, struct weir_p2p_conn *conn, struct err *e)
{
	struct run_plan warm = c->record.plan;
	int ret = 0;

	warm.count = c->record.warmup;
	if (warm.count) {
		ret = run_batch(p, conn, &warm, &c->mine, &c->theirs, e);
		run_end_free(&c->mine);
		run_end_free(&c->theirs);
	}
	if (ret)
		return ret;
	c->record.plan.first = warm.count;
	c->record.plan.warmed = warm.count > 0;
	if (c->show_progress) {
		p->progress = show_progress;
		p->context = c;
	}
	ret = run_measured(c, p, conn, e);
	if (c->mine.time_ns)
		c->record.local = &c->mine;
	if (c->theirs.time_ns)
		c->record.remote = &c->theirs;
	note_agreed(c, conn);
	if (c->record.local && c->record.remote) /* of the end that received */
		c->record.unpack =
			c->record.plan.op == RUN_READ ? c->mine.unpack : c->theirs.unpack;
	if (!ret)
		run_end_session(conn);
	return ret;
}

int p2p_client_run(struct p2p_client *c, struct err *e)
{
	const struct p2p_options *o = c->options;
	struct weir_p2p_config config;
	struct party p = { .stop = &p2p_stop };
	struct weir_p2p_conn *conn = NULL;
	struct mem_where where;
	char index[16];
	int ret;

	c->record = (struct p2p_record){ .role = "client",
		.transport = c->transport,
		.unpack = "none needed",
		.gpu = c->gpu,
		.started_wall_ns = clock_wall_ns(),
		.warmup = (uint32_t)o->warmup,
		.plan = { .op = (enum run_op)o->op,
			.bytes = o->size,
			.count = (uint32_t)o->iterations,
			.depth = o->op == RUN_PINGPONG ? 1 : (uint32_t)o->depth,
			.check = !o->no_check } };
	p2p_config(o, c->gpu, c->devices, &config, &p.where, index);
	where = p.where;
	ret = party_open(&p, &config, &where, e);
	snprintf(c->transport, sizeof(c->transport), "%s", ret ? "?" : weir_p2p_transport(p.p2p));
	if (!ret)
		ret = connect_to_server(c, &p, &conn, e);
	if (!ret)
		ret = run_all(c, &p, conn, e);
	if (conn)
		weir_p2p_disconnect(conn);
	log_progress(NULL);
	party_close(&p);
	if (ret) {
		snprintf(c->error, sizeof(c->error), "%s", e->what);
		c->record.error = c->error;
	}
	return ret;
}

struct serving {
	const struct p2p_options *options;
	struct weir_p2p_conn *conn;
	const char *transport;
	struct out *out;
	int gpu;
};

/* A batch that a client ran here. */
static void batch_over(void *context, const struct run_plan *plan, const struct run_end *mine)
{
	struct serving *s = context;
	struct p2p_record r = { .role = "server",
		.transport = s->transport,
		.unpack = mine->unpack,
		.gpu = s->gpu,
		.peer_gpu = -1,
		.started_wall_ns = clock_wall_ns(),
		.plan = *plan,
		.chunk_bytes = mine->stats.chunk_bytes,
		.channels = mine->stats.channels,
		.sockets = mine->stats.sockets,
		.window = mine->stats.window,
		.local = mine };
	double rate = p2p_rate(&r);
	char bytes[UNITS_TEXT];

	snprintf(r.peer, sizeof(r.peer), "%s", weir_p2p_peer(s->conn));
	if (s->options->quiet || !s->out)
		return;
	if (s->out->mode == OUT_JSON)
		p2p_emit(&r, s->out);
	else
		out_text(s->out, "GPU %d: %s of %s x %u from %s: %.3f GB/s, %.3f GiB/s%s\n", s->gpu,
			run_op_name[plan->op], units_format_bytes(bytes, (double)plan->bytes),
			plan->count, r.peer, rate / 1e9, rate / 1073741824.0,
			mine->wrong ? ", DATA WRONG" : "");
	fflush(s->out->file);
}

static void note_refused(struct weir_p2p *p2p, unsigned int *before)
{
	struct err why = { 0 };
	unsigned int now = weir_p2p_refused(p2p, pub(&why));

	if (now != *before)
		log_warn("refused a client: %s", why.what);
	*before = now;
}

static int serve_clients(
	const struct p2p_options *o, int gpu, struct party *p, struct out *out, struct err *e)
{
	struct serving s = {
		.options = o, .gpu = gpu, .out = out, .transport = weir_p2p_transport(p->p2p)
	};
	unsigned int refused = 0;
	struct weir_p2p_conn *conn;
	int ret;

	while (!p2p_stop) {
		struct err why = { 0 };

		if (weir_p2p_accept(p->p2p, &conn, NULL)) {
			weir_p2p_sleep(p->p2p, 100 * NS_PER_MS);
			note_refused(p->p2p, &refused);
			continue;
		}
		s.conn = conn;
		ret = run_serve(p, conn, o->memory_max, batch_over, &s, &why);
		if (ret == -EINTR)
			ret = 0;
		if (ret)
			log_warn("the run with %s did not complete: %s", weir_p2p_peer(conn),
				why.what);
		weir_p2p_disconnect(conn);
		if (o->once) {
			if (ret && e)
				*e = why;
			return ret;
		}
	}
	return 0;
}

int p2p_serve(
	const struct p2p_options *o, int gpu, const char *devices, struct out *out, struct err *e)
{
	struct weir_p2p_config config;
	struct party p = { .stop = &p2p_stop };
	struct mem_where where;
	char index[16];
	int ret;

	p2p_config(o, gpu, devices, &config, &where, index);
	ret = party_open(&p, &config, &where, e);
	if (!ret)
		ret = weir_p2p_listen(p.p2p, o->listen, p2p_port(o, gpu), pub(e));
	if (!ret) {
		log_info("GPU %d listens on port %u", gpu, weir_p2p_port(p.p2p));
		ret = serve_clients(o, gpu, &p, out, e);
	}
	party_close(&p);
	return ret;
}
