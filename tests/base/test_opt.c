/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/opt.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct config {
	bool quiet, debug, no_cork, edge;
	int64_t flows, port;
	double length, ratio;
	const char *host, *samples;
	uint64_t bytes, rate, delay, pause;
	int format;
	int64_t depth;
};

static const char *const formats[] = { "table", "json", "kv", NULL };

#define FIELD(type, field) OPT_FIELD(type, struct config, field)
#define TALL		   1u
#define WIDE		   2u

/* clang-format off */
static const struct opt opts[] = {
	{ .name = "quiet", .letter = 'q', FIELD(OPT_BOOL, quiet), .section = "Talk", .help = "say less" },
	{ .name = "debug", .letter = 'd', FIELD(OPT_BOOL, debug), .help = "say more" },
	{ .name = "no-cork", FIELD(OPT_BOOL, no_cork), .help = "do not wait" },
	{ .name = "edge", .letter = 'E', FIELD(OPT_BOOL, edge), .help = "edges" },
	{ .name = "num-flows", .letter = 'F', FIELD(OPT_INT, flows), .arg = "N", .initial = "3", .min = 1, .max = 1000, .help = "flows" },
	{ .name = "num-ports", FIELD(OPT_INT, port), .arg = "N", .initial = "-1", .min = -1, .max = 65535, .help = "ports" },
	{ .name = "length", .letter = 'l', FIELD(OPT_NUMBER, length), .arg = "S", .initial = "10", .min = -5, .max = 1e6, .help = "seconds" },
	{ .name = "ratio", FIELD(OPT_NUMBER, ratio), .arg = "X", .help = "any number" },
	{ .name = "host", .letter = 'H', FIELD(OPT_STRING, host), .arg = "HOST", .help = "where" },
	{ .name = "samples", .letter = 'A', FIELD(OPT_STRING, samples), .arg = "FILE", .implied = "samples.csv", .help = "all samples" },
	{ .name = "size", .letter = 'B', FIELD(OPT_SIZE, bytes), .arg = "BYTES", .initial = "16K", .min = 1, .max = 1 << 30, .help = "bytes" },
	{ .name = "rate", .letter = 'm', FIELD(OPT_RATE, rate), .arg = "RATE", .help = "rate" },
	{ .name = "rates", FIELD(OPT_BOOL, debug), .help = "an option whose name begins as another's" },
	{ .name = "delay", .letter = 'D', FIELD(OPT_DURATION, delay), .arg = "TIME", .unit = "us", .help = "gap" },
	{ .name = "pause", FIELD(OPT_DURATION, pause), .arg = "TIME", .initial = "2", .min = 1e7, .max = 3.6e12, .help = "pause" },
	{ .name = "format", FIELD(OPT_CHOICE, format), .arg = "NAME", .initial = "json", .choices = formats, .help = "shape" },
	{ .name = "depth", .letter = 'x', FIELD(OPT_INT, depth), .arg = "N", .initial = "1", .only = TALL, .section = "Size", .help = "tall depth" },
	{ .name = "depth", .letter = 'y', FIELD(OPT_INT, depth), .arg = "N", .initial = "2", .only = WIDE, .section = "Size", .help = "wide depth" },
	{ .name = "width", .letter = 'x', FIELD(OPT_BOOL, edge), .only = WIDE, .help = "wide only" },
	{ 0 },
};
/* clang-format on */

static const struct opt_table tall = { .command = "demo",
	.usage = "[options]",
	.summary = "a table of every type.",
	.examples = "  weir demo -q\n",
	.opts = opts,
	.variant = TALL };
static const struct opt_table wide = { .command = "demo",
	.usage = "[options]",
	.summary = "a table of every type.",
	.opts = opts,
	.variant = WIDE };

#define ARGS_MAX 16

/* Parse words, up to NULL, into c. Old contents of c must not matter. */
static int parse_into(const struct opt_table *t, struct config *c, struct opt_given *given,
	struct err *e, const char *first, ...)
{
	char *argv[ARGS_MAX] = { (char *)"demo" };
	const char *word;
	va_list words;
	int argc = 1;

	va_start(words, first);
	for (word = first; word; word = va_arg(words, const char *))
		argv[argc++] = (char *)word;
	va_end(words);
	memset(c, 0, sizeof(*c));
	memset(e, 0, sizeof(*e));
	return opt_parse(t, argc, argv, c, given, e);
}

