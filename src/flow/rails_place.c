// SPDX-License-Identifier: BSD-3-Clause
/* Which GPU and which CPUs a rail gets. */
#include <stdlib.h>
#include <string.h>

#include "flow/rails_plan.h"
#include "sys/gpu.h"
#include "sys/path.h"

/* GPUs */

static uint32_t users_of(const struct rails *rails, const char *gpu)
{
	uint32_t users = 0;

	for (uint32_t i = 0; i < rails->count; i++)
		users += !strcmp(rails->rail[i].gpu, gpu);
	return users;
}

static void take_nearest(
	const struct rails *rails, struct rail *r, const struct gpu *gpus, size_t count)
{
	enum topo_distance least = TOPO_SYS;
	uint32_t fewest = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		const char *address = topo_address(&gpus[i].place);
		enum topo_distance distance = topo_distance(&gpus[i].place, &r->nic.place);
		uint32_t users = users_of(rails, address);

		if (distance > least || (distance == least && users >= fewest))
			continue;
		least = distance;
		fewest = users;
		r->gpu_index = (int)i;
	}
	if (r->gpu_index < 0)
		return;
	snprintf(r->gpu, sizeof(r->gpu), "%s", topo_address(&gpus[r->gpu_index].place));
	r->gpu_distance = topo_distance_name(least);
}

/* By address, or by the index that CUDA gives it, which is not ours to translate. */
static int take_given(
	struct rail *r, const char *text, const struct gpu *gpus, size_t count, struct err *e)
{
	char address[TOPO_ADDRESS_SIZE];

	snprintf(r->gpu, sizeof(r->gpu), "%s", text);
	if (!strchr(text, ':'))
		return 0;
	if (topo_address_parse(address, text, e))
		return err_prefix(e, "--gpus");
	for (size_t i = 0; i < count; i++) {
		if (strcmp(topo_address(&gpus[i].place), address) != 0)
			continue;
		r->gpu_index = (int)i;
		r->gpu_distance = topo_distance_name(topo_distance(&gpus[i].place, &r->nic.place));
		return 0;
	}
	err_set(e, ENODEV, "--gpus %s: there is no such GPU", text);
	return err_hint(e, "weir alone lists the GPUs of this machine");
}

/* Whoever has exported a choice of GPUs means it: they are dealt in that order. */
static bool take_visible(struct rail *r)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (!visible || !*visible)
		return false;
	snprintf(r->gpu, sizeof(r->gpu), "%u", r->index % rails_list_count(visible, ','));
	return true;
}

/* Those that CUDA can have, so that an index is CUDA's. */
static size_t keep_nvidia(struct gpu *gpus, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (gpus[i].vendor == GPU_VENDOR_NVIDIA)
			gpus[kept++] = gpus[i];
	return kept;
}

int rails_place_gpus(struct rails *rails, struct err *e)
{
	struct gpu *gpus = NULL;
	size_t count = 0;
	char one[32];
	int ret;

	if (rails->asked->memory != MEMORY_CUDA)
		return 0;
	ret = gpu_list(&gpus, &count, e);
	count = keep_nvidia(gpus, count);
	for (uint32_t i = 0; !ret && i < rails->count; i++) {
		struct rail *r = &rails->rail[i];

		if (rails_list_nth(rails->asked->gpus, ',', i, one, sizeof(one)))
			ret = take_given(r, one, gpus, count, e);
		else if (!take_visible(r))
			take_nearest(rails, r, gpus, count);
		if (!ret && !r->gpu[0]) {
			err_set(e, ENODEV, "--mem cuda: this machine has no NVIDIA GPU");
			ret = err_hint(e, "use --mem udmabuf or host instead");
		}
	}
	free(gpus);
	return ret;
}

/* CPUs */

struct placing {
	struct cpus allowed, used;
};

static int siblings_read(struct cpus *c, int cpu)
{
	char list[256];
	int ret;

	ret = sys_read(list, sizeof(list),
		"/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	return ret ? ret : cpus_parse(c, list, NULL);
}

static bool sibling_in_use(const struct placing *p, int cpu)
{
	struct cpus siblings;

	if (siblings_read(&siblings, cpu))
		return false;
	for (int i = 0; i < siblings.count; i++)
		if (cpus_has(&p->used, cpus_nth(&siblings, i)))
			return true;
	return false;
}

/* What speaks against a CPU for a rail, the gravest as the largest. */
static int objections(const struct placing *p, const struct rail *r, int cpu)
{
	const struct cpus *local = &r->nic.place.local_cpus;

	return (local->count && !cpus_has(local, cpu) ? 8 : 0) + (sibling_in_use(p, cpu) ? 4 : 0) +
	       (cpus_has(&r->irq_cpus, cpu) ? 2 : 0) + (cpu == 0 ? 1 : 0);
}

static void take_cpu(struct placing *p, struct rail *r)
{
	int best = -1, least = 0;

	for (int i = 0; i < p->allowed.count; i++) {
		int cpu = cpus_nth(&p->allowed, i), against;

		if (cpus_has(&p->used, cpu))
			continue;
		against = objections(p, r, cpu);
		if (best < 0 || against < least) {
			best = cpu;
			least = against;
		}
		if (!against)
			break;
	}
	cpus_add(&p->used, best);
	cpus_add(&r->cpus, best);
}

static int take_given_cpus(struct rails *rails, struct err *e)
{
	char one[256];

	for (uint32_t i = 0; i < rails->count; i++) {
		struct rail *r = &rails->rail[i];

		if (!rails_list_nth(rails->asked->cpus, '/', i, one, sizeof(one)))
			return err_set(
				e, EINVAL, "--cpus %s is too long a list", rails->asked->cpus);
		if (cpus_parse(&r->cpus, one, e))
			return err_prefix(e, "--cpus");
		if (!r->cpus.count)
			return err_set(e, EINVAL, "--cpus %s names no CPU for %s",
				rails->asked->cpus, r->nic.name);
	}
	return 0;
}

/* On a recorded machine, those that it had. */
static int allowed_read(struct cpus *c, struct err *e)
{
	char list[256];

	if (sys_is_live())
		return cpus_allowed(c, e);
	cpus_clear(c);
	if (!sys_read(list, sizeof(list), "/sys/devices/system/cpu/online"))
		return cpus_parse(c, list, e);
	return 0;
}

int rails_place_cpus(struct rails *rails, struct err *e)
{
	struct placing p = { 0 };
	uint64_t wanted = (uint64_t)rails->count * (uint64_t)rails->asked->threads;
	int ret;

	if (!rails->asked->pin)
		return 0;
	if (rails->asked->cpus)
		return take_given_cpus(rails, e);
	ret = allowed_read(&p.allowed, e);
	/* Threads that share CPUs are better moved about by the kernel. */
	if (ret || wanted > (uint64_t)p.allowed.count)
		return ret;
	for (uint32_t i = 0; i < rails->count; i++)
		nic_irq_cpus(&rails->rail[i].irq_cpus, &rails->rail[i].nic);
	for (uint32_t i = 0; i < rails->count; i++)
		for (int64_t t = 0; t < rails->asked->threads; t++)
			take_cpu(&p, &rails->rail[i]);
	return 0;
}
