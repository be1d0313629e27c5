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
    VIP_VI_HANDLE vi; /* set by the caller */
    VIP_CQ_HANDLE cq; /* the CQ of both queues; NULL: there is no CQ */
    bool is_empty; /* VipCQDone found the CQ empty: wait for the descriptor before the next call */
    int fd;        /* file descriptor of the CQ; or the reading end of the pipe of the handlers */
    int handlers;  /* the writing end of the pipe of the handlers */
};

struct completion {
    VIP_DESCRIPTOR *desc;
    bool is_recv;
};

/* Call this before VipCreateVi. Outcomes: those of VipCreateCQ and VipxCQGetFd. */
VIP_RETURN waiter_begin(struct waiter *waiter, VIP_NIC_HANDLE nic, VIP_ULONG entries);

/* Call this after each post. Outcomes: those of VipRecvNotify and VipSendNotify. */
VIP_RETURN waiter_posted(struct waiter *waiter, bool is_recv);

/* Wait for the next completion: with WAIT_QUEUES of the queue that is_recv selects, else of any
 * queue. Outcomes: VIP_SUCCESS, also for a descriptor that has completed with an error;
 * VIP_TIMEOUT; other codes of the calls. */
VIP_RETURN waiter_next(struct waiter *waiter, bool is_recv, int limit_ms, struct completion *ret);

#endif
