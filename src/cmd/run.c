// SPDX-License-Identifier: BSD-3-Clause
/* weir run -- COMMAND: a command between two snapshots of all counters. It keeps its input, output and
 * exit status; what weir has to say goes to stderr, or into a file. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "counters/collector.h"
#include "counters/difference.h"
#include "counters/finding.h"
#include "counters/follow.h"

#define COMMAND_SCHEMA "weir/command/1"
#define NOT_FOUND      127 /* as shells say it */
#define NOT_STARTED    126

struct run_options {
	const char *source, *object, *rules, *out;
	int64_t most;
	bool all, quiet, json, help;
};

static const struct opt opts[] = {
	{ .name = "out",
		OPT_FIELD(OPT_STRING, struct run_options, out),
		.arg = "FILE",
		.help = "write the record to FILE, as JSON (schema/command-1.json)" },
	{ .name = "json",
		OPT_FIELD(OPT_BOOL, struct run_options, json),
		.help = "the record as JSON on stderr, instead of text" },
	{ .name = "quiet",
		.letter = 'q',
		OPT_FIELD(OPT_BOOL, struct run_options, quiet),
		.help = "findings only, no counters" },
	{ .name = "most",
		OPT_FIELD(OPT_INT, struct run_options, most),
		.arg = "N",
		.initial = "5",
		.min = 0,
		.max = 1000000,
		.help = "counters of each object that are shown, the largest first; 0 is all" },
	{ .name = "all",
		OPT_FIELD(OPT_BOOL, struct run_options, all),
		.help = "also counters that did not move" },
	{ .name = "source",
		OPT_FIELD(OPT_STRING, struct run_options, source),
		.arg = "NAMES",
		.help = "only these sources, with commas between them; weir counters list names them" },
	{ .name = "object",
		OPT_FIELD(OPT_STRING, struct run_options, object),
		.arg = "GLOBS",
		.help = "only NICs and devices whose name matches, with commas between them: eth*,cxi0" },
	{ .name = "rules",
		OPT_FIELD(OPT_STRING, struct run_options, rules),
		.arg = "FILE",
		.help = "rules instead of the built-in ones" },
	{ .name = "help",
		.letter = 'h',
		OPT_FIELD(OPT_BOOL, struct run_options, help),
		.help = "show this help" },
	{ 0 },
};

const struct opt_table run_option_table = {
	.command = "run",
	.usage = "[options] -- COMMAND [ARGUMENTS]",
	.summary = "run a command, and say which counters moved meanwhile and what that means",
	.examples = "  weir run -- ping -c 4 10.0.0.2\n"
		    "  weir run --out run.json -- mpirun ./all_reduce\n",
	.opts = opts,
};

/* One command and what is known of it afterwards. */
struct command {
	char **argv;
	struct run_options o;
	struct collector *collector;
	struct snapshot before, after;
	struct follow *follow;
	struct difference difference;
	struct findings findings;
	uint64_t started_wall_ns, took_ns;
	int status;   /* as of waitpid() */
	bool started; /* it came to be */
};

/* What is sent to weir is for the command. */
static const int handed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH,
	SIGCONT };

static int watch_signals(sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handed_on) / sizeof(handed_on[0]); i++)
		sigaddset(&set, handed_on[i]);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void hand_on(int signals, pid_t child)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == sizeof(info)) {
		/* The terminal's go to the whole group: the command has had them. */
		if (info.ssi_signo == SIGCHLD || info.ssi_code == SI_KERNEL)
			continue;
		kill(child, (int)info.ssi_signo);
	}
}

