/*
 * The spin lock of libvipl, which guards positions that are not atomic.
 *
 *   thread() libvipl/spin.h: vipl__spin_lock, vipl__spin_unlock
 *
 * Shown: the next thread that holds the lock finds the values that the thread before has written under it.
 */
#define CPUS 2

#define LOCK  0
#define COUNT 1
#define WORDS 2

#include "memory.pml"

/* No load behind the lock is satisfied before the lock is held. */
#ifndef NO_LOCK
#define TAKE EXCHANGE_ACQUIRE
#else
#define TAKE EXCHANGE
#endif
/* Values written under the lock are visible before the lock is free. */
#ifndef NO_UNLOCK
#define GIVE STORE_RELEASE
#else
#define GIVE STORE
#endif

hidden byte held;
byte threads;

proctype thread(byte me)
{
    byte count;

    atomic { memory[LOCK] == 0; TAKE(me, LOCK, 1, held) }
    LOAD(me, COUNT, count);
    assert(count == threads);
    threads++;
    STORE(me, COUNT, count + 1);
    GIVE(me, LOCK, 0)
}

init
{
    atomic { run store_buffer(0); run store_buffer(1); run thread(0); run thread(1) }
}
