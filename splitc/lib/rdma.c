/*
 * Large transfers by RDMA Write and RDMA Read, between registered copies here and the spread heap there.
 * With Reliable Reception an RDMA Write has completed when the data are in the target's memory; so
 * a put needs no reply, and the target no time. SPLITC_RDMA=0 leaves only the messages.
 *
 * Each process registers its part of the spread heap in chunks, when another process asks for one.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>

/* Chunks of our own heap that are registered, by number; 0: not yet. */
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
    /* If it cannot be registered (the NIC has limits), the transfer takes messages. */
    if (!own[chunk] &&
        VipRegisterMem(rt.nic, start, RT_CHUNK_BYTES, &attrs, &own[chunk]) != VIP_SUCCESS)
        own[chunk] = 0;
    return own[chunk];
}

/* The handle of the peer's chunk with this address, 0 if it has none. */
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

static void post(struct rt_peer *peer, struct rt_slice *slice, uint64_t remote,
                 VIP_MEM_HANDLE handle, unsigned operation)
{
    VIP_DESCRIPTOR *desc = &slice->desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 2;
    desc->CS.Control = (VIP_UINT16)operation;
    desc->CS.Length = (VIP_UINT32)slice->bytes;
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

/* How much fits one operation: a slice, and no chunk's end in the middle. */
static size_t piece(uint64_t addr, size_t left)
{
    size_t to_end = RT_CHUNK_BYTES - addr % RT_CHUNK_BYTES;
    size_t bytes = left < RT_SLICE_BYTES ? left : RT_SLICE_BYTES;

    return bytes < to_end ? bytes : to_end;
}

/* Is there a VI for it? What has become of a request for one is looked at here as well. */
static bool ready(const struct rt_peer *peer)
{
    if (peer->bulk_attempt)
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
        n = piece((uintptr_t)p.addr, bytes - at);
        slice->op = op;
        slice->to = NULL;
        slice->bytes = n;
        slice->stored = !op;
        slice->epoch = (uint8_t)rt.epoch;
        memcpy(slice->data, (const char *)from + at, n);
        post(peer, slice, (uintptr_t)p.addr, handle, VIP_CONTROL_OP_RDMAWRITE);
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
        slice->stored = false;
        post(peer, slice, (uintptr_t)p.addr, handle, VIP_CONTROL_OP_RDMAREAD);
    }
    return at;
}

/* An operation is over. */
static void done(struct rt_peer *peer, struct rt_slice *slice)
{
    if (slice->to)
        memcpy(slice->to, slice->data, slice->bytes);
    if (slice->op)
        slice->op->pending--;
    if (slice->stored) {
        peer->landed[slice->epoch] += slice->bytes;
        rt.landed = true;
    }
    slice->busy = false;
    peer->slices_busy--;
    rt.slices_busy--;
}

/* Reap one operation, waiting if asked. */
static bool reap(struct rt_peer *peer, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code =
        wait ? VipSendWait(peer->bulk, RT_SEND_MS, &desc) : VipSendDone(peer->bulk, &desc);

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS)
        rt_lost(peer);
    if (!desc) { /* all is over, and nothing comes any more */
        rt.slices_busy -= peer->slices_busy;
        peer->slices_busy = 0;
        return false;
    }
    done(peer, (struct rt_slice *)(void *)desc);
    return true;
}

static bool untold(const struct rt_peer *peer)
{
    return peer->landed[0] || peer->landed[1];
}

bool rt_rdma_progress(void)
{
    bool any = false, landed = false;

    for (int i = 0; i < sc_procs; i++) {
        struct rt_peer *peer = rt.peers[i];

        if (!peer || !peer->bulk)
            continue;
        while (peer->slices_busy && reap(peer, false))
            any = true;
        if (untold(peer))
            rt_tell_landed(peer);
        landed = landed || untold(peer);
    }
    rt.landed = landed;
    return any;
}

void rt_rdma_drain(struct rt_peer *peer)
{
    while (peer->slices_busy)
        reap(peer, true);
    while (untold(peer)) {
        rt_tell_landed(peer);
        if (untold(peer))
            rt_wait();
    }
}
