/*
 * A call that may take long, and a call that closes the session meanwhile.
 *
 *   caller() libvipl/handle.c: enter, vipl__leave (copies: session.c, connect.c, listen.c)
 *   closer() libvipl/session.c: vipl__session_close, release
 *
 * Shown: the session is released only while no caller uses it. In C the stores to the number of
 * users and to the handle are SEQ_CST; here they are release stores with a fence behind them.
 */
#define CALLER 0
#define CLOSER 1
#define CPUS   2

#define USERS  0
#define HANDLE 1 /* 0: valid; 1: invalid */
#define WORDS  2

#include "memory.pml"

/* The caller is counted before it loads the handle again. */
#ifndef NO_ENTER
#define FENCE_ENTER FENCE(CALLER)
#else
#define FENCE_ENTER skip
#endif
/* The handle is invalid before the callers are counted. */
#ifndef NO_CLOSE
#define FENCE_CLOSE FENCE(CLOSER)
#else
#define FENCE_CLOSE skip
#endif

bit released, inside;

proctype caller()
{
    byte handle;

    STORE_RELEASE(CALLER, USERS, 1);
    FENCE_ENTER;
    LOAD(CALLER, HANDLE, handle);
    if
    :: handle == 0 ->
        inside = 1;
        assert(!released);
        inside = 0
    :: else
    fi;
    STORE_RELEASE(CALLER, USERS, 0)
}

proctype closer()
{
    byte users;

    STORE_RELEASE(CLOSER, HANDLE, 1);
    FENCE_CLOSE;
    do
    :: LOAD_ACQUIRE(CLOSER, USERS, users);
        if
        :: users == 0 -> break
        :: else
        fi
    od;
    assert(!inside);
    released = 1
}

init
{
    atomic { run store_buffer(CALLER); run store_buffer(CLOSER); run caller(); run closer() }
}
