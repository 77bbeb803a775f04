// SPDX-License-Identifier: GPL-2.0-only
/*
 * The receiving half, in the NAPI of a queue: frames from the wire become packets, their payload
 * goes to buffers of the queue's pool.
 *
 * The DMA engine is memcpy through the direct map. So there must be no IOMMU in front of the
 * device, and a dma-buf must be made of system memory (udmabuf, the system heap).
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/page_pool/helpers.h>

#include "labnic.h"

#ifndef LABNIC_HAS_ALLOC_NETMEMS
#define page_pool_alloc_netmems page_pool_alloc_netmem
#endif

static u8 *labnic_dma_address(netmem_ref buffer)
{
	if (netmem_is_net_iov(buffer))
		return phys_to_virt(netmem_get_dma_addr(buffer));
	return netmem_address(buffer);
}

static const u8 *labnic_frag_address(const skb_frag_t *frag)
{
	if (skb_frag_net_iov(frag))
		return labnic_dma_address(skb_frag_netmem(frag)) + skb_frag_off(frag);
	/* No highmem on 64 bit; a compound page is contiguous. */
	return page_address(skb_frag_page(frag)) + skb_frag_off(frag);
}

/* By words, where memcpy takes three times as many instructions: a real NIC's DMA costs its CPU none,
 * and programs are compared here by a clock that counts them.
 */
static void labnic_dma_copy(u8 *to, const u8 *from, u32 bytes)
{
	unsigned long words = bytes / sizeof(u64), rest = bytes % sizeof(u64);

	asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(rest) : : "memory");
}

/* Where the wire is in a frame: it reads forward only, so that it looks at each fragment once. */
struct labnic_wire {
	const struct sk_buff *frame;
	u32 begin, end; /* the piece of the frame that it is in */
	const u8 *from; /* the piece's first byte */
	enum labnic_counter kind;
	int next; /* fragment */
};

static void labnic_wire_begin(struct labnic_wire *wire, const struct sk_buff *frame)
{
	*wire = (struct labnic_wire){
		.frame = frame,
		.end = skb_headlen(frame),
		.from = frame->data,
		.kind = LABNIC_FROM_OTHER_BYTES,
	};
}

static bool labnic_wire_next(struct labnic_wire *wire)
{
	const struct skb_shared_info *info = skb_shinfo(wire->frame);
	const skb_frag_t *frag = &info->frags[wire->next];

	if (WARN_ON_ONCE(wire->next == info->nr_frags))
		return false;
	wire->next++;
	wire->begin = wire->end;
	wire->end += skb_frag_size(frag);
	wire->from = labnic_frag_address(frag);
	wire->kind = skb_frag_net_iov(frag) ? LABNIC_FROM_DEVMEM_BYTES : LABNIC_FROM_OTHER_BYTES;
	return true;
}

/* Copies bytes of the frame from an offset on, not before one that was read, and counts what kind of memory they
 * came from.
 */
static void labnic_wire_read(
	struct labnic_queue *queue, struct labnic_wire *wire, u32 offset, u8 *to, u32 bytes)
{
	while (bytes) {
		u32 n;

		if (offset >= wire->end) {
			if (!labnic_wire_next(wire))
				return;
			continue;
		}
		n = min(bytes, wire->end - offset);
		labnic_dma_copy(to, wire->from + offset - wire->begin, n);
		queue->counter[wire->kind] += n;
		offset += n;
		to += n;
		bytes -= n;
	}
}

/* One packet of a frame, as a TSO engine cuts it, or those that hardware GRO has put together again. */
struct labnic_segment {
	struct labnic_wire wire;
	const struct labnic_headers *headers;
	u32 mss;
	u32 number; /* within the frame */
	u32 offset; /* of its payload within the frame's */
	u32 bytes;  /* of payload */
	bool last;
};

static void labnic_deliver(struct labnic_queue *queue, struct sk_buff *skb)
{
	queue->counter[LABNIC_RX_PACKETS] += skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;
	queue->counter[LABNIC_RX_BYTES] += skb->len;
	skb->protocol = eth_type_trans(skb, queue->nic->dev);
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_record_rx_queue(skb, queue->index);
	napi_gro_receive(&queue->napi, skb);
}

