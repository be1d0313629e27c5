/* Ways to wait for completions; see outlive_wait.h. */
#include "outlive_wait.h"

#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <vipl_ext.h>

/* Handlers run in a thread of libvipl. A pipe passes their completions to the program's thread. */
static void pass(const struct waiter *waiter, struct completion completion)
{
    if (write(waiter->handlers, &completion, sizeof(completion)) != sizeof(completion))
        _exit(1);
}

static void on_recv(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    pass(context, (struct completion){.desc = desc, .is_recv = true});
}

static void on_send(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    pass(context, (struct completion){.desc = desc, .is_recv = false});
}

VIP_RETURN waiter_begin(struct waiter *waiter, VIP_NIC_HANDLE nic, VIP_ULONG entries)
{
    VIP_RETURN code = VIP_SUCCESS;
    int ends[2];

    if (waiter->way == WAIT_CQ || waiter->way == WAIT_CQ_FD)
        code = VipCreateCQ(nic, entries, &waiter->cq);
    if (waiter->way == WAIT_CQ_FD && code == VIP_SUCCESS)
        code = VipxCQGetFd(waiter->cq, &waiter->fd);
    waiter->is_empty = true;
    if (waiter->way == WAIT_NOTIFY) {
        if (pipe(ends) != 0)
            return VIP_ERROR_RESOURCE;
        waiter->fd = ends[0];
        waiter->handlers = ends[1];
    }
    return code;
}

VIP_RETURN waiter_posted(struct waiter *waiter, bool is_recv)
{
    if (waiter->way != WAIT_NOTIFY)
        return VIP_SUCCESS;
    return is_recv ? VipRecvNotify(waiter->vi, waiter, on_recv)
                   : VipSendNotify(waiter->vi, waiter, on_send);
}

static bool readable(int fd, int limit_ms)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, limit_ms) == 1 && look.revents == POLLIN;
}

/* Returns the next entry of the CQ. If the CQ is empty, waits on its file descriptor. */
static VIP_RETURN next_by_fd(struct waiter *waiter, int limit_ms, VIP_VI_HANDLE *vi,
                             VIP_BOOLEAN *is_recv)
{
    VIP_RETURN code;

    do {
        if (waiter->is_empty && !readable(waiter->fd, limit_ms))
            return VIP_TIMEOUT;
        code = VipCQDone(waiter->cq, vi, is_recv);
        waiter->is_empty = code == VIP_NOT_DONE;
    } while (waiter->is_empty);
    return code;
}

/* Poll one queue until it has a completion. */
static VIP_RETURN next_by_poll(struct waiter *waiter, bool is_recv, int limit_ms,
                               VIP_DESCRIPTOR **ret)
{
    time_t end = time(NULL) + limit_ms / 1000 + 1;
    VIP_RETURN code;

    do {
        code = is_recv ? VipRecvDone(waiter->vi, ret) : VipSendDone(waiter->vi, ret);
        if (code == VIP_NOT_DONE)
            sched_yield();
    } while (code == VIP_NOT_DONE && time(NULL) < end);
    return code == VIP_NOT_DONE ? VIP_TIMEOUT : code;
}

VIP_RETURN waiter_next(struct waiter *waiter, bool is_recv, int limit_ms, struct completion *ret)
{
    VIP_BOOLEAN recv = is_recv;
    VIP_RETURN code = VIP_SUCCESS;
    VIP_VI_HANDLE vi;

    if (waiter->way == WAIT_NOTIFY) {
        if (!readable(waiter->fd, limit_ms))
            return VIP_TIMEOUT;
        return read(waiter->fd, ret, sizeof(*ret)) == sizeof(*ret) ? VIP_SUCCESS
                                                                   : VIP_ERROR_RESOURCE;
    }
    if (waiter->way == WAIT_CQ)
        code = VipCQWait(waiter->cq, (VIP_ULONG)limit_ms, &vi, &recv);
    else if (waiter->way == WAIT_CQ_FD)
        code = next_by_fd(waiter, limit_ms, &vi, &recv);
    if (code != VIP_SUCCESS)
        return code;
    if (waiter->way == WAIT_QUEUES)
        code = is_recv ? VipRecvWait(waiter->vi, (VIP_ULONG)limit_ms, &ret->desc)
                       : VipSendWait(waiter->vi, (VIP_ULONG)limit_ms, &ret->desc);
    else if (waiter->way == WAIT_POLL)
        code = next_by_poll(waiter, is_recv, limit_ms, &ret->desc);
    else
        code = recv ? VipRecvDone(waiter->vi, &ret->desc) : VipSendDone(waiter->vi, &ret->desc);
    ret->is_recv = recv;
    return code == VIP_DESCRIPTOR_ERROR ? VIP_SUCCESS : code;
}
