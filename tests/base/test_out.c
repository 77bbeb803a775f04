/* SPDX-License-Identifier: BSD-3-Clause */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/out.h"
#include "prng.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* An output into memory, begun here and compared there. */
static char *written;
static size_t written_bytes;

static void begin(struct out *o, enum out_mode mode)
{
	FILE *file = open_memstream(&written, &written_bytes);

	assert_non_null(file);
	out_init(o, file, mode);
}

static void finish(struct out *o)
{
	struct err e;

	assert_int_equal(out_finish(o, &e), 0);
	fclose(o->file);
}

static void assert_written(struct out *o, const char *expected)
{
	finish(o);
	assert_string_equal(written, expected);
	free(written);
}

static void emit_link(struct out *o)
{
	out_text(o, "heading %d\n", 1);
	out_object(o, "link");
	out_str(o, "name", "%s: ", "eth0");
	out_u64(o, "mtu", "mtu %" PRIu64 "\n", 9000);
	out_u64(o, "index", NULL, 2);
	out_str(o, NULL, "(%s)\n", "text only");
	out_end(o);
}

static void test_out_one_call_prints_text_json_or_kv(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_TEXT);
	emit_link(&o);
	assert_written(&o, "heading 1\neth0: mtu 9000\n(text only)\n");
	begin(&o, OUT_JSON);
	emit_link(&o);
	assert_written(&o, "{\"link\":{\"name\":\"eth0\",\"mtu\":9000,\"index\":2}}\n");
	begin(&o, OUT_KV);
	emit_link(&o);
	assert_written(&o, "name=eth0: \nmtu=mtu 9000\n");
}

static void emit_each_type(struct out *o)
{
	out_object(o, NULL);
	out_u64(o, "u", "%" PRIu64 " ", UINT64_MAX);
	out_i64(o, "i", "%" PRId64 " ", INT64_MIN);
	out_f64(o, "f", "%.2f ", 0.1);
	out_str(o, "s", "%s ", "x");
	out_str(o, "none", "%s ", NULL);
	out_bool(o, "yes", "%s ", true);
	out_bool(o, "no", "%s ", false);
	out_null(o, "null");
	out_f64_as(o, "rate", 12340000000.0, "%s ", "12.34 Gbit/s");
	out_f64_as(o, "json", 1, NULL, "one");
	out_end(o);
}

static void test_out_prints_every_type(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_TEXT);
	emit_each_type(&o);
	assert_written(
		&o, "18446744073709551615 -9223372036854775808 0.10 x - yes no 12.34 Gbit/s ");
	begin(&o, OUT_JSON);
	emit_each_type(&o);
	assert_written(&o, "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"f\":0.1,"
			   "\"s\":\"x\",\"none\":null,\"yes\":true,\"no\":false,\"null\":null,"
			   "\"rate\":12340000000,\"json\":1}\n");
	begin(&o, OUT_KV);
	emit_each_type(&o);
	assert_written(&o, "u=18446744073709551615 \ni=-9223372036854775808 \nf=0.10 \ns=x \n"
			   "none=- \nyes=1\nno=0\nrate=12340000000\n");
}

static void test_out_json_nests(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_object(&o, NULL);
	out_array(&o, "empty");
	out_end(&o);
	out_array(&o, "list");
	out_u64(&o, "not used", NULL, 1);
	out_object(&o, NULL);
	out_end(&o);
	out_array(&o, NULL);
	out_str(&o, NULL, NULL, "a");
	out_null(&o, NULL);
	out_end(&o);
	out_end(&o);
	out_bool(&o, "last", NULL, true);
	out_end(&o);
	assert_written(&o, "{\"empty\":[],\"list\":[1,{},[\"a\",null]],\"last\":true}\n");
}

static void test_out_json_leaves_out_all_below_a_key_that_is_null(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_object(&o, NULL);
	out_object(&o, NULL);
	out_u64(&o, "a", NULL, 1);
	out_array(&o, "b");
	out_u64(&o, NULL, NULL, 2);
	out_end(&o);
	out_end(&o);
	out_u64(&o, "c", NULL, 3);
	out_end(&o);
	assert_written(&o, "{\"c\":3}\n");
}

static void test_out_json_is_one_flushed_line_for_each_top_level_value(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_object(&o, NULL);
	out_u64(&o, "a", NULL, 1);
	out_end(&o);
	assert_string_equal(written, "{\"a\":1}\n"); /* a memory stream shows what was flushed */
	out_u64(&o, "b", NULL, 2);
	assert_string_equal(written, "{\"a\":1}\n{\"b\":2}\n");
	out_array(&o, NULL);
	out_end(&o);
	out_str(&o, NULL, NULL, "c");
	assert_written(&o, "{\"a\":1}\n{\"b\":2}\n[]\n\"c\"\n");
}

