// SPDX-License-Identifier: BSD-3-Clause
/* Fill, check and gather on the GPU. Made into kernels.ptx, which is what weir loads, by:
 *
 *	nvcc -arch=compute_75 -ptx -O3 -o - src/mem/kernels.cu | sed \
 *		-e '1i // SPDX-License-Identifier: BSD-3-Clause' \
 *		-e 's/^\.version .*$/.version 6.3/' > src/mem/kernels.ptx
 *	ptxas -arch=sm_75 -o /dev/null src/mem/kernels.ptx
 *
 * nvcc stamps its own version on the text, and a driver refuses what is newer than itself. Nothing
 * in here needs more than 6.3, the first version that knows compute_75; ptxas proves it.
 *
 * A warp takes a fragment, or a piece of a long one. All writes are of 16 bytes and aligned, but for
 * up to 15 bytes at either end of a piece; where source and destination are not aligned alike, the
 * source is read in aligned words as well and shifted into place. An aligned word that holds one
 * byte of an allocation lies within it, so reading it whole is safe.
 *
 * C only, and no thread talks to another but by atomicMin(): tests run this file on a CPU.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC__
#define KERNEL	  extern "C" __global__ void __launch_bounds__(256)
#define DEVICE	  static __device__ __forceinline__
#define UNROLLED  _Pragma("unroll")
#endif

/* 16-byte loads in flight per lane: 8 x 32 lanes x 16 bytes are a page. */
#ifndef IN_FLIGHT
#define IN_FLIGHT 8
#endif
#define LANES 32
/* The reference of a pattern is followed by as much of its beginning. */
#define PIECE 4096

/* struct mem_fragment */
struct fragment {
	u64 region_offset;
	u32 bytes;
	u64 stream_position;
};

struct piece {
	u32 fragment; /* index in the list */
	u32 at;	      /* in the fragment */
	u32 bytes;    /* 0: the fragment ends before */
};

DEVICE u32 smaller(u32 a, u32 b)
{
	return a < b ? a : b;
}

DEVICE u32 misalignment(const u8 *p)
{
	return (u32)(u64)p & 15;
}

DEVICE u32 warp_index(void)
{
	return (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
}

DEVICE u32 warp_count(void)
{
	return gridDim.x * blockDim.x / LANES;
}

/* Bytes skew to skew + 15 of two words in a row, skew 1 to 15. */
DEVICE uint4 shifted(uint4 a, uint4 b, u32 skew)
{
	u32 bits = (skew & 3) * 8;
	u32 w0 = a.x, w1 = a.y, w2 = a.z, w3 = a.w, w4 = b.x, w5 = b.y, w6 = b.z;
	uint4 v;

	/* The same way for the whole warp; registers cannot be indexed. */
	if (skew & 8) {
		w0 = w2;
		w1 = w3;
		w2 = w4;
		w3 = w5;
		w4 = w6;
		w5 = b.w;
	}
	if (skew & 4) {
		w0 = w1;
		w1 = w2;
		w2 = w3;
		w3 = w4;
		w4 = w5;
	}
	v.x = __funnelshift_r(w0, w1, bits);
	v.y = __funnelshift_r(w1, w2, bits);
	v.z = __funnelshift_r(w2, w3, bits);
	v.w = __funnelshift_r(w3, w4, bits);
	return v;
}

/* Word i of a source that starts skew bytes after an aligned one. */
DEVICE uint4 skewed_word(const uint4 *from, u32 i, u32 skew)
{
	return shifted(from[i], from[i + 1], skew);
}

DEVICE void copy_words(uint4 *to, const uint4 *from, u32 words, u32 lane)
{
	for (u32 i = lane; i < words; i += LANES * IN_FLIGHT) {
		uint4 v[IN_FLIGHT];

		UNROLLED for (u32 j = 0; j < IN_FLIGHT; j++)
			if (i + j * LANES < words)
				v[j] = __ldcs(from + i + j * LANES);
		UNROLLED for (u32 j = 0; j < IN_FLIGHT; j++)
			if (i + j * LANES < words)
				__stcs(to + i + j * LANES, v[j]);
	}
}

/* Half of the words are read twice, by neighbours: keep them in the cache. */
DEVICE void copy_words_skewed(uint4 *to, const uint4 *from, u32 words, u32 skew, u32 lane)
{
	for (u32 i = lane; i < words; i += LANES * (IN_FLIGHT / 2)) {
		uint4 v[IN_FLIGHT / 2];

		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words)
				v[j] = skewed_word(from, i + j * LANES, skew);
		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words)
				__stcs(to + i + j * LANES, v[j]);
	}
}

DEVICE void copy_piece(u8 *to, const u8 *from, u32 bytes, u32 lane)
{
	u32 head = smaller(-misalignment(to) & 15, bytes);
	u32 words, skew;

	if (lane < head)
		to[lane] = from[lane];
	to += head;
	from += head;
	bytes -= head;
	words = bytes / 16;
	skew = misalignment(from);
	if (!skew)
		copy_words((uint4 *)to, (const uint4 *)from, words, lane);
	else
		copy_words_skewed((uint4 *)to, (const uint4 *)(from - skew), words, skew, lane);
	if (words * 16 + lane < bytes)
		to[words * 16 + lane] = from[words * 16 + lane];
}

