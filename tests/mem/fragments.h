/* SPDX-License-Identifier: BSD-3-Clause */
/* What every kind of memory must do with fragments: run by the tests of each kind. */
#ifndef WEIR_TESTS_MEM_FRAGMENTS_H
#define WEIR_TESTS_MEM_FRAGMENTS_H

#include "mem/region.h"

/* Random cuts, places and alignments: filled, checked, gathered, and every corruption found. */
void fragments_work(const struct mem_where *where, uint64_t seed);
/* Ranges beyond either region are refused. */
void fragments_refuse_bad_ranges(const struct mem_where *where);
/* Bytes go in and come out as they were, at any offset. */
void region_copies(const struct mem_where *where);

#endif
