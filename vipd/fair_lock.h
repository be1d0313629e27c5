/*
 * A lock that threads get in the order in which they ask for it.
 *
 * It is for a thread that has the lock nearly all the time. Between two pieces of work this thread
 * checks whether another thread waits (one load). If so, it gives the lock away and asks for it
 * again. Then the waiting thread gets the lock first, whatever the scheduler does. With an ordinary
 * mutex the first thread would nearly always get the lock back itself.
 *
 * Owns: the order. Does not own: what the lock protects. From any thread; not recursive.
 */
#ifndef VIPD_FAIR_LOCK_H
#define VIPD_FAIR_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct fair_lock {
    pthread_mutex_t mutex; /* protects the two numbers; held for a few instructions */
    pthread_cond_t turn;   /* `serving` has changed */
    unsigned next;         /* number for the next thread that asks; read without the mutex */
    unsigned serving;      /* number of the thread that has the lock, or gets it next */
};

void fair_lock_init(struct fair_lock *lock);
/* No thread may have the lock or wait for it. */
void fair_lock_deinit(struct fair_lock *lock);

/* Get the lock, after all threads that asked for it before. */
void fair_lock_take(struct fair_lock *lock);
void fair_lock_give(struct fair_lock *lock);

/* Does another thread wait for the lock? Only the thread that has the lock may call this. It may
 * miss a thread that asks at this moment; the next call sees that thread. */
static inline bool fair_lock_wanted(const struct fair_lock *lock)
{
    return __atomic_load_n(&lock->next, __ATOMIC_RELAXED) != lock->serving + 1;
}

#endif
