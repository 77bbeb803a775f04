/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules of a user's file: whatever is accepted can be asked. */
#include "counters/finding.h"
#include "fuzz.h"

static void fill(struct snapshot *s, uint64_t more)
{
	static const char *const object[] = { "a", "b", "c", "d", "e" };
	static const char *const name[] = { "x", "y1", "y2", "z" };

	MUST(!snapshot_init(s, NULL));
	s->taken_ns = 1000000000 + more;
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 4; k++) {
			struct counter c = { .source = k == 3 ? "u" : "t",
				.object = object[i],
				.name = name[k],
				.kind = k == 2 ? COUNTER_GAUGE : COUNTER_COUNT };

			MUST(!snapshot_put(s, &c, i * 7 + k + more * k, s->taken_ns, NULL));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct snapshot before, after;
	static struct difference d;
	struct findings findings;
	struct rules *rules;
	struct err e = { 0 };

	if (!d.row) {
		fill(&before, 0);
		fill(&after, 1000000000);
		MUST(!difference_make(&d, &before, &after, NULL));
	}
	if (rules_parse(&rules, (const char *)data, size, "fuzz", &e)) {
		MUST(e.code && e.what[0] && !rules);
		return 0;
	}
	MUST(!findings_make(&findings, &d, rules, NULL));
	findings_free(&findings);
	rules_free(rules);
	return 0;
}