/* Every test has these; what is parsed is left in c. */
static struct config c;
static struct opt_given given;
static struct err e;

#define parse(...)   parse_into(&tall, &c, &given, &e, __VA_ARGS__, NULL)
#define takes(...)   assert_int_equal(parse(__VA_ARGS__), 0)
#define refuses(...) assert_int_equal(parse(__VA_ARGS__), -EINVAL)

static void assert_says(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" does not say \"%s\"", text, words);
}

static void test_opt_defaults_are_set_where_nothing_is_given(void **state)
{
	(void)state;
	assert_int_equal(parse_into(&tall, &c, &given, &e, NULL), 0);
	assert_false(c.quiet);
	assert_int_equal(c.flows, 3);
	assert_int_equal(c.port, -1);
	assert_true(c.length == 10);
	assert_null(c.host);
	assert_null(c.samples);
	assert_int_equal(c.bytes, 16384);
	assert_int_equal(c.rate, 0);
	assert_int_equal(c.format, 1);
	for (size_t i = 0; i < COUNT(given.at); i++)
		assert_false(given.at[i]);
}

static void test_opt_defaults_replace_what_was_in_the_struct(void **state)
{
	char *argv[] = { (char *)"demo" };

	(void)state;
	memset(&c, 0x5a, sizeof(c));
	c.quiet = c.debug = c.no_cork = c.edge = true;
	assert_int_equal(opt_parse(&tall, 1, argv, &c, &given, &e), 0);
	assert_int_equal(c.flows, 3);
	assert_false(c.quiet);
	assert_null(c.host);
	assert_int_equal(c.delay, 0);
	assert_true(c.ratio == 0);
}

static void test_opt_long_takes_a_value_attached_or_as_the_next_word(void **state)
{
	(void)state;
	takes("--num-flows", "8", "--host=node2", "--length", "-2.5");
	assert_int_equal(c.flows, 8);
	assert_string_equal(c.host, "node2");
	assert_true(c.length == -2.5);
	takes("--host=");
	assert_string_equal(c.host, "");
	takes("--host=a=b");
	assert_string_equal(c.host, "a=b");
}

static void test_opt_short_takes_a_value_attached_or_as_the_next_word(void **state)
{
	(void)state;
	takes("-F8", "-H", "node2", "-l", "-1");
	assert_int_equal(c.flows, 8);
	assert_string_equal(c.host, "node2");
	assert_true(c.length == -1);
}

static void test_opt_short_flags_cluster_and_the_last_may_take_a_value(void **state)
{
	(void)state;
	takes("-qEF12");
	assert_true(c.quiet);
	assert_true(c.edge);
	assert_int_equal(c.flows, 12);
	takes("-qF", "12");
	assert_true(c.quiet);
	assert_int_equal(c.flows, 12);
	refuses("-qZ");
	assert_says(e.what, "-Z");
}

static void test_opt_the_last_of_several_wins(void **state)
{
	(void)state;
	takes("-F8", "--num-flows=9", "-q", "--no-quiet");
	assert_int_equal(c.flows, 9);
	assert_false(c.quiet);
}

static void test_opt_long_names_may_be_cut_short_while_unique(void **state)
{
	(void)state;
	takes("--len", "4", "--qui", "--num-f=7");
	assert_true(c.length == 4);
	assert_true(c.quiet);
	assert_int_equal(c.flows, 7);
}

static void test_opt_an_ambiguous_beginning_names_two_candidates(void **state)
{
	(void)state;
	refuses("--num=7");
	assert_says(e.what, "ambiguous");
	assert_says(e.what, "--num-flows");
	assert_says(e.what, "--num-ports");
	assert_null(strstr(e.what, "7"));
}

static void test_opt_the_exact_name_wins_over_longer_ones(void **state)
{
	(void)state;
	takes("--rate=1K");
	assert_int_equal(c.rate, 1024);
	assert_false(c.debug);
	takes("--rates");
	assert_true(c.debug);
	refuses("--rat");
	assert_says(e.what, "ambiguous");
}

static void test_opt_no_takes_a_flag_back(void **state)
{
	(void)state;
	takes("-d", "--no-debug");
	assert_false(c.debug);
	assert_true(opt_was_given(&tall, &given, "debug"));
	/* A name that begins with "no-" itself is that option, and can be taken back as well. */
	takes("--no-cork");
	assert_true(c.no_cork);
	takes("--no-cork", "--no-no-cork");
	assert_false(c.no_cork);
	refuses("--no-num-flows");
	refuses("--no-debug=1");
}

