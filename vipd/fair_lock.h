/*
 * A lock that is given in the order in which it was asked for.
 *
 * A thread that holds it nearly all the time asks between two pieces of work whether somebody waits
 * (one load), and if so gives it away and asks again: then the other one is served first, whatever the
 * scheduler does. With an ordinary mutex it would get it back itself nearly always.
 *
 * Owns: the order. Does not own: what it protects. From any thread; not recursive.
 */
#ifndef VIPD_FAIR_LOCK_H
#define VIPD_FAIR_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct fair_lock {
    pthread_mutex_t mutex; /* of the two numbers; held for a few instructions */
    pthread_cond_t turn;   /* `serving` has changed */
    unsigned next;         /* number that the next one who asks gets; read without the mutex */
    unsigned serving;      /* number of the one who has it, or of who gets it next */
};

void fair_lock_init(struct fair_lock *lock);
/* Nobody may have it or wait for it. */
void fair_lock_deinit(struct fair_lock *lock);

/* Wait until everybody who asked before has had it. */
void fair_lock_take(struct fair_lock *lock);
void fair_lock_give(struct fair_lock *lock);

/* Does somebody wait for it? Only from the thread that has it. One who has just asked may be missed once. */
static inline bool fair_lock_wanted(const struct fair_lock *lock)
{
    return __atomic_load_n(&lock->next, __ATOMIC_RELAXED) != lock->serving + 1;
}

#endif
