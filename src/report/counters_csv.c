// SPDX-License-Identifier: BSD-3-Clause
/* A difference of counters as rows of figures. */
#include <math.h>

#include "report/csv.h"
#include "report/report.h"

void counters_csv(FILE *file, const struct report_counters *c, const char *end)
{
	const struct difference *d = c->difference;

	for (uint32_t i = 0; i < c->findings->count; i++) {
		const struct finding *f = &c->findings->finding[i];

		csv_row(file, &(struct csv_row){ "finding", end, f->object, f->rule, NAN, NAN,
				      f->text, NULL });
	}
	for (uint32_t i = 0; i < d->count; i++) {
		const struct row *r = &d->row[i];
		bool grows = counter_grows(r->counter->kind);
		double after = r->counter->kind == COUNTER_SIGNED ? (double)(int64_t)r->after.value
								  : (double)r->after.value;

		if (!difference_is_telling(r))
			continue;
		csv_row(file, &(struct csv_row){ grows ? "counter" : "gauge", end,
				      r->counter->object, r->counter->name, r->seconds,
				      grows		 ? (double)r->change
				      : r->after.time_ns ? after
							 : NAN,
				      NULL, r->counter->unit });
	}
}
