/*
 * Wait for completions in three ways (poll, block, adaptive), on the work queue or through a
 * completion queue; see end.h.
 */
#include <stdio.h>
#include <string.h>

#include "tools/vipperf/end.h"

/* An adaptive wait polls for this many ns (some round trips of a fast network), then sleeps. */
#define SPIN_NS 50000

/* Number of polls between two reads of the clock. */
#define POLLS_PER_CLOCK 16

typedef VIP_RETURN done_call(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **ret);
typedef VIP_RETURN wait_call(VIP_VI_HANDLE vi, VIP_ULONG timeout_ms, VIP_DESCRIPTOR **ret);

/* One of the two work queues. */
struct queue {
    done_call *done;
    wait_call *wait;
    const char *name;
    bool recv;
};

static const struct queue send_queue = {VipSendDone, VipSendWait, "a send", false};
static const struct queue recv_queue = {VipRecvDone, VipRecvWait, "a receive", true};

/* Interpret the result of one check of a queue. Outcomes: 1 and *ret; 0: no descriptor; -1. */
static int dequeued(struct end *end, const struct queue *queue, VIP_RETURN rc, VIP_DESCRIPTOR *desc,
                    VIP_DESCRIPTOR **ret)
{
    if (desc) {
        *ret = desc;
        return 1;
    }
    if (rc == VIP_NOT_DONE || rc == VIP_TIMEOUT)
        return 0;
    snprintf(end->why, sizeof(end->why), "waiting for %s: %s although descriptors are posted",
             queue->name, end_rc_name(rc));
    return -1;
}

/* Count a CQ entry as a completion of its work queue. Outcomes: 1; 0: there was no entry; -1. */
static int sorted(struct end *end, VIP_RETURN rc, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    if (rc == VIP_NOT_DONE || rc == VIP_TIMEOUT)
        return 0;
    if (rc != VIP_SUCCESS)
        return end_failed(end, "completion queue", rc);
    if (vi != end->vi) {
        snprintf(end->why, sizeof(end->why), "the completion queue named a VI that is not ours");
        return -1;
    }
    if (recv)
        end->cq_recvs++;
    else
        end->cq_sends++;
    return 1;
}

/* Check the queue once, through the CQ if there is one. */
static int look(struct end *end, const struct queue *queue, VIP_DESCRIPTOR **ret)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN rc;

    if (end->cq) {
        unsigned *reported = queue->recv ? &end->cq_recvs : &end->cq_sends;

        while (*reported == 0) {
            VIP_VI_HANDLE vi = NULL;
            VIP_BOOLEAN recv = VIP_FALSE;
            int r;

            rc = VipCQDone(end->cq, &vi, &recv);
            r = sorted(end, rc, vi, recv);
            if (r <= 0)
                return r;
        }
        rc = queue->done(end->vi, &desc);
        if (!desc) {
            snprintf(end->why, sizeof(end->why),
                     "the completion queue reported %s but %s gave none", queue->name,
                     end_rc_name(rc));
            return -1;
        }
        (*reported)--;
    } else {
        rc = queue->done(end->vi, &desc);
    }
    return dequeued(end, queue, rc, desc, ret);
}

/*
 * Wait in the library until a descriptor completes. A CQ entry of the other work queue also ends
 * the wait; then the outcome is 0.
 */
static int sleep_once(struct end *end, const struct queue *queue, unsigned timeout_ms,
                      VIP_DESCRIPTOR **ret)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN rc;
    int r;

    if (end->cq) {
        VIP_VI_HANDLE vi = NULL;
        VIP_BOOLEAN recv = VIP_FALSE;

        rc = VipCQWait(end->cq, timeout_ms, &vi, &recv);
        r = sorted(end, rc, vi, recv);
        return r > 0 ? look(end, queue, ret) : r;
    }
    rc = queue->wait(end->vi, timeout_ms, &desc);
    return dequeued(end, queue, rc, desc, ret);
}

static int await(struct end *end, const struct queue *queue, unsigned timeout_ms,
                 VIP_DESCRIPTOR **ret)
{
    enum plan_wait wait = end->args.wait;
    uint64_t start_ns, now_ns, deadline_ns, spin_until_ns;
    int r;

    if (wait != PLAN_BLOCK || timeout_ms == 0 || end->cq) {
        r = look(end, queue, ret);
        if (r != 0 || timeout_ms == 0)
            return r;
    }
    start_ns = now_ns = end_now_ns();
    deadline_ns = start_ns + timeout_ms * 1000000ull;
    spin_until_ns = wait == PLAN_POLL    ? deadline_ns
                    : wait == PLAN_BLOCK ? start_ns
                                         : start_ns + SPIN_NS;
    while (now_ns < spin_until_ns) {
        for (unsigned i = 0; i < POLLS_PER_CLOCK; i++) {
            r = look(end, queue, ret);
            if (r != 0)
                return r;
            end_relax(end);
        }
        now_ns = end_now_ns();
    }
    while (now_ns < deadline_ns) {
        r = sleep_once(end, queue, (unsigned)((deadline_ns - now_ns + 999999) / 1000000), ret);
        if (r != 0)
            return r;
        now_ns = end_now_ns();
    }
    return 0;
}

