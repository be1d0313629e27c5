/*
 * The end of a ring between two programs (doc/shm-abi.md, 8): vipd decides which messages are
 * valid, while the sender writes a message and the receiver takes an earlier one.
 *
 *   vipd()     vipd/nic/direct.c: ring_over, ring_sync
 *   sender()   libvipl/direct.c: vipl__direct_post, vipl__direct_commit
 *   receiver() libvipl/direct_take.c: arrived; libvipl/post.c: post_to_table
 *
 * Shown: the receiver takes exactly the messages that vipd counts as valid (`ring_end` is their
 * number). So each receive completes once: vipd flushes the receives without a valid message. The
 * receiver posts its second receive meanwhile.
 */
#define VIPD     0
#define SENDER   1
#define RECEIVER 2
#define CPUS     3

#define STAMP(n)  (n)
#define RING      2
#define RING_END  3
#define POSTED    4
#define LEND      5 /* number of receives that the sender may use */
#define SENT      6
#define WORDS     7

#include "memory.pml"

#define OPEN    0
#define CLOSING 1
#define OVER    2

/* CLOSING is visible before vipd counts the stamps. */
#ifndef NO_CLOSING
#define FENCE_CLOSING FENCE(VIPD)
#else
#define FENCE_CLOSING skip
#endif
/* The receiver loads the state after the stamp. */
#ifndef NO_SEEN
#define LOAD_STAMP(n) LOAD_ACQUIRE(RECEIVER, STAMP(n), stamp)
#else
#define LOAD_STAMP(n) LOAD_LATE(RECEIVER, STAMP(n))
#define STAMP_IS_LATE
#endif
/* `ring_end` is visible before OVER. */
#ifndef NO_OVER
#define STORE_OVER STORE_RELEASE
#else
#define STORE_OVER STORE
#endif
/* `ring_end` is loaded after OVER. */
#ifndef NO_STATE
#define LOAD_STATE LOAD_ACQUIRE
#else
#define LOAD_STATE LOAD
#endif
/* A rule, not a fence: vipd loads `posted`. A message for a later receive is not valid. */
#ifndef NO_RULE_CLAMP
#define CLAMP                                                                                                          \
    if                                                                                                                 \
    :: n == posted + 1 -> n = posted                                                                                   \
    :: else                                                                                                            \
    fi
#else
#define CLAMP skip
#endif

byte counted = 255; /* copy of ring_end for the assertion */
byte taken;         /* number of messages that the receiver has taken */

proctype vipd()
{
    byte posted, n, stamp;

    STORE_RELEASE(VIPD, RING, CLOSING);
    FENCE_CLOSING;
    LOAD_ACQUIRE(VIPD, POSTED, posted);
    LOAD_ACQUIRE(VIPD, SENT, n);
    do
    :: n < 2 ->
        LOAD_ACQUIRE(VIPD, STAMP(n), stamp);
        if
        :: stamp -> n++
        :: else -> break
        fi
    :: else -> break
    od;
    CLAMP;
#ifdef NO_RULE_CLAMP
    /* Without the rule, n > posted looks like an error; vipd takes the receiver's number. */
    if
    :: n > posted -> n = taken
    :: else
    fi;
#endif
    counted = n;
    STORE(VIPD, RING_END, n);
    STORE_OVER(VIPD, RING, OVER)
}

proctype sender()
{
    byte n, word;

    do
    :: n < 2 ->
        LOAD_ACQUIRE(SENDER, RING, word);
        if
        :: word == OPEN
        :: else -> break
        fi;
        LOAD_ACQUIRE(SENDER, LEND, word);
        if
        :: word > n ->
            STORE_RELEASE(SENDER, STAMP(n), 1);
            n++;
            STORE_RELEASE(SENDER, SENT, n)
        :: else -> break /* the message would go through vipd */
        fi
    :: else -> break
    od
}

proctype receiver()
{
    byte n, stamp, state, ring_end;
    bit posted, over;

    do
    :: !posted ->
        STORE_RELEASE(RECEIVER, POSTED, 2);
        STORE_RELEASE(RECEIVER, LEND, 2);
        posted = 1
    :: n < 2 && (!over || ring_end > n) ->
        LOAD_STAMP(n);
        LOAD_STATE(RECEIVER, RING, state);
#ifdef STAMP_IS_LATE
        LATE_DONE(RECEIVER, stamp);
#endif
        if
        :: state == OPEN && stamp -> n++; taken = n
        :: state == OVER ->
            LOAD(RECEIVER, RING_END, ring_end);
            over = 1;
            if
            :: ring_end > n -> n++; taken = n
            :: else
            fi
        :: else
        fi;
        stamp = 0;
        state = 0
    :: over && ring_end <= n -> break
    :: n == 2 -> break
    od;
    counted < 255;
    assert(n == counted)
}

init
{
    atomic {
        memory[POSTED] = 1;
        memory[LEND] = 1;
        cpu[VIPD].seen[POSTED] = 1;
        cpu[SENDER].seen[POSTED] = 1;
        cpu[RECEIVER].seen[POSTED] = 1;
        cpu[VIPD].seen[LEND] = 1;
        cpu[SENDER].seen[LEND] = 1;
        cpu[RECEIVER].seen[LEND] = 1;
        run store_buffer(VIPD);
        run store_buffer(SENDER);
        run store_buffer(RECEIVER);
        run vipd();
        run sender();
        run receiver()
    }
}
