/*
 * Large transfers by RDMA Write and RDMA Read, on a VI of their own, between registered copies here
 * and the spread heap of the peer. With Reliable Reception a completed RDMA Write is in the
 * target's memory. So a put needs no reply, and costs the target no time. The writes of a store
 * carry immediate data: they tell the target the number of bytes stored, and use up a receive
 * there, for which there are credits. SPLITC_RDMA=0 leaves only messages.
 *
 * Each process registers its part of the spread heap in chunks, when another process asks for one.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>

/* Handles of our own heap's chunks, by number; 0: not registered. */
static VIP_MEM_HANDLE *own;

bool rt_rdma_possible(void)
{
    const char *wanted = getenv("SPLITC_RDMA");

    if (wanted && strcmp(wanted, "0") == 0)
        return false;
    return (rt.nic_attrs.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_RECEPTION) &&
           (rt.nic_attrs.RDMAReadSupport & VIP_SERVICE_RELIABLE_RECEPTION) &&
           rt.nic_attrs.MaxTransferSize >= RT_SLICE_BYTES;
}

static VIP_MEM_HANDLE *handle_table(void)
{
    VIP_MEM_HANDLE *table = calloc((size_t)rt_heap_chunks(), sizeof(*table));

    if (!table)
        rt_fatal("out of memory");
    return table;
}

uint64_t rt_region_here(uint64_t addr)
{
    VIP_MEM_ATTRIBUTES attrs = {NULL, VIP_TRUE, VIP_TRUE};
    char *start;
    long chunk = rt_heap_chunk(addr, &start);

    if (chunk < 0)
        return 0;
    if (!own)
        own = handle_table();
    /* If registration fails (the NIC has limits), the transfer goes in messages. */
    if (!own[chunk] &&
        VipRegisterMem(rt.nic, start, RT_CHUNK_BYTES, &attrs, &own[chunk]) != VIP_SUCCESS)
        own[chunk] = 0;
    return own[chunk];
}

/* The handle of the peer's chunk with this address; 0: none. */
static VIP_MEM_HANDLE region_of(struct rt_peer *peer, sc_ptr p)
{
    char *start;
    long chunk = rt_heap_chunk((uintptr_t)p.addr, &start);

    if (chunk < 0)
        return 0;
    if (!peer->regions)
        peer->regions = handle_table();
    if (!peer->regions[chunk])
        peer->regions[chunk] = (VIP_MEM_HANDLE)rt_ask(p, RT_KIND_REGION, 0, 0);
    return peer->regions[chunk];
}

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

static struct rt_slice *free_slice(struct rt_peer *peer)
{
    if (!peer->slices)
        make_slices(peer);
    for (;;) {
        for (int i = 0; i < RT_SLICES; i++)
            if (!peer->slices[i].busy)
                return &peer->slices[i];
        rt_wait();
    }
}

/* The immediate data of a store's write: its bytes and its epoch. */
static uint32_t notice(size_t bytes, int epoch)
{
    return (uint32_t)bytes << 1 | (uint32_t)epoch;
}