static void test_out_json_closes_what_is_open_at_the_end(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_object(&o, "run");
	out_array(&o, "flows");
	out_object(&o, NULL);
	out_object(&o, NULL);
	assert_written(&o, "{\"run\":{\"flows\":[{}]}}\n");
}

static void test_out_json_escapes_strings(void **state)
{
	static const struct {
		const char *value, *json;
	} table[] = {
		{ "", "" },
		{ "\"\\/", "\\\"\\\\/" },
		{ "a\nb\tc\r", "a\\nb\\tc\\u000d" },
		{ "\x01\x1f\x7f", "\\u0001\\u001f\x7f" },
		{ "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
			"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "a\xff"
		  "b",
			"a" REPLACEMENT "b" },
		{ "\x80", REPLACEMENT },
		{ "\xc3", REPLACEMENT },
		{ "\xc3\"", REPLACEMENT "\\\"" },
		{ "\xe2\x82", REPLACEMENT REPLACEMENT },
		{ "\xc0\xaf", REPLACEMENT REPLACEMENT },
		{ "\xed\xa0\x80", REPLACEMENT REPLACEMENT REPLACEMENT },
		{ "\xf4\x90\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT },
	};
	char expected[64];
	struct out o;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		begin(&o, OUT_JSON);
		out_object(&o, NULL);
		out_str(&o, table[i].value, NULL, table[i].value);
		snprintf(expected, sizeof(expected), "{\"%s\":\"%s\"}\n", table[i].json,
			table[i].json);
		assert_written(&o, expected);
	}
}

static void test_out_json_numbers_that_are_not_finite_become_null(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_array(&o, NULL);
	out_f64(&o, NULL, NULL, NAN);
	out_f64(&o, NULL, NULL, INFINITY);
	out_f64_as(&o, NULL, -INFINITY, NULL, "");
	assert_written(&o, "[null,null,null]\n");
}

static void assert_json_number(double value, const char *text)
{
	struct out o;

	begin(&o, OUT_JSON);
	out_f64(&o, NULL, NULL, value);
	finish(&o);
	if (text)
		assert_string_equal(written, text);
	assert_true(strtod(written, NULL) == value);
	free(written);
}

static void test_out_json_doubles_are_short_and_read_back_the_same(void **state)
{
	uint64_t seed = 1, bits;
	double value;
	int i;

	(void)state;
	assert_json_number(0, "0\n");
	assert_json_number(-0.0, "-0\n");
	assert_json_number(0.1, "0.1\n");
	assert_json_number(0.1 + 0.2, "0.30000000000000004\n");
	assert_json_number(1e21, "1e+21\n");
	assert_json_number(5e-324, "4.94065645841247e-324\n");
	assert_json_number(DBL_MAX, NULL);
	for (i = 0; i < 2000; i++) {
		bits = prng_next(&seed);
		memcpy(&value, &bits, sizeof(value));
		if (isfinite(value))
			assert_json_number(value, NULL);
	}
}

/* A strict reader of JSON: each function returns what follows, NULL where the text is wrong. */
static const char *read_value(const char *p);

static const char *read_string(const char *p)
{
	for (p++; *p != '"'; p++) {
		if ((unsigned char)*p < ' ')
			return NULL;
		if (*p != '\\')
			continue;
		p++;
		if (*p == 'u' && strspn(p + 1, "0123456789abcdef") >= 4)
			p += 4;
		else if (!*p || !strchr("\"\\/bfnrt", *p))
			return NULL;
	}
	return p + 1;
}

static const char *read_members(const char *p, bool is_array)
{
	char close = is_array ? ']' : '}';

	if (*++p == close)
		return p + 1;
	for (;; p++) {
		if (!is_array) {
			p = *p == '"' ? read_string(p) : NULL;
			if (!p || *p++ != ':')
				return NULL;
		}
		p = read_value(p);
		if (!p || (*p != ',' && *p != close))
			return NULL;
		if (*p == close)
			return p + 1;
	}
}

static const char *read_value(const char *p)
{
	static const char *const word[] = { "null", "true", "false" };
	size_t i;
	char *end;

	if (*p == '{' || *p == '[')
		return read_members(p, *p == '[');
	if (*p == '"')
		return read_string(p);
	for (i = 0; i < 3; i++)
		if (!strncmp(p, word[i], strlen(word[i])))
			return p + strlen(word[i]);
	strtod(p, &end);
	return strchr("-0123456789", *p) && end > p ? end : NULL;
}

static void emit_at_random(struct out *o, uint64_t *seed)
{
	char text[8], key[8];
	double value;
	size_t i;

	for (i = 0; i < sizeof(text); i++) {
		text[i] = (char)prng_next(seed);
		key[i] = (char)prng_next(seed);
	}
	text[7] = key[7] = '\0';
	memcpy(&value, text, sizeof(value));
	switch (prng_below(seed, 9)) {
	case 0:
		out_object(o, key);
		break;
	case 1:
		out_array(o, key);
		break;
	case 2:
		out_object(o, NULL);
		break;
	case 3:
		out_str(o, key, NULL, text);
		break;
	case 4:
		out_f64(o, key, NULL, value);
		break;
	case 5:
		out_i64(o, NULL, NULL, (int64_t)prng_next(seed));
		break;
	default:
		if (o->depth)
			out_end(o);
	}
}

