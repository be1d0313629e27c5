/*
 * The descriptor of a completion queue (doc/shm-abi.md, 6): a word in shared memory arms it, and a
 * message of vipd makes it readable.
 *
 *   vipd() vipd/nic/complete.c: cq_put, nic_wake_flush, cq_signal
 *   app()  libvipl/cq_fd.c: vipl__cq_fd_arm, vipl__cq_fd_signal; libvipl/cq.c: arm_and_look
 *
 * Shown: a program that waits until the descriptor is readable, and then reads until the CQ is empty, gets every entry.
 * Entries are only counted here; cq.pml has the ring.
 */
#define VIPD  0
#define APP   1
#define CPUS  2

#define PROD     0
#define ARM      1
#define SIGNALED 2
#define WORDS    3

#include "memory.pml"

#define ENTRIES 3

/* The entry is visible before vipd loads the arm word. */
#ifndef NO_FLUSH
#define FENCE_FLUSH FENCE(VIPD)
#else
#define FENCE_FLUSH skip
#endif
/* The arm word is visible before the program looks for an entry once more. */
#ifndef NO_ARM
#define FENCE_ARM FENCE(APP)
#else
#define FENCE_ARM skip
#endif

byte messages; /* number of messages in the socket */

proctype vipd()
{
    byte prod, arm, signaled;

    do
    :: prod < ENTRIES ->
        prod++;
        STORE_RELEASE(VIPD, PROD, prod);
        FENCE_FLUSH;
        LOAD(VIPD, ARM, arm);
        if
        :: arm != signaled ->
            signaled = arm;
            STORE_RELEASE(VIPD, SIGNALED, signaled);
            SYSCALL(VIPD);
            messages++
        :: else
        fi
    :: else -> break
    od
}

proctype app()
{
    byte taken, arm = 1, due, prod, signaled;

    do
    :: taken < ENTRIES ->
        messages > 0; /* wait until the descriptor is readable */
        SYSCALL(APP);
        /* call VipCQDone until it finds no entry */
        do
        :: taken < ENTRIES ->
            LOAD_ACQUIRE(APP, PROD, prod);
            if
            :: prod > taken -> taken++
            :: else ->
                LOAD_ACQUIRE(APP, SIGNALED, signaled);
                if
                :: signaled == arm -> due++
                :: else
                fi;
                atomic {
                    do
                    :: due > 0 && messages > 0 -> due--; messages--
                    :: else -> break
                    od
                }
                if
                :: signaled == arm ->
                    arm++;
                    STORE_RELEASE(APP, ARM, arm);
                    FENCE_ARM;
                    LOAD_ACQUIRE(APP, PROD, prod);
                    if
                    :: prod > taken ->
                        taken++;
                        if
                        :: prod > taken -> SYSCALL(APP); messages++; due++
                        :: else
                        fi
                    :: else -> break
                    fi
                :: else -> break
                fi
            fi
        :: else -> break
        od
    :: else -> break
    od
}

init
{
    atomic {
        memory[ARM] = 1;
        cpu[APP].seen[ARM] = 1;
        cpu[VIPD].seen[ARM] = 1;
        run store_buffer(VIPD);
        run store_buffer(APP);
        run vipd();
        run app()
    }
}
