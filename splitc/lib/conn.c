/*
 * The two VIs to each peer: one for messages and one for RDMA. This file makes VIs and posts their
 * receive descriptors. It counts connected VIs, and disconnects all VIs at the end.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>

/* Allocate and register memory for `count` buffers. */
static struct rt_buffer *buffers(int count, int rank, VIP_MEM_HANDLE *ret_handle)
{
    VIP_MEM_ATTRIBUTES attrs = {0};
    VIP_ULONG bytes = (VIP_ULONG)count * sizeof(struct rt_buffer);
    VIP_PVOID memory;

    if (VipxAllocMem(bytes, &memory) != VIP_SUCCESS ||
        VipRegisterMem(rt.nic, memory, bytes, &attrs, ret_handle) != VIP_SUCCESS)
        rt_fatal("no buffers for process %d: %s", rank, VipxLastError());
    return memory;
}

struct rt_peer *rt_peer_record(int rank)
{
    struct rt_peer *peer = rt.peers[rank];

    if (peer)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        rt_fatal("out of memory");
    peer->rank = rank;
    peer->sends = buffers(RT_SENDS, rank, &peer->memory);
    peer->credits = RT_CREDITS;
    peer->notices = RT_NOTICES;
    rt.peers[rank] = peer;
    return peer;
}

/* Make and post the receive descriptors of a new VI. */
static void post_all(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    struct rt_buffer *receives = buffers(RT_RECEIVES, peer->rank, &peer->receive_memory);

    peer->vi = vi;
    for (int i = 0; i < RT_RECEIVES; i++)
        rt_post_receive(peer, &receives[i]);
}

VIP_VI_HANDLE rt_new_vi(struct rt_peer *peer)
{
    VIP_VI_ATTRIBUTES attrs = {0};
    VIP_VI_HANDLE vi;

    attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attrs.MaxTransferSize = RT_MESSAGE_BYTES;
    if (VipCreateVi(rt.nic, &attrs, NULL, rt.cq, &vi) != VIP_SUCCESS)
        rt_fatal("no VI for process %d: %s", peer->rank, VipxLastError());
    VipSetUserData(vi, peer);
    post_all(peer, vi);
    return vi;
}

/* With Reliable Reception, the data of a completed RDMA Write are in the peer's memory. */
VIP_VI_HANDLE rt_new_bulk_vi(struct rt_peer *peer)
{
    VIP_VI_ATTRIBUTES attrs = {0};
    VIP_VI_HANDLE vi;

    attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    attrs.MaxTransferSize = RT_SLICE_BYTES;
    attrs.EnableRdmaWrite = attrs.EnableRdmaRead = VIP_TRUE;
    if (VipCreateVi(rt.nic, &attrs, NULL, rt.cq, &vi) != VIP_SUCCESS)
        return NULL;
    VipSetUserData(vi, peer);
    rt_post_notices(peer, vi);
    return vi;
}

void rt_connected(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    peer->vi = vi;
    peer->state = RT_CONNECTED;
    rt.connected++;
}

void rt_connected_bulk(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    peer->bulk = vi;
    rt.connected++;
}

bool rt_connecting(void)
{
    return rt.connected < (sc_procs - 1) * (rt.rdma ? 2 : 1);
}

void rt_disconnect_all(void)
{
    for (int i = 0; rt.nic && i < sc_procs; i++)
        if (rt.peers[i] && rt.peers[i]->state == RT_CONNECTED) {
            VipDisconnect(rt.peers[i]->vi);
            if (rt.peers[i]->bulk)
                VipDisconnect(rt.peers[i]->bulk);
        }
    if (rt.nic)
        VipCloseNic(rt.nic);
    rt.nic = NULL;
}
