/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/cpus.h"

void cpus_clear(struct cpus *c)
{
	memset(c, 0, sizeof(*c));
}

bool cpus_has(const struct cpus *c, int cpu)
{
	return cpu >= 0 && cpu < CPUS_MAX && c->bits[cpu / 64] >> (cpu % 64) & 1;
}

void cpus_add(struct cpus *c, int cpu)
{
	if (cpu < 0 || cpu >= CPUS_MAX || cpus_has(c, cpu))
		return;
	c->bits[cpu / 64] |= 1ull << (cpu % 64);
	c->count++;
}

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t\n");
}

/* A number from 0 to CPUS_MAX - 1 and the blanks around it; moves *p behind them. */
static int read_number(const char **p, int *number)
{
	const char *s = skip_blanks(*p);

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (*number = 0; *s >= '0' && *s <= '9'; s++) {
		*number = *number * 10 + (*s - '0');
		if (*number >= CPUS_MAX)
			return -ERANGE;
	}
	*p = skip_blanks(s);
	return 0;
}

/* "8", "0-3" or "0-14:2" */
static int read_range(const char **p, struct cpus *c)
{
	int first, last, step = 1, cpu, ret;

	ret = read_number(p, &first);
	if (ret)
		return ret;
	last = first;
	if (**p == '-') {
		++*p;
		ret = read_number(p, &last);
		if (!ret && **p == ':') {
			++*p;
			ret = read_number(p, &step);
		}
		if (ret)
			return ret;
	}
	if (last < first || !step)
		return -EINVAL;
	for (cpu = first; cpu <= last; cpu += step)
		cpus_add(c, cpu);
	return 0;
}

static int read_list(const char *p, struct cpus *c)
{
	int ret;

	do {
		ret = read_range(&p, c);
		if (ret)
			return ret;
	} while (*p++ == ',');
	return p[-1] ? -EINVAL : 0;
}

int cpus_parse(struct cpus *c, const char *list, struct err *e)
{
	struct cpus parsed = { 0 };
	int ret = 0;

	if (*skip_blanks(list))
		ret = read_list(list, &parsed);
	if (ret) {
		err_set(e, -ret, "\"%s\" is not a list of CPUs from 0 to %d", list, CPUS_MAX - 1);
		err_hint(e, "write numbers and ascending ranges, for example 0-3,8 or 0-14:2");
		return ret;
	}
	*c = parsed;
	return 0;
}

static int next_member(const struct cpus *c, int cpu)
{
	while (cpu < CPUS_MAX && !cpus_has(c, cpu))
		cpu++;
	return cpu;
}

/* Back to the last comma that leaves room for the dots: half a number would read as another CPU. */
static void cut_list(char *buf, size_t size)
{
	size_t end = size > 4 ? size - 4 : 0;

	while (end && buf[end - 1] != ',')
		end--;
	snprintf(buf + end, size - end, "...");
}

char *cpus_format(const struct cpus *c, char *buf, size_t size)
{
	const char *comma = "";
	size_t used = 0;
	int first, last;

	if (!size)
		return buf;
	buf[0] = '\0';
	for (first = next_member(c, 0); first < CPUS_MAX; first = next_member(c, last + 1)) {
		last = first;
		while (cpus_has(c, last + 1))
			last++;
		used += (size_t)snprintf(buf + used, size - used, "%s%d", comma, first);
		if (used < size && last > first)
			used += (size_t)snprintf(buf + used, size - used, "-%d", last);
		if (used >= size) {
			cut_list(buf, size);
			break;
		}
		comma = ",";
	}
	return buf;
}

int cpus_nth(const struct cpus *c, int n)
{
	int cpu;

	if (n < 0 || n >= c->count)
		return -1;
	for (cpu = next_member(c, 0); n; n--)
		cpu = next_member(c, cpu + 1);
	return cpu;
}

int cpus_allowed(struct cpus *c, struct err *e)
{
	cpu_set_t set[CPUS_MAX / CPU_SETSIZE];
	int cpu;

	cpus_clear(c);
	if (sched_getaffinity(0, sizeof(set), set))
		return err_set(e, errno, "cannot read which CPUs this thread may run on: %m");
	for (cpu = 0; cpu < CPUS_MAX; cpu++)
		if (CPU_ISSET_S((size_t)cpu, sizeof(set), set))
			cpus_add(c, cpu);
	return 0;
}

int cpus_pin(int cpu, struct err *e)
{
	struct cpus one = { 0 };

	if (cpu < 0 || cpu >= CPUS_MAX)
		return err_set(e, EINVAL, "there is no CPU %d, only 0 to %d", cpu, CPUS_MAX - 1);
	cpus_add(&one, cpu);
	return cpus_pin_set(&one, e);
}

int cpus_pin_set(const struct cpus *c, struct err *e)
{
	cpu_set_t set[CPUS_MAX / CPU_SETSIZE];
	struct cpus allowed;
	char list[128];
	int cpu, code;

	if (!c->count)
		return err_set(e, EINVAL, "cannot pin a thread to an empty set of CPUs");
	CPU_ZERO_S(sizeof(set), set);
	for (cpu = 0; cpu < CPUS_MAX; cpu++)
		if (cpus_has(c, cpu))
			CPU_SET_S((size_t)cpu, sizeof(set), set);
	if (!sched_setaffinity(0, sizeof(set), set))
		return 0;
	code = errno;
	err_set(e, code, "cannot pin a thread to CPU %s: %m", cpus_format(c, list, sizeof(list)));
	if (!cpus_allowed(&allowed, NULL))
		err_hint(e, "this thread may run on CPU %s",
			cpus_format(&allowed, list, sizeof(list)));
	return -code;
}
