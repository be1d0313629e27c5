/*
 * Memory of vipd for the descriptors of a program: for the segments of long descriptors, and for CQ
 * entries that the program has not read. A session has at most NIC_KEPT_BYTES of this memory. All
 * sessions of a user together have at most nic_config.kept_bytes_user; 0: no such limit.
 *
 * The entries of CQs lie in blocks. Thousands of blocks may become spare at once, and it takes 1 ms
 * to free them all. So vipd frees only a few spare blocks at a time, or uses them again.
 */
#include <stdlib.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

static bool room(const struct nic_session *session, size_t bytes)
{
    uint64_t most = session->nic->config.kept_bytes_user;

    return session->kept_bytes + bytes <= NIC_KEPT_BYTES &&
           (!most || session->user->kept_bytes + bytes <= most);
}

void *nic_kept_alloc(struct nic_session *session, size_t bytes)
{
    void *memory = NULL;

    for (unsigned n = 0; n < NIC_KEPT_SPARES && !room(session, bytes); n++)
        if (!nic_kept_spares_free(session, 1))
            break;
    if (room(session, bytes))
        memory = malloc(bytes);
    if (!memory)
        return NULL;
    session->kept_bytes += bytes;
    session->user->kept_bytes += bytes;
    return memory;
}

void nic_kept_free(struct nic_session *session, void *memory, size_t bytes)
{
    VIP_ASSERT(session->kept_bytes >= bytes);
    session->kept_bytes -= bytes;
    session->user->kept_bytes -= bytes;
    free(memory);
}

void *nic_kept_block(struct nic_session *session)
{
    struct nic_kept_block *block = session->spares;

    if (!block)
        return nic_kept_alloc(session, NIC_KEPT_BLOCK);
    session->spares = block->next;
    return block;
}

void nic_kept_spare(struct nic_session *session, struct nic_kept_block *first,
                    struct nic_kept_block *last)
{
    last->next = session->spares;
    session->spares = first;
    session->nic->spares = true;
}

unsigned nic_kept_spares_free(struct nic_session *session, unsigned most)
{
    unsigned count = 0;

    for (; count < most && session->spares; count++) {
        struct nic_kept_block *block = session->spares;

        session->spares = block->next;
        nic_kept_free(session, block, NIC_KEPT_BLOCK);
    }
    return count;
}
