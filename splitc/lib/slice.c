/*
 * RDMA operations under way. Each operation has a slice: a descriptor and a registered copy of the
 * data. An operation completes on the send queue of the VI for RDMA.
 */
#include "splitc/lib/rt.h"

#include <string.h>

static void make_slices(struct rt_peer *peer)
{
    VIP_MEM_ATTRIBUTES attrs = {0};
    VIP_ULONG bytes = RT_SLICES * sizeof(struct rt_slice);
    VIP_PVOID memory;

    if (VipxAllocMem(bytes, &memory) != VIP_SUCCESS ||
        VipRegisterMem(rt.nic, memory, bytes, &attrs, &peer->slice_memory) != VIP_SUCCESS)
        rt_fatal("no buffers for RDMA with process %d: %s", peer->rank, VipxLastError());
    peer->slices = memory;
}

struct rt_slice *rt_slice_free(struct rt_peer *peer)
{
    if (!peer->slices)
        make_slices(peer);
    for (int i = 0; i < RT_SLICES; i++)
        if (!peer->slices[i].busy)
            return &peer->slices[i];
    return NULL;
}

void rt_slice_post(struct rt_peer *peer, struct rt_slice *slice, uint64_t remote,
                   VIP_MEM_HANDLE handle, unsigned operation)
{
    VIP_DESCRIPTOR *desc = &slice->desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 2;
    desc->CS.Control = (VIP_UINT16)operation;
    desc->CS.Length = (VIP_UINT32)slice->bytes;
    if (operation & VIP_CONTROL_IMMEDIATE)
        desc->CS.ImmediateData = rt_notice(slice->bytes, rt.epoch);
    desc->DS[0].Remote.Data.AddressBits = remote;
    desc->DS[0].Remote.Handle = handle;
    desc->DS[1].Local.Data.Address = slice->data;
    desc->DS[1].Local.Handle = peer->slice_memory;
    desc->DS[1].Local.Length = (VIP_UINT32)slice->bytes;
    slice->busy = true;
    peer->slices_busy++;
    rt.slices_busy++;
    if (slice->op)
        slice->op->pending++;
    if (VipPostSend(peer->bulk, desc, peer->slice_memory) != VIP_SUCCESS)
        rt_fatal("an RDMA operation with process %d: %s", peer->rank, VipxLastError());
}

/* The operation of the slice is complete: move the data of a read, and free the slice. */
static void done(struct rt_peer *peer, struct rt_slice *slice)
{
    if (slice->to)
        memcpy(slice->to, slice->data, slice->bytes);
    if (slice->op)
        slice->op->pending--;
    slice->busy = false;
    peer->slices_busy--;
    rt.slices_busy--;
}

/* Reap one completed operation; wait for one if `wait` is set. Returns false if there is none. */
static bool reap(struct rt_peer *peer, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code =
        wait ? VipSendWait(peer->bulk, RT_SEND_MS, &desc) : VipSendDone(peer->bulk, &desc);

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS)
        rt_lost(peer);
    if (!desc) { /* rt_lost has returned: the job ends, and no operation will complete */
        rt.slices_busy -= peer->slices_busy;
        peer->slices_busy = 0;
        return false;
    }
    done(peer, (struct rt_slice *)(void *)desc);
    return true;
}

bool rt_rdma_progress(void)
{
    bool any = false;

    for (int i = 0; i < sc_procs; i++)
        while (rt.peers[i] && rt.peers[i]->slices_busy && reap(rt.peers[i], false))
            any = true;
    return any;
}

void rt_rdma_drain(struct rt_peer *peer)
{
    while (peer->slices_busy)
        reap(peer, true);
}
