// SPDX-License-Identifier: BSD-3-Clause
/* weir p2p mesh: every GPU with its like on the other host, all at once, in one process or in many. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/p2p.h"
#include "sys/gpu.h"

#define GPUS_MAX   64
#define TIMES_KEPT 4096

/* What becomes of one GPU; shared memory, where it is a process of its own. */
struct lane {
	const struct p2p_options *options;
	int gpu, ret;
	bool first; /* whose progress stands for all */
	char devices[128];
	struct err error;
	struct p2p_client client;
	uint64_t local_times[TIMES_KEPT], remote_times[TIMES_KEPT];
	pthread_t thread;
	pid_t child;
	struct out *out;
};

static int all_gpus(struct cpus *set, struct err *e)
{
	struct gpu *gpus;
	size_t count;
	int ret = gpu_list(&gpus, &count, e);

	if (ret)
		return ret;
	for (size_t i = 0; i < count; i++)
		cpus_add(set, (int)i);
	free(gpus);
	if (count)
		return 0;
	err_set(e, ENODEV, "this machine has no GPU");
	return err_hint(e, "name as many as you like and use host memory: --gpus 0-7 --mem host");
}

/* "0-1:eth1;2-3:eth2,eth3": the NICs of one GPU. */
static int map_find(const char *map, int gpu, char *devices, size_t size, struct err *e)
{
	char list[128];
	struct cpus set;

	devices[0] = '\0';
	while (map && *map) {
		size_t entry = strcspn(map, ";"), colon = strcspn(map, ":");

		if (colon >= entry || colon >= sizeof(list)) {
			err_set(e, EINVAL, "--map: \"%.*s\" has no NIC", (int)entry, map);
			return err_hint(e, "for example: --map \"0-1:eth1;2-3:eth2\"");
		}
		snprintf(list, sizeof(list), "%.*s", (int)colon, map);
		if (cpus_parse(&set, list, e))
			return err_prefix(e, "--map");
		if (cpus_has(&set, gpu)) {
			snprintf(devices, size, "%.*s", (int)(entry - colon - 1), map + colon + 1);
			return 0;
		}
		map += entry + (map[entry] == ';');
	}
	return map ? err_set(e, EINVAL, "--map has no NIC for GPU %d", gpu) : 0;
}

static void lane_run(struct lane *l)
{
	const char *devices = l->devices[0] ? l->devices : NULL;

	if (l->options->host) {
		l->client.options = l->options;
		l->client.gpu = l->gpu;
		l->client.devices = devices;
		l->client.show_progress = l->first && !l->options->quiet;
		l->ret = p2p_client_run(&l->client, &l->error);
	} else {
		l->ret = p2p_serve(l->options, l->gpu, devices, l->out, &l->error);
	}
}

static void *lane_thread(void *of)
{
	lane_run(of);
	return NULL;
}

/* What a child found is in its own memory: the times go where the parent can see them. */
static void keep_times(struct run_end *end, uint64_t *kept)
{
	uint32_t count = end->times < TIMES_KEPT ? end->times : TIMES_KEPT;

	if (!end->time_ns)
		return;
	memcpy(kept, end->time_ns, count * sizeof(*kept));
	free(end->time_ns);
	end->time_ns = kept;
	end->times = count;
}

static int start_processes(struct lane *lane, unsigned int count, struct err *e)
{
	for (unsigned int i = 0; i < count; i++) {
		pid_t child;

		fflush(NULL);
		child = fork();
		if (child < 0)
			return err_set(
				e, errno, "cannot start a process for GPU %d: %m", lane[i].gpu);
		if (child) { /* the lane is the child's as well, and only the parent knows */
			lane[i].child = child;
			continue;
		}
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		lane_run(&lane[i]);
		keep_times(&lane[i].client.mine, lane[i].local_times);
		keep_times(&lane[i].client.theirs, lane[i].remote_times);
		fflush(NULL);
		_exit(0);
	}
	return 0;
}

