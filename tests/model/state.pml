/*
 * vipd writes the features of a connection first, then the state of its VI.
 *
 *   vipd()    vipd/nic/session.c: op_event (and `features` before it, vipd/nic/connect.c)
 *   program() libvipl/post.c: peer_lacks
 *
 * Shown: a program that sees the state Connected sees the features of this connection.
 */
#define VIPD    0
#define PROGRAM 1
#define CPUS    2

#define FEATURES 0
#define STATE    1
#define WORDS    2

#include "memory.pml"

/* The features are visible before the state. */
#ifndef NO_STATE
#define STORE_STATE STORE_RELEASE
#else
#define STORE_STATE STORE
#endif
/* The features are loaded after the state. */
#ifndef NO_LOOK
#define LOAD_STATE LOAD_ACQUIRE
#else
#define LOAD_STATE LOAD
#endif

proctype vipd()
{
    STORE(VIPD, FEATURES, 1);
    STORE_STATE(VIPD, STATE, 1)
}

proctype program()
{
    byte state, features;

    LOAD_STATE(PROGRAM, STATE, state);
    LOAD(PROGRAM, FEATURES, features);
    assert(!state || features)
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(PROGRAM); run vipd(); run program() }
}
