// SPDX-License-Identifier: BSD-3-Clause
/* Without a JSON parser there are no documents; record_schema() has said so before. */
#include "report/compare.h"
#include "report/document.h"

bool document_is(const char *schema)
{
	(void)schema;
	return false;
}

int document_load(struct document **document, const char *path, struct err *e)
{
	(void)document;
	return err_set(e, ENOTSUP, "%s: this weir was built without jansson", path);
}

void document_free(struct document *d)
{
	(void)d;
}

int document_write(const struct document *d, enum report_form form, FILE *file, struct err *e)
{
	(void)d;
	(void)form;
	(void)file;
	return err_set(e, ENOTSUP, "this weir was built without jansson");
}

int compare_document(struct compare *c, struct err *e)
{
	(void)c;
	return err_set(e, ENOTSUP, "this weir was built without jansson");
}