static void test_out_json_is_valid_whatever_is_called(void **state)
{
	uint64_t seed = 2;
	struct out o;
	int round, i;

	(void)state;
	for (round = 0; round < 300; round++) {
		const char *p;

		begin(&o, OUT_JSON);
		for (i = 0; i < 100; i++)
			emit_at_random(&o, &seed);
		out_finish(&o, NULL); /* some rounds nest too deep, and must be valid too */
		fclose(o.file);
		for (p = written; *p; p++) {
			p = read_value(p);
			assert_non_null(p);
			assert_int_equal(*p, '\n');
		}
		free(written);
	}
}

static void test_out_json_too_deep_stays_valid_and_is_reported(void **state)
{
	struct out o;
	struct err e;
	int i;

	(void)state;
	begin(&o, OUT_JSON);
	for (i = 0; i < OUT_DEPTH + 3; i++)
		out_array(&o, NULL);
	out_u64(&o, NULL, NULL, 1);
	for (i = 0; i < OUT_DEPTH + 3; i++)
		out_end(&o);
	assert_int_equal(out_finish(&o, &e), -EINVAL);
	fclose(o.file);
	assert_string_equal(written, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]\n");
	free(written);
}

static void test_out_json_end_without_begin_is_reported(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_JSON);
	out_end(&o);
	assert_int_equal(out_finish(&o, NULL), -EINVAL);
	fclose(o.file);
	assert_string_equal(written, "");
	free(written);
}

static void test_out_kv_value_is_one_line(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_KV);
	out_str(&o, "host", "%s\n", "a\nfake=1");
	out_str(&o, NULL, "%s", "no key");
	assert_written(&o, "host=a?fake=1\n");
}

static void test_out_full_disk_is_reported(void **state)
{
	enum out_mode mode;
	struct out o;
	struct err e;
	FILE *full;

	(void)state;
	for (mode = OUT_TEXT; mode <= OUT_KV; mode++) {
		full = fopen("/dev/full", "w");
		if (!full)
			skip();
		out_init(&o, full, mode);
		out_u64(&o, "a", "%" PRIu64 "\n", 1);
		out_u64(&o, "b", "%" PRIu64 "\n", 2);
		errno = 0;
		assert_int_equal(out_finish(&o, &e), -ENOSPC);
		assert_non_null(strstr(e.what, "No space left on device"));
		fclose(full);
	}
}

static void test_out_style_is_silent_off_a_terminal(void **state)
{
	struct out o;

	(void)state;
	begin(&o, OUT_TEXT);
	out_style(&o, OUT_BAD);
	out_text(&o, "bad");
	out_style(&o, OUT_PLAIN);
	assert_written(&o, "bad");
}

static void test_out_color_needs_a_terminal_text_and_no_no_color(void **state)
{
	FILE *terminal = fopen("/dev/ptmx", "w");
	struct out o;

	(void)state;
	if (!terminal)
		skip();
	unsetenv("NO_COLOR");
	out_init(&o, terminal, OUT_TEXT);
	assert_true(o.color);
	out_init(&o, terminal, OUT_JSON);
	assert_false(o.color);
	setenv("NO_COLOR", "1", 1);
	out_init(&o, terminal, OUT_TEXT);
	assert_false(o.color);
	unsetenv("NO_COLOR");
	fclose(terminal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_out_one_call_prints_text_json_or_kv),
		cmocka_unit_test(test_out_prints_every_type),
		cmocka_unit_test(test_out_json_nests),
		cmocka_unit_test(test_out_json_leaves_out_all_below_a_key_that_is_null),
		cmocka_unit_test(test_out_json_is_one_flushed_line_for_each_top_level_value),
		cmocka_unit_test(test_out_json_closes_what_is_open_at_the_end),
		cmocka_unit_test(test_out_json_escapes_strings),
		cmocka_unit_test(test_out_json_numbers_that_are_not_finite_become_null),
		cmocka_unit_test(test_out_json_doubles_are_short_and_read_back_the_same),
		cmocka_unit_test(test_out_json_is_valid_whatever_is_called),
		cmocka_unit_test(test_out_json_too_deep_stays_valid_and_is_reported),
		cmocka_unit_test(test_out_json_end_without_begin_is_reported),
		cmocka_unit_test(test_out_kv_value_is_one_line),
		cmocka_unit_test(test_out_full_disk_is_reported),
		cmocka_unit_test(test_out_style_is_silent_off_a_terminal),
		cmocka_unit_test(test_out_color_needs_a_terminal_text_and_no_no_color),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
