// SPDX-License-Identifier: BSD-3-Clause
/* Plugins through the adapter. WEIR_PLUGIN is weir's own; WEIR_TEST_PLUGINS a folder with broken ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comms.h"
#include "net/plugin.h"
#include "net/plugin_unpack.h"

static struct net *open_version(int version)
{
	struct err e = { 0 };
	struct net *n;

	if (net_plugin_open(&n, getenv("WEIR_PLUGIN"), version, &e))
		fail_msg("%s (%s)", e.what, e.hint);
	return n;
}

static void every_version_carries_data(void **state)
{
	static const size_t sizes[] = { 0, 1, 4095, 32768, 32769, 1 << 20, (4 << 20) + 7 };

	(void)state;
	for (int version = 7; version <= 11; version++) {
		struct net *n = open_version(version);
		struct net_plugin_info info;
		struct comms p;

		net_plugin_info(n, &info);
		assert_int_equal(info.version, version);
		assert_string_equal(info.name, "weir");
		assert_int_equal(info.versions, 0xf80);
		comms_open(&p, n);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			comms_carry(&p, sizes[i], (unsigned int)(version * 100 + (int)i));
		comms_close(&p);
		n->ops->close(n);
	}
}

static void the_newest_version_is_taken(void **state)
{
	struct net *n = open_version(0);
	struct net_plugin_info info;

	(void)state;
	net_plugin_info(n, &info);
	assert_int_equal(info.version, 11);
	n->ops->close(n);
}

static void properties_are_the_same_in_every_version(void **state)
{
	struct net_properties first = { 0 };

	(void)state;
	for (int version = 7; version <= 11; version++) {
		struct net *n = open_version(version);
		struct net_properties p;

		assert_int_equal(n->devices, 1);
		assert_int_equal(n->ops->properties(n, 0, &p, NULL), 0);
		assert_string_equal(p.name, "lo");
		assert_null(p.pci_path);
		assert_true(p.memory & NET_HOST);
		assert_true(p.speed_mbps > 0);
		if (version == 7)
			first = p;
		assert_int_equal(p.guid, first.guid);
		assert_int_equal(p.speed_mbps, first.speed_mbps);
		assert_int_equal(p.memory, first.memory);
		assert_int_equal(p.max_comms, first.max_comms);
		assert_int_equal(n->ops->properties(n, 1, &p, NULL), -EINVAL);
		n->ops->close(n);
	}
}

static void no_thread_or_descriptor_survives(void **state)
{
	int threads = threads_running(), descriptors = descriptors_in_use();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct net *n = open_version(7 + i % 5);
		struct comms p;

		comms_open(&p, n);
		comms_carry(&p, 100000, (unsigned int)i);
		comms_close(&p);
		threads_come_down_to(threads);
		n->ops->close(n);
		assert_int_equal(descriptors_in_use(), descriptors);
	}
}

/* What NCCL does when it aborts: memory is taken back with requests under way, then the comms are closed. */
static void a_hundred_aborted_communicators_leave_nothing(void **state)
{
	struct net *n = open_version(11);
	int threads = threads_running(), descriptors = descriptors_in_use();
	struct comms p;

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		comms_open(&p, n);
		if (i % 4 == 0)
			comms_carry(&p, 200000, i);
		comms_receive(&p, 0, 1 << 20);
		comms_receive(&p, 1 << 20, 1 << 20);
		comms_send(&p, 0, 1 << 20);
		comms_close(&p);
		assert_int_equal(descriptors_in_use(), descriptors);
	}
	threads_come_down_to(threads);
	n->ops->close(n);
}

/* As under NCCL when the peer's process is stopped: its kernel lives, and nothing moves. */
static void a_peer_that_does_nothing_is_given_up(void **state)
{
	struct net_request *r[4];
	struct err e = { 0 };
	struct comms p;
	struct net *n;

	(void)state;
	setenv("WEIR_STALL_TIMEOUT", "1", 1);
	n = open_version(11);
	unsetenv("WEIR_STALL_TIMEOUT");
	comms_open(&p, n);
	comms_carry(&p, 100000, 1);
	for (size_t i = 0; i < 4; i++)
		r[i] = comms_receive(&p, i * 100000, 100000);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(comms_finish(&p, p.receiver, r[i], NULL, &e), -ECONNRESET);
		assert_non_null(strstr(e.hint, "has not moved for 1.0 s"));
	}
	comms_close(&p);
	n->ops->close(n);
}

static void a_file_that_is_not_there_is_said(void **state)
{
	struct err e = { 0 };
	struct net *n;

	(void)state;
	assert_int_equal(net_plugin_open(&n, "/no/such/plugin.so", 0, &e), -ENOENT);
	assert_non_null(strstr(e.what, "/no/such/plugin.so"));
	assert_int_equal(net_plugin_open(&n, "no-such-plugin", 0, &e), -ENOENT);
	assert_null(n);
}

static const char *broken(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/libtest-plugin-%s.so", getenv("WEIR_TEST_PLUGINS"), name);
	return path;
}

