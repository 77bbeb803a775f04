// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/hosts.h"

/* What DNS says: the host has so many addresses, IPv6 and IPv4 in turn, and begins with another one each time. */
static int dns_addresses, dns_first;

static struct addrinfo *dns_address(int which)
{
	struct {
		struct addrinfo info;
		struct sockaddr_in6 in6;
		struct sockaddr_in in4;
	} *a = calloc(1, sizeof(*a));
	char text[INET6_ADDRSTRLEN];

	assert_non_null(a);
	a->in4.sin_family = AF_INET;
	a->in6.sin6_family = AF_INET6;
	snprintf(text, sizeof(text), which % 2 ? "fd00::%x" : "10.0.0.%d", which + 1);
	inet_pton(AF_INET, text, &a->in4.sin_addr);
	inet_pton(AF_INET6, text, &a->in6.sin6_addr);
	a->info.ai_family = which % 2 ? AF_INET6 : AF_INET;
	a->info.ai_addr = which % 2 ? (void *)&a->in6 : (void *)&a->in4;
	a->info.ai_addrlen = which % 2 ? sizeof(a->in6) : sizeof(a->in4);
	return &a->info;
}

/* Instead of libc's, which would ask the machine that the test runs on. */
int getaddrinfo(
	const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	(void)service;
	(void)hints;
	*list = NULL;
	if (strcmp(node, "every.host") != 0)
		return EAI_NONAME;
	for (int i = 0; i < dns_addresses; i++) {
		struct addrinfo *a = dns_address((dns_first + i) % dns_addresses);

		a->ai_next = *list;
		*list = a;
	}
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;

		free(list);
		list = next;
	}
}

static void expect(const char *list, const char *joined)
{
	char text[512] = "";
	struct hosts h = { 0 };

	assert_int_equal(hosts_add_list(&h, list, NULL), 0);
	for (size_t i = 0; i < h.count; i++)
		strcat(strcat(text, h.name[i]), " ");
	assert_string_equal(text, joined);
	hosts_free(&h);
}

static void test_lists_as_slurm_writes_them(void **state)
{
	(void)state;
	expect("a,b c", "a b c ");
	expect("n[1-3]", "n1 n2 n3 ");
	expect("n[08-11,20]x,gw", "n08x n09x n10x n11x n20x gw ");
	expect("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2 ");
	expect("a,a,,a", "a ");
}

static void test_many_hosts_are_each_there_once(void **state)
{
	struct hosts h = { 0 };

	(void)state;
	assert_int_equal(hosts_add_list(&h, "r[1-20]n[001-500] r[1-20]n[001-500]", NULL), 0);
	assert_int_equal(h.count, 10000);
	assert_string_equal(h.name[9999], "r20n500");
	assert_int_equal(hosts_add_list(&h, "x[1-99][1-99][1-99]", NULL), -E2BIG);
	hosts_free(&h);
}

static void test_what_is_no_list_is_refused(void **state)
{
	static const char *const wrong[] = { "n[", "n[1-", "n[3-1]", "n[a]", "n[1-999999999]",
		"n[1]]x[" };
	struct hosts h = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(hosts_add_list(&h, wrong[i], NULL), -EINVAL);
	hosts_free(&h);
}

static void test_a_name_stands_for_all_of_its_addresses_sorted(void **state)
{
	struct hosts h, again;
	struct err e;

	(void)state;
	dns_addresses = 200;
	assert_int_equal(hosts_find(&h, "dns:every.host", NULL, NULL), 0);
	assert_int_equal(h.count, 200);
	assert_string_equal(h.name[0], "10.0.0.1");
	assert_string_equal(h.name[5], "10.0.0.11");
	assert_string_equal(h.name[99], "10.0.0.199");
	assert_string_equal(h.name[100], "fd00::2");
	assert_string_equal(h.name[199], "fd00::c8");
	dns_first = 77;
	assert_int_equal(hosts_find(&again, "dns:every.host", NULL, NULL), 0);
	assert_int_equal(again.count, h.count);
	for (size_t i = 0; i < h.count; i++)
		assert_string_equal(again.name[i], h.name[i]);
	hosts_free(&h);
	hosts_free(&again);
	assert_int_equal(hosts_find(&h, "dns:no.host", NULL, &e), -ENOENT);
	assert_non_null(strstr(e.what, "dns:no.host"));
}

/* An environment as a scheduler makes it: name, value, name, value. */
static void with(char **variable, const char *joined)
{
	char text[512] = "";
	struct hosts h;

	for (char **v = variable; *v; v += 2)
		setenv(v[0], v[1], 1);
	assert_int_equal(hosts_find(&h, NULL, NULL, NULL), 0);
	for (size_t i = 0; i < h.count; i++)
		strcat(strcat(text, h.name[i]), " ");
	assert_string_equal(text, joined);
	hosts_free(&h);
	for (char **v = variable; *v; v += 2)
		unsetenv(v[0]);
}
#define WITH(joined, ...) with((char *[]){ __VA_ARGS__, NULL }, joined)

