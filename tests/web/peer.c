// SPDX-License-Identifier: BSD-3-Clause
/* A web server with metrics, for tests that read them: prints "port N", serves until SIGTERM.
 *
 *	peer NAME     the value of the label node
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "web/metrics.h"
#include "web/server.h"

static struct loop loop;
static struct hist rtt;
static uint64_t scrapes;

static int metrics_page(struct web_text *text, void *context)
{
	struct metrics_label label[] = { { "node", context }, { "nic", "eth\"1\"" } };
	struct metrics m = { .text = text };

	scrapes++;
	metrics_family(&m, "weir_test_scrapes_total", METRICS_COUNTER, "How often this was read");
	metrics_count(&m, scrapes, label, 2);
	metrics_family(&m, "weir_test_rtt_seconds", METRICS_HISTOGRAM, "Round trips");
	metrics_hist(&m, &rtt, label, 2);
	metrics_process(&m);
	return 0;
}

static int broken_page(struct web_text *text, void *context)
{
	(void)context;
	web_text_format(text, "half of it");
	return -1;
}

static void signalled(struct loop *l, struct loop_fd *source, uint32_t events)
{
	(void)source;
	(void)events;
	loop_stop(l);
}

int main(int argc, char **argv)
{
	static const struct web_page pages[] = { { "/metrics", METRICS_TYPE, metrics_page },
		{ "/broken", "text/plain", broken_page } };
	struct sock_addr addr[SOCK_ADDRS];
	struct loop_fd signals;
	struct web_server *server;
	struct err e = { 0 };
	size_t count;
	sigset_t set;
	int port, ret;

	hist_init(&rtt);
	for (uint64_t i = 1; i <= 1000; i++)
		hist_record(&rtt, i * 10000);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	ret = loop_init(&loop, NULL, &e);
	if (!ret)
		ret = loop_add(
			&loop, &signals, signalfd(-1, &set, SFD_CLOEXEC), EPOLLIN, signalled, &e);
	if (!ret)
		ret = sock_resolve("127.0.0.1", "0", AF_INET, true, addr, &count, &e);
	if (!ret)
		ret = web_server_new(&server, &loop, pages, 2, argc > 1 ? argv[1] : "x", &e);
	if (ret) {
		fprintf(stderr, "peer: %s\n", e.what);
		return ret == -ENOTSUP ? 77 : 1;
	}
	port = web_server_listen(server, &addr[0], false, &e);
	printf("port %d\n", port);
	fflush(stdout);
	ret = port < 0 ? port : loop_run(&loop, &e);
	web_server_free(server);
	close(signals.fd);
	loop_close(&loop);
	return ret ? 1 : 0;
}