/* Fragment, byte and what was found in one number, so that the smallest is the first mismatch. */
DEVICE void report(u64 *first, u64 place, u8 found)
{
	u64 key = place << 8 | found;

	/* When all is wrong, most lanes need not queue up for the atomic. */
	if (key < *(volatile u64 *)first)
		atomicMin(first, key);
}

DEVICE u32 differ(uint4 a, uint4 b)
{
	return (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
}

/* The lane's first word that differs, or words. The reference stays in the cache, what is checked
 * need not. */
DEVICE u32 compare_words(const uint4 *data, const uint4 *wanted, u32 words, u32 lane)
{
	u32 wrong = words;

	for (u32 i = lane; i < words; i += LANES * (IN_FLIGHT / 2)) {
		uint4 v[IN_FLIGHT / 2];

		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words)
				v[j] = __ldcs(data + i + j * LANES);
		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words && differ(v[j], wanted[i + j * LANES]))
				wrong = smaller(wrong, i + j * LANES);
	}
	return wrong;
}

DEVICE u32 compare_words_skewed(
	const uint4 *data, const uint4 *wanted, u32 words, u32 skew, u32 lane)
{
	u32 wrong = words;

	for (u32 i = lane; i < words; i += LANES * (IN_FLIGHT / 2)) {
		uint4 v[IN_FLIGHT / 2];

		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words)
				v[j] = __ldcs(data + i + j * LANES);
		UNROLLED for (u32 j = 0; j < IN_FLIGHT / 2; j++)
			if (i + j * LANES < words &&
				differ(v[j], skewed_word(wanted, i + j * LANES, skew)))
				wrong = smaller(wrong, i + j * LANES);
	}
	return wrong;
}

/* The first wrong byte of a word that differs. One that has changed since is reported all the
 * same, by its first byte. */
DEVICE void report_word(const u8 *data, const u8 *wanted, u64 place, u64 *first)
{
	u32 i = 0;

	while (i < 15 && data[i] == wanted[i])
		i++;
	if (data[i] == wanted[i])
		i = 0;
	report(first, place + i, data[i]);
}

DEVICE void check_piece(
	const u8 *data, const u8 *wanted, u32 bytes, u32 lane, u64 place, u64 *first)
{
	u32 head = smaller(-misalignment(data) & 15, bytes);
	u32 words, skew, wrong, tail;

	if (lane < head && data[lane] != wanted[lane])
		report(first, place + lane, data[lane]);
	data += head;
	wanted += head;
	place += head;
	bytes -= head;
	words = bytes / 16;
	skew = misalignment(wanted);
	if (!skew)
		wrong = compare_words((const uint4 *)data, (const uint4 *)wanted, words, lane);
	else
		wrong = compare_words_skewed((const uint4 *)data, (const uint4 *)(wanted - skew),
			words, skew, lane);
	if (wrong < words)
		report_word(data + wrong * 16, wanted + wrong * 16, place + wrong * 16, first);
	tail = words * 16 + lane;
	if (tail < bytes && data[tail] != wanted[tail])
		report(first, place + tail, data[tail]);
}

/* Every fragment is cut into as many pieces as the longest one needs. */
DEVICE struct piece piece_of(const struct fragment *list, u32 index, u32 split, u32 piece_bytes)
{
	struct piece p;
	u64 at;

	p.fragment = index / split;
	at = (u64)(index % split) * piece_bytes;
	p.at = (u32)at;
	p.bytes = at < list[p.fragment].bytes ?
			  smaller(piece_bytes, list[p.fragment].bytes - p.at) :
			  0;
	return p;
}

/* to holds the stream from to_position on. */
KERNEL weir_gather(const struct fragment *list, u32 pieces, u32 split, u32 piece_bytes,
	const u8 *from, u8 *to, u64 to_position)
{
	for (u32 i = warp_index(); i < pieces; i += warp_count()) {
		struct piece p = piece_of(list, i, split, piece_bytes);
		const struct fragment *f = list + p.fragment;

		copy_piece(to + (f->stream_position - to_position) + p.at,
			from + f->region_offset + p.at, p.bytes, threadIdx.x % LANES);
	}
}

/* *first is all ones before, and after when all is as it should be. */
KERNEL weir_check(const struct fragment *list, u32 pieces, u32 split, u32 piece_bytes,
	const u8 *from, const u8 *reference, u64 reference_bytes, u64 *first)
{
	for (u32 i = warp_index(); i < pieces; i += warp_count()) {
		struct piece p = piece_of(list, i, split, piece_bytes);
		const struct fragment *f = list + p.fragment;

		for (u32 done = 0; done < p.bytes; done += PIECE)
			check_piece(from + f->region_offset + p.at + done,
				reference + (f->stream_position + p.at + done) % reference_bytes,
				smaller(PIECE, p.bytes - done), threadIdx.x % LANES,
				(u64)p.fragment << 32 | (p.at + done), first);
	}
}

KERNEL weir_fill(u8 *to, u64 bytes, u64 position, const u8 *reference, u64 reference_bytes)
{
	for (u64 at = (u64)warp_index() * PIECE; at < bytes; at += (u64)warp_count() * PIECE)
		copy_piece(to + at, reference + (position + at) % reference_bytes,
			bytes - at < PIECE ? (u32)(bytes - at) : PIECE, threadIdx.x % LANES);
}
