/*
 * A thread rests while another thread of the program makes stays in the same loan: completions, and
 * who wakes whom.
 *
 *   other()  libvipl/loan/turn.c: lock_release; libvipl/lent.c: vipl__lent_tell
 *   rester() libvipl/lent_rest.c: begin, nap
 *
 * Shown: the thread that rests never sleeps while there is a completion that it has not seen.
 */
#define OTHER  0
#define RESTER 1
#define CPUS   2

#define DONE  0 /* number of completions */
#define VI    1 /* not 0: a thread rests */
#define SEEN  2 /* number of completions that it has seen */
#define WORDS 3

#include "memory.pml"

#define COMPLETIONS 2

/* The completion is visible before the other thread looks for one that rests. */
#ifndef NO_STAY
#define FENCE_STAY FENCE(OTHER)
#else
#define FENCE_STAY skip
#endif
/* What the thread publishes is visible before it looks for a completion. */
#ifndef NO_LOOK
#define FENCE_LOOK FENCE(RESTER)
#else
#define FENCE_LOOK skip
#endif

bit bell; /* the eventfd is readable */

proctype other()
{
    byte done, rests, seen;

    do
    :: done < COMPLETIONS ->
        done++;
        STORE(OTHER, DONE, done);
        FENCE_STAY;
        LOAD_ACQUIRE(OTHER, VI, rests);
        if
        :: rests ->
            LOAD(OTHER, SEEN, seen);
            if
            :: seen != done -> SYSCALL(OTHER); bell = 1
            :: else
            fi
        :: else
        fi
    :: else -> break
    od
}

proctype rester()
{
    byte taken, done;

    do
    :: taken < COMPLETIONS ->
        STORE(RESTER, SEEN, taken);
        STORE_RELEASE(RESTER, VI, 1);
        FENCE_LOOK;
        LOAD_ACQUIRE(RESTER, DONE, done);
        if
        :: done != taken -> taken = done
        :: else ->
            atomic { bell -> bell = 0 }
            SYSCALL(RESTER)
        fi
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(OTHER); run store_buffer(RESTER); run other(); run rester() }
}
