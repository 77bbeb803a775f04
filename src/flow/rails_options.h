/* SPDX-License-Identifier: BSD-3-Clause */
/* What weir rails is asked to do: the flags of multi_neper.py and weir's own, in one table.
 *
 *	rails_options_parse(&o, argc, argv, as_multi_neper, e);
 *
 * Words behind "--" are options of weir stream, for every rail. Strings point into argv.
 */
#ifndef WEIR_FLOW_RAILS_OPTIONS_H
#define WEIR_FLOW_RAILS_OPTIONS_H

#include "base/log.h"
#include "flow/options.h"

#define RAILS_MAX 64

struct rails_options {
	bool client;
	const char *hosts, *devices, *src_ips; /* lists with commas */
	int64_t threads, flows;		       /* of each rail */
	int64_t control_port, port;	       /* of the first rail */
	int64_t source_port;		       /* of the first rail, -1: any */
	uint64_t buffer_size;
	double length; /* seconds */
	bool bind;     /* each rail through its device alone */
	/* memory */
	int mode, memory; /* the same in two spellings; memory is what counts after parsing */
	uint64_t phys_len, mem_size; /* the same; mem_size is what counts */
	int64_t q_start, q_num;
	const char *queues, *gpus;
	bool validate, tcpd_validate, rx_copy, tcpd_rx_cpy; /* rx_copy is what counts */
	/* where it runs */
	bool pin;
	const char *cpus; /* a list for each rail, with '/' between them */
	/* output */
	bool once, json, quiet, verbose, dry_run, help, version;
	int log;
	const char *out, *neper_dir;
	/* derived by rails_options_parse() */
	bool as_neper; /* called as multi_neper: its defaults and its words */
	struct opt_given given;
	char **stream_word; /* behind "--" */
	int stream_words;
};

extern const struct opt_table rails_option_table;

/* Parse, set the defaults of whichever name it was called by, and judge what can be judged without
 * looking at the machine. The error names the option and the value. */
int rails_options_parse(
	struct rails_options *o, int argc, char **argv, bool as_neper, struct err *e);
bool rails_options_given(const struct rails_options *o, const char *name);
enum log_level rails_options_log_level(const struct rails_options *o);

/* The n-th of a list with a separator, into buf; false when there are fewer, or it does not fit. */
bool rails_list_nth(const char *list, char separator, uint32_t n, char *buf, size_t size);
uint32_t rails_list_count(const char *list, char separator); /* NULL: 0 */

#endif
