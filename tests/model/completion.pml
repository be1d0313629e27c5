/*
 * The completion ring of a work queue, and a thread that waits for it with a futex.
 *
 *   vipd()   vipd/nic/complete.c: complete_now, nic_wake_flush, wake_one; proto/ring.h: vip_comp_fill, vip_comp_stamp
 *   thread() libvipl/sleep.c: sleep_until; proto/ring.h: vip_comp_read
 *
 * The thread has no fence between its store of the waiter words and its last load of a completion.
 * FUTEX_WAIT has the fence: it loads `prod` after the fence and compares it.
 *
 * Shown: the thread gets every completion once, whole, in order, and never sleeps while a
 * completion is there. Here the ring has a slot for each completion, so no slot is used twice. In
 * the C code a post tells vipd that a slot is free again; doorbell.pml models posts.
 */
#define VIPD   0
#define THREAD 1
#define CPUS   2

#define BODY(n)  (n)
#define STAMP(n) (2 + (n))
#define PROD     4
#define WAITERS  5
#define SLEEPERS 6
#define WORDS    7

#include "memory.pml"
#include "futex.pml"

#define COMPLETIONS 2

/* The completion is visible before the waiter words are loaded. */
#ifndef NO_FLUSH
#define FENCE_FLUSH FENCE(VIPD)
#else
#define FENCE_FLUSH skip
#endif
/* The completion is visible before `prod`: a thread that has seen the new `prod` finds the completion. */
#ifndef NO_PROD
#define STORE_PROD STORE_RELEASE
#else
#define STORE_PROD STORE
#endif
/* The thread looks for a completion after it has loaded `prod`. */
#ifndef NO_LOOK
#define LOAD_PROD LOAD_ACQUIRE
#else
#define LOAD_PROD LOAD
#endif
/* The body is visible before its stamp. */
#ifndef NO_STAMP
#define STORE_STAMP STORE_RELEASE
#else
#define STORE_STAMP STORE
#endif
/* The body is loaded after the stamp. */
#ifndef NO_READ
#define LOAD_STAMP LOAD_ACQUIRE
#else
#define LOAD_STAMP LOAD
#endif

proctype vipd()
{
    byte position, waiters;

    do
    :: position < COMPLETIONS ->
        STORE(VIPD, BODY(position), position + 1);
        STORE_STAMP(VIPD, STAMP(position), position + 1);
        position++;
        STORE_PROD(VIPD, PROD, position);
        FENCE_FLUSH;
        LOAD(VIPD, SLEEPERS, waiters);
        if
        :: waiters -> LOAD(VIPD, WAITERS, waiters)
        :: else
        fi;
        if
        :: waiters -> FUTEX_WAKE(VIPD)
        :: else
        fi;
        waiters = 0
    :: else -> break
    od
}

proctype thread()
{
    byte position, prod, stamp, body;
    bit asleep;

    do
    :: position < COMPLETIONS ->
        if
        :: asleep -> LOAD_PROD(THREAD, PROD, prod)
        :: else
        fi;
        LOAD_STAMP(THREAD, STAMP(position), stamp);
        if
        :: stamp == position + 1 ->
            LOAD(THREAD, BODY(position), body);
            assert(body == position + 1);
            position++;
            if
            :: asleep ->
                STORE_RELEASE(THREAD, WAITERS, 0);
                STORE_RELEASE(THREAD, SLEEPERS, 0);
                asleep = 0
            :: else
            fi
        :: stamp != position + 1 && asleep ->
            FUTEX_WAIT(THREAD, PROD, prod)
        :: else ->
            STORE_RELEASE(THREAD, WAITERS, 1);
            STORE_RELEASE(THREAD, SLEEPERS, 1);
            asleep = 1
        fi
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(THREAD); run vipd(); run thread() }
}
