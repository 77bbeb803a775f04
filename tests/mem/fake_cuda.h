/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA driver without a GPU: memory is the host's, streams do their work at once, kernels are those
 * of kernels.cu, run thread by thread. It is stricter than the real one where weir has rules of its
 * own: a context must be current, nothing runs in the default stream, what is made is counted.
 *
 *	struct fake_cuda *fake = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda");
 *	fake->fail = "cuMemAlloc_v2";
 *	fake->fail_code = 2;
 */
#ifndef WEIR_TESTS_MEM_FAKE_CUDA_H
#define WEIR_TESTS_MEM_FAKE_CUDA_H

struct fake_cuda {
	/* what exists now */
	int retained, memory, pinned, registered, streams, events, modules, mappings;
	/* what was done */
	int launches, wrong; /* wrong: calls that break a rule */
	/* what shall happen */
	const char *fail; /* this function returns fail_code after fail_after calls */
	int fail_code, fail_after;
	int lag;      /* so many queries of events say: not yet */
	int misalign; /* allocations start 512 bytes after a page */
};

#endif
