/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of rails, GPUs or probes from a file: shown in every form, and compared with another where the
 * input has two, with a zero between them. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz.h"
#include "report/compare.h"
#include "report/document.h"

static struct document *load(const uint8_t *data, size_t size)
{
	struct document *d = NULL;
	struct err e = { 0 };
	char path[32];
	int fd, ret;

	fd = memfd_create("document", MFD_CLOEXEC);
	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = document_load(&d, path, &e);
	MUST(ret ? ret < 0 && e.code == -ret && e.what[0] : d != NULL);
	close(fd);
	return d;
}

static void compare(struct document *a, struct document *b, FILE *nowhere)
{
	struct report before = { .document = a }, after = { .document = b };
	struct err e = { 0 };
	struct compare c;

	if (compare_make(&c, &before, &after, "a", "b", &e)) {
		MUST(a != b && e.what[0]);
		return;
	}
	MUST(a != b || c.verdict == COMPARE_SAME);
	for (int form = REPORT_TEXT; form <= REPORT_HTML; form++)
		if (form != REPORT_CSV)
			MUST(!compare_write(&c, (enum report_form)form, nowhere, &e));
	compare_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
	size_t first = zero ? (size_t)(zero - data) : size;
	static FILE *nowhere;
	struct document *a, *b;
	struct err e = { 0 };

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	MUST(nowhere);
	a = load(data, first);
	b = zero ? load(zero + 1, size - first - 1) : NULL;
	for (int form = REPORT_TEXT; a && form <= REPORT_HTML; form++)
		MUST(!document_write(a, (enum report_form)form, nowhere, &e));
	if (a)
		compare(a, b ? b : a, nowhere);
	document_free(a);
	document_free(b);
	return 0;
}
