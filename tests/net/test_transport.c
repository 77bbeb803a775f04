// SPDX-License-Identifier: BSD-3-Clause
/* weir's own transport: what it carries, between two ends in one process over loopback. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comms.h"
#include "net/tcp.h"
#include "net/tcp_wire.h"

/* The thread sanitizer keeps eight bytes of its own for each of ours: it has a shorter one. */
#ifndef LONGEST
#define LONGEST NET_MESSAGE_MAX
#endif

static struct net *open_net(int connections, int threads)
{
	struct net_tcp_options o = {
		.interfaces = "lo", .connections = connections, .threads = threads
	};
	struct err e = { 0 };
	struct net *n;

	if (net_tcp_open(&n, &o, &e))
		fail_msg("%s", e.what);
	return n;
}

static void messages_of_all_sizes_arrive(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 4095, 4096, 4097, TCP_SHORT_BYTES - 1,
		TCP_SHORT_BYTES, TCP_SHORT_BYTES + 1, 131072, 131073, 1000003, 1 << 20,
		COMMS_BYTES - 1 };
	static const int connections[] = { 1, 2, 4, 16 };

	(void)state;
	for (size_t k = 0; k < sizeof(connections) / sizeof(connections[0]); k++) {
		struct net *n = open_net(connections[k], 2);
		struct comms p;

		comms_open(&p, n);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			comms_carry(&p, sizes[i], (unsigned int)(i + k));
		comms_close(&p);
		n->ops->close(n);
	}
}

/* Sparse memory: only the pages that the check looks at are ever filled. */
static void a_message_of_one_gibibyte_arrives(void **state)
{
	struct net *n = open_net(4, 2);
	const size_t bytes = LONGEST, step = 1 << 20;
	struct net_request *send, *receive;
	struct err e = { 0 };
	struct comms p;
	size_t got;

	(void)state;
	comms_open(&p, n);
	comms_register(&p, bytes);
	for (size_t i = 0; i < bytes; i += step)
		*(uint64_t *)(p.out + i) = i * 31 + 7;
	p.out[bytes - 1] = 77;
	receive = comms_receive(&p, 0, bytes);
	send = comms_send(&p, 0, bytes);
	assert_int_equal(comms_finish(&p, p.receiver, receive, &got, &e), 0);
	assert_int_equal(comms_finish(&p, p.sender, send, NULL, &e), 0);
	assert_int_equal(got, bytes);
	for (size_t i = 0; i < bytes; i += step)
		assert_int_equal(*(uint64_t *)(p.in + i), i * 31 + 7);
	assert_int_equal(p.in[bytes - 1], 77);
	assert_int_equal(
		n->ops->isend(p.sender, p.out, NET_MESSAGE_MAX + 1, p.out_memory, &send, &e),
		-EMSGSIZE);
	comms_close(&p);
	n->ops->close(n);
}

/* Long and short ones mixed, all outstanding at once; each must come to its own receive. */
static void carry_window(struct comms *p, unsigned int round)
{
	struct net_request *send[NET_REQUESTS], *receive[NET_REQUESTS];
	const size_t slot = COMMS_BYTES / NET_REQUESTS;
	struct err e = { 0 };
	size_t got;

	for (unsigned int i = 0; i < NET_REQUESTS; i++) {
		memset(p->out + i * slot, (int)(round * 7 + i), slot);
		memset(p->in + i * slot, 0, slot);
	}
	for (unsigned int i = 0; i < NET_REQUESTS; i++) {
		size_t bytes = (i + round) % 3 ? slot - i : 100 + i;

		send[i] = comms_send(p, i * slot, bytes);
		assert_non_null(send[i]);
	}
	for (unsigned int i = 0; i < NET_REQUESTS; i++) {
		receive[i] = comms_receive(p, i * slot, slot);
		assert_non_null(receive[i]);
	}
	for (unsigned int i = 0; i < NET_REQUESTS; i++) {
		size_t bytes = (i + round) % 3 ? slot - i : 100 + i;

		assert_int_equal(comms_finish(p, p->receiver, receive[i], &got, &e), 0);
		assert_int_equal(got, bytes);
		assert_memory_equal(p->in + i * slot, p->out + i * slot, bytes);
	}
	for (unsigned int i = 0; i < NET_REQUESTS; i++)
		assert_int_equal(comms_finish(p, p->sender, send[i], NULL, &e), 0);
}

