/*
 * Each connection has one block of registered memory: descriptors and buffers, then the landing,
 * which is the only part that the other side may write. The block of an ended connection is kept
 * for the next connection, because making and registering a block can take more than half of the
 * time for a new connection.
 */
#include "am/internal.h"

/* Maximum number of kept blocks. A kept block occupies the pages that its connection has used. */
#define SPARE_MAX 16

struct am_block {
    void *at;
    size_t bytes, landing_at;
    VIP_MEM_HANDLE mem, landing_mem;
};

static struct {
    pthread_mutex_t lock;
    struct am_block block[SPARE_MAX];
    unsigned count;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void drop(const struct am_block *block)
{
    (void)VipDeregisterMem(am_net.nic, block->at, block->mem);
    (void)VipDeregisterMem(am_net.nic, (char *)block->at + block->landing_at, block->landing_mem);
    (void)VipxFreeMem(block->at);
}

static bool make(struct am_block *block)
{
    VIP_MEM_ATTRIBUTES attrs = {.Ptag = am_net.ptag};

    if (VipxAllocMem(block->bytes, &block->at) != VIP_SUCCESS)
        return false;
    if (VipRegisterMem(am_net.nic, block->at, block->landing_at, &attrs, &block->mem) !=
        VIP_SUCCESS) {
        (void)VipxFreeMem(block->at);
        return false;
    }
    attrs.EnableRdmaWrite = VIP_TRUE;
    if (VipRegisterMem(am_net.nic, (char *)block->at + block->landing_at,
                       block->bytes - block->landing_at, &attrs,
                       &block->landing_mem) != VIP_SUCCESS) {
        (void)VipDeregisterMem(am_net.nic, block->at, block->mem);
        (void)VipxFreeMem(block->at);
        return false;
    }
    return true;
}

static bool take_spare(struct am_block *block)
{
    bool found = false;

    pthread_mutex_lock(&spare.lock);
    for (unsigned i = 0; i < spare.count && !found; i++) {
        found =
            spare.block[i].bytes == block->bytes && spare.block[i].landing_at == block->landing_at;
        if (found) {
            *block = spare.block[i];
            spare.block[i] = spare.block[--spare.count];
        }
    }
    pthread_mutex_unlock(&spare.lock);
    return found;
}

int am_block_get(struct am_conn *conn)
{
    struct am_block block = {.bytes = conn->block_bytes, .landing_at = conn->landing_at};

    if (!take_spare(&block) && !make(&block))
        return -1;
    conn->block = block.at;
    conn->mem = block.mem;
    conn->landing_mem = block.landing_mem;
    return 0;
}

void am_block_put(struct am_conn *conn)
{
    struct am_block block = {.at = conn->block,
                             .bytes = conn->block_bytes,
                             .landing_at = conn->landing_at,
                             .mem = conn->mem,
                             .landing_mem = conn->landing_mem};
    bool kept;

    if (conn->block == NULL)
        return;
    conn->block = NULL;
    pthread_mutex_lock(&spare.lock);
    kept = spare.count < SPARE_MAX;
    if (kept)
        spare.block[spare.count++] = block;
    pthread_mutex_unlock(&spare.lock);
    if (!kept)
        drop(&block);
}

void am_block_flush(void)
{
    while (spare.count > 0)
        drop(&spare.block[--spare.count]);
}
