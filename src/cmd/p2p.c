// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p: server, client, mesh, sweep, plugin; and the published names of the first two. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/p2p.h"

volatile bool p2p_stop;

/* The first signal ends what runs, the second ends the process. */
static void on_signal(int number)
{
	p2p_stop = true;
	signal(number, SIG_DFL);
}

static int client_main(const struct p2p_options *o, struct out *out, struct err *e)
{
	struct p2p_client c = { .options = o, .gpu = (int)o->gpu, .show_progress = !o->quiet };
	int ret, status;

	ret = p2p_client_run(&c, e);
	status = p2p_verdict(&c.record);
	if (c.record.local || out->mode == OUT_JSON)
		p2p_emit(&c.record, out);
	if (o->out && p2p_write(&c.record, o->out, e))
		ret = -e->code;
	run_end_free(&c.mine);
	run_end_free(&c.theirs);
	return ret ? ret : status;
}

/* 0, an exit status, or -errno with words. */
static int dispatch(const struct p2p_options *o, struct out *out, struct err *e)
{
	switch (o->role) {
	case P2P_SERVER:
		return p2p_serve(o, (int)o->gpu, NULL, out, e);
	case P2P_CLIENT:
		return client_main(o, out, e);
	case P2P_MESH:
		return p2p_mesh_main(o, out, e);
	case P2P_SWEEP:
		return p2p_sweep_main(o, out, e);
	default:
		return p2p_plugin_main(o, out, e);
	}
}

static int p2p_main(int argc, char **argv)
{
	struct p2p_options o = { 0 };
	struct err e = { 0 };
	struct out out;
	int ret;

	log_set_program("weir p2p");
	ret = p2p_options_parse(argc, argv, &o, &e);
	if (!ret && !o.help)
		ret = file_try(o.out, "out", &e);
	if (ret) {
		if (!e.hint[0])
			err_hint(&e, "usage: weir p2p %s", p2p_option_table.usage);
		log_error_err(&e);
		return STATUS_USAGE;
	}
	log_set_level(o.verbose		      ? LOG_LEVEL_DEBUG
		      : isatty(STDERR_FILENO) ? LOG_LEVEL_INFO
					      : LOG_LEVEL_WARN);
	out_init(&out, stdout, o.json && !o.help ? OUT_JSON : OUT_TEXT);
	if (o.help) {
		opt_help(&p2p_option_table, &out);
		return STATUS_GOOD;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	ret = dispatch(&o, &out, &e);
	log_progress(NULL);
	if (ret < 0) {
		log_error_err(&e);
		ret = STATUS_FAILED;
	}
	if (out_finish(&out, &e)) {
		log_error_err(&e);
		ret = STATUS_FAILED;
	}
	return ret;
}

int cmd_p2p(int argc, char **argv)
{
	return p2p_main(argc, argv);
}

/* The published command lines: "server 0", "client IP 0"; the other one takes no GPU and does all. Both serve
 * one client, and take their settings from the environment. */
int p2p_as_published(bool orchestrator, int argc, char **argv)
{
	char *words[16] = { "p2p" };
	int n = 1;

	if (argc < 2 || (strcmp(argv[1], "server") != 0 && strcmp(argv[1], "client") != 0)) {
		fprintf(stderr, "usage: %s server%s | client IP%s\n", argv[0],
			orchestrator ? "" : " GPU", orchestrator ? "" : " [GPU]");
		return STATUS_USAGE;
	}
	words[n++] = orchestrator ? "mesh" : argv[1];
	for (int i = 2; i < argc && n < 12; i++)
		words[n++] = argv[i];
	if (!strcmp(argv[1], "server"))
		words[n++] = "--once";
	return p2p_main(n, words);
}
