// SPDX-License-Identifier: BSD-3-Clause
#include "report/html.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#define SPEC_TEXT 32

/* Quotes too: the same text may stand in an attribute. Control characters have no place in HTML. */
static void escape(FILE *file, const char *text, size_t most)
{
	for (; *text && most; text++, most--) {
		switch (*text) {
		case '&':
			fputs("&amp;", file);
			break;
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '"':
			fputs("&quot;", file);
			break;
		case '\'':
			fputs("&#39;", file);
			break;
		default:
			fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, file);
		}
	}
}

static void put_string(FILE *file, const char *spec, va_list *args)
{
	const char *dot = strchr(spec, '.');
	char text[1024];
	int most;

	if (dot && dot[1] == '*') {
		most = va_arg(*args, int);
		escape(file, va_arg(*args, const char *), most < 0 ? SIZE_MAX : (size_t)most);
	} else if (!strcmp(spec, "%s")) {
		escape(file, va_arg(*args, const char *), SIZE_MAX);
	} else {
		/* a width or a precision: laid out first */
		snprintf(text, sizeof(text), spec, va_arg(*args, const char *));
		escape(file, text, SIZE_MAX);
	}
}

static void put_number(FILE *file, const char *spec, va_list *args)
{
	size_t last = strlen(spec) - 1;
	double number;

	if (strchr("feg", spec[last])) {
		number = va_arg(*args, double);
		if (isfinite(number))
			fprintf(file, spec, number);
		else
			fputc('-', file);
		/* NOLINTNEXTLINE(bugprone-branch-clone): types apart, whatever their width here */
	} else if (last > 2 && spec[last - 1] == 'l' && spec[last - 2] == 'l') {
		fprintf(file, spec, va_arg(*args, long long));
	} else if (spec[last - 1] == 'l') {
		fprintf(file, spec, va_arg(*args, long));
	} else if (spec[last - 1] == 'z') {
		fprintf(file, spec, va_arg(*args, size_t));
	} else {
		fprintf(file, spec, va_arg(*args, int));
	}
}

void html_put(struct html *h, const char *format, ...)
{
	char spec[SPEC_TEXT];
	va_list args;

	va_start(args, format);
	while (*format) {
		size_t plain = strcspn(format, "%"), length = 1;

		fwrite(format, 1, plain, h->file);
		format += plain;
		if (!*format)
			break;
		if (format[1] == '%') {
			fputc('%', h->file);
			format += 2;
			continue;
		}
		while (format[length] && !strchr("sdiuxcfeg", format[length]))
			length++;
		length++;
		snprintf(spec, sizeof(spec), "%.*s", (int)length, format);
		format += length;
		if (spec[strlen(spec) - 1] == 's')
			put_string(h->file, spec, &args);
		else
			put_number(h->file, spec, &args);
	}
	va_end(args);
}

void html_begin(struct html *h, const char *title)
{
	html_put(h,
		"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"style-src 'unsafe-inline'; script-src '%s'; base-uri 'none'; form-action 'none'\">\n"
		"<meta name=\"color-scheme\" content=\"light dark\">\n"
		"<meta name=\"referrer\" content=\"no-referrer\">\n"
		"<meta name=\"generator\" content=\"weir " WEIR_VERSION "\">\n"
		"<title>%s</title>\n<style>\n",
		report_js_hash, title);
	fputs(report_css, h->file);
	/* Patterns for shares, so that they differ on paper and to every eye. */
	fputs("</style>\n</head>\n<body>\n"
	      "<svg class=\"defs\" aria-hidden=\"true\"><defs>"
	      "<pattern id=\"p1\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
	      "<rect class=\"f1\" width=\"6\" height=\"6\"/><path d=\"M0 6L6 0\"/></pattern>"
	      "<pattern id=\"p2\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
	      "<rect class=\"f2\" width=\"5\" height=\"5\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1\"/></pattern>"
	      "<pattern id=\"p4\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
	      "<rect class=\"f4\" width=\"6\" height=\"6\"/><path d=\"M3 0V6\"/></pattern>"
	      "</defs></svg>\n",
		h->file);
}

void html_end(struct html *h)
{
	fputs("<script>", h->file);
	fputs(report_js, h->file);
	fputs("</script>\n</body>\n</html>\n", h->file);
}

void html_section(struct html *h, const char *id, const char *heading)
{
	html_put(
		h, "<section id=\"%s%s\">\n<h2>%s</h2>\n", h->prefix ? h->prefix : "", id, heading);
}

void html_section_end(struct html *h)
{
	html_put(h, "</section>\n");
}

void html_fold(struct html *h, const char *summary, bool open)
{
	if (open)
		html_put(h, "<details open><summary>%s</summary>\n", summary);
	else
		html_put(h, "<details><summary>%s</summary>\n", summary);
}

void html_fold_end(struct html *h)
{
	html_put(h, "</details>\n");
}

void html_bar(struct html *h, double share)
{
	share = share > 0 ? fmin(share, 1) : 0; /* NAN too */
	html_put(h,
		"<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
		"<rect width=\"%.2f\" height=\"10\"/></svg>",
		share * 100);
}

void html_what(struct html *h, const char *text)
{
	size_t length = strlen(text), word = strcspn(text, " ");
	bool is_name = strspn(text, "abcdefghijklmnopqrstuvwxyz'") < word;

	html_put(h, "<p class=\"what\">%c%s%s</p>\n",
		!is_name && word ? toupper((unsigned char)text[0]) : text[0],
		length ? text + 1 : "", length && strchr(".!?)", text[length - 1]) ? "" : ".");
}

void html_mark(struct html *h, enum html_mark mark, const char *word)
{
	static const char *const class[] = { "good", "note", "warning", "bad" };
	static const char *const shape[] = { "M2 9l4 4 8-9", "M8 3a5 5 0 100 10 5 5 0 000-10z",
		"M8 2l7 12H1z", "M3 3h10v10H3z" };

	html_put(h,
		"<span class=\"mark %s\"><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\">"
		"<path d=\"%s\"/></svg>%s</span>",
		class[mark], shape[mark], word);
}
