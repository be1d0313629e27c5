/*
 * The VIs between pairs of processes. A pair is connected when one of the two first needs the
 * other. If both call at the same time, the request of the lower rank counts: the lower one rejects
 * the request of the higher one, and the higher one accepts. The process whose request counts then
 * requests a second VI, for RDMA, without waiting for it. Until that VI is connected, or if it is
 * refused, all data go in messages.
 *
 * Caller and called prove to each other that they belong to the job (job/key.h). Any program may
 * call. Without the proof it is rejected, and no state changes.
 */
#include "splitc/lib/rt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job/job.h"
#include "splitc/lib/hello.h"

/* Requests answered in one call, so that a flood of them does not stop the process's own work. */
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

static struct job_proof prove(enum job_role role, int caller, int called, int bulk)
{
    struct rt_claim claim = rt_claim_of(rt.cards, caller, called, bulk);

    return job_prove(&rt.cards[called].key, role, &claim, sizeof(claim));
}

static bool proved(enum job_role role, int caller, int called, int bulk,
                   const struct job_proof *shown)
{
    struct rt_claim claim = rt_claim_of(rt.cards, caller, called, bulk);

    return job_proved(&rt.cards[called].key, role, &claim, sizeof(claim), shown);
}

static bool same_address(const VIP_NET_ADDRESS *a, const VIP_NET_ADDRESS *b)
{
    return a->HostAddressLen == b->HostAddressLen && a->DiscriminatorLen == b->DiscriminatorLen &&
           memcmp(a->HostAddress, b->HostAddress,
                  (size_t)a->HostAddressLen + a->DiscriminatorLen) == 0;
}

/* Is this a request of another process of the job, from its own address? Then *ret is its hello. */
static bool is_ours(const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data,
                    struct rt_hello *ret)
{
    if (data->Length != sizeof(*ret))
        return false;
    memcpy(ret, data->Data, sizeof(*ret));
    return ret->rank >= 0 && ret->rank < sc_procs && ret->rank != sc_myproc &&
           same_address(from, rt.addresses[ret->rank]) &&
           proved(JOB_CALLS, ret->rank, sc_myproc, ret->bulk, &ret->proof);
}

/* Does the answer come from the process that we called, not from another program? */
static bool answered(int rank, int bulk, const VIPX_PRIVATE_DATA *data)
{
    struct job_proof shown;

    if (data->Length != sizeof(shown))
        return false;
    memcpy(&shown, data->Data, sizeof(shown));
    return proved(JOB_ANSWERS, sc_myproc, rank, bulk, &shown);
}

/* Registered memory for `count` buffers. */
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

/* The peer's record, made without a VI if it is new. */
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

/* Reliable Reception: a completed RDMA Write is in memory. NULL: the NIC has no more VIs. */
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

/* Post the receives; this must happen before the first message can arrive. */
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
 * Give up our own attempt. Its VI and receives stay until the end, because their completions in
 * error may still be in the queue.
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

/* Accept with our proof. false: no connection, and the caller gets a reject. */
static bool accept_with_proof(VIP_CONN_HANDLE conn, VIP_VI_HANDLE vi, const struct rt_hello *hello)
{
    struct job_proof proof = prove(JOB_ANSWERS, hello->rank, sc_myproc, hello->bulk);
    VIPX_PRIVATE_DATA data = {.Length = sizeof(proof)};
    VIP_RETURN code;

    memcpy(data.Data, &proof, sizeof(proof));
    code = VipxConnectAccept(conn, vi, &data);
    /* A timeout ends the handle. After other failures the caller still waits for an answer. */
    if (code != VIP_SUCCESS && code != VIP_TIMEOUT)
        VipConnectReject(conn);
    return code == VIP_SUCCESS;
}

static void answer_bulk(VIP_CONN_HANDLE conn, struct rt_peer *peer, const struct rt_hello *hello)
{
    VIP_VI_HANDLE vi = NULL;

    if (rt.rdma && peer->state == RT_CONNECTED && !peer->bulk && !peer->bulk_attempt)
        vi = new_bulk_vi(peer);
    if (!vi) {
        VipConnectReject(conn);
        return;
    }
    /* On failure the peer has ended. The VI stays: its receives may still be in the queue. */
    if (accept_with_proof(conn, vi, hello))
        connected_bulk(peer, vi);
}

static void answer(VIP_CONN_HANDLE conn, const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data)
{
    struct rt_hello hello;
    struct rt_peer *peer;
    VIP_VI_HANDLE vi;

    if (!is_ours(from, data, &hello)) {
        VipConnectReject(conn);
        return;
    }
    peer = peer_record(hello.rank);
    if (hello.bulk) {
        answer_bulk(conn, peer, &hello);
        return;
    }
    if (peer->state == RT_CONNECTED || (peer->state == RT_CONNECTING && sc_myproc < hello.rank)) {
        VipConnectReject(conn);
        return;
    }
    drop_attempt(peer);
    vi = new_vi(peer);
    post_all(peer, vi);
    if (accept_with_proof(conn, vi, &hello)) {
        connected(peer, vi);
        return;
    }
    /* The VI stays until the end, like that of a dropped attempt. */
    VipDisconnect(vi);
}

bool rt_connecting(void)
{
    return rt.connected < (sc_procs - 1) * (rt.rdma ? 2 : 1);
}

/* Check our requests for VIs for RDMA, and finish those that are answered. */
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
        if (code == VIP_SUCCESS && answered(i, 1, &data))
            connected_bulk(peer, peer->bulk_attempt);
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
        char room[256]; /* the longest: a host and a discriminator of 128 bytes */
    } from;
    VIPX_PRIVATE_DATA data;
    VIP_CONN_HANDLE conn;

    if (rt.bulk_attempts)
        finish_bulk();
    if (!rt.listener || !rt_connecting())
        return;
    for (int i = 0; i < ANSWERS_AT_ONCE; i++) {
        if (VipxListenWait(rt.listener, 0, &from.address, NULL, &data, &conn) != VIP_SUCCESS)
            break;
        answer(conn, &from.address, &data);
    }
}

/* Send a request for the connection of `vi`. Outcomes: as VipxConnectStart. */
static VIP_RETURN ask(struct rt_peer *peer, VIP_VI_HANDLE vi, bool bulk)
{
    struct rt_hello hello = {
        .rank = sc_myproc, .bulk = bulk, .proof = prove(JOB_CALLS, sc_myproc, peer->rank, bulk)};
    VIPX_PRIVATE_DATA data = {.Length = sizeof(hello)};

    memcpy(data.Data, &hello, sizeof(hello));
    /* No process waits for a VI for RDMA, so its request has no timeout. */
    return VipxConnectStart(vi, rt.addresses[sc_myproc], rt.addresses[peer->rank],
                            bulk ? VIP_INFINITE : RT_CONNECT_MS, 0, &data);
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

/* Request a connection, and serve others until it is decided. */
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
        VIPX_PRIVATE_DATA data = {.Length = 0};
        VIP_RETURN code =
            asked && peer->attempt ? VipxConnectFinish(peer->attempt, NULL, &data) : VIP_NOT_DONE;

        if (code == VIP_SUCCESS && !answered(peer->rank, 0, &data))
            rt_fatal("what answers at the address of process %d is not of this job", peer->rank);
        if (code == VIP_SUCCESS) {
            connected(peer, peer->attempt);
            peer->attempt = NULL;
            ask_for_bulk(peer);
            return;
        }
        if (code == VIP_REJECT && sc_myproc > peer->rank)
            asked = false; /* its own request to us is on the way */
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
    /* The progress thread, or an outer call on this stack, may be connecting already. */
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
