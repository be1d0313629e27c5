/*
 * Messages and their credits.
 *
 * A request takes a credit, which is a receive that the other process has posted for it. The credit
 * comes back with any message of the other process, at the latest with a message of its own when
 * RT_CREDITS_AT_ONCE are owed. Replies take none: for each request under way, this process has a
 * receive for its reply. So serving a request never waits for the other process, and two processes
 * that both wait for credits serve each other.
 */
#include "splitc/lib/rt.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* Polls between two checks of the listener while messages keep arriving. */
#define POLLS_PER_ACCEPT 64
/* Longest sleep in milliseconds: while connections may come, and otherwise. */
#define SLEEP_CONNECTING_MS 1
#define SLEEP_MS            100
/* Nanoseconds between the loss of a connection and our message about it (rt_lost). */
#define CAUSE_FIRST_NS 200000000

void rt_lost(const struct rt_peer *peer)
{
    const struct timespec a_while = {.tv_nsec = CAUSE_FIRST_NS};

    if (rt.leaving || rt.ended)
        return;
    /* The launcher should first report the end of that process; our message ends the job too. */
    nanosleep(&a_while, NULL);
    rt_fatal("the connection to process %d is lost", peer->rank);
}

void rt_post_receive(struct rt_peer *peer, struct rt_buffer *buffer)
{
    VIP_DESCRIPTOR *desc = &buffer->desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = RT_MESSAGE_BYTES;
    desc->DS[0].Local.Data.Address = &buffer->header;
    desc->DS[0].Local.Handle = peer->receive_memory;
    desc->DS[0].Local.Length = RT_MESSAGE_BYTES;
    if (VipPostRecv(peer->vi, desc, peer->receive_memory) != VIP_SUCCESS)
        rt_lost(peer);
}

/* Take one completed send; wait for it if `wait`. */
static bool reap(struct rt_peer *peer, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code =
        wait ? VipSendWait(peer->vi, RT_SEND_MS, &desc) : VipSendDone(peer->vi, &desc);

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS)
        rt_lost(peer);
    peer->sends_posted--;
    return true;
}

struct rt_buffer *rt_send_buffer(struct rt_peer *peer)
{
    struct rt_buffer *buffer;

    while (peer->sends_posted && (peer->sends_posted > RT_SENDS / 2) && reap(peer, false))
        ;
    while (peer->sends_posted >= RT_SENDS - 1)
        reap(peer, true);
    buffer = &peer->sends[peer->send_next];
    peer->send_next = (peer->send_next + 1) % RT_SENDS;
    memset(&buffer->header, 0, sizeof(buffer->header));
    return buffer;
}

void rt_send(struct rt_peer *peer, struct rt_buffer *buffer, size_t bytes)
{
    VIP_DESCRIPTOR *desc = &buffer->desc;

    buffer->header.credits = (uint8_t)peer->owed;
    buffer->header.notices = (uint8_t)peer->notices_owed;
    peer->owed = peer->notices_owed = 0;
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_UINT32)(sizeof(buffer->header) + bytes);
    desc->DS[0].Local.Data.Address = &buffer->header;
    desc->DS[0].Local.Handle = peer->memory;
    desc->DS[0].Local.Length = desc->CS.Length;
    if (VipPostSend(peer->vi, desc, peer->memory) != VIP_SUCCESS)
        rt_lost(peer);
    peer->sends_posted++;
}

void rt_drain(struct rt_peer *peer)
{
    rt_rdma_drain(peer);
    while (peer->state == RT_CONNECTED && peer->sends_posted)
        reap(peer, true);
}

void rt_take_credit(struct rt_peer *peer)
{
    while (peer->credits == 0)
        rt_wait();
    peer->credits--;
}

static bool owes(const struct rt_peer *peer)
{
    return peer->owed >= RT_CREDITS_AT_ONCE || peer->notices_owed >= RT_CREDITS_AT_ONCE;
}

void rt_give_back(struct rt_peer *peer)
{
    if (owes(peer))
        rt_answer(peer); /* carries the credits */
    if (owes(peer)) {
        struct rt_buffer *buffer = rt_send_buffer(peer);

        buffer->header.type = RT_CREDIT;
        rt_send(peer, buffer, 0);
    }
}

/* Handle one entry of the queue. Returns false if there was none. */
static bool take(VIP_VI_HANDLE vi)
{
    struct rt_peer *peer = VipGetUserData(vi);
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code;

    if (vi == peer->bulk || vi == peer->bulk_attempt)
        return rt_take_notice(peer, vi);
    code = VipRecvDone(vi, &desc);
    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS) {
        /* Receives of a dropped attempt complete like this too. */
        if (peer->state == RT_CONNECTED && peer->vi == vi)
            rt_lost(peer);
        return true;
    }
    rt_serve(peer, (struct rt_buffer *)desc);
    rt_give_back(peer);
    return true;
}

/* Serve what has arrived, and answer. Bounded, so that a busy peer cannot hold the program here. */
static void take_all(void)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;

    for (int i = 0; i < RT_RECEIVES; i++)
        if (VipCQDone(rt.cq, &vi, &is_receive) != VIP_SUCCESS || !take(vi))
            break;
    rt_answer_all();
    if (rt.slices_busy)
        (void)rt_rdma_progress();
}

static void now_and_then(void)
{
    if (++rt.entries % POLLS_PER_ACCEPT == 0)
        rt_accept();
}

void rt_poll(void)
{
    if (sc_procs == 1)
        return;
    now_and_then();
    take_all();
}

/* RDMA operations complete on queues of several VIs, and no call waits for all of these. */
static void wait_for_rdma(void)
{
    bool any = rt_rdma_progress();

    rt_poll();
    if (!any)
        sched_yield();
}

void rt_wait(void)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    VIP_ULONG sleep_ms = rt_connecting() || rt.leaving ? SLEEP_CONNECTING_MS : SLEEP_MS;

    if (rt.threaded) {
        rt_yield();
        sleep_ms = 1; /* the lock is held meanwhile */
    }
    if (rt.slices_busy) {
        wait_for_rdma();
        return;
    }
    if (VipCQWait(rt.cq, sleep_ms, &vi, &is_receive) == VIP_SUCCESS) {
        take(vi);
        take_all();
        now_and_then();
    } else {
        rt_accept();
    }
}
