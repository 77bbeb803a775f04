/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap and the frames of the p2p engine, what the ends of a run tell each other, and a whole connection
 * that gets arbitrary frames from its peer: no byte outside a registered region may change. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "xfer/engine.h"
#include "xfer/run.h"

static void try_bootstrap(const uint8_t *data, size_t size)
{
	struct xfer_hello h, asked = { .version = XFER_VERSION, .channels = 1, .window = 1 };
	uint8_t token[WEIR_P2P_TOKEN_MAX] = { 0 }, again[XFER_HELLO_BYTES];
	uint8_t hello[XFER_HELLO_BYTES] = { 0 }, welcome[XFER_WELCOME_BYTES] = { 0 };
	struct xfer_welcome w;
	struct err e = { 0 };

	memcpy(hello, data, size < sizeof(hello) ? size : sizeof(hello));
	memcpy(welcome, data, size < sizeof(welcome) ? size : sizeof(welcome));
	if (!xfer_hello_decode(hello, &h, &e) && h.version == XFER_VERSION) {
		if (xfer_hello_judge(&h, token, 0, "tcp") == XFER_WELCOME)
			MUST(h.channels >= 1 && h.channels <= WEIR_P2P_CHANNELS_MAX &&
				h.window >= 1 && h.window <= WEIR_P2P_WINDOW_MAX &&
				h.chunk_bytes >= 4096);
		xfer_hello_encode(&h, again);
		MUST(!memcmp(again + 16, hello + 16, 60));
	}
	if (!xfer_welcome_decode(welcome, &asked, &w, &e))
		MUST(w.channels >= 1 && w.channels <= WEIR_P2P_CHANNELS_MAX && !w.refusal);
	else
		MUST(e.code && e.what[0]);
}

static void try_frames(const uint8_t *data, size_t size)
{
	while (size) {
		int64_t length = xfer_frame_length(data, size);
		uint8_t head[XFER_HEAD_MAX], *exact;
		struct xfer_frame f;
		struct err e = { 0 };
		size_t n;

		if (length <= 0 || (size_t)length > size)
			return;
		exact = malloc((size_t)length);
		MUST(exact);
		memcpy(exact, data, (size_t)length);
		if (!xfer_frame_decode(exact, (size_t)length, &f, &e)) {
			MUST(f.data >= exact && f.data + f.data_bytes <= exact + length);
			n = xfer_frame_encode(&f, head);
			MUST(n + f.data_bytes == (size_t)length && !memcmp(head, exact, 8));
		} else {
			MUST(e.code == EPROTO);
		}
		free(exact);
		data += length;
		size -= (size_t)length;
	}
}

static void try_run_text(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);
	struct run_plan plan;
	struct run_end end;
	struct err e = { 0 };

	if (!run_plan_parse(text, &plan, &e))
		MUST(plan.op < RUN_OPS && plan.count && plan.count <= RUN_COUNT_MAX && plan.depth &&
			plan.depth <= RUN_DEPTH_MAX);
	if (!run_end_parse(text, &end, &e))
		MUST(end.times <= RUN_TIMES_MAX);
	run_end_free(&end);
	free(text);
}

/* A transport whose receives are done at once, with nothing in them. */
static int done_at_once(
	struct net_comm *c, struct net_request *r, bool *done, size_t *bytes, struct err *e)
{
	(void)c, (void)r, (void)bytes, (void)e;
	*done = true;
	return 0;
}
static int reg(struct net_comm *c, void *data, size_t bytes, enum net_memory_kind kind,
	struct net_memory **m, struct err *e)
{
	(void)c, (void)data, (void)bytes, (void)kind, (void)e;
	*m = (struct net_memory *)m;
	return 0;
}
static int dereg(struct net_comm *c, struct net_memory *m, struct err *e)
{
	(void)c, (void)m, (void)e;
	return 0;
}
static int irecv(struct net_comm *c, void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e)
{
	(void)c, (void)m, (void)e;
	memset(data, 0xee, bytes);
	*r = (struct net_request *)data;
	return 0;
}
static int isend(struct net_comm *c, const void *data, size_t bytes, struct net_memory *m,
	struct net_request **r, struct err *e)
{
	static uint8_t seen[1 << 16];

