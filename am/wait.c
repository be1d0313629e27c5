/* Sleeping until a message arrives, and waking sleeping threads. */
#include "am/internal.h"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

/* Polls before sleeping: an answer under way comes within some tens of microseconds. */
#define LOOKS 64

/* Longest sleep, in ms, while connections are being closed to make room. */
#define BUSY_MS 5

/* The bundle's count of handlers run, as this thread saw it last; for AM_PAR. */
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

void am_wake_sleepers(struct am_bundle *bundle)
{
    uint64_t one = 1;

    if (__atomic_load_n(&bundle->sleepers, __ATOMIC_SEQ_CST) > 0 &&
        write(bundle->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is raised already */
}

/* The wake descriptor stays raised until no thread sleeps, so that each sleeper sees it. */
void am_sleep(struct am_bundle *bundle, const int *fds, unsigned count, int timeout_ms)
{
    struct pollfd wait[AM_SLEEP_FDS + 1] = {{.fd = bundle->wake_fd, .events = POLLIN}};
    uint64_t raised;

    for (unsigned i = 0; i < count; i++)
        wait[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    /* Count this sleeper first, then look at attention. am_attend sets attention first, then looks
     * at the count, without the bundle's lock. So one of the two sees the other. */
    __atomic_add_fetch(&bundle->sleepers, 1, __ATOMIC_SEQ_CST);
    am_unlock(bundle);
    if (timeout_ms > 0 || __atomic_load_n(&bundle->attention, __ATOMIC_SEQ_CST) == 0)
        (void)poll(wait, count + 1, timeout_ms);
    am_lock(bundle);
    if (__atomic_sub_fetch(&bundle->sleepers, 1, __ATOMIC_SEQ_CST) == 0 &&
        read(bundle->wake_fd, &raised, sizeof(raised)) < 0)
        return; /* it was not raised */
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
        /* Another thread has run handlers since this one looked last. */
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

void am_wait_turn(struct am_ep *ep)
{
    unsigned empty = 0;

    while (ep->busy)
        if (am_poll(ep->bundle) == 0)
            am_pause(ep->bundle, empty++ + 200);
}
