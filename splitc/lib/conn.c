/*
 * The VIs between pairs of processes. A pair is connected when one of the two first needs the other.
 * If both ask at the same time, the request of the lower rank counts: the lower one rejects what the
 * higher one asks, and the higher one accepts. Whose request has counted asks for a second VI, for RDMA, and
 * does not wait for it: until it is there, or if it is refused, everything goes in messages.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job/job.h"

/* What a process tells the others about where it listens. */
struct card {
    uint16_t host_len;
    unsigned char host[30];
    uint64_t number; /* the discriminator */
};

/* What it says when it connects. */
struct hello {
    uint64_t job;
    int32_t rank;
    int32_t bulk; /* 1: the VI is for RDMA */
};

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
    struct card mine = {.host_len = rt.nic_attrs.NicAddressLen}, *all;
    VIP_UINT64 number;
    VIP_NET_ADDRESS *here;

    if (mine.host_len > sizeof(mine.host))
        rt_fatal("an address of %u bytes is longer than this runtime knows", mine.host_len);
    if (VipxNewDiscriminator(rt.nic, &number) != VIP_SUCCESS)
        rt_fatal("cannot get a number to listen on: %s", VipxLastError());
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
    free(all);
}

/* Registered memory for so many buffers. */
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

/* The peer's record, without a VI. */
static struct rt_peer *peer_record(int rank)
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

static VIP_VI_HANDLE new_vi(struct rt_peer *peer)
{
    VIP_VI_ATTRIBUTES attrs = {0};
    VIP_VI_HANDLE vi;

    attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attrs.MaxTransferSize = RT_MESSAGE_BYTES;
    if (VipCreateVi(rt.nic, &attrs, NULL, rt.cq, &vi) != VIP_SUCCESS)
        rt_fatal("no VI for process %d: %s", peer->rank, VipxLastError());
    VipSetUserData(vi, peer);
    return vi;
}

/* With Reliable Reception an RDMA Write that has completed is in memory. NULL: the NIC has no more VIs. */
static VIP_VI_HANDLE new_bulk_vi(struct rt_peer *peer)
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

/* Receives must be there before the first message can come. */
static void post_all(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    struct rt_buffer *receives = buffers(RT_RECEIVES, peer->rank, &peer->receive_memory);

    peer->vi = vi;
    for (int i = 0; i < RT_RECEIVES; i++)
        rt_post_receive(peer, &receives[i]);
}

static void connected(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    peer->vi = vi;
    peer->state = RT_CONNECTED;
    rt.connected++;
}

/*
 * Give up our own attempt. Its VI and receives stay until the end: their completions with an error may
 * still lie in the queue.
 */
static void drop_attempt(struct rt_peer *peer)
{
    if (peer->attempt)
        VipDisconnect(peer->attempt);
    peer->attempt = NULL;
}

static void connected_bulk(struct rt_peer *peer, VIP_VI_HANDLE vi)
{
    peer->bulk = vi;
    rt.connected++;
}

static void answer_bulk(VIP_CONN_HANDLE conn, struct rt_peer *peer)
{
    VIP_VI_HANDLE vi = NULL;

    if (rt.rdma && peer->state == RT_CONNECTED && !peer->bulk && !peer->bulk_attempt)
        vi = new_bulk_vi(peer);
    if (!vi) {
        VipConnectReject(conn);
        return;
    }
    /* If not, the peer has gone meanwhile. Receives of such a VI may still be in the queue, so it stays. */
    if (VipConnectAccept(conn, vi) == VIP_SUCCESS)
        connected_bulk(peer, vi);
}

static void answer(VIP_CONN_HANDLE conn, const VIPX_PRIVATE_DATA *data)
{
    struct hello hello = {0};
    struct rt_peer *peer;
    VIP_VI_HANDLE vi;

    if (data->Length == sizeof(hello))
        memcpy(&hello, data->Data, sizeof(hello));
    if (data->Length != sizeof(hello) || hello.job != job_number(rt.job) || hello.rank < 0 ||
        hello.rank >= sc_procs || hello.rank == sc_myproc) {
        VipConnectReject(conn); /* no process of this job */
        return;
    }
    peer = peer_record(hello.rank);
    if (hello.bulk) {
        answer_bulk(conn, peer);
        return;
    }
    if (peer->state == RT_CONNECTED || (peer->state == RT_CONNECTING && sc_myproc < hello.rank)) {
        VipConnectReject(conn);
        return;
    }
    drop_attempt(peer);
    vi = new_vi(peer);
    post_all(peer, vi);
    if (VipConnectAccept(conn, vi) != VIP_SUCCESS)
        rt_fatal("cannot accept the connection of process %d: %s", peer->rank, VipxLastError());
    connected(peer, vi);
}

