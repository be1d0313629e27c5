/* Declarations that lent.c, lent_ask.c and lent_rest.c share. No other file includes this. */
#ifndef LIBVIPL_LENT_INTERNAL_H
#define LIBVIPL_LENT_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>

#include "libvipl/lent.h"
#include "libvipl/sleep.h"

/* What a session has for its loans. It is never freed. */
struct vipl__loans {
    struct vipl__session *session;
    struct vip_loan_part *parts;
    /* The VI that has each part (proto/loan.h); NULL: the part is free. Atomic; written under
     * session->lock. */
    struct vipl__lent *of[VIP_LOANS_MAX];
    bool started; /* there is a thread; under session->lock */
    pthread_t thread;
    sem_t work;              /* the thread has work */
    pthread_mutex_t regions; /* held while the region table changes, and by a loan that begins */
    struct vipl__loan *locked[VIP_LOANS_MAX]; /* under `regions`: the loans that are kept out */
    struct vipl__vi *asks;                    /* atomic; the VI that asks for a loan; NULL: none */
};

static inline const struct vip_vipd_vi *vipl__lent_head(const struct vipl__lent *lent)
{
    return vip_vipd_vi((void *)lent->vi->session->vipd, lent->vi->index);
}

static inline enum vipl__lent_state vipl__lent_state_of(const struct vipl__lent *lent)
{
    return (enum vipl__lent_state)__atomic_load_n(&lent->state, __ATOMIC_ACQUIRE);
}

/* Change the state, if it is `from`. Returns whether it was. */
static inline bool vipl__lent_change(struct vipl__lent *lent, enum vipl__lent_state from,
                                     enum vipl__lent_state to)
{
    uint32_t expected = from;

    return __atomic_compare_exchange_n(&lent->state, &expected, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* The loan is over for this library: the state becomes NONE or BACK. Wake the thread that rests. */
static inline void vipl__lent_state_end(struct vipl__lent *lent, enum vipl__lent_state state)
{
    __atomic_store_n(&lent->state, state, __ATOMIC_SEQ_CST);
    vipl__rest_wake(lent->vi->session);
}

/* When the engine of the loan must run; VIPL__NEVER: when a packet or a post comes. */
static inline uint64_t vipl__lent_timer(const struct vipl__lent *lent)
{
    const struct vip_loan_part *part = __atomic_load_n(&lent->part, __ATOMIC_RELAXED);
    uint64_t timer_ns = part == NULL ? 0 : __atomic_load_n(&part->owner.timer_ns, __ATOMIC_RELAXED);

    return timer_ns == 0 ? VIPL__NEVER : timer_ns;
}

/* The thread of the session's loans has work. */
static inline void vipl__lent_work(struct vipl__loans *loans)
{
    (void)sem_post(&loans->work);
}

/* Has vipd ended the loan with these terms? */
static inline bool vipl__lent_revoked(const struct vipl__lent *lent)
{
    return (int32_t)(vip_load32_acquire(&vipl__lent_head(lent)->loan.revoked) -
                     __atomic_load_n(&lent->offered, __ATOMIC_RELAXED)) >= 0;
}

/* This thread was in a stay: wake another thread that rests, if it has something to do. */
void vipl__lent_tell(const struct vipl__lent *lent);
/* Make the object that runs the engine. False: no memory. */
bool vipl__lent_runtime(struct vipl__lent *lent);
/* Does a thread sleep, or wait by other means than polls, for completions of this VI? */
bool vipl__lent_waited(const struct vipl__vi *vi);
/* Take the state from LIVE or OFFERED to BEGINS. False: the VI has no loan. Waits for a thread that
 * begins or ends the loan now. */
bool vipl__lent_seize(struct vipl__lent *lent);
/* Tell vipd that the loan is given back, and whether the engine has broken the connection. Only the
 * thread of the session's loans calls this. */
void vipl__lent_back_send(struct vipl__lent *lent);

#endif
