/* SPDX-License-Identifier: BSD-3-Clause */
/* The transaction on a real interface: the loopback of a network namespace of our own. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/nic_journal.h"
#include "sys/nic_link.h"
#include "sys/nic_plan.h"

#define TSO "tx-tcp-segmentation"
#define GSO "tx-generic-segmentation"

static char folder[] = "/tmp/weir-plan-XXXXXX";
static bool able;

static bool is_on(const char *feature)
{
	char *value;
	bool on;

	assert_int_equal(nic_change_read("lo", NIC_KIND_FEATURE, feature, &value, NULL), 0);
	on = !strcmp(value, "on");
	free(value);
	return on;
}

static bool has_journal(void)
{
	struct nic_owner owner;
	bool kept;

	return !nic_journal_peek("lo", &owner, &kept, NULL);
}

static void open_and_turn_off(struct nic_plan *p, const char *feature)
{
	struct err e = { 0 };

	assert_int_equal(nic_plan_open(p, "lo", false, &e), 0);
	assert_int_equal(nic_plan_add(p, NIC_KIND_FEATURE, feature, "off", &e), 0);
	assert_int_equal(nic_plan_apply(p, &e), 0);
}

/* A process that has turned TSO off and waits to be killed. */
struct owner {
	pid_t pid, guard;
};

static struct owner start_owner(void)
{
	struct owner o = { 0 };
	struct nic_plan p;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	o.pid = fork();
	if (!o.pid) {
		if (nic_plan_open(&p, "lo", false, NULL) ||
			nic_plan_add(&p, NIC_KIND_FEATURE, TSO, "off", NULL) ||
			nic_plan_apply(&p, NULL))
			_exit(1);
		if (write(ends[1], &p.guard.pid, sizeof(p.guard.pid)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &o.guard, sizeof(o.guard)), sizeof(o.guard));
	close(ends[0]);
	return o;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool comes_true(bool (*condition)(const char *), const char *argument, bool wanted)
{
	for (int i = 0; i < 1000; i++) {
		if (condition(argument) == wanted)
			return true;
		usleep(10000);
	}
	return false;
}

static bool is_recorded(const char *unused)
{
	(void)unused;
	return has_journal();
}

static void close_puts_everything_back(void **state)
{
	struct nic_plan p;
	struct err e;

	(void)state;
	open_and_turn_off(&p, TSO);
	assert_false(is_on(TSO));
	assert_true(has_journal());
	assert_int_equal(nic_plan_add(&p, NIC_KIND_FEATURE, GSO, "off", &e), 0);
	assert_int_equal(nic_plan_apply(&p, &e), 0);
	assert_false(is_on(GSO));
	assert_int_equal(nic_plan_close(&p, &e), 0);
	assert_true(is_on(TSO) && is_on(GSO));
	assert_false(has_journal());
}

static void a_dry_run_changes_and_locks_nothing(void **state)
{
	struct nic_plan p, other;

	(void)state;
	assert_int_equal(nic_plan_open(&p, "lo", true, NULL), 0);
	assert_int_equal(nic_plan_add(&p, NIC_KIND_FEATURE, TSO, "off", NULL), 0);
	assert_int_equal(p.count, 1);
	assert_string_equal(p.change[0].before, "on");
	assert_int_equal(nic_plan_apply(&p, NULL), -EINVAL);
	open_and_turn_off(&other, GSO);
	nic_plan_close(&other, NULL);
	nic_plan_close(&p, NULL);
	assert_true(is_on(TSO));
}

static void what_is_so_already_is_no_change(void **state)
{
	struct nic_plan p;

	(void)state;
	assert_int_equal(nic_plan_open(&p, "lo", false, NULL), 0);
	assert_int_equal(nic_plan_add(&p, NIC_KIND_FEATURE, TSO, "on", NULL), 0);
	assert_int_equal(p.count, 0);
	assert_int_equal(nic_plan_apply(&p, NULL), 0);
	assert_int_equal(nic_plan_close(&p, NULL), 0);
	assert_false(has_journal());
}

static void a_second_owner_is_told_who_the_first_is(void **state)
{
	struct nic_plan p, second;
	char pid[32];
	struct err e;

	(void)state;
	open_and_turn_off(&p, TSO);
	assert_int_equal(nic_plan_open(&second, "lo", false, &e), -EBUSY);
	snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
	assert_non_null(strstr(e.what, pid));
	assert_non_null(strstr(e.what, "test_plan"));
	nic_plan_close(&second, NULL);
	assert_false(is_on(TSO));
	nic_plan_close(&p, NULL);
}

/* One that is on and cannot be turned off. */
static void find_fixed(char name[33])
{
	struct nic_bit *bits;
	size_t count, i;

	assert_int_equal(nic_bits_read(&bits, &count, "lo", NIC_FEATURES, NULL), 0);
	for (i = 0; i < count && !(bits[i].fixed && bits[i].on); i++)
		;
	assert_true(i < count);
	strcpy(name, bits[i].name);
	free(bits);
}

static void a_change_that_fails_takes_those_before_it_back(void **state)
{
	struct nic_plan p;
	char fixed[33];
	struct err e;

	(void)state;
	find_fixed(fixed);
	open_and_turn_off(&p, TSO);
	assert_int_equal(nic_plan_add(&p, NIC_KIND_FEATURE, GSO, "off", &e), 0);
	assert_int_equal(nic_plan_add(&p, NIC_KIND_FEATURE, fixed, "off", &e), 0);
	assert_int_not_equal(nic_plan_apply(&p, &e), 0);
	assert_non_null(strstr(e.what, fixed));
	assert_true(is_on(GSO));
	assert_false(is_on(TSO)); /* of an earlier apply */
	assert_int_equal(p.journal.count, 1);
	assert_int_equal(nic_plan_close(&p, &e), 0);
	assert_true(is_on(TSO));
}

static void a_wish_that_fails_takes_nothing_back(void **state)
{
	struct nic_plan p;
	char fixed[33];
	struct err e;

	(void)state;
	find_fixed(fixed);
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), 0);
	assert_int_equal(nic_plan_wish(&p, NIC_KIND_FEATURE, fixed, "off", &e), 0);
	assert_int_equal(nic_plan_wish(&p, NIC_KIND_FEATURE, TSO, "off", &e), 0);
	assert_int_equal(nic_plan_apply(&p, &e), 0);
	assert_false(is_on(TSO));
	assert_int_equal(nic_plan_close(&p, &e), 0);
	assert_true(is_on(TSO));
	assert_false(has_journal());
}

