/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that a NIC can take for device memory: a memfd made into a dma-buf by /dev/udmabuf.
 * Regions of kind MEM_UDMABUF are made of these two.
 *
 *	ret = udmabuf_create(memfd, 0, bytes, &dmabuf, e);
 *
 * Thread-safe.
 */
#ifndef WEIR_MEM_UDMABUF_H
#define WEIR_MEM_UDMABUF_H

#include <stdint.h>

#include "base/err.h"

/* Make [offset, offset + bytes) of a memfd a dma-buf; the caller closes both. The memfd must have
 * been made with MFD_ALLOW_SEALING and be sealed against shrinking, not against writing. */
int udmabuf_create(int memfd, uint64_t offset, uint64_t bytes, int *dmabuf, struct err *e);

/* Why the kernel refused with this code, and what to do: it has one EINVAL for eight causes. */
int udmabuf_explain(int code, int memfd, uint64_t offset, uint64_t bytes, struct err *e);

#endif