/* What is not TCP is small and goes to host memory whole. */
static void labnic_receive_other(struct labnic_queue *queue, const struct sk_buff *frame)
{
	struct labnic_wire wire;
	struct sk_buff *skb = NULL;

	if (skb_frags_readable(frame))
		skb = napi_alloc_skb(&queue->napi, frame->len);
	if (!skb) {
		queue->counter[LABNIC_RX_ALLOC_FAIL]++;
		return;
	}
	labnic_wire_begin(&wire, frame);
	labnic_wire_read(queue, &wire, 0, skb_put(skb, frame->len), frame->len);
	labnic_deliver(queue, skb);
}

static bool labnic_nth(u32 count, unsigned int every)
{
	return every && count % every == 0;
}

/* How many bytes of the segment's payload stay next to the headers; all, where it is not split. */
static u32 labnic_linear_bytes(
	const struct labnic_queue *queue, const struct labnic_segment *segment)
{
	const struct labnic *nic = queue->nic;

	if (!READ_ONCE(nic->split) || segment->bytes <= labnic_faults.copybreak ||
		segment->headers->bytes + segment->bytes <= READ_ONCE(nic->hds_thresh) ||
		labnic_nth(queue->data_packets, labnic_faults.nosplit_every))
		return segment->bytes;
	return min(labnic_faults.linear_bytes, segment->bytes);
}

/* Puts up to a buffer's worth of the frame into the next fragment of the packet. */
static int labnic_add_buffer(struct labnic_queue *queue, struct sk_buff *skb,
	struct labnic_wire *wire, u32 offset, u32 bytes, netmem_ref buffer)
{
	bool devmem;

	if (!buffer)
		return -ENOMEM;
	devmem = netmem_is_net_iov(buffer);
	labnic_wire_read(queue, wire, offset, labnic_dma_address(buffer), bytes);
	queue->counter[devmem ? LABNIC_RX_DEVMEM_BYTES : LABNIC_RX_PAGE_BYTES] += bytes;
	skb_add_rx_frag_netmem(skb, skb_shinfo(skb)->nr_frags, buffer, 0, bytes, PAGE_SIZE);
	return 0;
}

static int labnic_add_buffers(struct labnic_queue *queue, struct sk_buff *skb,
	struct labnic_wire *wire, u32 offset, u32 bytes)
{
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	bool mixed = bytes > 1 && labnic_nth(queue->data_packets, labnic_faults.mixed_every);
	u32 n, half = mixed ? DIV_ROUND_UP(bytes, 2) : bytes;
	int err;

	/* GRO and TCP coalescing tell packets with device memory from others by this bit: it must not
	 * be on a packet without buffers of the pool.
	 */
	if (bytes)
		skb_mark_for_recycle(skb);
	for (; bytes; bytes -= n, offset += n) {
		bool other = mixed && bytes <= half;
		struct page *page = other ? alloc_page(gfp) : NULL;

		n = min3(bytes, half, (u32)PAGE_SIZE);
		err = labnic_add_buffer(queue, skb, wire, offset, n,
			other ? page_to_netmem(page) : page_pool_alloc_netmems(queue->pool, gfp));
		if (err)
			return err;
	}
	return 0;
}

/* What a TSO engine writes into the headers of each packet it cuts. */
static void labnic_fix_headers(struct sk_buff *skb, const struct labnic_segment *segment)
{
	const struct labnic_headers *h = segment->headers;
	struct tcphdr *tcp = (void *)(skb->data + h->transport);

	tcp->seq = htonl(ntohl(tcp->seq) + segment->offset);
	if (segment->number)
		tcp->cwr = 0;
	if (!segment->last) {
		tcp->fin = 0;
		tcp->psh = 0;
	}
	if (h->ipv6) {
		struct ipv6hdr *ip = (void *)(skb->data + h->network);

		ip->payload_len = htons(skb->len - h->transport);
	} else {
		struct iphdr *ip = (void *)(skb->data + h->network);

		ip->tot_len = htons(skb->len - h->network);
		ip->id = htons(ntohs(ip->id) + segment->number);
		ip_send_check(ip);
	}
}

