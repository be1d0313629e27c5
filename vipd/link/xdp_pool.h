/*
 * Distribution of the receiving buffers of an xdp link. Each receive queue of the card always needs
 * some buffers. A busy queue needs nearly all buffers, because frames of one kind often come by one
 * queue.
 *
 * Owns: the numbers of the buffers. Pure: no ring, no kernel, no allocator. Does not own: the
 * buffers and their rings (xdp.c). Called from the engine's thread.
 */
#ifndef VIPD_LINK_XDP_POOL_H
#define VIPD_LINK_XDP_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* Largest number of receive queues with a socket. */
#define XDP_QUEUES_MAX 8u

/* Buffers for receiving, one page each. With the buffers for sending they take 8 MiB, which users
 * may lock by default. */
#define XDP_RX_BUFFERS 1536u

/* Number of buffers that each of several queues always has: enough for two peers' first packets. */
#define XDP_QUEUE_BUFFERS 96u

/* Number of free buffers kept for a queue that becomes busy while other queues are busy. */
#define XDP_SPARE_BUFFERS 128u

_Static_assert(XDP_QUEUES_MAX *XDP_QUEUE_BUFFERS + XDP_SPARE_BUFFERS <= XDP_RX_BUFFERS, "buffers");

struct xdp_pool {
    unsigned queues;
    uint32_t free[XDP_RX_BUFFERS]; /* numbers of free buffers */
    uint32_t free_count;
    uint32_t lent[XDP_QUEUES_MAX]; /* number of buffers of each queue, in the kernel or the NIC */
    uint8_t queue[XDP_RX_BUFFERS]; /* for each buffer: the queue that had it last */
};

/* Make all buffers free, for 1..XDP_QUEUES_MAX queues. */
void xdp_pool_init(struct xdp_pool *pool, unsigned queues);

/* Number of buffers with which a queue begins; all of them if it is the only queue. */
uint32_t xdp_pool_first(const struct xdp_pool *pool);

/* Give this queue one more buffer. false: no buffer is free, or the free buffers are kept for other
 * queues. */
bool xdp_pool_take(struct xdp_pool *pool, unsigned queue, uint32_t *ret);

/* A buffer has come back. true: its queue keeps the buffer; false: the buffer is free. */
bool xdp_pool_keep(struct xdp_pool *pool, uint32_t buffer);

/* Number of buffers that a queue can have if it is the only busy queue. */
uint32_t xdp_pool_most(const struct xdp_pool *pool);

#endif