static void a_killed_owner_is_cleaned_up_after(void **state)
{
	struct owner o = start_owner();

	(void)state;
	assert_false(is_on(TSO));
	end(o.pid);
	assert_true(comes_true(is_on, TSO, true));
	assert_true(comes_true(is_recorded, NULL, false));
}

static void what_two_killed_left_is_undone_by_the_next(void **state)
{
	struct owner o = start_owner();
	struct nic_plan p;
	struct err e = { 0 };

	(void)state;
	kill(o.guard, SIGKILL);
	usleep(100000);
	end(o.pid);
	usleep(200000);
	assert_false(is_on(TSO));
	assert_true(has_journal());
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), 0);
	assert_int_equal(p.recovered, 1);
	assert_true(is_on(TSO));
	assert_int_equal(nic_plan_close(&p, &e), 0);
	assert_false(has_journal());
}

static void what_is_kept_stays_under_a_later_run(void **state)
{
	struct nic_journal j;
	struct nic_plan p;
	struct err e;

	(void)state;
	open_and_turn_off(&p, TSO);
	assert_int_equal(nic_plan_keep(&p, &e), 0);
	assert_false(is_on(TSO));
	open_and_turn_off(&p, GSO);
	assert_int_equal(p.first, 1);
	assert_int_equal(nic_plan_close(&p, &e), 0);
	assert_true(is_on(GSO));
	assert_false(is_on(TSO));

	assert_int_equal(nic_journal_open(&j, "lo", false, &e), 0);
	assert_int_equal(j.count, 1);
	assert_int_equal(j.kept, 1);
	assert_int_equal(nic_journal_undo(&j, 0, NULL, NULL, &e), 0);
	j.kept = 0;
	nic_journal_finish(&j);
	assert_true(is_on(TSO));
	assert_false(has_journal());
}

/* The journal of a plan, for tests that spoil it. */
static void journal_path(char path[PATH_MAX])
{
	struct nic_journal j;

	assert_int_equal(nic_journal_open(&j, "lo", true, NULL), 0);
	strcpy(path, j.path);
	nic_journal_close(&j);
}

