/*
 * Spin locks, held for about ten instructions. A thread that waits for long yields, because the
 * holder may have lost its processor.
 */
#ifndef LIBVIPL_SPIN_H
#define LIBVIPL_SPIN_H

#include <stdint.h>

#include "proto/fence.h"

/* Another thread holds the lock: poll the lock for a while, then yield (sleep.c). */
void vipl__spin_contended(uint32_t *lock);

static inline void vipl__spin_lock(uint32_t *lock)
{
    /* [lock LOCK] */
    while (__builtin_expect(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0, 0))
        vipl__spin_contended(lock);
}

static inline void vipl__spin_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* [lock UNLOCK] */
}

/*
 * Unlock, then a full barrier: all earlier stores are visible before any later load is made. An
 * atomic exchange is not enough: arm64 without LSE executes it as two instructions, and a later
 * load may happen between these.
 */
static inline void vipl__spin_unlock_full(uint32_t *lock)
{
    vipl__spin_unlock(lock);
    vip_fence_sleep();
}

#endif
