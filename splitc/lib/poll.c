/* Serving the messages that have arrived, and waiting while serving. */
#include "splitc/lib/rt.h"

#include <sched.h>

/* Every this many polls, rt_poll also looks for connection requests. */
#define POLLS_PER_ACCEPT    64
#define SLEEP_CONNECTING_MS 1   /* longest sleep while connection requests may come */
#define SLEEP_MS            100 /* longest sleep at other times */

/* Handle an entry of the completion queue. Returns false if no receive of the VI has completed. */
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
        /* Ignore errors of another VI: receives of a dropped connection request end with errors. */
        if (peer->state == RT_CONNECTED && peer->vi == vi)
            rt_lost(peer);
        return true;
    }
    rt_serve(peer, (struct rt_buffer *)desc);
    rt_give_back(peer);
    return true;
}

/* Serve and answer the messages that have arrived. At most RT_RECEIVES in one call, so that the
 * program continues even if a peer sends all the time. */
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

/* RDMA operations complete on the send queues of several VIs. No call of VIPL waits for several
 * queues, so poll them. */
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
        sleep_ms = 1; /* short, because the progress thread cannot have the lock meanwhile */
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

void rt_take_credit(struct rt_peer *peer)
{
    while (peer->credits == 0)
        rt_wait();
    peer->credits--;
}

void rt_finish(struct rt_op *op)
{
    while (op->pending)
        rt_wait();
}