static void thirty_two_requests_are_outstanding_and_come_in_order(void **state)
{
	struct net *n = open_net(4, 3);
	struct comms p;

	(void)state;
	comms_open(&p, n);
	for (unsigned int round = 0; round < 20; round++)
		carry_window(&p, round);
	comms_close(&p);
	n->ops->close(n);
}

static void a_full_comm_says_try_again(void **state)
{
	struct net *n = open_net(1, 1);
	struct net_request *r[1000];
	struct err e = { 0 };
	struct comms p;
	int count = 0;

	(void)state;
	comms_open(&p, n);
	while (count < 1000 && (r[count] = comms_receive(&p, 0, 64)))
		count++;
	assert_in_range(count, NET_REQUESTS, 999);
	for (int i = 0; i < count; i++) {
		struct net_request *s = comms_send(&p, 0, 64);

		assert_int_equal(comms_finish(&p, p.sender, s, NULL, &e), 0);
		assert_int_equal(comms_finish(&p, p.receiver, r[i], NULL, &e), 0);
	}
	assert_non_null(comms_receive(&p, 0, 64));
	comms_close(&p);
	n->ops->close(n);
}

static void a_short_message_leaves_the_rest_of_the_receive_alone(void **state)
{
	struct net *n = open_net(4, 1);
	struct net_request *receive;
	struct err e = { 0 };
	struct comms p;
	size_t got;

	(void)state;
	comms_open(&p, n);
	memset(p.in, 5, 1 << 20);
	memset(p.out, 6, 1 << 20);
	receive = comms_receive(&p, 0, 1 << 20);
	comms_send(&p, 0, 300000);
	assert_int_equal(comms_finish(&p, p.receiver, receive, &got, &e), 0);
	assert_int_equal(got, 300000);
	assert_int_equal(p.in[299999], 6);
	assert_int_equal(p.in[300000], 5);
	comms_close(&p);
	n->ops->close(n);
}

static void messages_sent_before_a_receive_is_posted_wait_for_it(void **state)
{
	struct net *n = open_net(2, 2);
	struct net_request *receive, *send[3];
	struct err e = { 0 };
	struct comms p;
	size_t got;

	(void)state;
	comms_open(&p, n);
	for (int i = 0; i < 3; i++) {
		memset(p.out + i * (1 << 20), 10 + i, 1 << 20);
		send[i] = comms_send(&p, (size_t)i << 20, i == 1 ? 100 : 200000);
	}
	n->ops->wait(n, -1, 50 * NS_PER_MS);
	for (int i = 0; i < 3; i++) {
		receive = comms_receive(&p, (size_t)i << 20, 1 << 20);
		assert_int_equal(comms_finish(&p, p.receiver, receive, &got, &e), 0);
		assert_int_equal(got, i == 1 ? 100 : 200000);
		assert_int_equal(p.in[((size_t)i << 20) + got - 1], 10 + i);
		assert_int_equal(comms_finish(&p, p.sender, send[i], NULL, &e), 0);
	}
	comms_close(&p);
	n->ops->close(n);
}

static void what_was_sent_before_an_orderly_close_still_arrives(void **state)
{
	struct net *n = open_net(4, 2);
	struct net_request *send, *first, *second;
	struct err e = { 0 };
	struct comms p;
	size_t got;

	(void)state;
	comms_open(&p, n);
	memset(p.out, 9, 300000);
	send = comms_send(&p, 0, 300000);
	assert_int_equal(comms_finish(&p, p.sender, send, NULL, &e), 0);
	assert_int_equal(n->ops->dereg(p.sender, p.out_memory, &e), 0);
	p.out_memory = NULL;
	n->ops->close_comm(p.sender);
	p.sender = NULL;
	n->ops->wait(n, -1, 10 * NS_PER_MS);
	first = comms_receive(&p, 0, 1 << 20);
	second = comms_receive(&p, 1 << 20, 1 << 20);
	assert_int_equal(comms_finish(&p, p.receiver, first, &got, &e), 0);
	assert_int_equal(got, 300000);
	assert_int_equal(p.in[299999], 9);
	assert_int_equal(comms_finish(&p, p.receiver, second, &got, &e), -EPIPE);
	assert_non_null(strstr(e.what, "after 1 messages"));
	comms_close(&p);
	n->ops->close(n);
}

