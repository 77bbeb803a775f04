/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "sys/path.h"
#include "tree.h"

static void read_cuts_the_newline(void **state)
{
	char text[3];

	(void)state;
	tree_file("up\n", "/a");
	assert_int_equal(sys_read(text, sizeof(text), "/%s", "a"), -EFBIG);
	tree_file("u\n", "/a");
	assert_int_equal(sys_read(text, sizeof(text), "/a"), 0);
	assert_string_equal(text, "u");
}

static void read_refuses_a_value_that_does_not_fit(void **state)
{
	char text[64] = "old";

	(void)state;
	tree_long_file('7', 65536, "/long");
	assert_int_equal(sys_read(text, sizeof(text), "/long"), -EFBIG);
	assert_string_equal(text, "");
	assert_int_equal(sys_read_number(0, INT64_MAX, -5, "/long"), -5);
	assert_int_equal(sys_read_head(text, sizeof(text), "/long"), 0);
	assert_int_equal(strlen(text), sizeof(text) - 1);
}

static void read_empties_the_buffer_when_there_is_no_file(void **state)
{
	char text[8] = "old";

	(void)state;
	assert_int_equal(sys_read(text, sizeof(text), "/none"), -ENOENT);
	assert_string_equal(text, "");
	tree_dir("/dir");
	assert_int_equal(sys_read_head(text, sizeof(text), "/dir"), -EISDIR);
	assert_string_equal(text, "");
}

static void read_makes_text_one_printable_line(void **state)
{
	char text[64];

	(void)state;
	tree_file("  4096\t131072\n\x1b[31mred \xc3\xa9\x7f \n", "/a");
	assert_int_equal(sys_read(text, sizeof(text), "/a"), 0);
	assert_string_equal(text, "4096 131072 [31mred ??");
}

static void read_does_not_wait_for_a_writer(void **state)
{
	char text[8];

	(void)state;
	tree_fifo("/fifo");
	sys_read(text, sizeof(text), "/fifo");
	assert_string_equal(text, "");
}

static void read_refuses_a_path_that_does_not_fit(void **state)
{
	char name[PATH_MAX], text[8];

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(sys_read(text, sizeof(text), "/%s", name), -ENAMETOOLONG);
}

static void number_reads_decimal_and_hexadecimal(void **state)
{
	(void)state;
	tree_file("-17\n", "/decimal");
	assert_int_equal(sys_read_number(-20, 20, 99, "/decimal"), -17);
	tree_file("0x10de\n", "/hex");
	assert_int_equal(sys_read_number(0, 0xffff, 99, "/hex"), 0x10de);
	tree_file("010\n", "/zero");
	assert_int_equal(sys_read_number(0, 100, 99, "/zero"), 10);
}

static void number_falls_back_on_anything_else(void **state)
{
	static const char *const bad[] = { "", "\n", "x", "12x", "1 2", "0x", "-1", "101",
		"99999999999999999999", "1.5" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tree_file(bad[i], "/bad");
		assert_int_equal(sys_read_number(0, 100, 42, "/bad"), 42);
	}
	assert_int_equal(sys_read_number(0, 100, 42, "/none"), 42);
}

static void resolve_answers_as_seen_from_the_root(void **state)
{
	char path[PATH_MAX], small[4];

	(void)state;
	tree_dir("/sys/devices/pci0000:00");
	tree_link("../devices/pci0000:00", "/sys/class/thing");
	assert_int_equal(sys_resolve(path, sizeof(path), "/sys/class/%s", "thing"), 0);
	assert_string_equal(path, "/sys/devices/pci0000:00");
	assert_int_equal(sys_resolve(small, sizeof(small), "/sys/class/thing"), -ENAMETOOLONG);
	assert_string_equal(small, "");
}

static void resolve_refuses_loops_and_ways_out(void **state)
{
	char path[PATH_MAX];

	(void)state;
	tree_link("b", "/a");
	tree_link("a", "/b");
	assert_int_equal(sys_resolve(path, sizeof(path), "/a"), -ELOOP);
	tree_link("/usr", "/out");
	assert_int_equal(sys_resolve(path, sizeof(path), "/out"), -EXDEV);
	tree_link("nowhere", "/dangling");
	assert_int_equal(sys_resolve(path, sizeof(path), "/dangling"), -ENOENT);
	assert_string_equal(path, "");
}

static void resolve_refuses_a_neighbour_whose_name_starts_like_the_root(void **state)
{
	char path[PATH_MAX];

	(void)state;
	tree_dir("/root-2");
	tree_link("../root-2", "/root/out");
	snprintf(path, sizeof(path), "%s/root", tree_top());
	assert_int_equal(sys_set_root(path, NULL), 0);
	assert_int_equal(sys_resolve(path, sizeof(path), "/out"), -EXDEV);
}

static void list_is_sorted_and_without_dots(void **state)
{
	struct sys_names names;

	(void)state;
	tree_file("", "/dir/b");
	tree_file("", "/dir/a");
	tree_file("", "/dir/.hidden");
	assert_int_equal(sys_list(&names, "/dir"), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.entry[0]->d_name, "a");
	assert_string_equal(names.entry[1]->d_name, "b");
	sys_names_free(&names);
	assert_int_equal(sys_list(&names, "/none"), -ENOENT);
	sys_names_free(&names);
}

static void root_must_be_a_directory(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(sys_set_root("/does/not/exist", &e), -ENOENT);
	assert_non_null(strstr(e.what, "/does/not/exist"));
	assert_int_equal(sys_set_root("/proc/self/status", &e), -ENOTDIR);
	assert_false(sys_is_live());
	assert_int_equal(sys_set_root("/usr/..", &e), 0);
	assert_true(sys_is_live());
	assert_true(sys_is_dir("/proc/self"));
	assert_false(sys_is_dir("/proc/self/status"));
}

#define IN_TREE(f) cmocka_unit_test_setup_teardown(f, tree_empty, tree_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TREE(read_cuts_the_newline),
		IN_TREE(read_refuses_a_value_that_does_not_fit),
		IN_TREE(read_empties_the_buffer_when_there_is_no_file),
		IN_TREE(read_makes_text_one_printable_line),
		IN_TREE(read_does_not_wait_for_a_writer),
		IN_TREE(read_refuses_a_path_that_does_not_fit),
		IN_TREE(number_reads_decimal_and_hexadecimal),
		IN_TREE(number_falls_back_on_anything_else),
		IN_TREE(resolve_answers_as_seen_from_the_root),
		IN_TREE(resolve_refuses_loops_and_ways_out),
		IN_TREE(resolve_refuses_a_neighbour_whose_name_starts_like_the_root),
		IN_TREE(list_is_sorted_and_without_dots),
		IN_TREE(root_must_be_a_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
