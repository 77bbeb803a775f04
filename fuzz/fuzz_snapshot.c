/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of snapshots and differences: JSON of weir and of net_prof, text dumps. The first byte says which names a
 * dump gets; what could be read is compared with itself, judged and written. */
#include <stdio.h>
#include <unistd.h>

#include "counters/finding.h"
#include "counters/read.h"
#include "fuzz.h"

static const char *few_names(void)
{
	static char path[] = "/tmp/fuzz_snapshot.XXXXXX";
	static int fd = -1;

	if (fd < 0) {
		fd = mkstemp(path);
		MUST(fd >= 0 && write(fd, "one\ntwo\n", 8) == 8);
	}
	return path;
}

static void judge(const struct snapshot *s)
{
	static struct rules *rules;
	struct findings findings;
	struct difference d;
	FILE *file = fopen("/dev/null", "w");
	struct out o;

	if (!rules)
		MUST(!rules_load(&rules, NULL, NULL));
	MUST(file && !difference_make(&d, s, s, NULL) &&
		!findings_make(&findings, &d, rules, NULL));
	/* Against itself nothing has moved. */
	MUST(d.states[ROW_SAME] == d.count);
	out_init(&o, file, OUT_JSON);
	snapshot_emit(s, &o);
	difference_emit(&d, &findings, NULL, true, &o);
	fclose(file);
	findings_free(&findings);
	difference_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *names = size && data[0] & 1 ? few_names() : NULL;
	struct findings findings = { 0 };
	struct difference d = { 0 };
	enum snapshot_form form;
	struct snapshot s;
	struct err e = { 0 };

	if (!size)
		return 0;
	if (!snapshot_parse(&s, (const char *)data + 1, size - 1, "fuzz", names, &form, &e)) {
		judge(&s);
		snapshot_free(&s);
	} else {
		MUST(e.code && e.what[0]);
	}
	if (!json_difference_parse(
		    &d, &findings, (const char *)data + 1, size - 1, "fuzz", NULL, NULL)) {
		difference_free(&d);
		findings_free(&findings);
	}
	return 0;
}