static void memory_in_use_cannot_be_deregistered(void **state)
{
	struct net *n = open_net(1, 1);
	struct net_request *receive;
	struct err e = { 0 };
	struct comms p;

	(void)state;
	comms_open(&p, n);
	receive = comms_receive(&p, 0, 1 << 20);
	assert_int_equal(n->ops->dereg(p.receiver, p.in_memory, &e), -EBUSY);
	comms_send(&p, 0, 1 << 20);
	assert_int_equal(comms_finish(&p, p.receiver, receive, NULL, &e), 0);
	comms_close(&p);
	n->ops->close(n);
}

static void what_is_not_registered_is_refused(void **state)
{
	struct net *n = open_net(1, 1);
	struct net_request *r;
	struct err e = { 0 };
	struct comms p;

	(void)state;
	comms_open(&p, n);
	assert_int_equal(n->ops->isend(p.sender, p.out, 10, NULL, &r, &e), -EINVAL);
	assert_int_equal(n->ops->isend(p.sender, p.out - 1, 10, p.out_memory, &r, &e), -EFAULT);
	assert_int_equal(n->ops->isend(p.sender, p.out + COMMS_BYTES - 9, 10, p.out_memory, &r, &e),
		-EFAULT);
	assert_int_equal(n->ops->irecv(p.sender, p.out, 10, p.out_memory, &r, &e), -EINVAL);
	assert_int_equal(n->ops->isend(p.receiver, p.in, 10, p.in_memory, &r, &e), -EINVAL);
	comms_carry(&p, 100000, 1);
	comms_close(&p);
	n->ops->close(n);
}

struct other {
	struct comms *p;
	atomic_bool stop;
};

static void *register_over_and_over(void *arg)
{
	struct other *o = arg;
	struct net *n = o->p->n;
	char memory[4096];

	while (!atomic_load(&o->stop)) {
		struct net_memory *m;

		if (n->ops->reg(o->p->sender, memory, sizeof(memory), NET_HOST, &m, NULL) ||
			n->ops->dereg(o->p->sender, m, NULL) ||
			n->ops->reg(o->p->receiver, memory, sizeof(memory), NET_HOST, &m, NULL) ||
			n->ops->dereg(o->p->receiver, m, NULL))
			return o;
	}
	return NULL;
}

static void memory_is_registered_while_data_flows(void **state)
{
	struct net *n = open_net(4, 2);
	struct comms p;
	struct other o = { .p = &p };
	pthread_t thread;
	void *failed;

	(void)state;
	comms_open(&p, n);
	assert_int_equal(pthread_create(&thread, NULL, register_over_and_over, &o), 0);
	for (unsigned int round = 0; round < 5; round++)
		carry_window(&p, round);
	atomic_store(&o.stop, true);
	pthread_join(thread, &failed);
	assert_null(failed);
	comms_close(&p);
	n->ops->close(n);
}

static void *carry_alone(void *arg)
{
	struct comms p;

	comms_open(&p, arg);
	for (unsigned int round = 0; round < 3; round++)
		carry_window(&p, round);
	comms_close(&p);
	return NULL;
}

static void threads_use_comms_of_one_transport(void **state)
{
	struct net *n = open_net(2, 2);
	pthread_t thread[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, carry_alone, n), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	n->ops->close(n);
}

