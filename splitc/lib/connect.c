/*
 * Requests a connection when this process first needs a peer. The process whose request succeeds
 * then requests the connection of a second VI, for RDMA. It does not wait for the second answer.
 * Messages carry all data until the second VI is connected, or for ever if it is refused.
 */
#include "splitc/lib/rt.h"

#include <time.h>

/* Request a connection of `vi` to the peer. Returns what VipxConnectStart returns. */
static VIP_RETURN ask(struct rt_peer *peer, VIP_VI_HANDLE vi, bool bulk)
{
    VIPX_PRIVATE_DATA data = rt_hello_make(peer->rank, bulk);

    /* No code waits for the connection of a VI for RDMA, so this request needs no timeout. */
    return VipxConnectStart(vi, rt.addresses[sc_myproc], rt.addresses[peer->rank],
                            bulk ? VIP_INFINITE : RT_CONNECT_MS, 0, &data);
}

static void ask_for_bulk(struct rt_peer *peer)
{
    VIP_VI_HANDLE vi = rt.rdma ? rt_new_bulk_vi(peer) : NULL;

    if (!vi)
        return;
    if (ask(peer, vi, true) != VIP_SUCCESS)
        return;
    peer->bulk_attempt = vi;
    rt.bulk_attempts++;
}

/* Request a connection to the peer. Serve other processes until there is a connection. */
static void connect_to(struct rt_peer *peer)
{
    struct timespec pause = {0, 50000};
    bool asked = true;

    peer->state = RT_CONNECTING;
    peer->attempt = rt_new_vi(peer);
    if (ask(peer, peer->attempt, false) != VIP_SUCCESS)
        rt_fatal("cannot connect to process %d: %s", peer->rank, VipxLastError());
    while (peer->state != RT_CONNECTED) {
        VIPX_PRIVATE_DATA data = {.Length = 0};
        VIP_RETURN code =
            asked && peer->attempt ? VipxConnectFinish(peer->attempt, NULL, &data) : VIP_NOT_DONE;

        if (code == VIP_SUCCESS && !rt_hello_answered(peer->rank, false, &data))
            rt_fatal("what answers at the address of process %d is not of this job", peer->rank);
        if (code == VIP_SUCCESS) {
            rt_connected(peer, peer->attempt);
            peer->attempt = NULL;
            ask_for_bulk(peer);
            return;
        }
        if (code == VIP_REJECT && sc_myproc > peer->rank)
            asked = false; /* the peer's own request counts: wait for this request */
        else if (code != VIP_NOT_DONE)
            rt_fatal("cannot connect to process %d: %s", peer->rank, VipxLastError());
        rt_accept();
        rt_poll();
        rt_yield();
        if (peer->state != RT_CONNECTED)
            nanosleep(&pause, NULL);
    }
}

struct rt_peer *rt_peer(int rank)
{
    struct rt_peer *peer;

    if (rank < 0 || rank >= sc_procs)
        rt_fatal("an access to process %d; there are %d", rank, sc_procs);
    peer = rt.peers[rank];
    if (peer && peer->state == RT_CONNECTED)
        return peer;
    peer = rt_peer_record(rank);
    if (peer->state == RT_UNKNOWN)
        connect_to(peer);
    /* Another thread, or a caller of this function, may be in connect_to: wait for its result. */
    while (peer->state != RT_CONNECTED) {
        rt_accept();
        rt_wait();
    }
    return peer;
}
