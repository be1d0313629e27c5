/*
 * A lock that threads get in the order in which they ask for it.
 *
 * This lock is for a thread that holds it nearly all the time. Between two pieces of work, that
 * thread checks whether another thread waits (one load). If so, it gives the lock away and asks
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
    pthread_mutex_t mutex; /* protects next and serving; held for a few instructions */
    pthread_cond_t turn;   /* signalled when `serving` has changed */
    unsigned next;         /* number for the next thread that asks; may be read without the mutex */
    unsigned serving;      /* number of the thread that has the lock or gets it next */
};

void fair_lock_init(struct fair_lock *lock);
/* No thread may have the lock or wait for it. */
void fair_lock_deinit(struct fair_lock *lock);

/* Get the lock, after all threads that have asked for it earlier. */
void fair_lock_take(struct fair_lock *lock);
void fair_lock_give(struct fair_lock *lock);

/* Does another thread wait for the lock? Only the thread that has the lock may call this. The
 * answer may miss a thread that asks at this moment; the next answer does not miss it. */
static inline bool fair_lock_wanted(const struct fair_lock *lock)
{
    return __atomic_load_n(&lock->next, __ATOMIC_RELAXED) != lock->serving + 1;
}

#endif
