// SPDX-License-Identifier: BSD-3-Clause
/* Ctrl-C and SIGTERM: the first ends the run with its report, the second ends the process. */
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cmd/cmd.h"

static int stop_fd = -1;

static void on_signal(int number)
{
	uint64_t one = 1;

	signal(number, SIG_DFL);
	if (write(stop_fd, &one, sizeof(one)) < 0)
		_exit(STATUS_FAILED);
}

int stop_on_signals(struct err *e)
{
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0)
		return err_set(e, errno, "cannot make an eventfd: %m");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	return stop_fd;
}