static void test_opt_flags_refuse_a_value(void **state)
{
	(void)state;
	refuses("--quiet=1");
	assert_says(e.what, "--quiet takes no value");
}

static void test_opt_an_implied_value_needs_the_equals_sign_to_be_replaced(void **state)
{
	(void)state;
	takes("-A");
	assert_string_equal(c.samples, "samples.csv");
	takes("--samples");
	assert_string_equal(c.samples, "samples.csv");
	takes("--samples=f");
	assert_string_equal(c.samples, "f");
	takes("-Af");
	assert_string_equal(c.samples, "f");
	takes("-qA");
	assert_string_equal(c.samples, "samples.csv");
	takes("-A", "-q");
	assert_true(c.quiet);
	refuses("-A", "f");
	assert_says(e.what, "\"f\"");
}

static void test_opt_a_missing_value_is_named(void **state)
{
	(void)state;
	refuses("--num-flows");
	assert_says(e.what, "--num-flows needs a value");
	assert_says(e.hint, "--num-flows 3");
	refuses("-q", "-F");
	assert_says(e.what, "--num-flows needs a value");
	refuses("-H");
	assert_says(e.what, "--host needs a value");
}

static void test_opt_out_of_range_says_the_value_the_range_and_an_example(void **state)
{
	static const char *const bad[] = { "0", "1001", "-1", "99999999999999999999", "1.5", "x",
		"", "1x", "0x10" };

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		refuses("--num-flows", bad[i]);
		assert_says(e.what, "--num-flows");
		assert_says(e.what, bad[i]);
		assert_says(e.what, "from 1 to 1000");
		assert_says(e.hint, "for example: --num-flows 3");
	}
	refuses("-F0");
	assert_says(e.what, "from 1 to 1000");
}

static void test_opt_numbers_must_be_finite_and_in_range(void **state)
{
	static const char *const bad[] = { "nan", "inf", "-inf", "1e999", "2e6", "-5.1", "", "5s" };

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		refuses("--length", bad[i]);
		assert_says(e.what, bad[i]);
		assert_says(e.what, "from -5 to 1000000");
	}
	takes("--length", "-5");
	takes("--length", "1e6");
	takes("--ratio", "-1e300");
	assert_true(c.ratio == -1e300);
	refuses("--ratio", "nan");
}

static void test_opt_numbers_take_no_blanks(void **state)
{
	(void)state;
	refuses("--num-flows", " 5");
	refuses("--num-flows", "5 ");
	refuses("--length", " 5");
	refuses("--length", "\t5");
}

static void test_opt_sizes_rates_and_durations_take_units(void **state)
{
	(void)state;
	takes("--size", "64K", "--rate=10Gb", "-D250");
	assert_int_equal(c.bytes, 65536);
	assert_int_equal(c.rate, 1250000000);
	assert_int_equal(c.delay, 250000);
	takes("-D", "3ms");
	assert_int_equal(c.delay, 3000000);
	refuses("--size", "2G");
	assert_says(e.what, "2G");
	assert_says(e.what, "is not a size from 1 to 1G");
	refuses("--size", "0");
	refuses("--size", "64Q");
	assert_says(e.what, "--size");
	assert_says(e.what, "64Q");
	refuses("--rate", "-5");
	refuses("--delay", "3 weeks");
	assert_says(e.what, "3 weeks");
	refuses("--pause", "0");
	assert_string_equal(e.what, "--pause 0 is not a duration from 10ms to 3600s");
	assert_string_equal(e.hint, "for example: --pause 2s");
}

static void test_opt_a_choice_lists_what_it_knows(void **state)
{
	(void)state;
	takes("--format", "kv");
	assert_int_equal(c.format, 2);
	refuses("--format", "xml");
	assert_says(e.what, "xml");
	assert_says(e.what, "table, json, kv");
	refuses("--format", "js");
	refuses("--format", "");
}

static void test_opt_an_unknown_option_suggests_a_near_one(void **state)
{
	(void)state;
	refuses("--num-folws", "8");
	assert_says(e.what, "--num-folws");
	assert_says(e.hint, "--num-flows");
	refuses("--zebrafish=1");
	assert_says(e.what, "--zebrafish");
	assert_null(strstr(e.what, "=1"));
	assert_says(e.hint, "weir demo --help");
	refuses("-Z");
	assert_says(e.what, "-Z");
	assert_says(e.hint, "weir demo --help");
}

