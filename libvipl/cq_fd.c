/*
 * VipxCQGetFd: a completion queue as a file descriptor for epoll, poll or libev.
 *
 * The file descriptor is one end of a socket pair; a message in it makes it readable. vipd sends a
 * message when it has written an entry and the CQ's arm word differs from its value at the last
 * message. Before it sends, vipd publishes the value that it has seen (doc/shm-abi.md, CQ
 * descriptors). So vipd sends one message per value. If the published value equals the arm word,
 * the message for this value was sent or is about to be sent.
 *
 * The file descriptor stays readable until a call finds the CQ empty (level-triggered). That call
 * takes the message out, changes the arm word ("arms"), and looks at the CQ once more, because an
 * entry may have come before vipd could see the new word. If the call then finds more than one
 * entry, it takes one entry and sends a message itself. `fd_messages` counts the messages to take
 * out. A message that has not come yet is taken out by a later call. A message that vipd sends for
 * the new value stays in.
 *
 * For a CQ without a file descriptor all this costs one comparison in a VipCQDone that finds
 * nothing.
 */
#include "libvipl/cq_fd.h"

#include <sys/socket.h>
#include <unistd.h>

#include "libvipl/call.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/vipl_ext.h"

static const uint32_t *signaled_word(const struct vipl__cq *cq)
{
    return &vip_vipd_cq((void *)cq->session->vipd, cq->index)->signaled;
}

static void arm(struct vipl__cq *cq)
{
    cq->fd_arm++;
    __atomic_store_n(&cq->app->arm, cq->fd_arm, __ATOMIC_SEQ_CST);
    vip_fence_sleep(); /* [cq_fd ARM] */
}

bool vipl__cq_fd_arm(struct vipl__cq *cq)
{
    bool signaled = vip_load32_acquire(signaled_word(cq)) == cq->fd_arm;
    char message;

    cq->fd_messages += signaled;
    while (cq->fd_messages > 0 && recv(cq->fd[0], &message, sizeof(message), MSG_DONTWAIT) > 0)
        cq->fd_messages--;
    if (signaled)
        arm(cq);
    return signaled;
}

void vipl__cq_fd_signal(struct vipl__cq *cq)
{
    if (send(cq->fd[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        cq->fd_messages++;
}

void vipl__cq_fd_flushed(struct vipl__cq *cq)
{
    vipl__spin_lock(&cq->done_lock);
    if (cq->fd[0] >= 0 && cq->fd_messages == 0)
        vipl__cq_fd_signal(cq);
    vipl__spin_unlock(&cq->done_lock);
}

void vipl__cq_fd_close(struct vipl__cq *cq)
{
    vipl__spin_lock(&cq->done_lock);
    for (unsigned i = 0; i < 2; i++)
        vipl__fd_close(&cq->fd[i]);
    vipl__spin_unlock(&cq->done_lock);
}

/* Ask vipd for the two ends of the socket pair. After success the caller calls vipl__call_kept. */
static VIP_RETURN ask_fd(struct vipl__cq *cq, struct vip_fds *ret)
{
    Vip__CqRequest cq_fd = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    cq_fd.has_cq = 1;
    cq_fd.cq = cq->index;
    request.body_case = VIP__REQUEST__BODY_CQ_FD;
    request.cq_fd = &cq_fd;
    return vipl__call_fds(cq->session, "VipxCQGetFd", &request, true, ret);
}

/* Move the descriptors from *fds into the CQ, if the CQ still has this handle. */
static VIP_RETURN store(struct vipl__cq *cq, uint64_t handle, struct vip_fds *fds)
{
    VIP_RETURN rc = VIP_SUCCESS;

    if (fds->count != 2)
        return vipl__fail(VIP_ERROR_RESOURCE, "VipxCQGetFd: vipd's reply makes no sense");
    vipl__spin_lock(&cq->done_lock);
    if (__atomic_load_n(&cq->handle, __ATOMIC_ACQUIRE) == handle) {
        cq->fd[1] = fds->fd[1];
        __atomic_store_n(&cq->fd[0], fds->fd[0], __ATOMIC_RELAXED);
        fds->fd[0] = fds->fd[1] = -1;
    } else {
        rc = VIP_INVALID_PARAMETER;
    }
    vipl__spin_unlock(&cq->done_lock);
    return rc;
}

/* Make the file descriptor. Arm the CQ before the request to vipd, so that vipd sends a message for
 * each entry from then on. Under fd_lock. */
static VIP_RETURN make(struct vipl__cq *cq, uint64_t handle)
{
    struct vip_fds fds = VIP_FDS_NONE;
    VIP_RETURN rc;

    vipl__spin_lock(&cq->done_lock);
    arm(cq);
    cq->fd_messages = 0;
    vipl__spin_unlock(&cq->done_lock);
    rc = ask_fd(cq, &fds);
    if (rc == VIP_SUCCESS) {
        rc = store(cq, handle, &fds);
        vipl__call_kept(cq->session); /* from now on a next vipd also gets the sending socket */
    }
    vip_fds_close(&fds);
    if (rc != VIP_SUCCESS)
        return rc;
    /*
     * A file descriptor counts as a sleeper: from now on senders use vipd, not the rings. vipd does
     * not signal messages that are in the rings already, so signal these here.
     */
    vipl__direct_asleep_cq(cq);
    (void)vipl__lent_back(cq->session, false);
    vipl__spin_lock(&cq->done_lock);
    if (cq->fd[0] >= 0 && vipl__direct_waiting(cq))
        vipl__cq_fd_signal(cq);
    vipl__spin_unlock(&cq->done_lock);
    /* vipd may have died before there was a file descriptor to signal. */
    if (vipl__some_dead(cq->session))
        vipl__cq_fd_flushed(cq);
    return VIP_SUCCESS;
}

VIP_RETURN VipxCQGetFd(VIP_CQ_HANDLE CQHandle, int *Fd)
{
    struct vipl__cq *cq = vipl__cq_enter(CQHandle, "VipxCQGetFd");
    VIP_RETURN rc = VIP_SUCCESS;

    if (cq == NULL)
        return VIP_INVALID_PARAMETER;
    if (Fd == NULL) {
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipxCQGetFd: Fd is NULL");
    } else {
        pthread_mutex_lock(&cq->fd_lock);
        if (cq->fd[0] < 0)
            rc = make(cq, (uint64_t)(uintptr_t)CQHandle);
        if (rc == VIP_SUCCESS)
            *Fd = cq->fd[0];
        pthread_mutex_unlock(&cq->fd_lock);
        if (rc == VIP_INVALID_PARAMETER)
            vipl__bad_cq("VipxCQGetFd", CQHandle);
    }
    vipl__leave(cq->session);
    return rc;
}