	(void)c, (void)m, (void)e;
	memcpy(seen, data, bytes < sizeof(seen) ? bytes : sizeof(seen)); /* it can be read */
	*r = (struct net_request *)r;
	return 0;
}
static void nothing(struct net_comm *c)
{
	(void)c;
}
static void nothing_net(struct net *n)
{
	(void)n;
}

#define INSIDE 65536
#define EDGE   4096

/* The key of the only region is the fuzzer's to find: its random part is taken out. */
static void try_connection(const uint8_t *data, size_t size)
{
	static const struct net_ops ops = { .name = "fuzz",
		.close = nothing_net,
		.close_comm = nothing,
		.reg = reg,
		.dereg = dereg,
		.irecv = irecv,
		.isend = isend,
		.test = done_at_once };
	struct net net = { .ops = &ops, .devices = 1 };
	uint8_t *memory = malloc(INSIDE + 2 * EDGE);
	struct weir_p2p *p = calloc(1, sizeof(*p));
	struct weir_p2p_config config;
	struct weir_p2p_region *region;
	struct weir_p2p_transfer *t;
	struct weir_p2p_conn *c;
	int fd[2];

	MUST(memory && p);
	memset(memory, 0x11, INSIDE + 2 * EDGE);
	weir_p2p_config_init(&config);
	MUST(!engine_open(p, &config, &net, NULL));
	MUST(!weir_p2p_register(p, memory + EDGE, INSIDE, WEIR_P2P_HOST, 3, &region, NULL));
	region->key = 0;
	MUST(!conn_new(p, &c, NULL));
	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd));
	MUST(!link_open(&c->link, fd[0], NULL));
	c->agreed = (struct xfer_welcome){ .channels = 2, .window = 4, .chunk_bytes = 4096 };
	c->out = calloc(2, sizeof(*c->out));
	c->in = calloc(2, sizeof(*c->in));
	for (int i = 0; i < 2; i++) {
		struct channel *way[2] = { &c->out[i], &c->in[i] };

		for (int k = 0; k < 2; k++) {
			way[k]->comm = (struct net_comm *)memory;
			way[k]->memory = calloc(REGIONS_MAX, sizeof(*way[k]->memory));
			window_init(&way[k]->posted, 4);
			window_init(&way[k]->granted, 4);
		}
		c->in_window[i] = &c->in[i].posted;
	}
	c->state = CONN_READY;
	MUST(!weir_p2p_recv(c, region, 0, 1000, &t, NULL));
	MUST(!weir_p2p_recv(c, region, 0, INSIDE, &t, NULL));
	MUST(!weir_p2p_send(c, region, 0, INSIDE, &t, NULL));
	MUST(!weir_p2p_write(c, region, 0, 5000, 1, 0, &t, NULL));
	MUST(!weir_p2p_read(c, region, 0, INSIDE, 1, 0, &t, NULL));
	if (size > 60000)
		size = 60000;
	MUST(send(fd[1], data, size, MSG_DONTWAIT) == (ssize_t)size);
	for (int i = 0; i < 50 && c->state == CONN_READY; i++) {
		weir_p2p_progress(p);
		while (recv(fd[1], memory, EDGE, MSG_DONTWAIT) > 0)
			memset(memory, 0x11, EDGE);
	}
	for (int i = 0; i < EDGE; i++)
		MUST(memory[i] == 0x11 && memory[EDGE + INSIDE + i] == 0x11);
	close(fd[1]);
	engine_close(p);
	free(p);
	free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_bootstrap(data, size);
	try_frames(data, size);
	try_run_text(data, size);
	try_connection(data, size);
	return 0;
}