static void a_hundred_comms_made_and_dropped_leave_nothing(void **state)
{
	struct net *n = open_net(4, 3);
	int threads = threads_running(), descriptors = descriptors_in_use();
	struct comms p;

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		comms_open(&p, n);
		if (i % 2)
			comms_carry(&p, 200000, i);
		/* Aborted: both ends have requests under way. */
		comms_receive(&p, 0, 1 << 20);
		comms_receive(&p, 0, 1 << 20);
		comms_send(&p, 0, 1 << 20);
		net_tcp_abort(p.sender);
		net_tcp_abort(p.receiver);
		comms_close(&p);
		threads_come_down_to(threads);
		assert_int_equal(descriptors_in_use(), descriptors);
	}
	n->ops->close(n);
}

static void interfaces_are_chosen_as_nccl_does(void **state)
{
	static const struct {
		const char *spec;
		bool found;
	} cases[] = { { "lo", true }, { "l", true }, { "=lo", true }, { "=l", false },
		{ "nosuch,lo", true }, { "nosuch", false }, { NULL, true }, { "", true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_tcp_options o = { .interfaces = cases[i].spec };
		struct net_properties q;
		struct err e = { 0 };
		struct net *n;
		int ret = net_tcp_open(&n, &o, &e);

		assert_int_equal(ret, cases[i].found ? 0 : -ENODEV);
		if (ret)
			continue;
		assert_int_equal(n->ops->properties(n, 0, &q, &e), 0);
		assert_true(q.memory & NET_HOST);
		n->ops->close(n);
	}
	{
		struct net_tcp_options o = { .interfaces = "^lo" };
		struct net_properties q;
		struct net *n;

		if (!net_tcp_open(&n, &o, NULL)) {
			assert_int_equal(n->ops->properties(n, 0, &q, NULL), 0);
			assert_string_not_equal(q.name, "lo");
			n->ops->close(n);
		}
	}
}

static void options_out_of_range_are_refused(void **state)
{
	struct net_tcp_options many = { .interfaces = "lo", .connections = 17 };
	struct net_tcp_options threads = { .interfaces = "lo", .threads = 257 };
	struct err e = { 0 };
	struct net *n;

	(void)state;
	assert_int_equal(net_tcp_open(&n, &many, &e), -EINVAL);
	assert_non_null(strstr(e.what, "17"));
	assert_int_equal(net_tcp_open(&n, &threads, &e), -EINVAL);
}

static void statistics_count_what_was_carried(void **state)
{
	struct net *n = open_net(4, 1);
	struct net_stats s;
	struct comms p;

	(void)state;
	comms_open(&p, n);
	comms_carry(&p, 1 << 20, 1);
	comms_carry(&p, 100, 1);
	n->ops->stats(p.receiver, &s);
	assert_int_equal(s.messages, 2);
	assert_int_equal(s.bytes, (1 << 20) + 100);
	assert_int_equal(s.connections, 4);
	assert_int_equal(s.slices, 4);
	n->ops->stats(p.sender, &s);
	assert_int_equal(s.messages, 2);
	assert_int_equal(s.slices, 4);
	comms_close(&p);
	n->ops->close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_all_sizes_arrive),
		cmocka_unit_test(a_message_of_one_gibibyte_arrives),
		cmocka_unit_test(thirty_two_requests_are_outstanding_and_come_in_order),
		cmocka_unit_test(a_full_comm_says_try_again),
		cmocka_unit_test(a_short_message_leaves_the_rest_of_the_receive_alone),
		cmocka_unit_test(messages_sent_before_a_receive_is_posted_wait_for_it),
		cmocka_unit_test(what_was_sent_before_an_orderly_close_still_arrives),
		cmocka_unit_test(memory_in_use_cannot_be_deregistered),
		cmocka_unit_test(what_is_not_registered_is_refused),
		cmocka_unit_test(memory_is_registered_while_data_flows),
		cmocka_unit_test(threads_use_comms_of_one_transport),
		cmocka_unit_test(a_hundred_comms_made_and_dropped_leave_nothing),
		cmocka_unit_test(interfaces_are_chosen_as_nccl_does),
		cmocka_unit_test(options_out_of_range_are_refused),
		cmocka_unit_test(statistics_count_what_was_carried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