/* What the kernel is told of packets that were put together. */
static void labnic_mark_merged(
	struct labnic_queue *queue, struct sk_buff *skb, const struct labnic_segment *segment)
{
	struct skb_shared_info *info = skb_shinfo(skb);

	if (segment->bytes <= segment->mss)
		return;
	info->gso_size = segment->mss;
	info->gso_segs = DIV_ROUND_UP(segment->bytes, segment->mss);
	queue->counter[LABNIC_RX_MERGED] += info->gso_segs;
	info->gso_type = segment->headers->ipv6 ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4;
}

static void labnic_receive_segment(struct labnic_queue *queue, struct labnic_segment *segment)
{
	u32 header = segment->headers->bytes, from = header + segment->offset, linear = 0;
	struct sk_buff *skb;

	if (segment->bytes) {
		queue->data_packets++;
		if (labnic_nth(queue->data_packets, labnic_faults.drop_every)) {
			queue->counter[LABNIC_RX_WIRE_DROP]++;
			return;
		}
		linear = labnic_linear_bytes(queue, segment);
	}
	skb = napi_alloc_skb(&queue->napi, header + linear);
	if (!skb)
		goto fail;
	labnic_dma_copy(skb_put(skb, header), segment->wire.frame->data, header);
	queue->counter[LABNIC_FROM_OTHER_BYTES] += header;
	labnic_wire_read(queue, &segment->wire, from, skb_put(skb, linear), linear);
	queue->counter[LABNIC_RX_LINEAR_BYTES] += linear;
	if (labnic_add_buffers(queue, skb, &segment->wire, from + linear, segment->bytes - linear))
		goto fail;
	labnic_fix_headers(skb, segment);
	labnic_mark_merged(queue, skb, segment);
	labnic_deliver(queue, skb);
	return;
fail:
	queue->counter[LABNIC_RX_ALLOC_FAIL]++;
	kfree_skb(skb);
}

/* Whether hardware GRO is on. It puts payload together that was split off, and a fault that is to meet
 * some packets must find them.
 */
static bool labnic_merges(const struct labnic *nic)
{
	return nic->dev->features & NETIF_F_GRO_HW && READ_ONCE(nic->split) &&
	       !labnic_faults.drop_every && !labnic_faults.nosplit_every &&
	       !labnic_faults.mixed_every;
}

static void labnic_receive(struct labnic_queue *queue, const struct sk_buff *frame)
{
	struct labnic_headers headers;
	struct labnic_segment segment = { .headers = &headers };
	u32 payload, most;

	labnic_parse(frame, &headers);
	if (!headers.tcp) {
		labnic_receive_other(queue, frame);
		return;
	}
	labnic_wire_begin(&segment.wire, frame);
	payload = frame->len - headers.bytes;
	segment.mss = skb_is_gso(frame) ? skb_shinfo(frame)->gso_size : payload;
	/* The packets of a frame come one right after the other. */
	most = labnic_merges(queue->nic) ? payload : segment.mss;
	do {
		segment.bytes = min(most, payload - segment.offset);
		segment.last = segment.offset + segment.bytes == payload;
		labnic_receive_segment(queue, &segment);
		segment.offset += segment.bytes;
		segment.number++;
	} while (!segment.last);
}

int labnic_poll(struct napi_struct *napi, int budget)
{
	struct labnic_queue *queue = container_of(napi, struct labnic_queue, napi);
	struct sk_buff *frame;
	int done = 0;

	while (done < budget && (frame = skb_dequeue(&queue->wire))) {
		labnic_receive(queue, frame);
		napi_consume_skb(frame, budget);
		done++;
	}
	labnic_tx_wake(queue);
	/* A frame that came after the last look found us scheduled and was not announced. */
	if (done < budget && napi_complete_done(napi, done) &&
		!skb_queue_empty_lockless(&queue->wire))
		napi_schedule(napi);
	return done;
}
