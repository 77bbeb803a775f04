// SPDX-License-Identifier: BSD-3-Clause
/* One end of a measurement: this very program once more, as a process of its own, so that a run takes nothing from the
 * threads that probe and no fault of it ends the agent. What it is told is made here, word by word; nothing of a
 * request but numbers and addresses that were parsed gets into it. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "probe/agent_parts.h"
#include "sys/gpu.h"

#define RUNS_MAX      256
#define RUN_MIN_NS    (100 * NS_PER_MS)
#define RUN_MAX_NS    (60 * NS_PER_S)
#define RUN_FLOWS_MAX 64
#define RUN_GRACE_NS  (20 * NS_PER_S) /* to be connected, and to end */
#define OUTPUT_MAX    (2u << 20)
#define WORDS_MAX     32
#define P2P_MESSAGE   "8M"

struct run {
	struct list link;
	struct agent *agent;
	struct rpc_call *call; /* of a client that is waited for; NULL: nobody waits */
	pid_t pid;
	struct loop_fd output;
	struct loop_timer deadline;
	char *text; /* what it printed */
	size_t length, room;
};

/* The process */

int agent_name_parent(struct err *e)
{
	char parent[16];

	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	return setenv("WEIR_PARENT", parent, 1) ? err_set(e, ENOMEM, "no memory for the agent") : 0;
}

static int spawn(struct run *r, char *const *words, struct err *e)
{
	posix_spawn_file_actions_t files;
	int pipe_fd[2], ret;

	if (pipe2(pipe_fd, O_CLOEXEC))
		return err_set(e, errno, "cannot make a pipe: %m");
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, pipe_fd[1], 1);
	posix_spawn_file_actions_adddup2(&files, pipe_fd[1], 2);
	ret = posix_spawn(&r->pid, "/proc/self/exe", &files, NULL, words, environ);
	posix_spawn_file_actions_destroy(&files);
	close(pipe_fd[1]);
	if (ret) {
		close(pipe_fd[0]);
		return err_set(e, ret, "cannot start a run: %s", strerror(ret));
	}
	r->output.fd = pipe_fd[0];
	return 0;
}

static void free_run(struct run *r)
{
	loop_timer_cancel(&r->agent->loop, &r->deadline);
	loop_remove(&r->agent->loop, &r->output);
	close(r->output.fd);
	kill(r->pid, SIGKILL); /* it has closed its output: it is at its end */
	waitpid(r->pid, NULL, 0);
	list_del(&r->link);
	r->agent->run_count--;
	free(r->text);
	free(r);
}

void agent_kill_runs(struct agent *a)
{
	struct list *l, *next;

	for (l = a->runs.next; l != &a->runs; l = next) {
		struct run *r = container_of(l, struct run, link);

		next = l->next;
		if (r->call)
			rpc_call_finish(r->call, RPC_UNAVAILABLE, "the agent shuts down");
		free_run(r);
	}
}

/* What it printed: lines of JSON, the last of them its record, and words of complaint. */

static void last_lines(struct run *r, char **record, char **words)
{
	char *rest = r->text, *line;

	*record = *words = NULL;
	while (rest && (line = strsep(&rest, "\n")))
		if (line[0])
			*(line[0] == '{' ? record : words) = line;
}

/* Of the record of a run of ours: the figure that stands at its top. */
static double rate_of(const char *record)
{
	const char *bits = strstr(record, "\"throughput_bps\":");
	const char *bytes = strstr(record, "\"bytes_per_s\":");

	if (bits)
		return strtod(bits + strlen("\"throughput_bps\":"), NULL);
	return bytes ? 8 * strtod(bytes + strlen("\"bytes_per_s\":"), NULL) : 0;
}

/* Of one end of it: how long it waited for a CPU. */
static uint64_t starved_ns_of(const char *record, const char *end)
{
	const char *at = strstr(record, end), *ns = at ? strstr(at, "\"starved_ns\":") : NULL;

	return ns ? strtoull(ns + strlen("\"starved_ns\":"), NULL, 10) : 0;
}