static void a_library_without_tables_is_refused(void **state)
{
	struct err e = { 0 };
	struct net *n;

	(void)state;
	assert_int_equal(net_plugin_open(&n, broken("empty"), 0, &e), -ENOEXEC);
	assert_non_null(strstr(e.what, "ncclNetPlugin_v7"));
}

static void a_plugin_whose_init_fails_is_refused_with_its_words(void **state)
{
	struct err e = { 0 };
	struct net *n;

	(void)state;
	assert_int_equal(net_plugin_open(&n, broken("sick"), 0, &e), -EIO);
	assert_non_null(strstr(e.what, "init"));
	assert_non_null(strstr(e.hint, "no daemon at 42"));
}

static void a_plugin_with_an_old_version_only_is_used(void **state)
{
	struct net_plugin_info info;
	struct err e = { 0 };
	struct net *n;

	(void)state;
	assert_int_equal(net_plugin_open(&n, broken("old"), 9, &e), -ENOEXEC);
	if (net_plugin_open(&n, broken("old"), 0, &e))
		fail_msg("%s", e.what);
	net_plugin_info(n, &info);
	assert_int_equal(info.version, 8);
	assert_int_equal(info.versions, 1 << 8);
	n->ops->close(n);
}

/* It connects at the second call with the same handle, never reports a length, fails one test in the
 * middle, and its flush would crash. */
static void a_plugin_with_the_known_defects_carries_data(void **state)
{
	struct net_request *r, *flush;
	struct err e = { 0 };
	struct comms p;
	size_t got = 7;
	struct net *n;

	(void)state;
	if (net_plugin_open(&n, broken("old"), 0, &e))
		fail_msg("%s", e.what);
	comms_open(&p, n);
	memset(p.out, 'x', 1000);
	r = comms_send(&p, 0, 1000);
	assert_int_equal(comms_finish(&p, p.sender, r, NULL, &e), 0);
	r = comms_receive(&p, 0, 1000);
	assert_int_equal(comms_finish(&p, p.receiver, r, &got, &e), 0);
	assert_int_equal(got, 1000);
	assert_memory_equal(p.in, p.out, 1000);
	assert_int_equal(n->ops->iflush(p.receiver, p.in, 1000, p.in_memory, &flush, &e), 0);
	assert_null(flush);
	comms_close(&p);
	n->ops->close(n);
}

static const struct {
	uint64_t count;
	struct plugin_unpack_fragment at[3];
	int ret, fragments;
} lists[] = {
	{ 3, { { 100, 40, 0 }, { 7, 50, 50 }, { 0, 10, 40 } }, 0, 3 },
	{ 3, { { 100, 40, 0 }, { 140, 20, 40 }, { 0, 40, 60 } }, 0, 2 }, /* neighbours */
	{ 2, { { 100, 100, 0 }, { 0, 0, 100 } }, 0, 1 },
	{ 0, { { 0, 0, 0 } }, 0, 0 },			      /* it is where it belongs */
	{ 2, { { 100, 40, 0 }, { 7, 50, 50 } }, -EPROTO, 0 }, /* a hole */
	{ 1, { { 0, 101, 0 } }, -EPROTO, 0 },		      /* beyond the message */
	{ 1, { { 0, 1, UINT64_MAX } }, -EPROTO, 0 },
	{ PLUGIN_UNPACK_FRAGMENTS + 1, { { 0, 0, 0 } }, -EPROTO, 0 },
};

static void lists_of_fragments_are_checked(void **state)
{
	static struct plugin_unpack_meta meta;
	struct plugin_unpack_handle inside = { .meta = &meta, .pool = "" };
	struct plugin_device_handle handle = { 0 };
	struct net_fragments f;
	struct plugin_unpack *u;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(plugin_unpack_open(&u, &handle, &e), -EPROTO);
	handle.handle = &inside;
	assert_int_equal(plugin_unpack_open(&u, &handle, &e), 0);
	for (unsigned int i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		/* Slots go round. */
		unsigned int number = 14 + i, slot = number % PLUGIN_UNPACK_SLOTS;

		memcpy(meta.fragment[slot], lists[i].at, sizeof(lists[i].at));
		meta.count[slot] = lists[i].count;
		assert_int_equal(plugin_unpack_list(u, number, 100, &f, &e), lists[i].ret);
		if (!lists[i].ret)
			assert_int_equal(f.count, lists[i].fragments);
	}
	plugin_unpack_close(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_version_carries_data),
		cmocka_unit_test(the_newest_version_is_taken),
		cmocka_unit_test(properties_are_the_same_in_every_version),
		cmocka_unit_test(no_thread_or_descriptor_survives),
		cmocka_unit_test(a_hundred_aborted_communicators_leave_nothing),
		cmocka_unit_test(a_peer_that_does_nothing_is_given_up),
		cmocka_unit_test(a_file_that_is_not_there_is_said),
		cmocka_unit_test(a_library_without_tables_is_refused),
		cmocka_unit_test(a_plugin_whose_init_fails_is_refused_with_its_words),
		cmocka_unit_test(a_plugin_with_an_old_version_only_is_used),
		cmocka_unit_test(a_plugin_with_the_known_defects_carries_data),
		cmocka_unit_test(lists_of_fragments_are_checked),
	};

	setenv("WEIR_IFNAME", "lo", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