/* A pipe that closes by itself when the command is there: what comes through it is why it is not. */
static pid_t start(struct command *c, const sigset_t *mask)
{
	int why[2], code = 0;
	pid_t child;

	if (pipe2(why, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		sigprocmask(SIG_SETMASK, mask, NULL);
		execvp(c->argv[0], c->argv);
		code = errno;
		if (write(why[1], &code, sizeof(code)) != sizeof(code))
			_exit(NOT_STARTED);
		_exit(code == ENOENT ? NOT_FOUND : NOT_STARTED);
	}
	close(why[1]);
	c->started = child > 0 && read(why[0], &code, sizeof(code)) <= 0;
	close(why[0]);
	if (child > 0 && !c->started)
		log_error("cannot run %s: %s", c->argv[0], strerror(code));
	return child;
}

static int run_command(struct command *c, struct err *e)
{
	uint64_t began_ns = clock_ns();
	sigset_t mask;
	int signals = watch_signals(&mask);
	struct pollfd set = { .fd = signals, .events = POLLIN };
	pid_t child, done = 0;

	c->started_wall_ns = clock_wall_ns();
	child = signals < 0 ? -1 : start(c, &mask);
	if (child < 0) {
		sigprocmask(SIG_SETMASK, &mask, NULL);
		return err_set(e, errno, "cannot start %s: %m", c->argv[0]);
	}
	while (done != child) {
		poll(&set, 1, c->follow ? (int)(FOLLOW_NS / NS_PER_MS) : -1);
		hand_on(signals, child);
		done = waitpid(child, &c->status, WNOHANG);
		if (done < 0 && errno != EINTR)
			break;
		if (!done)
			follow_look(c->follow);
	}
	c->took_ns = clock_ns() - began_ns;
	close(signals);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return 0;
}

static void emit_record(const struct command *c, struct out *o)
{
	out_object(o, NULL);
	out_str(o, "schema", NULL, COMMAND_SCHEMA);
	out_str(o, "weir", NULL, WEIR_VERSION);
	out_array(o, "command");
	for (char **word = c->argv; *word; word++)
		out_str(o, NULL, NULL, *word);
	out_end(o);
	out_u64(o, "started_ns", NULL, c->started_wall_ns);
	out_u64(o, "took_ns", NULL, c->took_ns);
	if (WIFEXITED(c->status))
		out_i64(o, "exit_status", NULL, WEXITSTATUS(c->status));
	else
		out_null(o, "exit_status");
	if (WIFSIGNALED(c->status))
		out_i64(o, "signal", NULL, WTERMSIG(c->status));
	else
		out_null(o, "signal");
	difference_emit(&c->difference, &c->findings, "counters", c->o.all, o);
	out_end(o);
}

static int write_record(FILE *file, const void *from, struct err *e)
{
	struct out o;

	out_init(&o, file, OUT_JSON);
	emit_record(from, &o);
	return out_finish(&o, e);
}

static int explain(struct command *c, const struct rules *rules, struct err *e)
{
	struct out o;
	int ret;

	ret = collector_read(c->collector, &c->after, e);
	if (!ret)
		ret = follow_finish(c->follow, &c->before, &c->after, e);
	if (!ret)
		ret = difference_make(&c->difference, &c->before, &c->after, e);
	if (!ret)
		ret = findings_make(&c->findings, &c->difference, rules, e);
	if (ret)
		return ret;
	out_init(&o, stderr, c->o.json ? OUT_JSON : OUT_TEXT);
	if (c->o.json)
		emit_record(c, &o);
	else if (c->o.quiet)
		findings_print(&c->findings, NULL, &o);
	else
		difference_print(&c->difference, &c->findings, (uint32_t)c->o.most, c->o.all, &o);
	ret = out_finish(&o, e);
	if (!ret && c->o.out)
		ret = file_replace(c->o.out, write_record, c, e);
	return ret;
}

/* End as the command did: by its status, or by its signal. */
static int end_as(int status)
{
	struct rlimit none = { 0 };

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none); /* the command's is enough */
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

static void command_free(struct command *c)
{
	findings_free(&c->findings);
	difference_free(&c->difference);
	snapshot_free(&c->before);
	snapshot_free(&c->after);
	follow_close(c->follow);
	collector_close(c->collector);
}

/* Counters are an extra: the command is run whatever happens to them. */
static int run_between(struct command *c, const struct rules *rules)
{
	struct collector_options options = { .sources = c->o.source, .objects = c->o.object };
	struct err e = { 0 };
	int ret;

	ret = collector_open(&c->collector, &options, &e);
	if (ret) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	if (!c->o.source || strstr(c->o.source, "tcp"))
		follow_open(&c->follow, NULL);
	ret = collector_read(c->collector, &c->before, &e);
	if (ret)
		log_error_err(&e);
	if (run_command(c, &e)) {
		log_error_err(&e);
		return NOT_STARTED;
	}
	if (!c->started)
		return WEXITSTATUS(c->status);
	if (!ret && explain(c, rules, &e)) {
		log_error_err(&e);
		if (WIFEXITED(c->status) && !WEXITSTATUS(c->status))
			return STATUS_FAILED;
	}
	return end_as(c->status);
}

/* Options end at "--", or at the first word that is none. */
static int options_count(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--"); i++) {
		bool takes_value = false;

		for (const struct opt *opt = opts; opt->name; opt++)
			takes_value |= opt->arg && !strncmp(argv[i], "--", 2) &&
				       !strcmp(opt->name, argv[i] + 2);
		i += takes_value;
	}
	return i < argc ? i : argc;
}

int cmd_run(int argc, char **argv)
{
	struct command c = { 0 };
	struct rules *rules = NULL;
	struct opt_given given;
	struct err e = { 0 };
	struct out out;
	int count, ret, status;

	log_set_program("weir run");
	count = options_count(argc, argv);
	ret = opt_parse(&run_option_table, count, argv, &c.o, &given, &e);
	if (!ret && c.o.help) {
		out_init(&out, stdout, OUT_TEXT);
		opt_help(&run_option_table, &out);
		return STATUS_GOOD;
	}
	c.argv = argv + count + (count < argc && !strcmp(argv[count], "--"));
	if (!ret && c.argv >= argv + argc) {
		ret = err_set(&e, EINVAL, "run which command?");
		err_hint(&e, "usage: weir run %s", run_option_table.usage);
	}
	if (!ret)
		ret = file_try(c.o.out, "out", &e);
	if (!ret)
		ret = rules_load(&rules, c.o.rules, &e);
	if (ret) {
		log_error_err(&e);
		return STATUS_USAGE;
	}
	status = run_between(&c, rules);
	command_free(&c);
	rules_free(rules);
	return status;
}