static void write_journal(const char *text)
{
	char path[PATH_MAX];
	int fd;

	journal_path(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void a_line_that_was_cut_short_counts_for_nothing(void **state)
{
	struct nic_journal j;

	(void)state;
	write_journal("weir-nic\t1\nnic\tlo\t1\t0\t-\nowner\t1\t1\tx\nchange\tfeature\t" TSO
		      "\ton\toff\nfuture\tline\nchange\tfeature\t" GSO "\ton");
	assert_int_equal(nic_journal_open(&j, "lo", false, NULL), 0);
	assert_int_equal(j.count, 1);
	assert_true(j.outlived);
	nic_journal_finish(&j);
}

static void what_went_with_a_reboot_is_not_put_back(void **state)
{
	struct nic_plan p;
	struct err e = { 0 };

	(void)state;
	write_journal(
		"weir-nic\t1\nnic\tlo\t1\t0\tanother boot\nowner\t1\t1\tx\nchange\tfeature\t" TSO
		"\toff\ton\nkept\n");
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), 0);
	assert_int_equal(p.first, 0);
	assert_true(is_on(TSO));
	nic_plan_close(&p, NULL);
	assert_false(has_journal());
}

static void a_file_that_is_no_journal_stops_everything(void **state)
{
	char path[PATH_MAX];
	struct nic_plan p;
	struct err e;

	(void)state;
	write_journal("something else\n");
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), -EBADMSG);
	journal_path(path);
	write_journal("weir-nic\t1\nchange\tno-such-kind\ta\tb\tc\n");
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), -EINVAL);
	chmod(path, 0666);
	assert_int_equal(nic_plan_open(&p, "lo", false, &e), -EPERM);
	unlink(path);
}

static void control_characters_cannot_forge_a_line(void **state)
{
	struct nic_change c;

	(void)state;
	assert_int_equal(
		nic_change_init(&c, NIC_KIND_FEATURE, "a\nkept", "on", "off", NULL), -EINVAL);
	assert_int_equal(nic_change_init(&c, NIC_KIND_FEATURE, "a\tb", "on", "off", NULL), -EINVAL);
}

static void an_interface_that_is_not_there_is_refused(void **state)
{
	struct nic_plan p;
	struct err e;

	(void)state;
	assert_int_equal(nic_plan_open(&p, "no-such-nic", false, &e), -ENODEV);
	assert_int_equal(nic_plan_open(&p, "a-name-longer-than-any-interface", false, &e), -ENODEV);
}

static int make_namespace(void **state)
{
	struct nic_plan p;

	(void)state;
	/* Root of a namespace of our own, or root. */
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return 0;
	if (!mkdtemp(folder) || setenv("WEIR_STATE_DIR", folder, 1))
		return -1;
	able = !nic_plan_open(&p, "lo", true, NULL) &&
	       !nic_plan_add(&p, NIC_KIND_FEATURE, TSO, "off", NULL);
	nic_plan_close(&p, NULL);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	if (getenv("WEIR_STATE_DIR"))
		rmdir(folder);
	return 0;
}

static int need_namespace(void **state)
{
	(void)state;
	if (!able)
		skip(); /* no network namespace of our own, or no libmnl */
	return 0;
}

#define LIVE(test) cmocka_unit_test_setup(test, need_namespace)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIVE(close_puts_everything_back),
		LIVE(a_dry_run_changes_and_locks_nothing),
		LIVE(what_is_so_already_is_no_change),
		LIVE(a_second_owner_is_told_who_the_first_is),
		LIVE(a_change_that_fails_takes_those_before_it_back),
		LIVE(a_wish_that_fails_takes_nothing_back),
		LIVE(a_killed_owner_is_cleaned_up_after),
		LIVE(what_two_killed_left_is_undone_by_the_next),
		LIVE(what_is_kept_stays_under_a_later_run),
		LIVE(a_line_that_was_cut_short_counts_for_nothing),
		LIVE(what_went_with_a_reboot_is_not_put_back),
		LIVE(a_file_that_is_no_journal_stops_everything),
		cmocka_unit_test(control_characters_cannot_forge_a_line),
		cmocka_unit_test(an_interface_that_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, make_namespace, remove_folder);
}
