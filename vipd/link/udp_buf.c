/*
 * Buffers for received packets: two pools with bounds (vipd/link/udp.h).
 *
 * Owns: allocation and the free lists. Called from udp_rx.c only.
 */
#include "vipd/link/udp.h"

#include <stdlib.h>

#include "proto/assert.h"

static size_t buf_bytes(const struct udp_pool *pool)
{
    return sizeof(struct udp_buf) + UDP_SMALL_BYTES + (pool->large ? UDP_LARGE_BYTES : 0);
}

uint64_t udp_pool_spare_bytes(const struct udp_pool *pool)
{
    return (uint64_t)pool->free_count * buf_bytes(pool);
}

struct udp_buf *udp_buf_take(struct udp_pool *pool)
{
    struct udp_buf *buf = pool->free;

    if (buf) {
        pool->free = buf->next;
        pool->free_count--;
        return buf;
    }
    if (pool->count >= pool->max)
        return NULL;
    buf = malloc(buf_bytes(pool));
    if (!buf)
        return NULL;
    buf->refs = 0;
    buf->large = pool->large;
    pool->count++;
    return buf;
}

void udp_buf_give(struct udp_pool *pool, struct udp_buf *buf)
{
    VIP_ASSERT(buf->refs == 0 && buf->large == pool->large && pool->count > 0);
    if (pool->free_count >= UDP_FREE_KEEP) {
        pool->count--;
        free(buf);
        return;
    }
    buf->next = pool->free;
    pool->free = buf;
    pool->free_count++;
}

bool udp_pool_scarce(const struct udp_pool *pool)
{
    return pool->count - pool->free_count >= pool->max - UDP_SCARCE;
}

void udp_pool_drain(struct udp_pool *pool)
{
    while (pool->free) {
        struct udp_buf *buf = pool->free;

        pool->free = buf->next;
        pool->free_count--;
        pool->count--;
        free(buf);
    }
}
