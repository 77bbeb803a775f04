// SPDX-License-Identifier: BSD-3-Clause
/* Rails as they are planned, on a made machine: two sockets, four rail NICs, eight GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sys/tree.h"
#include "flow/rails_plan.h"
#include "sys/path.h"

#define ARGS_MAX 64

static struct rails_options asked;
static struct err err;
static char line_kept[1024];

static int plan_as(bool neper, struct rails **rails, const char *line)
{
	char *argv[ARGS_MAX] = { (char *)"rails" }, *next = line_kept, *word;
	int argc = 1, ret;

	snprintf(line_kept, sizeof(line_kept), "%s", line);
	while ((word = strsep(&next, " ")))
		if (*word)
			argv[argc++] = word;
	err_clear(&err);
	ret = rails_options_parse(&asked, argc, argv, neper, &err);
	return ret ? ret : rails_plan(rails, &asked, &err);
}

static struct rails *plan(const char *line)
{
	struct rails *rails;

	if (plan_as(false, &rails, line))
		fail_msg("%s: %s", line, err.what);
	return rails;
}

static void assert_refused(const char *line, const char *why)
{
	struct rails *rails;

	if (!plan_as(false, &rails, line))
		fail_msg("%s was not refused", line);
	if (!strstr(err.what, why))
		fail_msg("%s: \"%s\" does not say \"%s\"", line, err.what, why);
}

static const char *command(const struct rails *rails, uint32_t i)
{
	static char text[RAIL_COMMAND];

	return rail_command(&rails->rail[i], text);
}

static const char *cpus(const struct rails *rails, uint32_t i)
{
	static char text[4][256];

	return cpus_format(&rails->rail[i].cpus, text[i], sizeof(text[i]));
}

#define FOUR "-c -H a,b,c,d --devices eth1,eth2,eth3,eth4 "

static int machine(void **state)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	tree_gpu_host(state);
	tree_file("0-191\n", "/sys/devices/system/cpu/online");
	return 0;
}

static void test_each_rail_gets_the_nearest_gpu(void **state)
{
	static const char *const nearest[] = { "0000:13:00.0", "0000:23:00.0", "0000:83:00.0",
		"0000:93:00.0" };
	struct rails *rails = plan(FOUR "--mem cuda");

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		assert_string_equal(rails->rail[i].gpu, nearest[i]);
		assert_string_equal(rails->rail[i].gpu_distance, i < 3 ? "PIX" : "PXB");
		assert_non_null(strstr(command(rails, i), nearest[i]));
		assert_int_equal(rails->rail[i].options.memory, MEMORY_CUDA);
	}
	/* The published table: every second one. */
	assert_int_equal(rails->rail[1].gpu_index, 2);
	assert_int_equal(rails->rail[3].gpu_index, 6);
	rails_free(rails);
}

static void test_rails_at_the_same_distance_share_gpus_evenly(void **state)
{
	struct rails *rails;

	(void)state;
	/* eth0 has no switch: all four GPUs of its node are equally far. */
	rails = plan("-c -H a,b --devices eth1,eth0 --mem cuda");
	assert_string_equal(rails->rail[0].gpu, "0000:13:00.0");
	assert_string_equal(rails->rail[1].gpu, "0000:14:00.0");
	rails_free(rails);
}

static void test_a_given_map_of_gpus_is_respected(void **state)
{
	struct rails *rails = plan("-c -H a,b --devices eth1,eth2 --mem cuda --gpus 94:00.0,3");

	(void)state;
	assert_string_equal(rails->rail[0].gpu, "94:00.0");
	assert_string_equal(rails->rail[0].gpu_distance, "SYS");
	assert_string_equal(rails->rail[1].gpu, "3");
	rails_free(rails);
	assert_refused("-c -H a --devices eth1 --mem cuda --gpus 77:00.0", "77:00.0");
	assert_refused("-c -H a --devices eth1 --gpus 0", "--mem cuda");
}

