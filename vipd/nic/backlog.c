/*
 * The backlog of a CQ: entries for which the CQ's ring has no room, in order. The entries lie in
 * blocks, so a backlog grows and shrinks without copies. A VI may be destroyed while the backlog
 * has entries of it. vipd drops these entries when their turn comes, so it need not search for
 * them.
 */
#include <stdlib.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

#define BLOCK_ENTRIES 511

/* A block of entries. Its memory comes from kept_bytes.c. */
struct nic_backlog_block {
    struct nic_kept_block link; /* must be the first member */
    struct nic_cqe entry[BLOCK_ENTRIES];
};

_Static_assert(sizeof(struct nic_backlog_block) == NIC_KEPT_BLOCK, "it fills its block");

bool nic_backlog_add(struct nic_session *session, struct nic_backlog *backlog,
                     const struct nic_cqe *entry)
{
    uint32_t at = (backlog->head + backlog->count) % BLOCK_ENTRIES;

    if (at == 0) {
        struct nic_backlog_block *block = (struct nic_backlog_block *)nic_kept_block(session);

        if (!block)
            return false;
        block->link.next = NULL;
        if (backlog->last)
            backlog->last->link.next = &block->link;
        else
            backlog->first = block;
        backlog->last = block;
    }
    backlog->last->entry[at] = *entry;
    backlog->count++;
    backlog->live++;
    session->vis[entry->vi].backlog[entry->queue]++;
    return true;
}

static void first_free(struct nic_session *session, struct nic_backlog *backlog)
{
    struct nic_backlog_block *block = backlog->first;

    backlog->first = (struct nic_backlog_block *)block->link.next;
    if (!backlog->first)
        backlog->last = NULL;
    backlog->head = 0;
    nic_kept_free(session, block, sizeof(*block));
}

bool nic_backlog_take(struct nic_session *session, struct nic_backlog *backlog, struct nic_cqe *ret)
{
    struct nic_vi *vi;

    VIP_ASSERT(backlog->count);
    *ret = backlog->first->entry[backlog->head++];
    backlog->count--;
    if (backlog->head == BLOCK_ENTRIES)
        first_free(session, backlog);
    vi = &session->vis[ret->vi];
    if (!vi->used || vi->generation != ret->generation)
        return false;
    backlog->live--;
    vi->backlog[ret->queue]--;
    return true;
}

void nic_backlog_forget(struct nic_backlog *backlog, struct nic_vi *vi, unsigned queue)
{
    VIP_ASSERT(backlog->live >= vi->backlog[queue]);
    backlog->live -= vi->backlog[queue];
    vi->backlog[queue] = 0;
}

void nic_backlog_free(struct nic_session *session, struct nic_backlog *backlog)
{
    if (backlog->first)
        nic_kept_spare(session, &backlog->first->link, &backlog->last->link);
    *backlog = (struct nic_backlog){.first = NULL};
}
