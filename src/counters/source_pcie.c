// SPDX-License-Identifier: BSD-3-Clause
/* PCI: the link of each NIC, GPU and bridge now and at best, and its errors (advanced error reporting). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "counters/emit.h"
#include "counters/source.h"
#include "sys/path.h"

#define CLASS_NETWORK 0x02
#define CLASS_DISPLAY 0x03
#define CLASS_BRIDGE  0x0604
#define CLASS_ACCEL   0x12

/* "eth1 (0000:06:00.0)"; false for what is of no interest. */
static bool pci_object(const char *address, char object[COUNTER_TEXT])
{
	int64_t class = sys_read_number(0, 0xffffff, -1, "/sys/bus/pci/devices/%s/class", address);
	struct sys_names nics;
	const char *what = NULL;

	if (class < 0)
		return false;
	if (class >> 16 == CLASS_NETWORK &&
		!sys_list(&nics, "/sys/bus/pci/devices/%s/net", address)) {
		if (nics.count) {
			snprintf(object, COUNTER_TEXT, "%s (%s)", nics.entry[0]->d_name, address);
			sys_names_free(&nics);
			return true;
		}
		sys_names_free(&nics);
	}
	if (class >> 16 == CLASS_NETWORK)
		what = "NIC";
	else if (class >> 16 == CLASS_DISPLAY || class >> 16 == CLASS_ACCEL)
		what = "GPU";
	else if (class >> 8 == CLASS_BRIDGE)
		what = "bridge";
	if (what)
		snprintf(object, COUNTER_TEXT, "%s (%s)", what, address);
	return what;
}

struct pci_file {
	char *path, *object;
	const char *name; /* of the counter, or of the group of an error file */
	bool aer;
	struct whole_file file;
};

struct pci_state {
	struct pci_file *file;
	size_t count;
};

static void pci_add(struct reader *r, struct pci_state *s, const char *address, const char *object,
	const char *file, const char *name, bool aer)
{
	struct pci_file *grown, *f;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, file);
	grown = reallocarray(s->file, s->count + 1, sizeof(*grown));
	if (grown)
		s->file = grown;
	f = grown ? &s->file[s->count] : NULL;
	if (f)
		*f = (struct pci_file){ strdup(path), strdup(object), name, aer, { 0 } };
	if (!f || !f->path || !f->object) {
		r->ret = err_set(r->e, ENOMEM, "no memory for counters");
		if (f) {
			free(f->path);
			free(f->object);
		}
		return;
	}
	s->count++;
}

static void pci_learn(struct reader *r, struct pci_state *s)
{
	static const struct {
		const char *file, *name;
		bool aer;
	} what[] = {
		{ "current_link_speed", "link_speed_mtps", false },
		{ "max_link_speed", "link_speed_max_mtps", false },
		{ "current_link_width", "link_width", false },
		{ "max_link_width", "link_width_max", false },
		{ "aer_dev_correctable", "aer_correctable", true },
		{ "aer_dev_nonfatal", "aer_nonfatal", true },
		{ "aer_dev_fatal", "aer_fatal", true },
	};
	char object[COUNTER_TEXT], path[PATH_MAX], text[64];
	struct sys_names devices;

	if (sys_list(&devices, "/sys/bus/pci/devices"))
		return;
	for (int i = 0; i < devices.count && !r->ret; i++) {
		const char *address = devices.entry[i]->d_name;

		if (!pci_object(address, object) || !reader_wants(r, object))
			continue;
		/* A recording needs to know what each device is. */
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", address);
		if (r->record && !sys_read(text, sizeof(text), "%s", path))
			reader_record(r, path, text, strlen(text));
		for (size_t k = 0; k < sizeof(what) / sizeof(what[0]) && !r->ret; k++)
			pci_add(r, s, address, object, what[k].file, what[k].name, what[k].aer);
	}
	sys_names_free(&devices);
}

/* "16.0 GT/s PCIe" in millions, "x16" or "16" lanes; unknown is absent. */
static void pci_link(struct reader *r, struct pci_file *f)
{
	char *end;
	double value = strtod(f->file.text, &end);

	if (end == f->file.text || value <= 0 || value > 1e6)
		return;
	if (strstr(end, "GT/s"))
		value *= 1000;
	reader_put(r, f->object, f->name, (uint64_t)(value + 0.5), f->file.time_ns);
}

/* "RxErr 0" on each line. */
static void pci_errors(struct reader *r, struct pci_file *f)
{
	char *rest = f->file.text, *one, name[COUNTER_TEXT];
	uint64_t value;

	while ((one = strsep(&rest, "\n"))) {
		char *word = strsep(&one, " ");

		if (!one || !parse_number(one, strlen(one), false, &value))
			continue;
		snprintf(name, sizeof(name), "%s.%s", f->name, word);
		reader_put(r, f->object, name, value, f->file.time_ns);
	}
}

static void pcie_read(struct reader *r, void **state)
{
	struct pci_state *s = *state;
	bool learn = !s || r->record;

	if (!s) {
		*state = s = calloc(1, sizeof(*s));
		if (!s) {
			r->ret = err_set(r->e, ENOMEM, "no memory for counters");
			return;
		}
	}
	if (learn && !s->count)
		pci_learn(r, s);
	for (size_t i = 0; i < s->count && !r->ret; i++) {
		struct pci_file *f = &s->file[i];

		if (!whole_file_read(&f->file, r, f->path))
			continue;
		if (f->aer)
			pci_errors(r, f);
		else
			pci_link(r, f);
	}
}

static void pcie_forget(void *state)
{
	struct pci_state *s = state;

	for (size_t i = 0; i < s->count; i++) {
		whole_file_free(&s->file[i].file);
		free(s->file[i].path);
		free(s->file[i].object);
	}
	free(s->file);
	free(s);
}

const struct source source_pcie = {
	.name = "pcie",
	.about = "PCIe links now and at best, and their errors, of NICs, GPUs and bridges",
	.read = pcie_read,
	.forget = pcie_forget,
};