bool rt_connecting(void)
{
    return rt.connected < (sc_procs - 1) * (rt.rdma ? 2 : 1);
}

/* What has become of our requests for VIs for RDMA? */
static void finish_bulk(void)
{
    for (int i = 0; i < sc_procs; i++) {
        struct rt_peer *peer = rt.peers[i];
        VIP_RETURN code;

        if (!peer || !peer->bulk_attempt)
            continue;
        code = VipxConnectFinish(peer->bulk_attempt, NULL, NULL);
        if (code == VIP_NOT_DONE)
            continue;
        if (code == VIP_SUCCESS)
            connected_bulk(peer, peer->bulk_attempt);
        peer->bulk_attempt = NULL;
        rt.bulk_attempts--;
    }
}

void rt_accept(void)
{
    union {
        VIP_NET_ADDRESS address;
        char room[64];
    } from;
    VIPX_PRIVATE_DATA data;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE conn;

    if (rt.bulk_attempts)
        finish_bulk();
    if (!rt.listener || !rt_connecting())
        return;
    while (VipxListenWait(rt.listener, 0, &from.address, &attrs, &data, &conn) == VIP_SUCCESS)
        answer(conn, &data);
}

/* Send a request for the connection of `vi`. Outcomes: as VipxConnectStart. */
static VIP_RETURN ask(struct rt_peer *peer, VIP_VI_HANDLE vi, bool bulk)
{
    struct hello hello = {job_number(rt.job), sc_myproc, bulk};
    VIPX_PRIVATE_DATA data = {.Length = sizeof(hello)};
    VIP_NET_ADDRESS *local = make_address(NULL, 0, 0);
    VIP_RETURN code;

    memcpy(data.Data, &hello, sizeof(hello));
    local->DiscriminatorLen = 0;
    /* Nobody waits for a VI for RDMA, so there is no hurry if the peer is busy with itself. */
    code = VipxConnectStart(vi, local, rt.addresses[peer->rank],
                            bulk ? VIP_INFINITE : RT_CONNECT_MS, 0, &data);
    free(local);
    return code;
}

static void ask_for_bulk(struct rt_peer *peer)
{
    VIP_VI_HANDLE vi = rt.rdma ? new_bulk_vi(peer) : NULL;

    if (!vi)
        return;
    if (ask(peer, vi, true) != VIP_SUCCESS)
        return;
    peer->bulk_attempt = vi;
    rt.bulk_attempts++;
}

/* Ask, and serve others until it is decided. */
static void connect_to(struct rt_peer *peer)
{
    struct timespec pause = {0, 50000};
    bool asked = true;

    peer->state = RT_CONNECTING;
    peer->attempt = new_vi(peer);
    post_all(peer, peer->attempt);
    if (ask(peer, peer->attempt, false) != VIP_SUCCESS)
        rt_fatal("cannot connect to process %d: %s", peer->rank, VipxLastError());
    while (peer->state != RT_CONNECTED) {
        VIP_RETURN code =
            asked && peer->attempt ? VipxConnectFinish(peer->attempt, NULL, NULL) : VIP_NOT_DONE;

        if (code == VIP_SUCCESS) {
            connected(peer, peer->attempt);
            peer->attempt = NULL;
            ask_for_bulk(peer);
            return;
        }
        if (code == VIP_REJECT && sc_myproc > peer->rank)
            asked = false; /* it asks us; its request is on the way */
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
    peer = peer_record(rank);
    if (peer->state == RT_UNKNOWN)
        connect_to(peer);
    /* The progress thread may be connecting already, or somebody further out on this stack. */
    while (peer->state != RT_CONNECTED) {
        rt_accept();
        rt_wait();
    }
    return peer;
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
