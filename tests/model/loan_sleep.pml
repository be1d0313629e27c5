/*
 * A vipd that stops looking at the owner of a loan, and an owner that comes back.
 *
 *   owner() vipd/engine/loan_stay.c: loan_enter, loan_leave
 *   vipd()  vipd/engine/loan_stay.c: loan_words_sleep, then loan_words_look (loan.c: away_wait)
 *
 * Shown: if the owner leaves a timer, vipd does not sleep on without knowing it. Either vipd sees
 * that the owner has come, and looks again later, or the owner rings the bell.
 */
#define VIPD  0
#define OWNER 1
#define CPUS  2

#define BEAT  0
#define LOOK  1 /* 1: vipd will not look by itself */
#define WORDS 2

#include "memory.pml"

/* The beat is visible before the owner loads when vipd looks. */
#ifndef NO_ENTER
#define FENCE_ENTER FENCE(OWNER)
#else
#define FENCE_ENTER skip
#endif
/* The time of the look is visible before vipd loads the beat once more. */
#ifndef NO_SLEEP
#define FENCE_SLEEP FENCE(VIPD)
#else
#define FENCE_SLEEP skip
#endif

bit bell; /* the eventfd is readable */

proctype owner()
{
    byte look;

    STORE(OWNER, BEAT, 1);
    FENCE_ENTER;
    LOAD(OWNER, LOOK, look);
    if
    :: look -> SYSCALL(OWNER); bell = 1
    :: else
    fi
}

proctype vipd()
{
    byte beat;

    STORE(VIPD, LOOK, 1);
    FENCE_SLEEP;
    LOAD(VIPD, BEAT, beat);
    if
    :: beat
    :: else -> bell
    fi
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(OWNER); run vipd(); run owner() }
}
