/*
 * Shared by the measuring programs with two processes: process 0 sends short requests and counts
 * the answers; process 1 answers until a QUIT request comes.
 */
#ifndef BENCH_AM_PAIR_H
#define BENCH_AM_PAIR_H

#include "bench/am/measure.h"

enum { PING = 1, PONG, QUIT, OWN_HANDLERS };

static eb_t bundle;
static ep_t ep;
static volatile int answers, quit;

static void on_ping(void *token)
{
    DO(AM_Reply0(token, PONG));
}

static void on_pong(void *token)
{
    (void)token;
    answers++;
}

static void on_quit(void *token)
{
    (void)token;
    quit = 1;
}

/* Join the job. Returns the number of rounds: the first argument, or 4,000 without an argument. */
static int pair_join(int argc, char **argv)
{
    uint64_t job;
    int rounds;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    rounds = argc > 1 ? atoi(argv[1]) : 4000;
    if (AMX_SPMDNumProcs() != 2 || rounds < 1)
        AMX_FatalErr("two processes are needed, and at least 1 round");
    DO(AM_SetHandler(ep, PING, on_ping));
    DO(AM_SetHandler(ep, PONG, on_pong));
    DO(AM_SetHandler(ep, QUIT, on_quit));
    return rounds;
}

/* Process 0 measures; process 1 answers with AM_Poll or AM_WaitSema. Then both processes end. */
static int pair_run(void (*measure)(int rounds), int rounds, int (*answer)(eb_t))
{
    DO(AMX_SPMDBarrier());
    if (AMX_SPMDMyProc() == 0) {
        measure(rounds);
        DO(AM_Request0(ep, 1, QUIT));
    } else {
        DO(AM_SetEventMask(bundle, AM_NOTEMPTY));
        while (!quit)
            DO(answer(bundle));
    }
    fflush(stdout);
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(0);
}

#endif
