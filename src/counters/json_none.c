// SPDX-License-Identifier: BSD-3-Clause
/* In place of json.c where weir was built without jansson. */
#include "counters/read.h"

static int refuse(const char *label, struct err *e)
{
	err_set(e, ENOTSUP,
		"cannot read %s: this weir was built without jansson, and so reads no JSON", label);
	return err_hint(
		e, "install libjansson-dev and build again; text dumps can be read without");
}

int json_snapshot_parse(const struct reading_file *f, enum snapshot_form *form, struct err *e)
{
	(void)form;
	return refuse(f->label, e);
}

int json_difference_parse(struct difference *d, struct findings *findings, const char *text,
	size_t length, const char *label, const char *end, struct err *e)
{
	(void)d;
	(void)findings;
	(void)text;
	(void)length;
	(void)end;
	return refuse(label, e);
}
