/*
 * For test programs of the Notify calls: handlers that record the arguments of each handler call.
 * The handlers of one NIC handle run one after the other.
 */
#ifndef TESTS_CONF_CALLS_H
#define TESTS_CONF_CALLS_H

#include "suite.h"

#include <pthread.h>

#define CALLS_MAX 4096

/* One call of a handler. */
struct call {
    void *context;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *desc;
    VIP_BOOLEAN recv;
    VIP_UINT32 status;
    pthread_t thread;
};

/* The calls of handlers since reset(). */
static struct call calls[CALLS_MAX];
static __attribute__((unused)) unsigned call_count; /* atomic */

static __attribute__((unused)) void reset(void)
{
    __atomic_store_n(&call_count, 0, __ATOMIC_SEQ_CST);
}

static __attribute__((unused)) void record(const struct call *call)
{
    unsigned n = __atomic_load_n(&call_count, __ATOMIC_RELAXED);

    if (n < CALLS_MAX)
        calls[n] = *call;
    __atomic_store_n(&call_count, n + 1, __ATOMIC_RELEASE);
}

static __attribute__((unused)) void on_desc(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                                            VIP_DESCRIPTOR *desc)
{
    struct call call = {.context = context,
                        .nic = nic,
                        .vi = vi,
                        .desc = desc,
                        .status = desc->CS.Status,
                        .thread = pthread_self()};

    record(&call);
}

static __attribute__((unused)) void on_entry(VIP_PVOID context, VIP_NIC_HANDLE nic,
                                             VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    struct call call = {
        .context = context, .nic = nic, .vi = vi, .recv = recv, .thread = pthread_self()};

    record(&call);
}

static __attribute__((unused)) unsigned called(void)
{
    return __atomic_load_n(&call_count, __ATOMIC_ACQUIRE);
}

static __attribute__((unused)) void await_calls(unsigned count)
{
    uint64_t started = 0;

    while (called() < count)
        if (!conf_pause(&started))
            fail_msg("%u handler calls instead of %u", called(), count);
}

static __attribute__((unused)) void *number(uintptr_t n)
{
    return (void *)n;
}

/* Open and connect two ends. If `cq`, bind both queues of b's VI to a CQ. */
static __attribute__((unused)) void pair(struct end *a, struct end *b, bool cq)
{
    reset();
    conf_open(a, 'A');
    conf_open(b, 'B');
    if (cq)
        CONF_OK(VipCreateCQ(b->nic, 64, &b->cq));
    conf_vi(a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_vi(b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(a, b);
}

/* Send one message from a and wait until the send completes. At Reliable Delivery the message has
 * then arrived, so the next Done call at the other end returns it. */
static __attribute__((unused)) void send_one(struct end *a)
{
    VIP_DESCRIPTOR *desc = conf_desc(a, CONF_DESCS - 1, 0, 64);

    conf_post_send(a, desc);
    conf_sent(a, desc);
}

#endif
