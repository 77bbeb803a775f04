// SPDX-License-Identifier: BSD-3-Clause
/* Pinned memory between sockets and a GPU. Run twice: with the machine's driver, skipped where there is none, and
 * with a fake one, which counts what it is asked to do. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mem/fake_cuda.h"
#include "mem/skip.h"
#include "net/stage.h"

#define REGION_BYTES ((size_t)4 << 20)
#define SLOT_BYTES   ((size_t)64 << 10)
#define CALL_BYTES   ((size_t)16 << 10)

static struct fake_cuda *fake; /* NULL: a real GPU */
static struct err e;

#define OK(call)                                                                                   \
	do {                                                                                       \
		if (call)                                                                          \
			fail_msg("%s: %s (%s)", #call, e.what, e.hint);                            \
	} while (0)

struct rig {
	struct cuda_gpu *gpu;
	struct cuda_queue *queue;
	struct region memory;
	struct pattern pattern;
	struct cuda_pattern on_gpu;
	struct stage stage;
	uint64_t wrong_at;
	void *wrong_owner;
	int wrong;
};

static void rig_open(struct rig *t, uint64_t ring_bytes)
{
	struct mem_where where = { .kind = MEM_CUDA };

	memset(t, 0, sizeof(*t));
	OK(cuda_gpu_get(&t->gpu, NULL, &e));
	OK(cuda_queue_open(&t->queue, t->gpu, 0, &e));
	OK(region_alloc_in(&t->memory, &where, REGION_BYTES, &e));
	OK(pattern_init(&t->pattern, PATTERN_SEEDED, 7, 100003, &e));
	OK(cuda_pattern_load(&t->on_gpu, t->gpu, &t->pattern, &e));
	if (ring_bytes)
		OK(region_fill(&t->memory, &t->pattern, 0, REGION_BYTES, 0, &e));
	OK(stage_open(&t->stage, &t->memory, t->queue, ring_bytes ? NULL : &t->on_gpu, SLOT_BYTES,
		ring_bytes, &e));
}

static void rig_close(struct rig *t)
{
	stage_close(&t->stage);
	region_free(&t->memory);
	cuda_queue_close(t->queue);
	cuda_pattern_free(&t->on_gpu);
	pattern_free(&t->pattern);
	cuda_gpu_put(t->gpu);
}

static void note(struct rig *t, const struct stage_settled *settled)
{
	if (!settled->wrong)
		return;
	t->wrong++;
	t->wrong_at = settled->position;
	t->wrong_owner = settled->owner;
}

/* What a socket would bring: the bytes of a stream at a position, or others. */
static void receive(
	struct rig *t, void *owner, uint64_t offset, uint64_t position, size_t bytes, int spoil)
{
	struct stage_settled settled;
	size_t room_bytes;
	char *room;

	for (size_t done = 0; done < bytes; done += room_bytes) {
		room_bytes = bytes - done;
		room = stage_room(&t->stage, owner, offset + done, &room_bytes, &settled);
		assert_non_null(room);
		assert_in_range(room_bytes, 1, bytes - done);
		note(t, &settled);
		pattern_fill(&t->pattern, room, room_bytes, position + done);
		if (spoil >= (int)done && spoil < (int)(done + room_bytes))
			room[spoil - (int)done] ^= 1;
		OK(stage_received(
			&t->stage, room_bytes, offset + done, position + done, owner, &e));
	}
}

static void settle(struct rig *t)
{
	struct stage_settled settled;

	while (stage_settle(&t->stage, &settled))
		note(t, &settled);
}

static void holds(struct rig *t, uint64_t offset, uint64_t position, size_t bytes)
{
	struct mem_fragment piece = { offset, (uint32_t)bytes, position };

	OK(region_check(&t->memory, &t->pattern, &piece, 1, NULL, &e));
}

static void test_what_follows_is_copied_as_one(void **state)
{
	int owner, before;
	struct rig t;

	(void)state;
	rig_open(&t, 0);
	before = fake ? fake->launches : 0;
	for (size_t at = 0; at < 40 * SLOT_BYTES; at += CALL_BYTES)
		receive(&t, &owner, at, at, CALL_BYTES, -1);
	settle(&t);
	assert_int_equal(t.wrong, 0);
	if (fake)
		assert_int_equal(fake->launches - before, 40); /* a check for each slot */
	holds(&t, 0, 0, 40 * SLOT_BYTES);
	rig_close(&t);
}

static void test_short_receives_leave_no_hole(void **state)
{
	static const size_t bytes[] = { 1, CALL_BYTES, 777, 16000, CALL_BYTES - 1 };
	uint64_t at = 0;
	struct rig t;
	int owner;

	(void)state;
	rig_open(&t, 0);
	for (int i = 0; i < 200; i++) {
		receive(&t, &owner, at, at, bytes[i % 5], -1);
		at += bytes[i % 5];
	}
	settle(&t);
	assert_int_equal(t.wrong, 0);
	holds(&t, 0, 0, at);
	rig_close(&t);
}

static void test_flows_in_turn_and_wraps_keep_apart(void **state)
{
	uint64_t got[2] = { 0 }, half = REGION_BYTES / 2, round = 10 * CALL_BYTES + 5;
	int owner[2];
	struct rig t;

	(void)state;
	rig_open(&t, 0);
	for (int i = 0; i < 300; i++) {
		int f = i / 3 % 2;

		receive(&t, &owner[f], (uint64_t)f * half + got[f] % round, got[f],
			1000 + 100 * (size_t)f, -1);
		got[f] += 1000 + 100 * (uint64_t)f;
	}
	settle(&t);
	assert_int_equal(t.wrong, 0);
	for (uint64_t f = 0; f < 2; f++)
		holds(&t, f * half + (got[f] - 1000) % round, got[f] - 1000, 1000);
	rig_close(&t);
}

static void test_a_wrong_byte_is_named_with_its_flow(void **state)
{
	int good, bad;
	struct rig t;

	(void)state;
	rig_open(&t, 0);
	for (size_t at = 0; at < 4 * SLOT_BYTES; at += CALL_BYTES) {
		receive(&t, &good, at, at, CALL_BYTES, -1);
		receive(&t, &bad, REGION_BYTES / 2 + at, at, CALL_BYTES,
			at == 5 * CALL_BYTES ? 1234 : -1);
	}
	settle(&t);
	assert_int_equal(t.wrong, 1);
	assert_ptr_equal(t.wrong_owner, &bad);
	assert_int_equal(t.wrong_at, 5 * CALL_BYTES + 1234);
	rig_close(&t);
}

static void test_what_the_gpu_refuses_is_not_called_right(void **state)
{
	struct stage_settled settled;
	size_t bytes = CALL_BYTES;
	struct rig t;
	int owner;

	(void)state;
	if (!fake)
		skip();
	rig_open(&t, 0);
	receive(&t, &owner, 0, 0, 100, -1);
	fake->fail = "cuMemcpyAsync";
	fake->fail_code = 2;
	settle(&t);
	assert_int_equal(t.wrong, 1);
	receive(&t, &owner, 100, 100, 100, -1);
	fake->fail = "cuMemcpyAsync";
	assert_null(stage_room(&t.stage, &owner, 0, &bytes, &settled));
	rig_close(&t);
}

static void test_sending_in_calls_of_any_size(void **state)
{
	static const size_t sent[] = { CALL_BYTES, 1, 9999, SLOT_BYTES };
	uint64_t ring = (REGION_BYTES - SLOT_BYTES) / 100003 * 100003, at = 0;
	struct rig t;

	(void)state;
	rig_open(&t, ring);
	for (int i = 0; at < 3 * ring; i++) {
		size_t bytes = sent[i % 4];
		const char *data = stage_data(&t.stage, &bytes, &e);

		assert_non_null(data);
		assert_in_range(bytes, 1, sent[i % 4]);
		assert_false(pattern_check(&t.pattern, data, bytes, at, NULL));
		OK(stage_sent(&t.stage, bytes, &e));
		at += bytes;
	}
	rig_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_follows_is_copied_as_one),
		cmocka_unit_test(test_short_receives_leave_no_hole),
		cmocka_unit_test(test_flows_in_turn_and_wraps_keep_apart),
		cmocka_unit_test(test_a_wrong_byte_is_named_with_its_flow),
		cmocka_unit_test(test_what_the_gpu_refuses_is_not_called_right),
		cmocka_unit_test(test_sending_in_calls_of_any_size),
	};
	struct cuda_gpu *gpu;
	void *driver;
	int ret;

	if (cuda_gpu_get(&gpu, NULL, &e))
		return skip_all("test_stage", &e);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	fake = driver ? dlsym(driver, "fake_cuda") : NULL;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	cuda_gpu_put(gpu);
	return ret;
}
