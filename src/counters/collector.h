/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads all counters of this machine, or of a tree recorded on another, again and again.
 *
 *	ret = collector_open(&c, &(struct collector_options){ .sources = "cxi,netdev" }, e);
 *	ret = collector_read(c, &snapshot, e);
 *	...
 *	collector_close(c);		after the snapshots that it filled were freed
 *
 * The first reading opens every file and learns every name. Each further one reads the same open files
 * again and allocates nothing, unless there are counters that were not there before. A source that
 * is not there is silent; one that fails is a problem of the snapshot, and does not stop the others.
 * All is read below the root of sys/path.h; what the kernel tells by system calls alone (ethtool, netlink,
 * NVML) is read below a replaced root from what collector_record() wrote there.
 */
#ifndef WEIR_COUNTERS_COLLECTOR_H
#define WEIR_COUNTERS_COLLECTOR_H

#include "counters/snapshot.h"

struct collector_options {
	const char *sources; /* names with commas between them; NULL: all */
	const char *without; /* all but this one; NULL: all */
	const char *objects; /* only NICs and devices that match one of these globs; NULL: all */
	const char *cxi;     /* instead of /sys/class/cxi: a directory that holds cxi*, or one NIC's
				telemetry directory; as it is, not below the root */
};

struct collector;

int collector_open(struct collector **out, const struct collector_options *options, struct err *e);
int collector_read(struct collector *c, struct snapshot *s, struct err *e);
void collector_close(struct collector *c); /* NULL is left alone */

/* The sources there are, for --help and weir counters list; ends in NULL. Static. */
struct collector_source {
	const char *name, *about;
};
const struct collector_source *collector_sources(void);

/* A reading that also copies all raw files it reads into a directory, which may then stand for the
 * root: WEIR_SYSROOT=DIR weir counters snap. The answers of system calls become files in DIR/weir. */
int collector_record(struct collector *c, struct snapshot *s, const char *dir, struct err *e);

#endif
