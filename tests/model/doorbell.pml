/*
 * The submission ring and the doorbell: a program posts stamped slots; vipd takes the slots and then sleeps.
 *
 *   post()   libvipl/post.c: post_by_vipd, post; proto/ring.h: vip_slot_write; libvipl/session.h: vipl__ring_bell
 *   vipd()   vipd/nic/session.c: nic_session_drain; proto/ring.h: vip_slot_read; vipd/nic/nic.c: nic_try_sleep
 *
 * Shown: vipd takes every post once, whole, in order, and never sleeps while a post waits; a slot is written again
 * only after it was read. The ring has two slots, so that slots are used again.
 */
#define APP  0
#define VIPD 1
#define CPUS 2

#define BODY(n)  ((n) & 1)
#define STAMP(n) (2 + ((n) & 1))
#define CONS     4
#define ASLEEP   5
#define WORDS    6

#include "memory.pml"

#define POSTS 3
#define SLOTS 2

/* The post is visible before `asleep` is loaded. */
#ifndef NO_POST
#define FENCE_POST FENCE(APP)
#else
#define FENCE_POST skip
#endif
/* `asleep` is visible before vipd looks for a post once more. */
#ifndef NO_SLEEP
#define FENCE_SLEEP FENCE(VIPD)
#else
#define FENCE_SLEEP skip
#endif
/* The body of a slot is visible before its stamp. */
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
/* The body has been loaded before the slot is given back. */
#ifndef NO_CONS
#define STORE_CONS STORE_RELEASE
#else
#define STORE_CONS STORE
#endif

bit bell; /* the eventfd is readable */

proctype post()
{
    byte position, taken, asleep;

    do
    :: position < POSTS ->
        /* If the ring is full, load CONS again. The branch keeps later stores behind it. */
        atomic {
            position - taken == SLOTS && memory[CONS] > taken || position - taken < SLOTS;
            taken = memory[CONS]
        }
        STORE(APP, BODY(position), position + 1);
        STORE_STAMP(APP, STAMP(position), position + 1);
        FENCE_POST;
        LOAD(APP, ASLEEP, asleep);
        if
        :: asleep -> SYSCALL(APP); bell = 1
        :: else
        fi;
        position++
    :: else -> break
    od
}

proctype vipd()
{
    byte position, stamp, body;

    do
    :: position < POSTS ->
        LOAD_STAMP(VIPD, STAMP(position), stamp);
        if
        :: stamp == position + 1 ->
            LOAD_LATE(VIPD, BODY(position));
            STORE_CONS(VIPD, CONS, position + 1);
            LATE_DONE(VIPD, body);
            assert(body == position + 1);
            position++
        :: else ->
            STORE_RELEASE(VIPD, ASLEEP, 1);
            FENCE_SLEEP;
            LOAD_STAMP(VIPD, STAMP(position), stamp);
            if
            :: stamp == position + 1
            :: else ->
                atomic { bell -> bell = 0 }
                SYSCALL(VIPD)
            fi;
            STORE_RELEASE(VIPD, ASLEEP, 0)
        fi
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(APP); run store_buffer(VIPD); run post(); run vipd() }
}