static int start_threads(struct lane *lane, unsigned int count, struct err *e)
{
	for (unsigned int i = 0; i < count; i++) {
		int ret = pthread_create(&lane[i].thread, NULL, lane_thread, &lane[i]);

		if (ret) {
			p2p_stop = true;
			for (unsigned int k = 0; k < i; k++)
				pthread_join(lane[k].thread, NULL);
			return err_set(e, ret, "cannot start a thread for GPU %d: %s", lane[i].gpu,
				strerror(ret));
		}
	}
	return 0;
}

static void await(struct lane *lane, unsigned int count, bool processes)
{
	int status = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (!processes) {
			pthread_join(lane[i].thread, NULL);
			continue;
		}
		if (lane[i].child <= 0)
			continue;
		while (waitpid(lane[i].child, &status, 0) < 0 && errno == EINTR)
			if (p2p_stop)
				kill(lane[i].child, SIGTERM);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			lane[i].ret =
				err_set(&lane[i].error, ECHILD, "its process ended by itself");
	}
}

static int report(struct lane *lane, unsigned int count, const struct p2p_options *o,
	struct out *out, struct err *e)
{
	struct p2p_record record[GPUS_MAX];
	struct p2p_mesh m = { .record = record, .count = count, .processes = o->processes };
	uint64_t first = UINT64_MAX, last = 0;

	for (unsigned int i = 0; i < count; i++) {
		struct p2p_client *c = &lane[i].client;

		record[i] = c->record;
		if (!record[i].role)
			record[i] = (struct p2p_record){ .role = "client",
				.gpu = lane[i].gpu,
				.transport = "?",
				.unpack = "?" };
		if (lane[i].ret)
			record[i].error = lane[i].error.what;
		if (!c->end_ns)
			continue;
		first = c->begin_ns < first ? c->begin_ns : first;
		last = c->end_ns > last ? c->end_ns : last;
	}
	m.elapsed_ns = last > first ? last - first : 0;
	p2p_mesh_emit(&m, out);
	for (unsigned int i = 0; i < count; i++)
		if (lane[i].ret)
			*e = lane[i].error;
	return p2p_mesh_verdict(&m);
}

static int lanes_make(const struct p2p_options *o, struct out *out, struct lane **lanes,
	unsigned int *count, struct err *e)
{
	struct cpus gpus;
	int ret;

	cpus_clear(&gpus);
	ret = o->gpus ? cpus_parse(&gpus, o->gpus, e) : all_gpus(&gpus, e);
	if (ret)
		return o->gpus ? err_prefix(e, "--gpus %s", o->gpus) : ret;
	if (!gpus.count || gpus.count > GPUS_MAX)
		return err_set(e, EINVAL, "%d GPUs: 1 to %d are possible", gpus.count, GPUS_MAX);
	*count = (unsigned int)gpus.count;
	*lanes = mmap(NULL, sizeof(**lanes) * *count, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (*lanes == MAP_FAILED)
		return err_set(e, errno, "no memory for %u GPUs: %m", *count);
	for (unsigned int i = 0; !ret && i < *count; i++) {
		struct lane *l = &(*lanes)[i];

		l->options = o;
		l->out = out;
		l->first = !i;
		l->gpu = cpus_nth(&gpus, (int)i);
		ret = map_find(o->map, l->gpu, l->devices, sizeof(l->devices), e);
	}
	return ret;
}

int p2p_mesh_main(const struct p2p_options *o, struct out *out, struct err *e)
{
	struct lane *lane = NULL;
	unsigned int count = 0;
	int ret, status = 0;

	ret = lanes_make(o, out, &lane, &count, e);
	if (!ret)
		ret = (o->processes ? start_processes : start_threads)(lane, count, e);
	if (!ret) {
		await(lane, count, o->processes);
		if (o->host)
			status = report(lane, count, o, out, e);
		for (unsigned int i = 0; !o->host && i < count; i++)
			if (lane[i].ret) {
				*e = lane[i].error;
				ret = -e->code;
			}
	}
	for (unsigned int i = 0; i < count && lane && !o->processes; i++) {
		run_end_free(&lane[i].client.mine);
		run_end_free(&lane[i].client.theirs);
	}
	if (lane && lane != MAP_FAILED)
		munmap(lane, sizeof(*lane) * count);
	if (status == STATUS_FAILED)
		return e->code ? -e->code : STATUS_FAILED;
	return ret ? ret : status;
}
