/* Serves arrived messages, also while this process waits for something. */
#include "splitc/lib/rt.h"

#include <sched.h>

/* Number of polls after which rt_poll looks for connection requests again. */
#define POLLS_PER_ACCEPT    64
#define SLEEP_CONNECTING_MS 1   /* longest sleep while connection requests may come */
#define SLEEP_MS            100 /* longest sleep at other times */

/* Handle an entry of the completion queue. false: the VI has no completed receive descriptor. */
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
        /* Ignore errors of the VI of a dropped request: its receive descriptors end with errors. */
        if (peer->state == RT_CONNECTED && peer->vi == vi)
            rt_lost(peer);
        return true;
    }
    rt_serve(peer, (struct rt_buffer *)desc);
    rt_give_back(peer);
    return true;
}

/* Serve and answer arrived messages: at most RT_RECEIVES in one call, so that the program continues
 * even if a peer never stops to send. */
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

/* Wait for RDMA operations. They complete on the send queues of several VIs. No function of VIPL
 * waits for several send queues, so poll the queues. */
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
        sleep_ms = 1; /* a short sleep, because it keeps the lock from the progress thread */
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
