/*
 * Registrations of the Notify calls (doc/shm-abi.md, 5): one thread sleeps for all registrations,
 * while another thread adds one.
 *
 *   vipd()   vipd/nic/complete.c: complete_now, nic_wake_flush, wake_notify
 *   thread() libvipl/notify.c: look_or_sleep
 *   adder()  libvipl/notify.c: add, target_add
 *
 * Shown: one of the two threads hands the completion to the registration. The first thread does not
 * sleep while the completion waits.
 */
#define VIPD   0
#define THREAD 1
#define ADDER  2
#define CPUS   3

#define COMP     0
#define MARK     1 /* VIP_APP_WAITERS_NOTIFY of the queue */
#define SLEEPERS 2
#define NOTIFY   3
#define LOCK     4
#define WORDS    5

#include "memory.pml"
#include "futex.pml"

/* The completion is visible before vipd loads the waiter words. */
#ifndef NO_FLUSH
#define FENCE_FLUSH FENCE(VIPD)
#else
#define FENCE_FLUSH skip
#endif
/* `sleepers` is visible before the thread looks: vipd changes `notify` only if `sleepers` is set. */
#ifndef NO_LOOK
#define FENCE_LOOK FENCE(THREAD)
#else
#define FENCE_LOOK skip
#endif
/* The mark is visible before the adding thread looks. */
#ifndef NO_ADD
#define FENCE_ADD FENCE(ADDER)
#else
#define FENCE_ADD skip
#endif

#define TAKE_LOCK(p)                                                                                                   \
    atomic { memory[LOCK] == 0; EXCHANGE_ACQUIRE(p, LOCK, 1, held) }
#define GIVE_LOCK(p) STORE_RELEASE(p, LOCK, 0)

hidden byte held;
bit registered, handed; /* both are guarded by LOCK */

proctype vipd()
{
    byte waiters;

    STORE_RELEASE(VIPD, COMP, 1);
    FENCE_FLUSH;
    LOAD(VIPD, SLEEPERS, waiters);
    if
    :: waiters -> LOAD(VIPD, MARK, waiters)
    :: else
    fi;
    if
    :: waiters ->
        STORE_RELEASE(VIPD, NOTIFY, 1);
        FUTEX_WAKE(VIPD)
    :: else
    fi
}

proctype thread()
{
    byte notify, comp;

    TAKE_LOCK(THREAD);
    do
    :: !handed ->
        STORE_RELEASE(THREAD, SLEEPERS, 1);
        LOAD_ACQUIRE(THREAD, NOTIFY, notify);
        FENCE_LOOK;
        LOAD_ACQUIRE(THREAD, COMP, comp);
        if
        :: registered && comp -> handed = 1
        :: else ->
            GIVE_LOCK(THREAD);
            SYSCALL(THREAD);
            /* futex_waitv compares a word of the process, too, which adder changes: here
             * `handed` */
            atomic {
                if
                :: memory[NOTIFY] == notify && !handed -> futex_asleep = 1; !futex_asleep || handed
                :: else
                fi;
                futex_asleep = 0
            }
            SYSCALL(THREAD);
            TAKE_LOCK(THREAD)
        fi;
        STORE_RELEASE(THREAD, SLEEPERS, 0)
    :: else -> break
    od;
    GIVE_LOCK(THREAD)
}

proctype adder()
{
    byte comp;

    TAKE_LOCK(ADDER);
    registered = 1;
    STORE_RELEASE(ADDER, MARK, 1);
    FENCE_ADD;
    LOAD_ACQUIRE(ADDER, COMP, comp);
    if
    :: comp -> handed = 1
    :: else
    fi;
    GIVE_LOCK(ADDER)
}

init
{
    atomic {
        run store_buffer(VIPD);
        run store_buffer(THREAD);
        run store_buffer(ADDER);
        run vipd();
        run thread();
        run adder()
    }
}
