/*
 * Waiting (sleep.h): poll for a time that adapts, then sleep on the futex word that vipd
 * counts up.
 *
 * This process maps the segment of that word read-only; a shared futex works on such a mapping.
 */
#include "libvipl/sleep.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libvipl/error.h"

/* Least number of polls before a sleep; also their number between two reads of the clock. */
#define POLLS_PER_LOOK 16

/* The time budget of polls is at least the session's limit divided by this number. */
#define SPIN_FLOOR_SHARE 16

/* Number of tries to get a spin lock before the thread yields, so that the holder can run. */
#define LOCK_TRIES 64

uint64_t vipl__now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t vipl__deadline(VIP_ULONG timeout_ms)
{
    uint64_t now_ns = vipl__now_ns();

    if (timeout_ms == VIP_INFINITE || timeout_ms == 0xFFFFFFFFul ||
        timeout_ms > (VIPL__NEVER - now_ns) / 1000000 - 1)
        return VIPL__NEVER;
    return now_ns + (uint64_t)timeout_ms * 1000000;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void vipl__spin_contended(uint32_t *lock)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0)
            return;
        cpu_relax();
    }
    sched_yield();
}

/* Let another thread run. Returns the time. */
static uint64_t yield(struct vipl__session *session)
{
    uint64_t before_ns = vipl__now_ns(), after_ns;

    sched_yield();
    after_ns = vipl__now_ns();
    vip_yielded(&session->crowd, before_ns, after_ns);
    return after_ns;
}

void vipl__polls_yield(struct vipl__session *session)
{
    __atomic_store_n(&session->empty_polls, 0, __ATOMIC_RELAXED);
    if (!vip_crowded(&session->crowd, vipl__now_ns()))
        (void)yield(session);
}