static void describe_status(struct end *end, const char *what, uint32_t status)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } bits[] = {
        {VIP_STATUS_FORMAT_ERROR, "VIP_STATUS_FORMAT_ERROR"},
        {VIP_STATUS_PROTECTION_ERROR, "VIP_STATUS_PROTECTION_ERROR"},
        {VIP_STATUS_LENGTH_ERROR, "VIP_STATUS_LENGTH_ERROR"},
        {VIP_STATUS_PARTIAL_ERROR, "VIP_STATUS_PARTIAL_ERROR"},
        {VIP_STATUS_DESC_FLUSHED_ERROR, "VIP_STATUS_DESC_FLUSHED_ERROR"},
        {VIP_STATUS_TRANSPORT_ERROR, "VIP_STATUS_TRANSPORT_ERROR"},
        {VIP_STATUS_RDMA_PROT_ERROR, "VIP_STATUS_RDMA_PROT_ERROR"},
        {VIP_STATUS_REMOTE_DESC_ERROR, "VIP_STATUS_REMOTE_DESC_ERROR"},
    };
    const char *name = "an unknown status";

    for (unsigned i = 0; i < sizeof(bits) / sizeof(*bits); i++) {
        if (status & bits[i].bit) {
            name = bits[i].name;
            break;
        }
    }
    if (status & VIP_STATUS_DESC_FLUSHED_ERROR)
        snprintf(end->why, sizeof(end->why), "the connection was lost (%s came back as %s)", what,
                 name);
    else
        snprintf(end->why, sizeof(end->why), "%s ended with %s", what, name);
}

int end_recv(struct end *end, unsigned timeout_ms, struct end_arrival *ret)
{
    VIP_DESCRIPTOR *desc;
    uint32_t status;
    int r = await(end, &recv_queue, timeout_ms, &desc);

    if (r <= 0)
        return r;
    status = desc->CS.Status;
    *ret = (struct end_arrival){
        .index = (unsigned)((size_t)((uint8_t *)desc - end->recv_desc) >> end->desc_shift),
        .bytes = desc->CS.SegCount > 0 ? desc->DS[0].Local.Data.Address : NULL,
        .len_bytes = desc->CS.Length,
        .has_imm = (status & VIP_STATUS_IMMEDIATE) != 0,
        .imm = desc->CS.ImmediateData,
        .by_write = (status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE,
    };
    if (ret->index >= end->args.recvs) {
        snprintf(end->why, sizeof(end->why), "a receive came back that was never posted");
        return -1;
    }
    if (status & VIP_STATUS_ERROR_MASK) {
        /*
         * With Unreliable Delivery a part of a message may be lost. But a flushed descriptor means
         * that the connection has ended.
         */
        if (end->args.level == PLAN_UD && !(status & VIP_STATUS_DESC_FLUSHED_ERROR)) {
            ret->damaged = true;
            return 1;
        }
        describe_status(end, recv_queue.name, status);
        return -1;
    }
    return 1;
}

static int send_done(struct end *end, const VIP_DESCRIPTOR *desc)
{
    const uint8_t *oldest = end->send_desc + (end->sends_done % end->args.sends << end->desc_shift);

    if ((const uint8_t *)desc != oldest) {
        snprintf(end->why, sizeof(end->why), "a send completed out of order");
        return -1;
    }
    end->sends_done++;
    if (desc->CS.Status & VIP_STATUS_ERROR_MASK) {
        describe_status(end, send_queue.name, desc->CS.Status);
        return -1;
    }
    return 0;
}

int end_reap(struct end *end)
{
    VIP_DESCRIPTOR *desc;

    while (end->sends_done < end->sends_posted) {
        int r = look(end, &send_queue, &desc);

        if (r <= 0)
            return r;
        if (send_done(end, desc) < 0)
            return -1;
    }
    return 0;
}

int end_drain(struct end *end, uint64_t left, unsigned timeout_ms)
{
    VIP_DESCRIPTOR *desc;

    while (end->sends_posted - end->sends_done > left) {
        int r = await(end, &send_queue, timeout_ms, &desc);

        if (r <= 0)
            return r;
        if (send_done(end, desc) < 0)
            return -1;
    }
    return 1;
}
