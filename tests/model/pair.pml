/*
 * The ring between two programs (doc/shm-abi.md, 8): one program sends while the other goes to sleep; vipd wakes it.
 *
 *   sender()   libvipl/direct.c: vipl__direct_commit, vipl__direct_sent; proto/direct.h: vip_direct_send
 *   receiver() libvipl/sleep.c: sleep_until; libvipl/direct.c: vipl__direct_asleep_vi; libvipl/direct_take.c: take
 *   vipd()     vipd/nic/direct.c: nic_direct_ask; vipd/nic/complete.c: nic_wake_also, nic_wake_flush
 *
 * Shown: the receiver gets every message once, whole, in order, and does not sleep while a message is there; a slot is
 * written again only after it was read. The ring has one slot. doorbell.pml shows that the sender's question reaches
 * vipd; completion.pml shows that vipd's own messages wake the receiver.
 */
#define SENDER   0
#define RECEIVER 1
#define VIPD     2
#define CPUS     3

#define DATA    0
#define STAMP   1
#define TAKEN   2
#define ASLEEP  3
#define PROD    4
#define WAITERS 5
#define WORDS   6

#include "memory.pml"
#include "futex.pml"

#define MESSAGES 2

/* The message is visible before the sender loads `asleep`. */
#ifndef NO_SENT
#define FENCE_SENT FENCE(SENDER)
#else
#define FENCE_SENT skip
#endif
/* `asleep` is visible before the receiver looks for a message once more. */
#ifndef NO_ASLEEP
#define FENCE_ASLEEP FENCE(RECEIVER)
#else
#define FENCE_ASLEEP skip
#endif
/* The data are visible before the stamp. */
#ifndef NO_STAMP
#define STORE_STAMP STORE_RELEASE
#else
#define STORE_STAMP STORE
#endif
/* The data are loaded after the stamp. */
#ifndef NO_READ
#define LOAD_STAMP LOAD_ACQUIRE
#else
#define LOAD_STAMP LOAD
#endif
/* The data have been loaded before the slot is given back. */
#ifndef NO_TAKEN
#define STORE_TAKEN STORE_RELEASE
#else
#define STORE_TAKEN STORE
#endif

byte asked; /* number of VIP_ASK_WAKE_PEER slots that vipd has not taken yet */

proctype sender()
{
    byte n, asleep;

    do
    :: n < MESSAGES ->
        /* If the ring is full, the C code sends through vipd; here the sender waits. The branch
         * keeps the later stores behind this load. */
        memory[TAKEN] == n;
        STORE(SENDER, DATA, n + 1);
        STORE_STAMP(SENDER, STAMP, n + 1);
        FENCE_SENT;
        LOAD(SENDER, ASLEEP, asleep);
        if
        :: asleep -> SYSCALL(SENDER); asked++
        :: else
        fi;
        asleep = 0;
        n++
    :: else -> break
    od
}

proctype receiver()
{
    byte n, prod, stamp, data;
    bit asleep;

    do
    :: n < MESSAGES ->
        if
        :: asleep -> LOAD_ACQUIRE(RECEIVER, PROD, prod)
        :: else
        fi;
        LOAD_STAMP(RECEIVER, STAMP, stamp);
        if
        :: stamp == n + 1 ->
            LOAD_LATE(RECEIVER, DATA);
            STORE_TAKEN(RECEIVER, TAKEN, n + 1);
            LATE_DONE(RECEIVER, data);
            assert(data == n + 1);
            n++;
            if
            :: asleep ->
                STORE_RELEASE(RECEIVER, WAITERS, 0);
                STORE_RELEASE(RECEIVER, ASLEEP, 0);
                asleep = 0
            :: else
            fi
        :: stamp != n + 1 && asleep ->
            FUTEX_WAIT(RECEIVER, PROD, prod)
        :: else ->
            STORE_RELEASE(RECEIVER, WAITERS, 1);
            STORE_RELEASE(RECEIVER, ASLEEP, 1);
            FENCE_ASLEEP;
            asleep = 1
        fi
    :: else -> break
    od;
}

proctype vipd()
{
    byte pokes, waiters;

end:
    do
    :: atomic { asked > 0 -> asked-- }
        SYSCALL(VIPD);
        pokes++;
        STORE_RELEASE(VIPD, PROD, pokes);
        FENCE(VIPD);
        LOAD(VIPD, WAITERS, waiters);
        if
        :: waiters -> FUTEX_WAKE(VIPD)
        :: else
        fi;
        waiters = 0
    od
}

init
{
    atomic {
        run store_buffer(SENDER);
        run store_buffer(RECEIVER);
        run store_buffer(VIPD);
        run sender();
        run receiver();
        run vipd()
    }
}