static void futex_wake(const uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static void futex_wait(const uint32_t *word, uint32_t expected, uint64_t deadline_ns)
{
    struct timespec ts, *limit = NULL;

    if (deadline_ns != VIPL__NEVER) {
        uint64_t now_ns = vipl__now_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

        ts.tv_sec = (time_t)(left_ns / 1000000000ull);
        ts.tv_nsec = (long)(left_ns % 1000000000ull);
        limit = &ts;
    }
    /* The caller looks again after every return, so the reason of the return does not matter. */
    syscall(SYS_futex, word, FUTEX_WAIT, expected, limit, NULL, 0);
}

/* Let others run after this number of polls. Returns the time, or one of the last few polls. */
static uint64_t relax(struct vipl__session *session, unsigned polls, uint64_t now_ns)
{
    if (session->yield)
        return yield(session); /* a yield may take long, so it reads the clock */
    cpu_relax();
    return polls % POLLS_PER_LOOK == 0 ? vipl__now_ns() : now_ns;
}

/*
 * Poll until the time budget is used up, or the processor is crowded. Poll a few times at least, as
 * the smallest budget may be shorter than a yield. Success doubles the budget, up to the session's
 * limit. Failure halves it, so that a program that waits for long times soon sleeps at once.
 */
static VIP_RETURN spin(struct vipl__session *session, struct vipl__sleeper *wait,
                       uint64_t deadline_ns)
{
    uint32_t budget_ns = __atomic_load_n(wait->spin_ns, __ATOMIC_RELAXED);
    uint64_t now_ns = vipl__now_ns(), end_ns = now_ns + budget_ns;
    uint32_t next_ns;
    VIP_RETURN rc;

    if (end_ns > deadline_ns)
        end_ns = deadline_ns;
    if (vip_crowded(&session->crowd, now_ns))
        return VIP_NOT_DONE;
    for (unsigned polls = 1;; polls++) {
        rc = wait->attempt(wait);
        if (rc != VIP_NOT_DONE)
            break;
        now_ns = relax(session, polls, now_ns);
        if (vip_crowded(&session->crowd, now_ns) || (polls >= POLLS_PER_LOOK && now_ns >= end_ns))
            break;
    }

    if (rc == VIP_NOT_DONE) {
        next_ns = budget_ns / 2;
        if (next_ns < session->spin_ns / SPIN_FLOOR_SHARE)
            next_ns = session->spin_ns / SPIN_FLOOR_SHARE;
    } else {
        next_ns = budget_ns > session->spin_ns / 2 ? session->spin_ns : 2 * budget_ns;
    }
    __atomic_store_n(wait->spin_ns, next_ns, __ATOMIC_RELAXED);
    return rc;
}

/* Outcomes: as vipl__sleep, and VIP_NOT_DONE: the thread can rest. */
static VIP_RETURN sleep_until(struct vipl__session *session, struct vipl__sleeper *wait,
                              uint64_t deadline_ns)
{
    struct vip_app_head *head = session->app_base;
    VIP_RETURN rc;

    /* Publish this waiter, load `prod`, look for an entry, sleep if `prod` has not changed since.
     * The kernel compares `prod` after a full barrier: either `prod` has changed, or vipd sees this
     * waiter. */
    __atomic_add_fetch(wait->waiters, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
    if (wait->sleepers_changed != NULL)
        wait->sleepers_changed(wait);
    for (;;) {
        uint32_t seen = __atomic_load_n(wait->prod, __ATOMIC_SEQ_CST); /* [completion LOOK] */
        /* Load vipd's state before the attempt: if vipd dies later, another attempt must follow. */
        bool dead = vipl__is_dead(session);

        bool late = deadline_ns != VIPL__NEVER && vipl__now_ns() >= deadline_ns;

        if (!dead && !late && wait->rest != NULL && wait->can_rest(wait)) {
            rc = VIP_NOT_DONE;
            break;
        }
        rc = wait->attempt(wait);
        if (rc != VIP_NOT_DONE)
            break;
        if (dead) {
            rc = vipl__fail(VIP_ERROR_RESOURCE,
                            "vipd has ended this session, and nothing is left that could complete");
            break;
        }
        if (late) {
            rc = vipl__outcome(VIP_TIMEOUT, "nothing completed within the time limit");
            break;
        }
        futex_wait(wait->prod, seen, deadline_ns);
    }
    __atomic_sub_fetch(wait->waiters, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
    if (wait->sleepers_changed != NULL)
        wait->sleepers_changed(wait);
    return rc;
}

/*
 * Do threads sleep on this queue or CQ? Notify registrations do not count; their thread sleeps on
 * another word.
 */
static bool sleepers_on(const uint32_t *waiters)
{
    return (__atomic_load_n(waiters, __ATOMIC_SEQ_CST) & ~VIP_APP_WAITERS_NOTIFY) != 0;
}

VIP_RETURN vipl__sleep(struct vipl__session *session, struct vipl__sleeper *wait,
                       VIP_ULONG timeout_ms)
{
    VIP_RETURN rc = wait->attempt(wait);
    uint64_t deadline_ns;

    if (rc != VIP_NOT_DONE)
        return rc;
    if (timeout_ms == 0)
        return vipl__outcome(VIP_TIMEOUT, "nothing has completed and the time limit is 0");
    deadline_ns = vipl__deadline(timeout_ms);
    rc = spin(session, wait, deadline_ns);
    while (rc == VIP_NOT_DONE) {
        if (wait->rest != NULL)
            rc = wait->rest(wait, deadline_ns);
        if (rc == VIP_NOT_DONE)
            rc = sleep_until(session, wait, deadline_ns);
    }
    if (rc != VIP_TIMEOUT && sleepers_on(wait->waiters))
        futex_wake(wait->prod, INT_MAX);
    return rc;
}

void vipl__rest_wake(struct vipl__session *session)
{
    if (__atomic_load_n(&session->rest.vi, __ATOMIC_SEQ_CST) != NULL)
        (void)eventfd_write(session->rest.fd, 1);
}

static void queues_wake(struct vipl__vi *vi)
{
    for (unsigned q = 0; q < 2; q++)
        if (sleepers_on(vipl__waiters_of(&vi->queue[q])))
            futex_wake(vipl__prod_of(&vi->queue[q]), INT_MAX);
}

void vipl__wake_vi(struct vipl__vi *vi)
{
    queues_wake(vi);
    vipl__rest_wake(vi->session);
}

void vipl__wake_all(struct vipl__session *session)
{
    vipl__rest_wake(session);
    for (unsigned i = 0; i < VIP_VI_MAX; i++) {
        struct vipl__vi *vi = __atomic_load_n(&session->vi[i], __ATOMIC_ACQUIRE);

        if (vi != NULL)
            queues_wake(vi);
    }
    for (unsigned i = 0; i < VIP_CQ_MAX; i++) {
        struct vipl__cq *cq = __atomic_load_n(&session->cq[i], __ATOMIC_ACQUIRE);

        if (cq != NULL && sleepers_on(&cq->app->waiters))
            futex_wake(cq->prod, INT_MAX);
    }
}