static void post(struct rt_peer *peer, struct rt_slice *slice, uint64_t remote,
                 VIP_MEM_HANDLE handle, unsigned operation)
{
    VIP_DESCRIPTOR *desc = &slice->desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 2;
    desc->CS.Control = (VIP_UINT16)operation;
    desc->CS.Length = (VIP_UINT32)slice->bytes;
    if (operation & VIP_CONTROL_IMMEDIATE)
        desc->CS.ImmediateData = notice(slice->bytes, rt.epoch);
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

/* Bytes of the next operation: at most a slice, and within one chunk. */
static size_t piece(uint64_t addr, size_t left)
{
    size_t to_end = RT_CHUNK_BYTES - addr % RT_CHUNK_BYTES;
    size_t bytes = left < RT_SLICE_BYTES ? left : RT_SLICE_BYTES;

    return bytes < to_end ? bytes : to_end;
}

/* Is there a VI for RDMA? If not, check for a request of the peer and an answer to ours. */
static bool ready(const struct rt_peer *peer)
{
    if (rt.rdma && !peer->bulk)
        rt_accept();
    return peer->bulk;
}

size_t rt_rdma_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes)
{
    struct rt_peer *peer = rt_peer(to.proc);
    size_t at, n;

    if (bytes < RT_RDMA_MIN || !ready(peer))
        return 0;
    for (at = 0; at < bytes; at += n) {
        sc_ptr p = sc_gadd(to, (long)at);
        VIP_MEM_HANDLE handle = region_of(peer, p);
        struct rt_slice *slice;

        if (!handle)
            break;
        slice = free_slice(peer);
        if (!op && peer->notices == 0)
            break;
        n = piece((uintptr_t)p.addr, bytes - at);
        slice->op = op;
        slice->to = NULL;
        slice->bytes = n;
        memcpy(slice->data, (const char *)from + at, n);
        if (!op)
            peer->notices--;
        post(peer, slice, (uintptr_t)p.addr, handle,
             VIP_CONTROL_OP_RDMAWRITE | (op ? 0 : VIP_CONTROL_IMMEDIATE));
    }
    return at;
}

size_t rt_rdma_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes)
{
    struct rt_peer *peer = rt_peer(from.proc);
    size_t at, n;

    if (bytes < RT_RDMA_MIN || !ready(peer))
        return 0;
    for (at = 0; at < bytes; at += n) {
        sc_ptr p = sc_gadd(from, (long)at);
        VIP_MEM_HANDLE handle = region_of(peer, p);
        struct rt_slice *slice;

        if (!handle)
            break;
        slice = free_slice(peer);
        n = piece((uintptr_t)p.addr, bytes - at);
        slice->op = op;
        slice->to = (char *)to + at;
        slice->bytes = n;
        post(peer, slice, (uintptr_t)p.addr, handle, VIP_CONTROL_OP_RDMAREAD);
    }
    return at;
}

/* Finish a completed operation. */
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

/* Take one completed operation; wait for it if `wait`. */
static bool reap(struct rt_peer *peer, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code =
        wait ? VipSendWait(peer->bulk, RT_SEND_MS, &desc) : VipSendDone(peer->bulk, &desc);

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS)
        rt_lost(peer);
    if (!desc) { /* the job is ending: no operation completes any more */
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

/* ---- stores of other processes
 * ---------------------------------------------------------------- */

_Static_assert(sizeof(VIP_DESCRIPTOR) % 64 == 0, "descriptors are aligned");

static void post_notice(struct rt_peer *peer, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    memset(desc, 0, sizeof(*desc));
    if (VipPostRecv(vi, desc, peer->notice_memory) != VIP_SUCCESS)
        rt_lost(peer);
}

void rt_post_notices(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    VIP_MEM_ATTRIBUTES attrs = {0};
    VIP_ULONG bytes = RT_NOTICES * sizeof(VIP_DESCRIPTOR);
    VIP_PVOID memory;

    if (VipxAllocMem(bytes, &memory) != VIP_SUCCESS ||
        VipRegisterMem(rt.nic, memory, bytes, &attrs, &peer->notice_memory) != VIP_SUCCESS)
        rt_fatal("no receives for process %d: %s", peer->rank, VipxLastError());
    for (int i = 0; i < RT_NOTICES; i++)
        post_notice(peer, vi, (VIP_DESCRIPTOR *)memory + i);
}

bool rt_take_notice(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code = VipRecvDone(vi, &desc);
    uint32_t told;

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS) {
        if (vi == peer->bulk)
            rt_lost(peer);
        return true;
    }
    told = desc->CS.ImmediateData;
    post_notice(peer, vi, desc);
    rt.arrived += told >> 1;
    rt.store_count[told & 1] += told >> 1;
    peer->notices_owed++;
    rt_give_back(peer);
    return true;
}
