/*
 * The ways to wait for completions that outlive.c can use: the queues, a CQ, the file descriptor of a CQ
 * (VipxCQGetFd), and handlers (VipRecvNotify, VipSendNotify).
 */
#ifndef OUTLIVE_WAIT_H
#define OUTLIVE_WAIT_H

#include <stdbool.h>

#include <vipl.h>

enum wait_way { WAIT_QUEUES, WAIT_CQ, WAIT_CQ_FD, WAIT_NOTIFY };

struct waiter {
    enum wait_way way;
    VIP_VI_HANDLE vi; /* the caller sets it */
    VIP_CQ_HANDLE cq; /* of both queues; NULL: none */
    bool
        is_empty; /* VipCQDone has found the CQ empty; the file descriptor tells when to call it again */
    int fd; /* of the CQ; or that end of a pipe at which the completions of the handlers come out */
    int handlers; /* the other end */
};

struct completion {
    VIP_DESCRIPTOR *desc;
    bool is_recv;
};

/* Call this before VipCreateVi. Outcomes: those of VipCreateCQ and VipxCQGetFd. */
VIP_RETURN waiter_begin(struct waiter *waiter, VIP_NIC_HANDLE nic, VIP_ULONG entries);

/* Call this after each post. Outcomes: those of VipRecvNotify and VipSendNotify. */
VIP_RETURN waiter_posted(struct waiter *waiter, bool is_recv);

/*
 * Wait for the next completion: of the receive queue or the send queue with WAIT_QUEUES, else of any queue. Outcomes:
 * VIP_SUCCESS, also for a descriptor that has completed with an error; VIP_TIMEOUT; other codes of the calls.
 */
VIP_RETURN waiter_next(struct waiter *waiter, bool is_recv, int limit_ms, struct completion *ret);

#endif