static void answer(struct run *r)
{
	Weir__V1__RunReply reply = WEIR__V1__RUN_REPLY__INIT;
	char *words, *record;

	last_lines(r, &record, &words);
	reply.bits_per_s = record ? rate_of(record) : 0;
	if (record && reply.bits_per_s > 0) {
		reply.record = record;
		reply.starved_ns = starved_ns_of(record, "\"local\":");
		reply.peer_starved_ns = starved_ns_of(record, "\"remote\":");
		rpc_call_reply(r->call, &reply.base);
	} else {
		if (words)
			text_one_line(words);
		rpc_call_finish(r->call, RPC_UNKNOWN, "%.200s",
			words ? words : "the run ended without a result");
	}
	r->call = NULL;
}

static void output_ready(struct loop *l, struct loop_fd *source, uint32_t events)
{
	struct run *r = container_of(source, struct run, output);
	size_t room = r->room ? r->room * 2 : 16384;
	ssize_t n;
	char *more;

	(void)l;
	(void)events;
	if (r->room - r->length < 2) {
		more = room <= OUTPUT_MAX ? realloc(r->text, room) : NULL;
		if (!more) {
			r->length = 0; /* too much to be one of ours: what comes last counts */
		} else {
			r->text = more;
			r->room = room;
		}
	}
	if (!r->room)
		return;
	n = read(source->fd, r->text + r->length, r->room - r->length - 1);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		r->length += (size_t)n;
		r->text[r->length] = '\0';
		return;
	}
	if (r->call)
		answer(r);
	free_run(r);
}

static void too_late(struct loop *l, struct loop_timer *timer)
{
	struct run *r = container_of(timer, struct run, deadline);

	(void)l;
	if (r->call)
		rpc_call_finish(r->call, RPC_DEADLINE_EXCEEDED, "the run did not end in time");
	free_run(r);
}

static void caller_gone(struct rpc_call *call, void *context)
{
	rpc_call_finish(call, RPC_CANCELLED, "the controller has gone");
	free_run(context);
}

/* The words */

struct words {
	char *word[WORDS_MAX + 1];
	size_t count;
	char text[WORDS_MAX][SOCK_ADDR_TEXT];
};

static void say(struct words *w, const char *format, const char *text, unsigned long long number)
{
	if (w->count == WORDS_MAX)
		return;
	/* One of the two is in the format. */
	if (text)
		snprintf(w->text[w->count], sizeof(w->text[0]), "%s%s", format, text);
	else
		snprintf(w->text[w->count], sizeof(w->text[0]), "%s%llu", format, number);
	w->word[w->count] = w->text[w->count];
	w->count++;
}

unsigned int agent_gpu_of(size_t nic)
{
	struct gpu *gpus = NULL;
	size_t count = 0;

	if (gpu_list(&gpus, &count, NULL))
		count = 0;
	free(gpus);
	return count ? (unsigned int)(nic % count) : 0;
}

static void words_stream(struct words *w, const Weir__V1__RunRequest *q, const char *local,
	const char *peer, uint16_t port, uint16_t data_port)
{
	char length[32];

	snprintf(length, sizeof(length), "%.3f", (double)q->length_ns / 1e9);
	say(w, "stream", "", 0);
	say(w, "--host=", q->serves ? local : peer, 0);
	say(w, "--control-port=", NULL, port);
	say(w, "--port=", NULL, data_port);
	if (q->serves) {
		say(w, "--once", "", 0);
		return;
	}
	say(w, "--client", "", 0);
	say(w, "--local-hosts=", local, 0);
	say(w, "--num-flows=", NULL, q->flows);
	say(w, "--test-length=", length, 0);
	say(w, "--connect-timeout=", NULL, 10);
	say(w, "--json", "", 0);
}

static void words_p2p(struct words *w, const Weir__V1__RunRequest *q, const char *local,
	const char *peer, uint16_t port, unsigned int gpu)
{
	char length[32];

	snprintf(length, sizeof(length), "%.3fs", (double)q->length_ns / 1e9);
	say(w, "p2p", "", 0);
	say(w, q->serves ? "server" : "client", "", 0);
	if (!q->serves)
		say(w, peer, "", 0);
	say(w, "", NULL, gpu);
	say(w, "--port-base=", NULL, port - gpu);
	/* A tournament runs beside jobs, and the queues of a NIC that lead to device memory are theirs. */
	say(w, "--path=staged", "", 0);
	if (q->serves) {
		say(w, "--listen=", local, 0);
		say(w, "--once", "", 0);
		return;
	}
	say(w, "--size=" P2P_MESSAGE, "", 0);
	say(w, "--length=", length, 0);
	say(w, "--channels=", NULL, q->flows);
	say(w, "--json", "", 0);
}

