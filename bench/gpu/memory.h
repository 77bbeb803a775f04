/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of the program share: tests (memory.c) and speed (memory_speed.c). */
#ifndef WEIR_BENCH_GPU_MEMORY_H
#define WEIR_BENCH_GPU_MEMORY_H

#include <stdio.h>

#include "mem/cuda_queue.h"

#define MIB ((size_t)1 << 20)

extern const char *which; /* the GPU */
extern struct err e;
extern int failed, missed;
extern FILE *json;
extern const char *json_comma; /* before the next member */

/* End a function with the reason. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		int ret_ = (call);                                                                 \
		if (ret_) {                                                                        \
			printf("     %s:%d: %s = %d: %s. %s\n", __FILE__, __LINE__, #call, ret_,   \
				e.what, e.hint);                                                   \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)
#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("     %s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)

static inline struct mem_where in_gpu(bool vmm)
{
	return (struct mem_where){ .kind = MEM_CUDA, .gpu = which, .vmm = vmm };
}

/* Measure everything, with the kernels of these PTX files as well. */
void measure_all(char **variants, int count);

#endif
