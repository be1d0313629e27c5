/*
 * Answers connection requests of other processes. If two processes request a connection to each
 * other at the same time, the process with the lower rank rejects the other's request, and its own
 * request counts. A request without the right proof is rejected and changes no state.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>

#include "job/job.h"
#include "splitc/lib/hello.h"

/* Most requests that one call of rt_accept answers. Without a limit, a flood of requests could stop
 * the program's work. */
#define ANSWERS_AT_ONCE 64

static VIP_NET_ADDRESS *make_address(const unsigned char *host, uint16_t host_len, uint64_t number)
{
    VIP_NET_ADDRESS *address = calloc(1, sizeof(*address) + host_len + sizeof(number));

    if (!address)
        rt_fatal("out of memory");
    address->HostAddressLen = host_len;
    address->DiscriminatorLen = sizeof(number);
    if (host_len)
        memcpy(address->HostAddress, host, host_len);
    memcpy(address->HostAddress + host_len, &number, sizeof(number));
    return address;
}

void rt_listen(void)
{
    struct rt_card mine = {.host_len = rt.nic_attrs.NicAddressLen}, *all;
    VIP_UINT64 number;
    VIP_NET_ADDRESS *here;

    if (mine.host_len > sizeof(mine.host))
        rt_fatal("an address of %u bytes is longer than this runtime knows", mine.host_len);
    if (VipxNewDiscriminator(rt.nic, &number) != VIP_SUCCESS)
        rt_fatal("cannot get a number to listen on: %s", VipxLastError());
    if (job_key_draw(&mine.key))
        rt_fatal("the kernel gives no random bytes");
    memcpy(mine.host, rt.nic_attrs.LocalNicAddress, mine.host_len);
    mine.number = number;
    here = make_address(mine.host, mine.host_len, number);
    if (VipxListen(rt.nic, here, (VIP_ULONG)sc_procs, &rt.listener) != VIP_SUCCESS)
        rt_fatal("cannot listen: %s", VipxLastError());
    free(here);
    all = calloc((size_t)sc_procs, sizeof(*all));
    if (!all)
        rt_fatal("out of memory");
    if (job_allgather(rt.job, &mine, all, sizeof(mine)))
        rt_fatal("cannot exchange addresses: %s", job_error());
    for (int i = 0; i < sc_procs; i++)
        rt.addresses[i] = make_address(all[i].host, all[i].host_len, all[i].number);
    rt.cards = all;
}

/*
 * Give up our own connection request. Its VI and receive descriptors stay until the process ends,
 * because the completion queue may still have entries of these descriptors.
 */
static void drop_attempt(struct rt_peer *peer)
{
    if (peer->attempt)
        VipDisconnect(peer->attempt);
    peer->attempt = NULL;
}

/* Accept a request, with our proof in the answer. false: the connection was not made. */
static bool accept_with_proof(VIP_CONN_HANDLE conn, VIP_VI_HANDLE vi, const struct rt_hello *hello)
{
    VIPX_PRIVATE_DATA data = rt_hello_answer(hello);
    VIP_RETURN code = VipxConnectAccept(conn, vi, &data);

    /* After a timeout `conn` is no longer valid. After another failure the caller still waits for
     * an answer: reject its request. */
    if (code != VIP_SUCCESS && code != VIP_TIMEOUT)
        VipConnectReject(conn);
    return code == VIP_SUCCESS;
}

static void answer_bulk(VIP_CONN_HANDLE conn, struct rt_peer *peer, const struct rt_hello *hello)
{
    VIP_VI_HANDLE vi = NULL;

    if (rt.rdma && peer->state == RT_CONNECTED && !peer->bulk && !peer->bulk_attempt)
        vi = rt_new_bulk_vi(peer);
    if (!vi) {
        VipConnectReject(conn);
        return;
    }
    /* If the accept fails, the peer has ended. `vi` is not destroyed, because the completion queue
     * may still have entries of its receive descriptors. */
    if (accept_with_proof(conn, vi, hello))
        rt_connected_bulk(peer, vi);
}

static void answer(VIP_CONN_HANDLE conn, const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data)
{
    struct rt_hello hello;
    struct rt_peer *peer;
    VIP_VI_HANDLE vi;

    if (!rt_hello_read(from, data, &hello)) {
        VipConnectReject(conn);
        return;
    }
    peer = rt_peer_record(hello.rank);
    if (hello.bulk) {
        answer_bulk(conn, peer, &hello);
        return;
    }
    if (peer->state == RT_CONNECTED || (peer->state == RT_CONNECTING && sc_myproc < hello.rank)) {
        VipConnectReject(conn);
        return;
    }
    drop_attempt(peer);
    vi = rt_new_vi(peer);
    if (accept_with_proof(conn, vi, &hello)) {
        rt_connected(peer, vi);
        return;
    }
    /* `vi` is not destroyed, for the reason that drop_attempt names. */
    VipDisconnect(vi);
}

/* Take the answers to our connection requests for the VIs for RDMA. */
static void finish_bulk(void)
{
    for (int i = 0; i < sc_procs; i++) {
        struct rt_peer *peer = rt.peers[i];
        VIPX_PRIVATE_DATA data = {.Length = 0};
        VIP_RETURN code;

        if (!peer || !peer->bulk_attempt)
            continue;
        code = VipxConnectFinish(peer->bulk_attempt, NULL, &data);
        if (code == VIP_NOT_DONE)
            continue;
        if (code == VIP_SUCCESS && rt_hello_answered(i, true, &data))
            rt_connected_bulk(peer, peer->bulk_attempt);
        else if (code == VIP_SUCCESS)
            VipDisconnect(peer->bulk_attempt);
        peer->bulk_attempt = NULL;
        rt.bulk_attempts--;
    }
}

void rt_accept(void)
{
    union {
        VIP_NET_ADDRESS address;
        char room[256]; /* fits the longest address: a host and a discriminator of 128 bytes */
    } from;
    VIPX_PRIVATE_DATA data;
    VIP_CONN_HANDLE conn;

    if (rt.bulk_attempts)
        finish_bulk();
    if (!rt.listener)
        return;
    if (!rt_connecting()) {
        /* All processes are connected: close the listener, so that vipd refuses all requests. */
        VipxListenClose(rt.listener);
        rt.listener = NULL;
        return;
    }
    for (int i = 0; i < ANSWERS_AT_ONCE; i++) {
        if (VipxListenWait(rt.listener, 0, &from.address, NULL, &data, &conn) != VIP_SUCCESS)
            break;
        answer(conn, &from.address, &data);
    }
}