/* A port of the NIC that nobody has now. */
static int free_port(const struct sock_addr *at, uint16_t *port)
{
	struct sock_addr got = *at;
	int fd = socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), ret = 0;

	sock_addr_set_port(&got, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&got.storage, got.len) ||
		getsockname(fd, (struct sockaddr *)&got.storage, &got.len))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	*port = ntohs(((struct sockaddr_in *)&got.storage)->sin_port);
	return ret;
}

static bool is_possible(
	const struct agent *a, const Weir__V1__RunRequest *q, const struct sock_addr *local)
{
	struct sock_addr peer;

	return probe_engine_nic(a->engine, local) >= 0 && q->length_ns >= RUN_MIN_NS &&
	       q->length_ns <= RUN_MAX_NS && q->flows <= RUN_FLOWS_MAX &&
	       (q->serves || (q->port && q->port < 65536 && q->data_port < 65536 && q->flows &&
				     agent_parse_address(q->peer_address, &peer)));
}

static int begin(struct agent *a, struct run *r, const Weir__V1__RunRequest *q,
	const struct sock_addr *local, Weir__V1__RunReply *reply, struct err *e)
{
	struct words w = { .count = 0 };
	unsigned int gpu = agent_gpu_of((size_t)probe_engine_nic(a->engine, local));
	uint16_t port = (uint16_t)q->port, data_port = (uint16_t)q->data_port;
	int ret = 0;

	if (q->serves)
		ret = free_port(local, &port);
	if (!ret && q->serves)
		ret = free_port(local, &data_port);
	if (ret)
		return err_set(e, -ret, "no free port at %s", q->local_address);
	say(&w, "weir", "", 0);
	if (q->kind == WEIR__V1__RUN_KIND__RUN_P2P)
		words_p2p(&w, q, q->local_address, q->peer_address, port, gpu);
	else
		words_stream(&w, q, q->local_address, q->peer_address, port, data_port);
	reply->port = port;
	reply->data_port = data_port;
	ret = spawn(r, w.word, e);
	if (ret)
		return ret;
	ret = loop_add(&a->loop, &r->output, r->output.fd, EPOLLIN, output_ready, e);
	if (ret) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
		close(r->output.fd);
		return ret;
	}
	loop_timer_set(&a->loop, &r->deadline, clock_ns() + q->length_ns + RUN_GRACE_NS, too_late);
	return 0;
}

void agent_run_end(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	const Weir__V1__RunRequest *q = (const void *)message;
	Weir__V1__RunReply reply = WEIR__V1__RUN_REPLY__INIT;
	struct agent *a = context;
	struct sock_addr local;
	struct err e = { 0 };
	struct run *r;

	if (!agent_parse_address(q->local_address, &local) || !is_possible(a, q, &local)) {
		rpc_call_finish(call, RPC_INVALID_ARGUMENT,
			"a run is between NICs of agents, for 0.1 to 60 s, with up to %d flows",
			RUN_FLOWS_MAX);
		return;
	}
	r = a->run_count < RUNS_MAX && !a->stopping ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		rpc_call_finish(
			call, RPC_RESOURCE_EXHAUSTED, "%d runs at once are enough", RUNS_MAX);
		return;
	}
	r->agent = a;
	list_init(&r->link);
	if (begin(a, r, q, &local, &reply, &e)) {
		free(r);
		rpc_call_finish(call, RPC_INTERNAL, "%s", e.what);
		return;
	}
	list_add(&a->runs, &r->link);
	a->run_count++;
	if (q->serves) {
		rpc_call_reply(call, &reply.base);
		return;
	}
	r->call = call;
	rpc_call_on_cancel(call, caller_gone, r);
}
