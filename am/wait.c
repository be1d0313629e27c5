/* Waiting until a message arrives. */
#include "am/internal.h"

#include <sched.h>
#include <unistd.h>

/* Number of polls before the thread sleeps: most answers come within tens of microseconds. */
#define LOOKS 64

/* Longest sleep, in ms, while control messages are due or room for connections is wanted. */
#define BUSY_MS 5

/* For AM_PAR: the value of bundle->handled at the end of this thread's last AM_WaitSema. */
static __thread struct {
    const struct am_bundle *bundle;
    uint64_t handled;
} seen;

int AM_SetEventMask(eb_t bundle, int mask)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_SetEventMask: AM_Init was not called");
    if (bundle == NULL || (mask != AM_NOEVENTS && mask != AM_NOTEMPTY))
        return am_fail(AM_ERR_BAD_ARG, "AM_SetEventMask: %s",
                       bundle == NULL ? "NULL" : "neither AM_NOEVENTS nor AM_NOTEMPTY");
    __atomic_store_n(&bundle->mask, mask, __ATOMIC_RELAXED);
    return AM_OK;
}

int AM_GetEventMask(eb_t bundle, int *mask)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_GetEventMask: AM_Init was not called");
    if (bundle == NULL || mask == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_GetEventMask: NULL");
    *mask = __atomic_load_n(&bundle->mask, __ATOMIC_RELAXED);
    return AM_OK;
}

static int wait_locked(struct am_bundle *bundle)
{
    if (bundle->cq_fd < 0 && VipxCQGetFd(bundle->recv_cq, &bundle->cq_fd) != VIP_SUCCESS) {
        bundle->cq_fd = -1;
        return am_fail(AM_ERR_RESOURCE, "AM_WaitSema: %s", VipxLastError());
    }
    for (unsigned looks = 0;; looks++) {
        if (am_poll(bundle) > 0)
            return AM_OK;
        /* Return if another thread has run handlers since the last AM_WaitSema of this thread. */
        if (bundle->par && bundle->handled != (seen.bundle == bundle ? seen.handled : 0))
            return AM_OK;
        if (looks < LOOKS)
            sched_yield();
        else
            am_sleep(bundle, &bundle->cq_fd, 1,
                     bundle->control_conns > 0 || am_net.wanted > 0 ? BUSY_MS : -1);
    }
}

int AM_WaitSema(eb_t bundle)
{
    int rc;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_WaitSema: AM_Init was not called");
    if (bundle == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_WaitSema: NULL");
    if (am_in_handler > 0)
        return am_fail(AM_ERR_RESOURCE, "AM_WaitSema: a handler may not wait");
    if (__atomic_load_n(&bundle->mask, __ATOMIC_RELAXED) != AM_NOTEMPTY)
        return am_fail(AM_ERR_RESOURCE,
                       "AM_WaitSema: the event mask is AM_NOEVENTS: it would sleep for ever");
    am_lock(bundle);
    rc = wait_locked(bundle);
    seen.bundle = bundle;
    seen.handled = bundle->handled;
    am_unlock(bundle);
    return rc;
}

void am_wait_idle(struct am_ep *ep)
{
    unsigned empty = 0;

    while (ep->busy)
        if (am_poll(ep->bundle) == 0)
            am_pause(ep->bundle, empty++ + 200);
}
