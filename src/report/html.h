/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing one self-contained HTML page: no network, no script library, readable without JavaScript.
 *
 *	html_begin(h, "weir stream node1 to node2");
 *	html_put(h, "<p>%s is at %d %%</p>\n", name_from_anywhere, 17);
 *	html_end(h);
 *
 * Every %s is escaped, for text and for attributes alike, so that a name cannot become markup; there
 * is no way to put a string in raw. Markup is in the format. Should an escape be forgotten all the
 * same, the page's own policy lets no script run but the one that weir brings, and nothing be loaded.
 * Failed writes are noticed by whoever flushes the file.
 */
#ifndef WEIR_REPORT_HTML_H
#define WEIR_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct html {
	FILE *file;	    /* borrowed */
	const char *prefix; /* of the ids of sections inside others; or NULL. Borrowed */
};

/* As printf, for %s %d %i %u %x %c %f %g %e with flags, width, precision and l, ll, z; no '*' but in
 * "%.*s". Not finite numbers are written as "-". */
void html_put(struct html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Head with style and script, up to <body>; and from </body> on. */
void html_begin(struct html *h, const char *title);
void html_end(struct html *h);

/* A section with a heading that can be linked to, and its end. folded: closed until it is asked for. */
void html_section(struct html *h, const char *id, const char *heading);
void html_section_end(struct html *h);
void html_fold(struct html *h, const char *summary, bool open);
void html_fold_end(struct html *h);

/* One bar on a line of its own, filled to a share (0 to 1) of it. */
void html_bar(struct html *h, double share);

/* What was found, as a sentence of its own. A first word with digits or signs is a name and stays. */
void html_what(struct html *h, const char *text);

/* What severities look like: a mark by shape and a word, not by colour alone. */
enum html_mark { MARK_GOOD, MARK_NOTE, MARK_WARNING, MARK_BAD };
void html_mark(struct html *h, enum html_mark mark, const char *word);

/* made by scripts/embed of report.css and report.js */
extern const char report_css[], report_js[], report_js_hash[];

#endif
