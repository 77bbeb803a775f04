/* SPDX-License-Identifier: BSD-3-Clause */
/* Why something failed: what was tried, on what, and what the user can do about it.
 *
 *	int nic_open(struct nic *n, const char *name, struct err *e)
 *	{
 *		if (!name[0])
 *			return err_set(e, EINVAL, "the interface name is empty");
 *		...
 *		err_set(e, errno, "cannot open %s", name);
 *		return err_hint(e, "list the interfaces with: weir nic show");
 *	}
 *
 * Every fallible function of weir returns 0 or -errno and takes a struct err last; NULL is allowed
 * where the caller does not want the words. The words are one line without a newline or a final
 * full stop; the system's text for the errno is not added unless the format asks for it by %m.
 * A struct err is plain memory: nothing to free. Not thread-safe: each caller passes its own.
 */
#ifndef WEIR_BASE_ERR_H
#define WEIR_BASE_ERR_H

#include <errno.h>

struct err {
	int code;	/* positive errno, 0 when nothing failed */
	char what[512]; /* what was tried, on what, why it failed */
	char hint[256]; /* the next step, or empty */
};

/* Set the words and drop an older hint. Returns -code, so that it can be returned at once. */
int err_set(struct err *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Add the next step to an error that was set. Returns -e->code (or -EINVAL for a NULL err). */
int err_hint(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put "WHAT: " before the words that are there, when a caller knows more. Returns as err_hint. */
int err_prefix(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time; it is told that a failure never returns 0. */
static inline int err_never_0(int ret)
{
	if (ret >= 0)
		__builtin_unreachable();
	return ret;
}
#define err_set(...)	err_never_0(err_set(__VA_ARGS__))
#define err_hint(...)	err_never_0(err_hint(__VA_ARGS__))
#define err_prefix(...) err_never_0(err_prefix(__VA_ARGS__))
#endif

/* Nothing failed after all: the caller can do without. */
static inline void err_clear(struct err *e)
{
	if (e)
		*e = (struct err){ 0 };
}

#endif