static void test_exported_gpus_are_dealt_in_their_order(void **state)
{
	char environment[RAIL_HOST];
	struct rails *rails;

	(void)state;
	setenv("CUDA_VISIBLE_DEVICES", "5,1", 1);
	rails = plan("-c -H a,b,c --devices eth1,eth2,eth3 --mem cuda");
	assert_string_equal(rails->rail[0].gpu, "0");
	assert_string_equal(rails->rail[1].gpu, "1");
	assert_string_equal(rails->rail[2].gpu, "0");
	assert_string_equal(
		rail_environment(rails, &rails->rail[0], environment), "CUDA_VISIBLE_DEVICES=5,1 ");
	unsetenv("CUDA_VISIBLE_DEVICES");
	rails_free(rails);
}

static void test_threads_run_near_their_nic(void **state)
{
	struct rails *rails = plan(FOUR "--threads 4");

	(void)state;
	assert_string_equal(cpus(rails, 0), "1-4");
	assert_string_equal(cpus(rails, 1), "5-8");
	assert_string_equal(cpus(rails, 2), "48-51");
	assert_string_equal(cpus(rails, 3), "52-55");
	assert_non_null(strstr(command(rails, 2), " --cpus 48-51"));
	rails_free(rails);
}

static void test_cpus_of_interrupts_are_left_alone(void **state)
{
	struct rails *rails;

	(void)state;
	tree_file("msix\n", "/sys/bus/pci/devices/0000:15:00.0/msi_irqs/70");
	tree_file("msix\n", "/sys/bus/pci/devices/0000:15:00.0/msi_irqs/71");
	tree_file("1\n", "/proc/irq/70/effective_affinity_list");
	tree_file("2-3\n", "/proc/irq/71/smp_affinity_list");
	rails = plan("-c -H a --devices eth1 --threads 2");
	assert_string_equal(cpus(rails, 0), "4-5");
	rails_free(rails);
}

static void test_threads_do_not_share_a_core_while_others_are_free(void **state)
{
	struct rails *rails;

	(void)state;
	for (int i = 0; i < 8; i++) {
		char pair[16];

		snprintf(pair, sizeof(pair), "%d-%d\n", i & ~1, i | 1);
		tree_file(pair, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
	}
	rails = plan("-c -H a --devices eth1 --threads 3 --flows 3");
	assert_string_equal(cpus(rails, 0), "1-2,4");
	rails_free(rails);
}

static void test_more_threads_than_cpus_are_bound_to_none(void **state)
{
	struct rails *rails;

	(void)state;
	tree_file("0-7\n", "/sys/devices/system/cpu/online");
	rails = plan(FOUR "--threads 4");
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(rails->rail[i].cpus.count, 0);
		assert_null(strstr(command(rails, i), "--cpus"));
	}
	rails_free(rails);
}

static void test_a_given_map_of_cpus_is_respected(void **state)
{
	struct rails *rails = plan("-c -H a,b --devices eth1,eth2 --cpus 7,9-11/40-43");

	(void)state;
	assert_string_equal(cpus(rails, 0), "7,9-11");
	assert_string_equal(cpus(rails, 1), "40-43");
	rails_free(rails);
	rails = plan("-c -H a --devices eth1 --no-pin");
	assert_int_equal(rails->rail[0].cpus.count, 0);
	rails_free(rails);
	assert_refused("-c -H a,b --devices eth1,eth2 --cpus 7", "--cpus names 1");
	assert_refused("-c -H a --devices eth1 --cpus x", "--cpus");
	assert_refused("-c -H a --devices eth1 --cpus 1 --no-pin", "exclude each other");
}

