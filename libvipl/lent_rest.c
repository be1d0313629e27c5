/*
 * Rest: how a thread waits for completions of a VI on loan without polling. It sleeps until a
 * packet comes at the VI's socket, or until the engine's timer. Each time it wakes, it polls once.
 *
 * vipd completes no descriptor while the loan is out, so vipd need not wake this thread. An eventfd
 * wakes it when the loan is over, when another thread of the program has completed a descriptor or
 * left an earlier timer, and when the session ends. Only one thread of a session rests at a time:
 * all would share the eventfd, and one thread could take a wake-up that is for another thread. The
 * other threads sleep for vipd, as without loans.
 */
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>

#include "libvipl/error.h"
#include "libvipl/lent_internal.h"

/* Does a thread sleep for completions of this VI, and for vipd to wake it? */
static bool sleeps(const struct vipl__vi *vi)
{
    uint32_t waiters = __atomic_load_n(vipl__waiters_of(&vi->queue[VIP_Q_SEND]), __ATOMIC_SEQ_CST) |
                       __atomic_load_n(vipl__waiters_of(&vi->queue[VIP_Q_RECV]), __ATOMIC_SEQ_CST);

    return (waiters & ~VIP_APP_WAITERS_NOTIFY) != 0;
}

bool vipl__lent_missed(struct vipl__session *session)
{
    struct vipl__loans *loans = __atomic_load_n(&session->loans, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; loans != NULL && i < VIP_LOANS_MAX; i++) {
        const struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

        if (lent != NULL && vipl__lent_can_rest(lent->vi) && sleeps(lent->vi))
            return true;
    }
    return false;
}

/* False: another thread rests. */
static bool begin(struct vipl__vi *vi, enum vip_queue which)
{
    struct vipl__session *session = vi->session;
    struct vip_app_head *head = session->app_base;
    struct vipl__rest *rest = &session->rest;

    if (__atomic_exchange_n(&rest->busy, 1, __ATOMIC_ACQUIRE) != 0)
        return false;
    __atomic_store_n(&rest->queue, (unsigned)which, __ATOMIC_RELAXED);
    __atomic_store_n(&rest->thread, (uint64_t)pthread_self(), __ATOMIC_RELAXED);
    __atomic_store_n(&rest->timer_ns, VIPL__NEVER, __ATOMIC_RELAXED);
    /* As long as threads sleep, the provider thread of a session that has ended wakes them. */
    __atomic_add_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&rest->vi, vi, __ATOMIC_SEQ_CST);
    return true;
}

static void end(struct vipl__session *session)
{
    struct vip_app_head *head = session->app_base;

    __atomic_store_n(&session->rest.vi, NULL, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->rest.busy, 0, __ATOMIC_RELEASE);
}

/* Sleep until a packet comes, until this time, or until the eventfd wakes this thread. */
static void sleep_until(struct vipl__session *session, int sock, uint64_t until_ns, uint64_t now_ns)
{
    struct pollfd fds[2] = {{.fd = sock, .events = POLLIN},
                            {.fd = session->rest.fd, .events = POLLIN}};
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec limit = {.tv_sec = (time_t)(left_ns / 1000000000ull),
                             .tv_nsec = (long)(left_ns % 1000000000ull)};
    eventfd_t count;

    /* The caller looks again after every return, so the reason of the return does not matter. */
    if (ppoll(fds, 2, until_ns == VIPL__NEVER ? NULL : &limit, NULL) > 0 && fds[1].revents != 0)
        (void)eventfd_read(session->rest.fd, &count);
}

/* Poll, and then sleep once. Outcomes: as struct vipl__sleeper.rest; *again: it has slept. */
static VIP_RETURN nap(struct vipl__lent *lent, struct vipl__sleeper *wait, uint64_t deadline_ns,
                      bool *again)
{
    struct vipl__session *session = lent->vi->session;
    struct vipl__rest *rest = &session->rest;
    const struct vipl__lent_queue *of = &lent->queue[rest->queue];
    uint64_t timer_ns, now_ns;
    VIP_RETURN rc;

    *again = false;
    __atomic_store_n(&rest->done, __atomic_load_n(&of->done, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
    vip_fence_sleep(); /* [rest LOOK] */
    rc = wait->attempt(wait);
    if (rc != VIP_NOT_DONE || vipl__is_dead(session))
        return rc;
    now_ns = vipl__now_ns();
    if (deadline_ns != VIPL__NEVER && now_ns >= deadline_ns)
        return vipl__outcome(VIP_TIMEOUT, "nothing completed within the time limit");
    if (vipl__lent_state_of(lent) != VIPL__LENT_LIVE)
        return VIP_NOT_DONE;
    timer_ns = vipl__lent_timer(lent);
    __atomic_store_n(&rest->timer_ns, timer_ns, __ATOMIC_RELAXED);
    vip_fence_sleep();
    *again = true;
    /* Another thread may have the lock of the loan, so that the attempt has not looked. */
    if (vipl__lent_revoked(lent))
        sched_yield();
    else if (vipl__lent_timer(lent) >= timer_ns && timer_ns > now_ns)
        sleep_until(session, __atomic_load_n(&lent->sock, __ATOMIC_RELAXED),
                    timer_ns < deadline_ns ? timer_ns : deadline_ns, now_ns);
    return VIP_NOT_DONE;
}

VIP_RETURN vipl__lent_rest(struct vipl__vi *vi, enum vip_queue which, struct vipl__sleeper *wait,
                           uint64_t deadline_ns)
{
    struct vipl__lent *lent = vipl__lent_of(vi);
    struct vip_loan_part *part;
    VIP_RETURN rc;
    bool again;

    if (!vipl__lent_can_rest(vi) ||
        (part = __atomic_load_n(&lent->part, __ATOMIC_ACQUIRE)) == NULL || !begin(vi, which)) {
        if (__atomic_load_n(&vi->asks.host_len, __ATOMIC_RELAXED) != 0)
            vipl__lent_ask_asleep(vi);
        return VIP_NOT_DONE;
    }
    vipl__loan_asleep(part, true);
    do
        rc = nap(lent, wait, deadline_ns, &again);
    while (again);
    if (__atomic_load_n(&lent->part, __ATOMIC_ACQUIRE) == part)
        vipl__loan_asleep(part, false);
    end(vi->session);
    return rc;
}
