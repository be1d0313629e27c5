/*
 * Waiting for vipd without losing a wake-up: poll for a while, then publish the waiter, look once
 * more, and sleep (doc/shm-abi.md, "wake-ups").
 */
#ifndef LIBVIPL_SLEEP_H
#define LIBVIPL_SLEEP_H

#include <stdint.h>

#include "libvipl/session.h"

/* What a thread waits for: one work queue or one CQ. */
struct vipl__sleeper {
    const uint32_t *prod; /* futex word: vipd counts it up with every entry */
    uint32_t *waiters;    /* count of sleepers on prod, published by libvipl */
    uint32_t *spin_ns;    /* atomic; how long to poll; adapts to the outcomes */
    /* Try to take an entry: a code other than VIP_NOT_DONE ends the wait with that code. */
    VIP_RETURN (*attempt)(struct vipl__sleeper *wait);
    /* Sleep in another way than on prod, as long as that is possible. Outcomes: as vipl__sleep, and
     * VIP_NOT_DONE: it is not possible (any more). May be NULL. */
    VIP_RETURN (*rest)(struct vipl__sleeper *wait, uint64_t deadline_ns);
    /* Has this become possible? Not NULL if `rest` is not. */
    bool (*can_rest)(const struct vipl__sleeper *wait);
    /* Called after *waiters has changed; may be NULL. */
    void (*sleepers_changed)(struct vipl__sleeper *wait);
    void *object;    /* attempt and sleepers_changed use it */
    uint64_t handle; /* for attempt */
    void *ret[2];    /* for attempt */
};

/*
 * Wait until `attempt` succeeds or fails. Outcomes: the code of `attempt`; VIP_TIMEOUT;
 * VIP_ERROR_RESOURCE: vipd is dead. The caller has entered the session. A wait that ends with an
 * entry wakes all other waiters of the same queue or CQ: vipd may have woken only one waiter for
 * several entries.
 */
VIP_RETURN vipl__sleep(struct vipl__session *session, struct vipl__sleeper *wait,
                       VIP_ULONG timeout_ms);

/*
 * vipl__polled: a Done call has ended with `rc`. On a machine with few processors, yield after
 * VIPL__POLLS_PER_YIELD Done calls in a row that found nothing, because vipd may be waiting for the
 * processor.
 */
#define VIPL__POLLS_PER_YIELD 8

void vipl__polls_yield(struct vipl__session *session);

static inline void vipl__polled(struct vipl__session *session, VIP_RETURN rc)
{
    uint32_t polls = 0;

    if (!session->yield)
        return;
    if (rc == VIP_NOT_DONE)
        polls = __atomic_load_n(&session->empty_polls, __ATOMIC_RELAXED) + 1;
    /* If two threads store at once, one call is not counted; the yield then comes a bit later. */
    __atomic_store_n(&session->empty_polls, polls, __ATOMIC_RELAXED);
    if (__builtin_expect(polls >= VIPL__POLLS_PER_YIELD, 0))
        vipl__polls_yield(session);
}

/* Wake all threads that sleep on a queue or CQ of this session, and the one that rests. */
void vipl__wake_all(struct vipl__session *session);

/* The words of a queue, for a thread that looks at the VI while VipCreateVi may make the VI anew. A
 * VI has the same words again. */
static inline uint32_t *vipl__waiters_of(const struct vipl__queue *queue)
{
    return __atomic_load_n(&queue->waiters, __ATOMIC_RELAXED);
}

static inline const uint32_t *vipl__prod_of(const struct vipl__queue *queue)
{
    return __atomic_load_n(&queue->prod, __ATOMIC_RELAXED);
}

/* Wake the threads that sleep on a queue of this VI, and the one that rests. */
void vipl__wake_vi(struct vipl__vi *vi);

/* Wake the thread that rests, if there is one. The caller has stored what that thread must see, and
 * has then made a full barrier. */
void vipl__rest_wake(struct vipl__session *session);

#endif
