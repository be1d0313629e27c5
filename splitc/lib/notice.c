/*
 * Notices of stores by RDMA. A notice is the immediate data of the RDMA Write: the number of bytes
 * and the epoch. It uses up a receive descriptor of the target's VI for RDMA. Credits
 * (rt_peer.notices) count these descriptors.
 */
#include "splitc/lib/rt.h"

#include <string.h>

_Static_assert(sizeof(VIP_DESCRIPTOR) % 64 == 0, "descriptors are aligned");

uint32_t rt_notice(size_t bytes, int epoch)
{
    return (uint32_t)bytes << 1 | (uint32_t)epoch;
}

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