static void test_opt_very_long_words_are_refused_without_harm(void **state)
{
	char word[5000];

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = 0;
	memcpy(word, "--", 2);
	refuses(word);
	memcpy(word, "--num-flows=", 12);
	refuses(word);
	memcpy(word, "--format=xxx", 12);
	refuses(word);
	memcpy(word, "-F", 2);
	refuses(word);
}

static void test_opt_operands_are_refused(void **state)
{
	(void)state;
	refuses("node2");
	assert_says(e.what, "\"node2\"");
	assert_says(e.hint, "usage: weir demo [options]");
	refuses("-q", "-");
	assert_says(e.what, "\"-\"");
	refuses("");
}

static void test_opt_two_dashes_end_the_options(void **state)
{
	(void)state;
	takes("-q", "--");
	assert_true(c.quiet);
	refuses("--", "-q");
	assert_says(e.what, "\"-q\"");
	/* A value is a value, whatever it looks like. */
	takes("--host", "--");
	assert_string_equal(c.host, "--");
}

static void test_opt_given_tells_what_the_user_wrote_from_defaults(void **state)
{
	(void)state;
	takes("-F3", "--samples");
	assert_true(opt_was_given(&tall, &given, "num-flows"));
	assert_true(opt_was_given(&tall, &given, "samples"));
	assert_false(opt_was_given(&tall, &given, "num-ports"));
	assert_false(opt_was_given(&tall, &given, "quiet"));
	assert_false(opt_was_given(&tall, &given, "no such option"));
	/* Each parse starts anew. */
	takes("-q");
	assert_false(opt_was_given(&tall, &given, "num-flows"));
}

static void test_opt_variants_know_only_their_own_options(void **state)
{
	(void)state;
	takes("-x5");
	assert_int_equal(c.depth, 5);
	takes("-q");
	assert_int_equal(c.depth, 1);
	refuses("-y5");
	refuses("--width");
	assert_int_equal(parse_into(&wide, &c, &given, &e, "-x", "--width", NULL), 0);
	assert_true(c.edge);
	assert_int_equal(c.depth, 2);
	assert_int_equal(parse_into(&wide, &c, &given, &e, "-y", "5", NULL), 0);
	assert_int_equal(c.depth, 5);
	assert_true(opt_was_given(&wide, &given, "depth"));
	assert_ptr_not_equal(opt_find(&tall, "depth"), opt_find(&wide, "depth"));
	assert_null(opt_find(&tall, "width"));
}

static void test_opt_find_wants_the_whole_name(void **state)
{
	(void)state;
	assert_non_null(opt_find(&tall, "num-flows"));
	assert_null(opt_find(&tall, "num-flow"));
	assert_null(opt_find(&tall, "num-flows2"));
	assert_null(opt_find(&tall, ""));
}

static void test_opt_value_and_set_round_trip_for_every_type(void **state)
{
	static const struct {
		const char *name, *value, *text;
	} cases[] = {
		{ "quiet", "1", "1" },
		{ "quiet", "0", "0" },
		{ "num-flows", "17", "17" },
		{ "num-ports", "-1", "-1" },
		{ "length", "0.1", "0.1" },
		{ "length", "-2.5", "-2.5" },
		{ "length", "1e6", "1000000" },
		{ "host", "node2", "node2" },
		{ "host", "", "" },
		{ "size", "64K", "65536" },
		{ "rate", "10Gb", "1250000000" },
		{ "delay", "1.5ms", "1500000ns" },
		{ "delay", "7", "7000ns" },
		{ "format", "kv", "kv" },
	};
	char text[OPT_TEXT], again[OPT_TEXT];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct opt *opt = opt_find(&tall, cases[i].name);

		memset(&c, 0, sizeof(c));
		assert_int_equal(opt_set(opt, &c, cases[i].value, &e), 0);
		assert_string_equal(opt_value(opt, &c, text), cases[i].text);
		memset(&c, 0, sizeof(c));
		assert_int_equal(opt_set(opt, &c, text, &e), 0);
		assert_string_equal(opt_value(opt, &c, again), text);
	}
}

static void test_opt_value_of_a_string_that_is_not_set_is_empty(void **state)
{
	char text[OPT_TEXT] = "x";

	(void)state;
	memset(&c, 0, sizeof(c));
	assert_string_equal(opt_value(opt_find(&tall, "host"), &c, text), "");
}

