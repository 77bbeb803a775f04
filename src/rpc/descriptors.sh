#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The bytes of a file as C, for reflection.c:
#
#	descriptors.sh FILE >descriptors.c
set -eu
echo '#include <stddef.h>'
echo 'extern const unsigned char rpc_descriptors[];'
echo 'extern const size_t rpc_descriptors_bytes;'
echo 'const unsigned char rpc_descriptors[] = {'
od -An -v -tx1 "$1" | sed 's/ \(..\)/0x\1,/g'
echo '};'
echo 'const size_t rpc_descriptors_bytes = sizeof(rpc_descriptors);'
