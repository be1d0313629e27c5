/* A ticket lock; see fair_lock.h. */
#include "vipd/fair_lock.h"

#include "proto/assert.h"

void fair_lock_init(struct fair_lock *lock)
{
    VIP_ASSERT(pthread_mutex_init(&lock->mutex, NULL) == 0);
    VIP_ASSERT(pthread_cond_init(&lock->turn, NULL) == 0);
    lock->next = lock->serving = 0;
}

void fair_lock_deinit(struct fair_lock *lock)
{
    VIP_ASSERT(lock->next == lock->serving);
    (void)pthread_cond_destroy(&lock->turn);
    (void)pthread_mutex_destroy(&lock->mutex);
}

void fair_lock_take(struct fair_lock *lock)
{
    unsigned number;

    pthread_mutex_lock(&lock->mutex);
    number = lock->next;
    __atomic_store_n(&lock->next, number + 1, __ATOMIC_RELAXED);
    while (lock->serving != number)
        pthread_cond_wait(&lock->turn, &lock->mutex);
    pthread_mutex_unlock(&lock->mutex);
}

void fair_lock_give(struct fair_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    VIP_ASSERT(lock->serving != lock->next);
    lock->serving++;
    if (lock->serving != lock->next)
        pthread_cond_broadcast(&lock->turn); /* wakes all waiting threads; the next one goes on */
    pthread_mutex_unlock(&lock->mutex);
}
