// SPDX-License-Identifier: BSD-3-Clause
/* Sources that are files of /proc: the host's protocols, its CPUs' packet queues, its interrupts. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/emit.h"
#include "counters/source.h"

static struct whole_file *file_of(struct reader *r, void **state)
{
	if (!*state)
		*state = calloc(1, sizeof(struct whole_file));
	if (!*state)
		r->ret = err_set(r->e, ENOMEM, "no memory for counters");
	return *state;
}

static void file_forget(void *state)
{
	whole_file_free(state);
	free(state);
}

static bool whole_number(const char *text, uint64_t *value)
{
	return text && text[0] && parse_number(text, strlen(text), true, value) == strlen(text);
}

/* "Tcp: RtoAlgorithm RtoMin ..." and "Tcp: 1 200 ...": a line of names, then one of values. */
static void table_lines(
	struct reader *r, const struct whole_file *w, const char *path, char *names, char *values)
{
	const char *protocol = strsep(&names, ":");
	char *name, *value, full[COUNTER_TEXT];
	uint64_t number;

	(void)strsep(&values, ":");
	names = names ? names + strspn(names, " ") : NULL;
	values = values ? values + strspn(values, " ") : NULL;
	while ((name = strsep(&names, " "))) {
		value = strsep(&values, " ");
		if (!name[0])
			continue;
		snprintf(full, sizeof(full), "%s.%s", protocol, name);
		if (whole_number(value, &number))
			reader_put(r, "host", full, number, w->time_ns);
		else
			reader_problem(
				r, path, "%s is not a number: \"%.40s\"", full, value ? value : "");
	}
}

static void table_read(struct reader *r, void **state, const char *path)
{
	struct whole_file *w = file_of(r, state);
	char *rest = w && whole_file_read(w, r, path) ? w->text : NULL, *names, *values;

	while ((names = strsep(&rest, "\n")) && (values = strsep(&rest, "\n")))
		table_lines(r, w, path, names, values);
}

static void snmp_read(struct reader *r, void **state)
{
	table_read(r, state, "/proc/net/snmp");
}

static void netstat_read(struct reader *r, void **state)
{
	table_read(r, state, "/proc/net/netstat");
}

/* "Ip6InReceives   12" */
static void snmp6_read(struct reader *r, void **state)
{
	static const char path[] = "/proc/net/snmp6";
	struct whole_file *w = file_of(r, state);
	char *rest = w && whole_file_read(w, r, path) ? w->text : NULL, *one;
	uint64_t number;

	while ((one = strsep(&rest, "\n"))) {
		char *name = strsep(&one, " \t");

		if (!name[0] || !one)
			continue;
		one += strspn(one, " \t");
		if (whole_number(one, &number))
			reader_put(r, "host", name, number, w->time_ns);
		else
			reader_problem(r, path, "%s is not a number: \"%.40s\"", name, one);
	}
}

const struct source source_snmp = {
	.name = "snmp",
	.about = "IP, ICMP, TCP and UDP of the host: /proc/net/snmp",
	.read = snmp_read,
	.forget = file_forget,
};

const struct source source_netstat = {
	.name = "netstat",
	.about = "more of TCP and IP: /proc/net/netstat",
	.read = netstat_read,
	.forget = file_forget,
};

const struct source source_snmp6 = {
	.name = "snmp6",
	.about = "IPv6 of the host: /proc/net/snmp6",
	.read = snmp6_read,
	.forget = file_forget,
};

/* One line of hexadecimal numbers for each CPU that is online; newer kernels say which. */
static const char *const softnet_column[] = { "processed", "dropped", "time_squeeze", NULL, NULL,
	NULL, NULL, NULL, NULL, "received_rps", "flow_limit_count", "backlog_len", "cpu" };
#define SOFTNET_COLUMNS (sizeof(softnet_column) / sizeof(softnet_column[0]))
#define SOFTNET_CPU	12

static void softnet_line(
	struct reader *r, const struct whole_file *w, const char *path, char *line, uint32_t number)
{
	uint64_t value[SOFTNET_COLUMNS];
	char object[24], where[64], *word, *end;
	size_t count = 0;

	while (count < SOFTNET_COLUMNS && (word = strsep(&line, " "))) {
		if (!word[0])
			continue;
		value[count++] = strtoull(word, &end, 16);
		if (*end || strlen(word) > 8) {
			snprintf(where, sizeof(where), "%s:%u", path, number + 1);
			reader_problem(r, where, "not a number: \"%.40s\"", word);
			return;
		}
	}
	snprintf(object, sizeof(object), "cpu%llu",
		count > SOFTNET_CPU ? (unsigned long long)value[SOFTNET_CPU] : number);
	for (size_t i = 0; i < count && i < SOFTNET_CPU; i++)
		if (softnet_column[i])
			reader_put(r, object, softnet_column[i], value[i], w->time_ns);
}

static void softnet_read(struct reader *r, void **state)
{
	static const char path[] = "/proc/net/softnet_stat";
	struct whole_file *w = file_of(r, state);
	char *rest = w && whole_file_read(w, r, path) ? w->text : NULL, *one;

	for (uint32_t number = 0; (one = strsep(&rest, "\n")) && one[0]; number++)
		softnet_line(r, w, path, one, number);
}

const struct source source_softnet = {
	.name = "softnet",
	.about = "packets that each CPU took, dropped or left for later: /proc/net/softnet_stat",
	.read = softnet_read,
	.forget = file_forget,
};

/* "  24:   5   0  PCI-MSI 524288-edge   eth0-TxRx-0": the sum over all CPUs of a device's line. */
static void interrupts_line(struct reader *r, const struct whole_file *w, char *line, int cpus)
{
	char *number = strsep(&line, ":"), object[COUNTER_TEXT], *end, *name;
	uint64_t sum = 0;

	number += strspn(number, " ");
	if (!line || !isdigit((unsigned char)number[0]))
		return;
	for (int i = 0; i < cpus; i++) {
		sum += strtoull(line, &end, 10);
		if (end == line)
			return;
		line = end;
	}
	/* The chip, the line's own number, then the devices: the rest after the last wide gap. */
	name = line + strlen(line);
	while (name > line && !(name[-1] == ' ' && name - line > 1 && name[-2] == ' '))
		name--;
	while (name > line && name[0] == ' ')
		name++;
	if (!name[0])
		return;
	snprintf(object, sizeof(object), "%.100s (irq %.8s)", name, number);
	if (reader_wants(r, object))
		reader_put(r, object, "interrupts", sum, w->time_ns);
}

static void interrupts_read(struct reader *r, void **state)
{
	struct whole_file *w = file_of(r, state);
	char *rest = w && whole_file_read(w, r, "/proc/interrupts") ? w->text : NULL, *one;
	int cpus = 0;

	one = strsep(&rest, "\n");
	for (const char *at = one; at && (at = strstr(at, "CPU")); at += 3)
		cpus++;
	while ((one = strsep(&rest, "\n")))
		interrupts_line(r, w, one, cpus);
}

const struct source source_interrupts = {
	.name = "interrupts",
	.about = "interrupts of every device and queue, on all CPUs: /proc/interrupts",
	.read = interrupts_read,
	.forget = file_forget,
};
