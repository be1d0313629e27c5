/*
 * Messages between two programs pass their ring or vipd (doc/shm-abi.md, 8, "Order"). By
 * `ring_mute` vipd may forbid the ring at any time.
 *
 *   sender()   libvipl/direct.c: open_now, followed, vipl__direct_post; libvipl/post.c: post_by_vipd
 *   vipd()     vipd/nic/session.c: nic_session_drain; vipd/nic/direct.c: ring_sync, tell_mute; vipd/nic/complete.c:
 *              complete_now
 *   receiver() libvipl/direct_take.c: vipl__direct_next
 *
 * Shown: the receiver gets all messages in the order in which they were sent. This holds for each
 * way of each message. It also holds whenever the sender sees `ring_mute`, so the load of
 * `ring_mute` needs no order. An entry of a ring is one word here; the other models show that its
 * body is visible before its stamp.
 */
#define SENDER   0
#define VIPD     1
#define RECEIVER 2
#define CPUS     3

#define MESSAGES 3

#define RING(n) (n)                  /* value: number of the message */
#define POST(n) (MESSAGES + (n))     /* value: number of the message */
#define COMP(n) (2 * MESSAGES + (n)) /* 4 * message number + number of ring messages before it */
#define PROD    (3 * MESSAGES)       /* `prod` of the send queue */
#define MUTE    (3 * MESSAGES + 1)
#define WORDS   (3 * MESSAGES + 2)

#include "memory.pml"

/* Messages in the ring are visible before a later post. */
#ifndef NO_POST
#define STORE_POST STORE_RELEASE
#else
#define STORE_POST STORE
#endif
/* vipd counts the messages in the ring after it has loaded the post. */
#ifndef NO_COUNT
#define LOAD_POST LOAD_ACQUIRE
#else
#define LOAD_POST LOAD
#endif
/* The completion of the receive is visible before that of the send. */
#ifndef NO_PROD
#define STORE_PROD STORE_RELEASE
#else
#define STORE_PROD STORE
#endif
/* The receiver loads the completions after it has loaded the ring. */
#ifndef NO_NEXT
#define LOAD_RING LOAD_ACQUIRE
#else
#define LOAD_RING LOAD
#endif

proctype sender()
{
    byte message = 1, rings, posts, prod, mute;

    do
    :: message <= MESSAGES ->
        LOAD_ACQUIRE(SENDER, PROD, prod);
        LOAD(SENDER, MUTE, mute);
        if
        :: prod == posts && !mute ->
            STORE_RELEASE(SENDER, RING(rings), message);
            rings++
        :: else ->
            STORE_POST(SENDER, POST(posts), message);
            posts++
        :: posts == 0 -> /* the first messages may also go through vipd for other reasons */
            STORE_POST(SENDER, POST(posts), message);
            posts++
        fi;
        message++
    :: else -> break
    od
}

proctype vipd()
{
    byte posts, rings, post, word;
    bit muted;

end:
    do
    :: posts < MESSAGES && memory[POST(posts)] ->
        LOAD_POST(VIPD, POST(posts), post);
        if
        :: post ->
            do
            :: rings < MESSAGES ->
                LOAD_ACQUIRE(VIPD, RING(rings), word);
                if
                :: word -> rings++
                :: else -> break
                fi
            :: else -> break
            od;
            word = 0;
            STORE_RELEASE(VIPD, COMP(posts), 4 * post + rings);
            posts++;
            STORE_PROD(VIPD, PROD, posts);
            post = 0
        :: else
        fi
    :: !muted ->
        STORE(VIPD, MUTE, 1);
        muted = 1
    od
}

proctype receiver()
{
    byte message = 1, rings, comps, ring, comp;

    do
    :: message <= MESSAGES ->
        (rings < MESSAGES && memory[RING(rings)]) || (comps < MESSAGES && memory[COMP(comps)]);
        if
        :: rings < MESSAGES -> LOAD_RING(RECEIVER, RING(rings), ring)
        :: else
        fi;
        if
        :: comps < MESSAGES -> LOAD_ACQUIRE(RECEIVER, COMP(comps), comp)
        :: else
        fi;
        if
        :: comp && comp % 4 <= rings ->
            assert(comp % 4 == rings && comp / 4 == message);
            comps++;
            message++
        :: !(comp && comp % 4 <= rings) && ring ->
            assert(ring == message);
            rings++;
            message++
        :: else
        fi;
        ring = 0;
        comp = 0
    :: else -> break
    od
}

init
{
    atomic {
        run store_buffer(SENDER);
        run store_buffer(VIPD);
        run store_buffer(RECEIVER);
        run sender();
        run vipd();
        run receiver()
    }
}
