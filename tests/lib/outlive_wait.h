/*
 * Ways to wait for completions, for outlive.c: on the queues, by polling them, on a CQ, on the file
 * descriptor of a CQ (VipxCQGetFd), or for handlers (VipRecvNotify, VipSendNotify).
 */
#ifndef OUTLIVE_WAIT_H
#define OUTLIVE_WAIT_H

#include <stdbool.h>

#include <vipl.h>

enum wait_way { WAIT_QUEUES, WAIT_POLL, WAIT_CQ, WAIT_CQ_FD, WAIT_NOTIFY };

struct waiter {
    enum wait_way way;
    VIP_VI_HANDLE vi; /* the caller sets it when it has the VI */
    VIP_CQ_HANDLE cq; /* the CQ of both queues; NULL: there is no CQ */
    bool is_empty;    /* the last VipCQDone found no entry, so wait on `fd` before the next one */
    int fd;           /* the CQ's file descriptor, or the read end of the handlers' pipe */
    int handlers;     /* the write end of the handlers' pipe */
};

struct completion {
    VIP_DESCRIPTOR *desc;
    bool is_recv;
};

/* Call this before VipCreateVi. Outcomes: those of VipCreateCQ and VipxCQGetFd. */
VIP_RETURN waiter_begin(struct waiter *waiter, VIP_NIC_HANDLE nic, VIP_ULONG entries);

/* Call this after each posted descriptor. Outcomes: those of VipRecvNotify and VipSendNotify. */
VIP_RETURN waiter_posted(struct waiter *waiter, bool is_recv);

/* Wait for the next completion. With WAIT_QUEUES and WAIT_POLL, is_recv selects the queue; otherwise either queue
 * counts. Outcomes: VIP_SUCCESS, also for a descriptor that has completed with an error;
 * VIP_TIMEOUT; error codes of the VIPL calls. */
VIP_RETURN waiter_next(struct waiter *waiter, bool is_recv, int limit_ms, struct completion *ret);

#endif
