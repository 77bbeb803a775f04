/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of this host: collected, compared, reported. What the Python module stands on.
 *
 *	char error[WEIR_COUNTERS_ERROR], *summary;
 *
 *	if (weir_counters_collect("before.json", NULL, error))
 *		return fail(error);
 *	...
 *	weir_counters_collect("after.json", NULL, error);
 *	weir_counters_report("before.json", "after.json", NULL, "report.html", error);
 *
 * Each function returns 0 or -errno, and then says why in error (a line and, after a newline, the next
 * step where there is one), which may be NULL. Nothing here prints or exits. Thread-safe.
 */
#ifndef WEIR_COUNTERS_H
#define WEIR_COUNTERS_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WEIR_API
#define WEIR_API __attribute__((visibility("default")))
#endif

#define WEIR_COUNTERS_ERROR 800 /* bytes of an error with its NUL */

WEIR_API const char *weir_version(void);

/* All counters of this host into a file (schema/counters-1.json). cxi: NULL, or where to read cxi
 * telemetry alone: a directory that holds cxi0, cxi1, ... or one NIC's telemetry directory; the file is
 * then of net_prof's form. */
WEIR_API int weir_counters_collect(const char *path, const char *cxi, char *error);

/* What differs between two snapshots of any form (weir's, net_prof's JSON, text dumps): net_prof's
 * summary of the cxi counters as JSON, with its keys. names: of the lines of a text dump, a file with one a
 * line; NULL those of a Cassini-1. The caller releases *json by weir_free(). */
WEIR_API int weir_counters_summarize(
	const char *before, const char *after, const char *names, char **json, char *error);

/* The whole report of a pair of snapshots, or with after NULL of a record, into a file: .html, .csv,
 * .json or .txt. */
WEIR_API int weir_counters_report(
	const char *before, const char *after, const char *names, const char *path, char *error);

/* Two pairs of snapshots (before, after of each), what they are called, compared as an HTML file. */
WEIR_API int weir_counters_compare(const char *const first[2], const char *const second[2],
	const char *names, const char *const labels[2], const char *path, char *error);

WEIR_API void weir_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
