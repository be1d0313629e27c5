/* Distribution of the receiving buffers of an xdp link (vipd/link/xdp_pool.h). */
#include "vipd/link/xdp_pool.h"

#include "proto/assert.h"

void xdp_pool_init(struct xdp_pool *pool, unsigned queues)
{
    VIP_ASSERT(queues > 0 && queues <= XDP_QUEUES_MAX);
    *pool = (struct xdp_pool){.queues = queues, .free_count = XDP_RX_BUFFERS};
    for (uint32_t i = 0; i < XDP_RX_BUFFERS; i++)
        pool->free[i] = XDP_RX_BUFFERS - 1 - i;
}

uint32_t xdp_pool_first(const struct xdp_pool *pool)
{
    return pool->queues == 1 ? XDP_RX_BUFFERS : XDP_QUEUE_BUFFERS;
}

/* Returns an equal share of the buffers for each queue. A queue with fewer buffers may take spare
 * ones. A queue with more buffers gives some back until XDP_SPARE_BUFFERS are free. */
static uint32_t share(const struct xdp_pool *pool)
{
    return XDP_RX_BUFFERS / pool->queues;
}

bool xdp_pool_take(struct xdp_pool *pool, unsigned queue, uint32_t *ret)
{
    VIP_ASSERT(queue < pool->queues);
    if (pool->free_count == 0 ||
        (pool->lent[queue] >= share(pool) && pool->free_count <= XDP_SPARE_BUFFERS))
        return false;
    *ret = pool->free[--pool->free_count];
    pool->queue[*ret] = (uint8_t)queue;
    pool->lent[queue]++;
    return true;
}

bool xdp_pool_keep(struct xdp_pool *pool, uint32_t buffer)
{
    unsigned queue;

    VIP_ASSERT(buffer < XDP_RX_BUFFERS);
    queue = pool->queue[buffer];
    VIP_ASSERT(pool->lent[queue] > 0);
    if (pool->lent[queue] <= share(pool) || pool->free_count >= XDP_SPARE_BUFFERS)
        return true;
    VIP_ASSERT(pool->free_count < XDP_RX_BUFFERS);
    pool->lent[queue]--;
    pool->free[pool->free_count++] = buffer;
    return false;
}

uint32_t xdp_pool_most(const struct xdp_pool *pool)
{
    if (pool->queues == 1)
        return XDP_RX_BUFFERS;
    return XDP_RX_BUFFERS - (pool->queues - 1) * XDP_QUEUE_BUFFERS - XDP_SPARE_BUFFERS;
}
