/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of rails, GPUs or probes from a file: shown in every form. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz.h"
#include "report/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	struct document *d = NULL;
	struct err e = { 0 };
	char path[32];
	int fd, ret;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	fd = memfd_create("document", MFD_CLOEXEC);
	MUST(nowhere && fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = document_load(&d, path, &e);
	MUST(ret ? ret < 0 && e.code == -ret && e.what[0] : d != NULL);
	for (int form = REPORT_TEXT; d && form <= REPORT_HTML; form++)
		MUST(!document_write(d, (enum report_form)form, nowhere, &e));
	document_free(d);
	close(fd);
	return 0;
}
