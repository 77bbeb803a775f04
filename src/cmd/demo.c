// SPDX-License-Identifier: BSD-3-Clause
/* weir demo: stream, rr and crr between two processes of this machine, over loopback. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "net/sock.h"

#define DEMO_WORDS 16

static int words_count(char **words)
{
	int n = 0;

	while (words[n])
		n++;
	return n;
}

/* Two ports that nobody uses now: the kernel chooses, we let go. */
static int free_port(void)
{
	struct sock_listen how = { .backlog = 1 };
	struct sock_addr addr[SOCK_ADDRS];
	size_t count;
	int fd, port = -1;

	if (sock_resolve("127.0.0.1", "0", AF_INET, true, addr, &count, NULL))
		return -1;
	fd = sock_listen(&addr[0], &how, NULL);
	if (fd < 0)
		return -1;
	if (!sock_local(fd, &addr[0]))
		port = sock_addr_port(&addr[0]);
	close(fd);
	return port;
}

static int demo_one(enum workload w, char *flows, char *threads)
{
	char control[8], data[8];
	char *server[DEMO_WORDS] = { "demo", "--once", "-H", "127.0.0.1", "-C", control, "-P", data,
		"--quiet", "--json", NULL };
	char *client[DEMO_WORDS] = { "demo", "-c", "-H", "127.0.0.1", "-C", control, "-P", data,
		"-F", flows, "-T", threads, "-l", "2", NULL };
	int status, there = 0;
	pid_t child;

	snprintf(control, sizeof(control), "%d", free_port());
	snprintf(data, sizeof(data), "%d", free_port());
	printf("$ weir %s -c -H 127.0.0.1 -F %s -T %s -l 2\n\n", workload_name[w], flows, threads);
	fflush(stdout);
	child = fork();
	if (child < 0) {
		log_error("cannot start a server: %s", strerror(errno));
		return STATUS_FAILED;
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (!freopen("/dev/null", "w", stdout))
			_exit(STATUS_FAILED);
		_exit(traffic_main(w, false, words_count(server), server));
	}
	status = traffic_main(w, false, words_count(client), client);
	if (status)
		kill(child, SIGTERM);
	waitpid(child, &there, 0);
	printf("\n");
	return status;
}

struct options {
	bool help;
};

static const struct opt opts[] = {
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct options, help),
		.section = "options",
		.help = "show this help" },
	{ 0 },
};

const struct opt_table demo_option_table = {
	.command = "demo",
	.usage = "[--help]",
	.summary = "stream, rr and crr between two processes of this machine, 2 s each",
	.opts = opts,
};

int cmd_demo(int argc, char **argv)
{
	int status, worst = STATUS_GOOD;
	struct options o = { 0 };
	struct opt_given given;
	struct err e = { 0 };
	struct out out;

	log_set_program("weir demo");
	if (opt_parse(&demo_option_table, argc, argv, &o, &given, &e)) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (o.help) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&demo_option_table, &out);
		return STATUS_GOOD;
	}
	printf("weir demo: a server and a client on this machine, over loopback\n\n");
	status = demo_one(WORKLOAD_RR, "1", "1");
	worst = status == STATUS_FAILED ? status : worst;
	status = demo_one(WORKLOAD_CRR, "4", "1");
	worst = status == STATUS_FAILED ? status : worst;
	status = demo_one(WORKLOAD_STREAM, "4", "1");
	worst = status == STATUS_FAILED ? status : worst;
	return worst;
}
