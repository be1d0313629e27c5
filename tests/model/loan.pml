/*
 * The fence between the owner of a loan and a vipd that takes the loan back: at most one of the two
 * uses the memory of the connection, and each finds what the other has left there.
 *
 *   vipd()  vipd/engine/loan_stay.c: loan_words_lend, loan_words_revoke, loan_words_outside
 *   owner() vipd/engine/loan_stay.c: loan_offered, loan_enter, loan_leave
 *
 * Shown: the owner stores nothing to registered memory, queues or checkpoint (here: BYTES) after
 * vipd has taken the loan back; vipd goes on with the checkpoint of the last stay; the owner begins
 * with the terms that vipd wrote for this loan. vipd lends twice, so the owner may be late for the
 * first loan while the second one is under way. The owner reads the terms inside, so the fence of its
 * entry also orders the load of the number and the loads of the terms.
 */
#define VIPD  0
#define OWNER 1
#define CPUS  2

#define TERMS   0 /* written by vipd: number of the loan whose terms these are */
#define LENT    1
#define REVOKED 2
#define INSIDE  3
#define BYTES   4 /* memory of the connection: who uses the connection writes it */
#define WORDS   5

#include "memory.pml"

#define LOANS 2

/* `inside` is visible before `revoked` is loaded. */
#ifndef NO_ENTER
#define FENCE_ENTER FENCE(OWNER)
#else
#define FENCE_ENTER skip
#endif
/* What the stay has stored is visible before the owner is outside. */
#ifndef NO_LEAVE
#define STORE_INSIDE STORE_RELEASE
#else
#define STORE_INSIDE STORE
#endif
/* `revoked` is visible before vipd looks whether the owner is inside. */
#ifndef NO_REVOKE
#define FENCE_REVOKE FENCE(VIPD)
#else
#define FENCE_REVOKE skip
#endif
/* The stay's stores are loaded after the owner is seen outside. */
#ifndef NO_LOOK
#define LOAD_INSIDE LOAD_ACQUIRE
#else
#define LOAD_INSIDE LOAD
#endif
/* The terms of a loan are visible before its number. */
#ifndef NO_LENT
#define STORE_LENT STORE_RELEASE
#else
#define STORE_LENT STORE
#endif
byte written; /* the value that BYTES must have: the last store of the side that owned it */
bit home;     /* the engine runs in vipd */

proctype vipd()
{
    byte number, inside, bytes;

    home = 1;
    do
    :: number < LOANS ->
        number++;
        STORE(VIPD, TERMS, number);
        home = 0;
        STORE_LENT(VIPD, LENT, number);
        STORE(VIPD, REVOKED, number);
        FENCE_REVOKE;
        do
        :: LOAD_INSIDE(VIPD, INSIDE, inside);
            if
            :: inside == 0 -> break
            :: else
            fi
        od;
        home = 1;
        LOAD(VIPD, BYTES, bytes);
        assert(bytes == written)
    :: else -> break
    od
}

proctype owner()
{
    byte number, revoked, terms, stays;

    do
    :: stays < LOANS ->
        stays++;
        LOAD(OWNER, LENT, number);
        STORE(OWNER, INSIDE, 1);
        FENCE_ENTER;
        LOAD(OWNER, REVOKED, revoked);
        if
        :: number > revoked ->
            LOAD(OWNER, TERMS, terms);
            assert(terms == number);
            assert(!home);
            written = stays;
            STORE(OWNER, BYTES, stays);
            assert(!home)
        :: else
        fi;
        STORE_INSIDE(OWNER, INSIDE, 0)
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(OWNER); run vipd(); run owner() }
}