static char *file_with(const char *words)
{
	static char path[] = "/tmp/weir-test-hosts-XXXXXX";
	int fd;

	strcpy(path + sizeof(path) - 7, "XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, words, strlen(words)), strlen(words));
	close(fd);
	return path;
}

static void test_slurm_says_its_nodes(void **state)
{
	(void)state;
	WITH("gpu-a01 gpu-a02 gpu-a03 gpu-b11 ", "SLURM_JOB_ID", "4711", "SLURM_NNODES", "4",
		"SLURM_JOB_NODELIST", "gpu-a[01-03],gpu-b11", "SLURM_NODELIST",
		"gpu-a[01-03],gpu-b11");
	WITH("n1 n2 ", "SLURM_NODELIST", "n[1-2]");
	/* srun inside a job: Slurm knows better than torchrun. */
	WITH("n1 n2 ", "SLURM_JOB_NODELIST", "n[1-2]", "MASTER_ADDR", "n1", "WORLD_SIZE", "16");
}

static void test_mpi_says_its_hostfile(void **state)
{
	static const char *const variables[] = { "OMPI_MCA_orte_default_hostfile",
		"PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE",
		"PBS_NODEFILE", "LSB_DJOB_HOSTFILE" };
	char *path;

	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		path = file_with("# made by the operator\n"
				 "job-worker-0.job.default.svc slots=8\n"
				 "job-worker-1.job.default.svc slots=8 max_slots=16\n"
				 "node3:8\nnode4 8\nnode3:8\n\n10.0.0.5\nfd00::7\n");
		WITH("job-worker-0.job.default.svc job-worker-1.job.default.svc node3 node4 10.0.0.5 fd00::7 ",
			(char *)variables[i], path);
		unlink(path);
	}
}

static void test_torchrun_says_the_first_and_how_many(void **state)
{
	struct hosts h;
	struct err e;

	(void)state;
	WITH("node1 ", "MASTER_ADDR", "node1", "WORLD_SIZE", "8", "LOCAL_WORLD_SIZE", "8",
		"GROUP_WORLD_SIZE", "1", "TORCHELASTIC_RUN_ID", "none");
	WITH("trainer-0.trainer trainer-1.trainer trainer-2.trainer ", "MASTER_ADDR",
		"trainer-0.trainer", "WORLD_SIZE", "24", "LOCAL_WORLD_SIZE", "8");
	WITH("bert-master-0 bert-worker-0 bert-worker-1 ", "MASTER_ADDR", "bert-master-0",
		"MASTER_PORT", "23456", "WORLD_SIZE", "3", "RANK", "0", "PET_NNODES", "3",
		"KUBERNETES_SERVICE_HOST", "10.96.0.1");
	setenv("MASTER_ADDR", "10.1.2.3", 1);
	setenv("GROUP_WORLD_SIZE", "2", 1);
	assert_int_equal(hosts_find(&h, NULL, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.what, "only the name of the first"));
	assert_int_equal(hosts_find(&h, "10.1.2.[3-4]", NULL, &e), 0);
	hosts_free(&h);
	unsetenv("MASTER_ADDR");
	unsetenv("GROUP_WORLD_SIZE");
}

static void test_kubernetes_schedulers_say_their_pods(void **state)
{
	(void)state;
	WITH("j-master-0.j j-worker-0.j j-worker-1.j ", "KUBERNETES_SERVICE_HOST", "10.96.0.1",
		"VC_MASTER_HOSTS", "j-master-0.j", "VC_WORKER_HOSTS", "j-worker-0.j,j-worker-1.j");
	dns_addresses = 1;
	dns_first = 0;
	WITH("10.0.0.1 ", "KUBERNETES_SERVICE_HOST", "10.96.0.1", "WEIR_HOSTS", "dns:every.host");
}

static void test_words_go_before_the_environment_and_nothing_is_refused(void **state)
{
	struct hosts h;
	struct err e;

	(void)state;
	setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
	assert_int_equal(hosts_find(&h, "other", NULL, &e), 0);
	assert_string_equal(h.name[0], "other");
	hosts_free(&h);
	unsetenv("SLURM_JOB_NODELIST");
	assert_int_equal(hosts_find(&h, NULL, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.hint, "--hosts"));
	setenv("OMPI_COMM_WORLD_SIZE", "16", 1);
	assert_int_equal(hosts_find(&h, NULL, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.hint, "--hosts-file"));
	unsetenv("OMPI_COMM_WORLD_SIZE");
}

static int forget(void **state)
{
	static const char *const all[] = { "WEIR_HOSTS", "SLURM_JOB_NODELIST", "SLURM_NODELIST",
		"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "OMPI_MCA_orte_default_hostfile",
		"PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE",
		"VC_WORKER_HOSTS", "VC_MASTER_HOSTS", "MASTER_ADDR", "WORLD_SIZE",
		"LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "PET_NNODES", "KUBERNETES_SERVICE_HOST",
		"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK" };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_as_slurm_writes_them),
		cmocka_unit_test(test_many_hosts_are_each_there_once),
		cmocka_unit_test(test_what_is_no_list_is_refused),
		cmocka_unit_test(test_a_name_stands_for_all_of_its_addresses_sorted),
		cmocka_unit_test(test_slurm_says_its_nodes),
		cmocka_unit_test(test_mpi_says_its_hostfile),
		cmocka_unit_test(test_torchrun_says_the_first_and_how_many),
		cmocka_unit_test(test_kubernetes_schedulers_say_their_pods),
		cmocka_unit_test(test_words_go_before_the_environment_and_nothing_is_refused),
	};

	return cmocka_run_group_tests(tests, forget, NULL);
}
