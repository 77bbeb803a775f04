# SPDX-License-Identifier: BSD-3-Clause
# Makes C of PTX: one string.
1i #include "mem/cuda.h"
1i const char mem_kernels[] =
s/[\\"]/\\&/g
s/	/\\t/g
s/.*/"&\\n"/
$a ;
