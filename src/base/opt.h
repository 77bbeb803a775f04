/* SPDX-License-Identifier: BSD-3-Clause */
/* Option tables: one table makes parsing, --help, the man page and shell completion.
 *
 *	static const struct opt opts[] = {
 *		{ .name = "num-flows", .letter = 'F', OPT_FIELD(OPT_INT, struct config, flows),
 *		  .arg = "N", .initial = "1", .min = 1, .max = 100000, .help = "flows in all" },
 *		{ 0 },
 *	};
 *	static const struct opt_table table = { .command = "stream", .opts = opts, ... };
 *
 *	struct opt_given given;
 *	ret = opt_parse(&table, argc, argv, &config, &given, e);
 *
 * Everything is parsed before anything is judged, so the order of options never matters; the last
 * of several wins. Long names may be cut short while they stay unique; "--no-NAME" takes a flag
 * back; "--" ends options. A value that does not fit is refused with the value, the range and an
 * example.
 */
#ifndef WEIR_BASE_OPT_H
#define WEIR_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/out.h"

enum opt_type {
	OPT_BOOL,   /* bool */
	OPT_INT,    /* int64_t, between min and max */
	OPT_NUMBER, /* double, between min and max */
	OPT_STRING, /* const char *, pointing into argv; NULL when not given */
	OPT_SIZE,   /* uint64_t bytes, "64K" */
	OPT_RATE,   /* uint64_t bytes per second, "10Gb" */
	OPT_DURATION, /* uint64_t ns, "250us"; .unit names the unit of a bare number, which help says */
	OPT_CHOICE, /* int, index into .choices */
};

struct opt {
	const char *name; /* long name without dashes; NULL ends the table */
	char letter;	  /* short name, or 0 */
	enum opt_type type;
	size_t offset;	     /* of the field in the struct that is filled */
	const char *arg;     /* what the value is called in help; NULL for OPT_BOOL */
	const char *initial; /* the default, as a user would write it; NULL: zero, false, NULL */
	const char *implied; /* the value when the option stands alone: "--name" (a value needs
				"--name=V") */
	const char *unit;    /* OPT_DURATION: of a bare number */
	const char *const *choices; /* OPT_CHOICE: NULL-terminated; the case does not matter */
	double min, max;	    /* both 0: any */
	const char *kv_format;	    /* OPT_NUMBER: how key=value output prints it; NULL: "%f" */
	const char *section;	    /* heading in help; NULL: the one before */
	const char *help;
	unsigned int only; /* bit set of variants that know this option; 0: all */
};

#define OPT_FIELD(opt_type, struct_type, field)                                                    \
	.type = (opt_type), .offset = offsetof(struct_type, field)

struct opt_table {
	const char *command;  /* "stream" */
	const char *usage;    /* "[-c -H HOST] [options]" */
	const char *summary;  /* one sentence */
	const char *examples; /* lines ready to print, or NULL */
	const struct opt *opts;
	unsigned int variant; /* bit matched against opt.only */
};

/* Which options of the table were given, by their index. */
#define OPT_MAX 128
struct opt_given {
	bool at[OPT_MAX];
};

/* Set every field to its default, then to what argv[1..argc-1] says. Operands are refused. -EINVAL
 * says which word is wrong and why. */
int opt_parse(const struct opt_table *t, int argc, char **argv, void *into, struct opt_given *given,
	struct err *e);

/* Take the words that are no options out of argv, before opt_parse(), for commands that have some: the
 * order does not matter, "--" makes operands of all that follow. -EINVAL for more than `most`. */
int opt_operands(const struct opt_table *t, int *argc, char **argv, const char **operand, int most,
	int *count, struct err *e);

/* Whether an option was given by the user. The name must exist. */
bool opt_was_given(const struct opt_table *t, const struct opt_given *given, const char *name);

/* The option of that name that this table's variant knows, or NULL. */
const struct opt *opt_find(const struct opt_table *t, const char *name);

/* OPT_DURATION: the unit of a bare number. */
const char *opt_unit(const struct opt *opt);

/* The default as a user would write it, a duration with its unit; in buf, or the table's own words, or NULL. */
#define OPT_TEXT 256
const char *opt_initial(const struct opt *opt, char buf[OPT_TEXT]);

/* Set one field from text, with the same checks as the command line (for values that come from a
 * peer). */
int opt_set(const struct opt *opt, void *into, const char *value, struct err *e);

/* The value of a field as a user would write it. Returns buf. */
char *opt_value(const struct opt *opt, const void *from, char buf[OPT_TEXT]);

/* Emit a field as key and value (kv and JSON). */
void opt_emit(const struct opt *opt, const void *from, const char *key, struct out *o);

/* Documentation made from the table: help for a terminal, the options part of a man page (scdoc).
 */
void opt_help(const struct opt_table *t, struct out *o);
void opt_scdoc(const struct opt_table *t, struct out *o);

/* A bash completion script for "weir": all its commands (ends in NULL), and the options of those
 * that have a table. */
void opt_completion(const struct opt_table *const *tables, size_t count,
	const char *const *commands, struct out *o);

#endif