static void test_ports_follow_the_published_plan(void **state)
{
	struct rails *rails = plan(FOUR "--flows 8 --source-port 12345");

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const struct flow_options *o = &rails->rail[i].options;

		assert_int_equal(o->control_port, 12866 + i);
		assert_int_equal(o->port, 12345 + 8 * i);
		assert_int_equal(o->num_ports, 8);
		assert_int_equal(o->source_port, 12345 + 8 * i);
	}
	rails_free(rails);
	assert_refused(FOUR "--port 12850 --flows 8", "overlap");
	assert_refused(FOUR "--port 65520 --flows 8", "beyond port 65535");
	assert_refused(FOUR "--control-port 65533", "beyond port 65535");
	assert_refused(FOUR "--source-port 65520 --flows 8", "beyond port 65535");
}

static void test_a_device_can_be_named_by_its_pci_address(void **state)
{
	struct rails *rails = plan("-c -H a,b --devices 0000:97:00.0,eth1");

	(void)state;
	assert_string_equal(rails->rail[0].nic.name, "eth4");
	assert_string_equal(rails->rail[1].nic.name, "eth1");
	assert_string_equal(rails->rail[0].options.bind_dev, "eth4");
	rails_free(rails);
	assert_refused("-c -H a,b --devices eth4,97:00.0", "both on eth4");
}

static void test_lists_must_fit_each_other(void **state)
{
	(void)state;
	assert_refused("-c", "--hosts is missing");
	assert_refused("-c -H a,b --devices eth1", "--devices names 1 and --hosts names 2");
	assert_refused("-H a,b --devices eth1,eth2 --src-ips x", "--src-ips names 1");
	assert_refused("-c -H a,b --devices eth1,eth1", "names eth1 twice");
	assert_refused("-c -H a,a --devices eth1,eth2", "names a twice");
	assert_refused("-c -H a,,b", "empty");
	assert_refused("-c -H a,", "empty");
	assert_refused("-c -H a --devices eth9", "no network interface eth9");
	assert_refused("-c -H a --devices ../x", "--devices");
	assert_refused("-c -H a --devices eth1 --threads 5", "some threads would idle");
}

static void test_two_spellings_must_not_contradict_each_other(void **state)
{
	struct rails *rails;

	(void)state;
	rails = plan("-c -H a --devices eth1 --mem udmabuf --mode UDMABUF --phys-len 8M");
	assert_int_equal(rails->rail[0].options.mem_size, 8 << 20);
	rails_free(rails);
	assert_refused("-c -H a --devices eth1 --mem udmabuf --mode cuda", "contradict");
	assert_refused("-c -H a --devices eth1 --mem-size 1M --phys-len 2M", "contradict");
	assert_refused("-H a --devices eth1 --queues 8-9 --q-num 2", "excludes");
	assert_refused("-c -H a --devices eth1 --tcpd-rx-cpy", "for the server");
}

static void test_options_of_stream_pass_through(void **state)
{
	struct rails *rails = plan("-c -H a --devices eth1 -- --zerocopy -M --warmup 2");

	(void)state;
	assert_true(rails->rail[0].options.zerocopy);
	assert_true(rails->rail[0].options.enable_tcp_maerts);
	assert_true(rails->rail[0].options.warmup == 2);
	rails_free(rails);
	assert_refused("-c -H a --devices eth1 -- --port 7", "--port cannot stand behind --");
	assert_refused("-c -H a --devices eth1 -- -C 7", "--control-port cannot stand behind --");
	assert_refused("-c -H a --devices eth1 -- --nonsense", "behind --");
	assert_refused("-c -H a --devices eth1 -- word", "behind --");
}

