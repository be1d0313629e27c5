/*
 * Who has the receiving buffers of an xdp link: each receive queue of the card needs some at any time, and a
 * busy one nearly all, because frames of one kind tend to come by one queue.
 *
 * Owns: the numbers of the buffers. Pure: no ring, no kernel, no allocator. Does not own: the buffers and the
 * rings through which the kernel gets them (xdp.c). Called from the engine's thread.
 */
#ifndef VIPD_LINK_XDP_POOL_H
#define VIPD_LINK_XDP_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* Receive queues with a socket of their own. */
#define XDP_QUEUES_MAX 8u

/* Buffers for receiving, of a page each. With those for sending 8 MiB, which is what users may lock. */
#define XDP_RX_BUFFERS 1536u

/* Of several queues each always has so many: enough for the first packets of a peer or two. */
#define XDP_QUEUE_BUFFERS 96u

/* So many are kept for a queue that becomes busy while others are. */
#define XDP_SPARE_BUFFERS 128u

_Static_assert(XDP_QUEUES_MAX *XDP_QUEUE_BUFFERS + XDP_SPARE_BUFFERS <= XDP_RX_BUFFERS, "buffers");

struct xdp_pool {
    unsigned queues;
    uint32_t free[XDP_RX_BUFFERS]; /* numbers of those that no queue has */
    uint32_t free_count;
    uint32_t lent[XDP_QUEUES_MAX]; /* how many a queue has, in the kernel or given out */
    uint8_t queue[XDP_RX_BUFFERS]; /* which one had the buffer last */
};

/* All buffers free, for 1..XDP_QUEUES_MAX queues. */
void xdp_pool_init(struct xdp_pool *pool, unsigned queues);

/* How many a queue begins with; all of them if it is the only one. */
uint32_t xdp_pool_first(const struct xdp_pool *pool);

/* One more for this queue. false: none is free, or those that are, are spared for others. */
bool xdp_pool_take(struct xdp_pool *pool, unsigned queue, uint32_t *ret);

/* A buffer that its queue had has come back. Whether it is that queue's again; else it is free. */
bool xdp_pool_keep(struct xdp_pool *pool, uint32_t buffer);

/* How many a queue can have if it is the only busy one. */
uint32_t xdp_pool_most(const struct xdp_pool *pool);

#endif
