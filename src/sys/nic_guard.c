/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/nic_guard.h"

#define JOURNAL_FD 3
#define LINE_FD	   4
#define OWNER_FD   5
#define TRIES	   20

/* Keep the three descriptors at fixed places and close all others. */
static void keep_only(int journal, int line, int owner)
{
	int null = open("/dev/null", O_RDWR);

	/* Above all places first, so that none is overwritten before it was moved. */
	journal = fcntl(journal, F_DUPFD, 16);
	line = fcntl(line, F_DUPFD, 16);
	owner = owner < 0 ? -1 : fcntl(owner, F_DUPFD, 16);
	for (int fd = 0; fd < JOURNAL_FD; fd++)
		if (null >= 0)
			dup2(null, fd);
	dup2(journal, JOURNAL_FD);
	dup2(line, LINE_FD);
	if (owner >= 0)
		dup2(owner, OWNER_FD);
	syscall(SYS_close_range, owner >= 0 ? OWNER_FD + 1 : OWNER_FD, ~0u, 0);
}

static void ignore_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2,
		SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU };
	sigset_t none;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Whether the owner has died, and not said that all is well. A child of the owner may hold the line
 * open beyond its death: the descriptor of the process itself does not care. */
static bool owner_died(bool has_owner)
{
	struct pollfd wait[2] = { { .fd = LINE_FD, .events = POLLIN },
		{ .fd = has_owner ? OWNER_FD : -1, .events = POLLIN } };
	char byte;

	while (poll(wait, 2, -1) < 0)
		;
	fcntl(LINE_FD, F_SETFL, O_NONBLOCK);
	return read(LINE_FD, &byte, 1) != 1;
}

/* The NIC may be busy for a moment: what the owner had bound is only now being let go. */
static void put_back(struct nic_journal *j)
{
	for (int i = 0; i < TRIES; i++) {
		if (!nic_journal_reload(j, NULL) &&
			!nic_journal_undo(j, j->kept, NULL, NULL, NULL)) {
			nic_journal_finish(j);
			return;
		}
		usleep(100000);
	}
}

static void __attribute__((noreturn)) guard(const struct nic_journal *owners, int line, int owner)
{
	struct nic_journal j = *owners;

	setsid();
	ignore_signals();
	prctl(PR_SET_NAME, "nic-guard");
	prctl(PR_SET_PDEATHSIG, 0);
	keep_only(owners->fd, line, owner);
	if (chdir("/") || write(LINE_FD, "r", 1) != 1)
		_exit(1);
	j.fd = JOURNAL_FD;
	j.change = NULL;
	j.count = 0;
	if (owner_died(owner >= 0))
		put_back(&j);
	_exit(0);
}

/* Until it is ready it could be killed along with its owner. */
static int await_guard(struct nic_guard *g, const char *nic, struct err *e)
{
	ssize_t got;
	char byte;

	do
		got = read(g->line, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got == 1)
		return 0;
	nic_guard_stop(g);
	return err_set(e, ECHILD, "the guardian of %s did not start", nic);
}

int nic_guard_start(struct nic_guard *g, const struct nic_journal *j, struct err *e)
{
	int owner, ends[2], ret = 0;

	*g = (struct nic_guard){ .line = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return err_set(e, errno, "cannot make a line to the guardian of %s: %m", j->nic);
	owner = (int)syscall(SYS_pidfd_open, getpid(), 0); /* Linux 5.3; the line does without */
	g->pid = fork();
	if (!g->pid) {
		close(ends[1]);
		guard(j, ends[0], owner);
	}
	if (g->pid < 0) {
		ret = err_set(e, errno, "cannot start the guardian of %s: %m", j->nic);
		g->pid = 0;
	}
	close(ends[0]);
	if (owner >= 0)
		close(owner);
	if (ret) {
		close(ends[1]);
		return ret;
	}
	g->line = ends[1];
	return await_guard(g, j->nic, e);
}

void nic_guard_stop(struct nic_guard *g)
{
	ssize_t told;

	if (!g->pid)
		return;
	do
		told = send(g->line, "q", 1, MSG_NOSIGNAL); /* one that was killed is no concern */
	while (told < 0 && errno == EINTR);
	close(g->line);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*g = (struct nic_guard){ .line = -1 };
}