static void test_a_server_says_only_what_it_was_told(void **state)
{
	struct rails *rails = plan("-H a --devices eth1 --no-pin");

	(void)state;
	assert_string_equal(command(rails, 0),
		"weir stream -H a --bind-dev eth1 -C 12866 -P 12345 --num-ports 4 -T 4");
	rails_free(rails);
	rails = plan("-H a --devices eth1 --no-pin --no-bind -l 3 -B 64K --once --mem udmabuf "
		     "--q-start 2 --tcpd-validate --rx-copy");
	assert_string_equal(command(rails, 0),
		"weir stream -H a -C 12866 -P 12345 --num-ports 4 -T 4 -B 65536 -l 3 "
		"--validate=published --mem udmabuf --nic eth1 --mem-size 67108864 --queue-start 2 "
		"--queue-num 4 --rx-copy --once");
	rails_free(rails);
}

static void test_a_machine_without_gpus_says_so(void **state)
{
	(void)state;
	assert_refused("-c -H a --devices eth1 --mem cuda", "no NVIDIA GPU");
}

static int machine_without_gpus(void **state)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	tree_empty(state);
	tree_dir("/sys/bus/pci/devices");
	tree_nic(NULL, "eth1", 2, "100000\n");
	return 0;
}

static void test_multi_neper_has_its_own_defaults(void **state)
{
	char text[RAIL_COMMAND];
	struct rails *rails;

	(void)state;
	assert_int_equal(plan_as(true, &rails, "-H 10.0.1.2 --src-ips 10.0.1.1"), 0);
	assert_string_equal(rails->rail[0].nic.name, "eth1");
	assert_int_equal(rails->rail[0].options.memory, MEMORY_CUDA);
	assert_int_equal(rails->rail[0].options.mem_size, 4294967296);
	assert_int_equal(rails->rail[0].options.buffer_size, 491520);
	assert_int_equal(rails->rail[0].options.queue_start, 8);
	assert_true(rails->rail[0].options.once);
	assert_string_equal(rail_neper_command(rails, &rails->rail[0], text),
		"taskset --cpu-list 1-4 ./tcp_stream -T 4 -F 4 --port 12345 --source-port 12345 "
		"--control-port 12866 --buffer-size 491520  -l 10 --num-ports 4 "
		"--tcpd-phys-len 4294967296 --tcpd-nic-pci-addr 0000:15:00.0 "
		"--tcpd-gpu-pci-addr 0000:13:00.0 --tcpd-link-name eth1 --tcpd-src-ip 10.0.1.1 "
		"--tcpd-dst-ip 10.0.1.2 --queue-start 8 --queue-num 4");
	rails_free(rails);
	assert_int_equal(plan_as(true, &rails, "-H a --devices eth1"), -EINVAL);
	assert_non_null(strstr(err.what, "--src-ips is missing"));
	assert_int_equal(plan_as(true, &rails, "--src-ips a"), -EINVAL);
	assert_non_null(strstr(err.what, "--hosts is missing"));
}

int main(void)
{
#define ON(setup, test) cmocka_unit_test_setup_teardown(test, setup, tree_remove)
	const struct CMUnitTest tests[] = {
		ON(machine, test_each_rail_gets_the_nearest_gpu),
		ON(machine, test_rails_at_the_same_distance_share_gpus_evenly),
		ON(machine, test_a_given_map_of_gpus_is_respected),
		ON(machine, test_exported_gpus_are_dealt_in_their_order),
		ON(machine, test_threads_run_near_their_nic),
		ON(machine, test_cpus_of_interrupts_are_left_alone),
		ON(machine, test_threads_do_not_share_a_core_while_others_are_free),
		ON(machine, test_more_threads_than_cpus_are_bound_to_none),
		ON(machine, test_a_given_map_of_cpus_is_respected),
		ON(machine, test_ports_follow_the_published_plan),
		ON(machine, test_a_device_can_be_named_by_its_pci_address),
		ON(machine, test_lists_must_fit_each_other),
		ON(machine, test_two_spellings_must_not_contradict_each_other),
		ON(machine, test_options_of_stream_pass_through),
		ON(machine, test_a_server_says_only_what_it_was_told),
		ON(machine_without_gpus, test_a_machine_without_gpus_says_so),
		ON(machine, test_multi_neper_has_its_own_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