static void test_opt_value_cuts_a_long_string(void **state)
{
	char text[OPT_TEXT], word[2 * OPT_TEXT];

	(void)state;
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = 0;
	c.host = word;
	assert_int_equal(strlen(opt_value(opt_find(&tall, "host"), &c, text)), OPT_TEXT - 1);
}

static void test_opt_set_checks_as_the_command_line_does(void **state)
{
	(void)state;
	memset(&c, 0, sizeof(c));
	assert_int_equal(opt_set(opt_find(&tall, "num-flows"), &c, "0", &e), -EINVAL);
	assert_int_equal(opt_set(opt_find(&tall, "format"), &c, "3", &e), -EINVAL);
	assert_int_equal(opt_set(opt_find(&tall, "size"), &c, "2G", &e), -EINVAL);
	assert_int_equal(opt_set(opt_find(&tall, "length"), &c, "nan", NULL), -EINVAL);
	assert_int_equal(c.flows, 0);
	assert_int_equal(c.bytes, 0);
}

static char *printed(
	void (*print)(const struct opt_table *t, struct out *o), const struct opt_table *t)
{
	char *text = NULL;
	size_t size;
	struct out o;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	out_init(&o, f, OUT_TEXT);
	print(t, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(f);
	return text;
}

static void test_opt_help_shows_every_option_of_its_variant_and_no_other(void **state)
{
	char *text = printed(opt_help, &tall), spelling[64];

	(void)state;
	for (const struct opt *opt = opts; opt->name; opt++) {
		if (opt->only && !(opt->only & TALL))
			continue;
		snprintf(spelling, sizeof(spelling), "--%s", opt->name);
		assert_says(text, spelling);
		assert_says(text, opt->help);
	}
	assert_null(strstr(text, "--width"));
	assert_null(strstr(text, "wide depth"));
	assert_says(text, "-F, --num-flows N");
	assert_says(text, "-A, --samples[=FILE]");
	assert_says(text, "(16K)");
	assert_says(text, "gap (bare number: us)");
	assert_says(text, "pause (2s; bare number: s)");
	assert_says(text, "table, json, kv");
	assert_says(text, "usage: weir demo [options]");
	assert_says(text, "weir demo -q");
	assert_says(text, "\nTalk\n");
	free(text);
}

static void test_opt_help_stays_within_a_hundred_columns(void **state)
{
	static const struct opt wordy[] = {
		{ .name = "a",
			FIELD(OPT_BOOL, quiet),
			.help = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one" },
		{ .name = "b",
			FIELD(OPT_BOOL, quiet),
			.help = "aVeryLongWordWithoutAnyBlankThatWouldNotFitIntoTheColumnThatHelpHasForItsWordsAndSoHasToBeBrokenSomewhereInside" },
		{ .name = "an-option-with-a-very-long-name-that-needs-a-line",
			FIELD(OPT_BOOL, quiet),
			.help = "x" },
		{ 0 },
	};
	struct opt_table t = tall;
	char *text, *line, *next;

	(void)state;
	t.opts = wordy;
	next = text = printed(opt_help, &t);
	while ((line = strsep(&next, "\n")))
		assert_true(strlen(line) <= 100);
	free(text);
}

static void test_opt_scdoc_shows_every_option_of_its_variant(void **state)
{
	char *text = printed(opt_scdoc, &tall), spelling[64];

	(void)state;
	for (const struct opt *opt = opts; opt->name; opt++) {
		if (opt->only && !(opt->only & TALL))
			continue;
		snprintf(spelling, sizeof(spelling), "*--%s*", opt->name);
		assert_says(text, spelling);
	}
	assert_null(strstr(text, "*--width*"));
	assert_says(text, "*-A*, *--samples*\\[=_FILE_\\]");
	assert_says(text, "Default: 16K.");
	assert_says(text, "gap. A bare number is in us.");
	assert_says(text, "pause. Default: 2s. A bare number is in s.");
	free(text);
}

static void test_opt_completion_knows_every_option_of_every_command(void **state)
{
	static const struct opt_table *const tables[] = { &tall, &wide };
	static const char *const commands[] = { "demo", "other", NULL };
	char *text = NULL;
	size_t size;
	struct out o;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	out_init(&o, f, OUT_TEXT);
	opt_completion(tables, 2, commands, &o);
	assert_int_equal(out_finish(&o, NULL), 0);
	fclose(f);
	for (const struct opt *opt = opts; opt->name; opt++) {
		char word[64];

		snprintf(word, sizeof(word), opt->implied ? "--%s=" : "--%s ", opt->name);
		assert_says(text, word);
	}
	assert_says(text, " other");
	assert_says(text, "complete -F _weir weir");
	free(text);
}

static void test_opt_emit_prints_each_type_as_key_value_and_json(void **state)
{
	static const struct {
		enum out_mode mode;
		const char *text;
	} cases[] = {
		{ OUT_KV,
			"quiet=1\nnum-flows=8\nlength=2.500000\nhost=\nsize=65536\ndelay=5000\nformat=kv\n" },
		{ OUT_JSON,
			"{\"quiet\":true,\"num-flows\":8,\"length\":2.5,\"host\":null,\"size\":65536,\"delay\":5000,\"format\":\"kv\"}\n" },
	};
	static const char *const names[] = { "quiet", "num-flows", "length", "host", "size",
		"delay", "format" };

	(void)state;
	takes("-q", "-F8", "-l2.5", "-B64K", "-D5", "--format=kv");
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text = NULL;
		size_t size;
		struct out o;
		FILE *f = open_memstream(&text, &size);

		out_init(&o, f, cases[i].mode);
		out_object(&o, NULL);
		for (size_t k = 0; k < COUNT(names); k++)
			opt_emit(opt_find(&tall, names[k]), &c, names[k], &o);
		out_end(&o);
		assert_int_equal(out_finish(&o, NULL), 0);
		fclose(f);
		assert_string_equal(text, cases[i].text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opt_defaults_are_set_where_nothing_is_given),
		cmocka_unit_test(test_opt_defaults_replace_what_was_in_the_struct),
		cmocka_unit_test(test_opt_long_takes_a_value_attached_or_as_the_next_word),
		cmocka_unit_test(test_opt_short_takes_a_value_attached_or_as_the_next_word),
		cmocka_unit_test(test_opt_short_flags_cluster_and_the_last_may_take_a_value),
		cmocka_unit_test(test_opt_the_last_of_several_wins),
		cmocka_unit_test(test_opt_long_names_may_be_cut_short_while_unique),
		cmocka_unit_test(test_opt_an_ambiguous_beginning_names_two_candidates),
		cmocka_unit_test(test_opt_the_exact_name_wins_over_longer_ones),
		cmocka_unit_test(test_opt_no_takes_a_flag_back),
		cmocka_unit_test(test_opt_flags_refuse_a_value),
		cmocka_unit_test(test_opt_an_implied_value_needs_the_equals_sign_to_be_replaced),
		cmocka_unit_test(test_opt_a_missing_value_is_named),
		cmocka_unit_test(test_opt_out_of_range_says_the_value_the_range_and_an_example),
		cmocka_unit_test(test_opt_numbers_must_be_finite_and_in_range),
		cmocka_unit_test(test_opt_numbers_take_no_blanks),
		cmocka_unit_test(test_opt_sizes_rates_and_durations_take_units),
		cmocka_unit_test(test_opt_a_choice_lists_what_it_knows),
		cmocka_unit_test(test_opt_an_unknown_option_suggests_a_near_one),
		cmocka_unit_test(test_opt_very_long_words_are_refused_without_harm),
		cmocka_unit_test(test_opt_operands_are_refused),
		cmocka_unit_test(test_opt_two_dashes_end_the_options),
		cmocka_unit_test(test_opt_given_tells_what_the_user_wrote_from_defaults),
		cmocka_unit_test(test_opt_variants_know_only_their_own_options),
		cmocka_unit_test(test_opt_find_wants_the_whole_name),
		cmocka_unit_test(test_opt_value_and_set_round_trip_for_every_type),
		cmocka_unit_test(test_opt_value_of_a_string_that_is_not_set_is_empty),
		cmocka_unit_test(test_opt_value_cuts_a_long_string),
		cmocka_unit_test(test_opt_set_checks_as_the_command_line_does),
		cmocka_unit_test(test_opt_help_shows_every_option_of_its_variant_and_no_other),
		cmocka_unit_test(test_opt_help_stays_within_a_hundred_columns),
		cmocka_unit_test(test_opt_scdoc_shows_every_option_of_its_variant),
		cmocka_unit_test(test_opt_completion_knows_every_option_of_every_command),
		cmocka_unit_test(test_opt_emit_prints_each_type_as_key_value_and_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
