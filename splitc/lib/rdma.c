/*
 * Large transfers by RDMA Write and RDMA Read, on a separate VI. The RDMA goes between a registered
 * slice in this process, which has a copy of the data, and the spread heap of the peer. With
 * Reliable Reception a completed RDMA Write is in the target's memory. So the target process need
 * not reply to a put. The RDMA Writes of a store carry the number of bytes as immediate data
 * (notice.c). If SPLITC_RDMA is 0, messages carry all data.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>

bool rt_rdma_possible(void)
{
    const char *wanted = getenv("SPLITC_RDMA");

    if (wanted && strcmp(wanted, "0") == 0)
        return false;
    return (rt.nic_attrs.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_RECEPTION) &&
           (rt.nic_attrs.RDMAReadSupport & VIP_SERVICE_RELIABLE_RECEPTION) &&
           rt.nic_attrs.MaxTransferSize >= RT_SLICE_BYTES;
}

/* Return the memory handle of the peer's chunk that contains p. 0: no handle, so no RDMA. */
static VIP_MEM_HANDLE region_of(struct rt_peer *peer, sc_ptr p)
{
    char *start;
    long chunk = rt_region_chunk((uintptr_t)p.addr, &start);

    if (chunk < 0)
        return 0;
    if (!peer->regions)
        peer->regions = rt_region_table();
    if (!peer->regions[chunk])
        peer->regions[chunk] = (VIP_MEM_HANDLE)rt_ask(p, RT_KIND_REGION, 0, 0);
    return peer->regions[chunk];
}

/* Wait for a free slice. Serve other processes while all slices are in use. */
static struct rt_slice *free_slice(struct rt_peer *peer)
{
    struct rt_slice *slice;

    while (!(slice = rt_slice_free(peer)))
        rt_wait();
    return slice;
}

/* Return the bytes of the next RDMA operation: at most a slice, and within one chunk. */
static size_t piece(uint64_t addr, size_t left)
{
    size_t to_end = RT_CHUNK_BYTES - addr % RT_CHUNK_BYTES;
    size_t bytes = left < RT_SLICE_BYTES ? left : RT_SLICE_BYTES;

    return bytes < to_end ? bytes : to_end;
}

/* Is the VI for RDMA connected? If it is not, rt_accept looks for a connection request of the peer
 * and for an answer to our request. */
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
        rt_slice_post(peer, slice, (uintptr_t)p.addr, handle,
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
        rt_slice_post(peer, slice, (uintptr_t)p.addr, handle, VIP_CONTROL_OP_RDMAREAD);
    }
    return at;
}
