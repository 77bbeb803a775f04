/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside counters/: a source of counters, and what it reads with.
 *
 *	static void example_read(struct reader *r, void **state)
 *	{
 *		...
 *		reader_put(r, "eth0", "rx_bytes", value, clock_wall_ns());
 *	}
 *
 * read() is called for every snapshot. What it learns the first time it keeps in *state, which
 * forget() frees. It allocates nothing for what it has seen before. A source that is not on this
 * machine puts nothing and says nothing; one that fails says so once by reader_problem().
 */
#ifndef WEIR_COUNTERS_SOURCE_H
#define WEIR_COUNTERS_SOURCE_H

#include "counters/collector.h"

struct reader {
	struct snapshot *s;
	const struct collector_options *options;
	const char *source; /* the name of the one that reads now */
	uint32_t cursor;    /* the counter that probably comes next */
	int descriptors;    /* how many more may stay open */
	const char *record; /* directory that raw files are copied to, NULL: none */
	struct err *e;
	int ret; /* -errno of what ends it all: no memory, a full disk */
};

struct source {
	const char *name, *about;
	bool calls; /* asks by system calls, not by files: below a replaced root its recording is read */
	void (*read)(struct reader *r, void **state);
	void (*forget)(void *state);
};

extern const struct source source_cxi, source_cxi_link, source_ethtool, source_ethtool_std,
	source_queue, source_page_pool, source_netdev, source_infiniband, source_snmp,
	source_netstat, source_snmp6, source_softnet, source_interrupts, source_pcie, source_tcp,
	source_qdisc, source_nvml;

/* One reading. What is known of the counter's name decides kind, width and unit. */
void reader_put(
	struct reader *r, const char *object, const char *name, uint64_t value, uint64_t time_ns);
void reader_put_at(struct reader *r, uint32_t index, uint64_t value, uint64_t time_ns);
/* The counter's index for reader_put_at(); CATALOG_NONE without memory. */
uint32_t reader_index(struct reader *r, const char *object, const char *name);
bool reader_wants(const struct reader *r, const char *object); /* by options->objects */
void reader_problem(struct reader *r, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* What was read of a file, for the recording: path as seen from the root. */
void reader_record(struct reader *r, const char *path, const char *bytes, size_t length);

/* What system calls told, as a file of a recording: replay.c. */
void replay_read(struct reader *r);
int replay_write(const struct snapshot *s, const char *source, const char *dir, struct err *e);

/* Files of one number each, which stay open where descriptors allow: files.c. */
enum file_form {
	FILE_NUMBER,	/* "123\n" */
	FILE_TELEMETRY, /* "123@1746204071.662953620\n" */
};
struct files;
struct files *files_new(enum file_form form);
/* Add all files of a directory that is not there yet, below the root or as it is. prefix is put
 * before their names; only names those that are wanted, ends in NULL, NULL: all. 0, or -errno when it cannot
 * be listed. */
int files_add(struct files *f, struct reader *r, const char *object, const char *prefix,
	const char *directory, bool below_root, const char *const *only);
uint32_t files_count(const struct files *f);
void files_read(struct files *f, struct reader *r);
void files_free(struct files *f);

/* The whole of one larger file, kept open: returns its length, 0 when it is not there. The text ends
 * in NUL and is good until the next call. */
struct whole_file {
	int fd; /* 0: not opened yet */
	char *text;
	size_t room;
	uint64_t time_ns;
};
size_t whole_file_read(struct whole_file *w, struct reader *r, const char *path);
void whole_file_free(struct whole_file *w);

#endif
