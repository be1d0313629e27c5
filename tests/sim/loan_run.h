/*
 * Simulator of loans (vipd/engine/loan.h): one connection of two ends in virtual time. Each end has
 * a vipd with a real engine, and a program with one thread, which may get the engine on loan. The
 * thread is a coroutine: at each access to a shared word, and in the middle of each copy, the other
 * side may run. A seed decides about everything: traffic, losses, copies that come late, stalls
 * (also inside a loan, for very long), forks, deaths, programs that never call again or scribble
 * their words, and restarts of each vipd.
 *
 * The oracle checks: at the reliable levels each operation is done once, in order, with its bytes;
 * two engines of one end are never active; data and timers never wait longer than the rules allow;
 * an owner without work keeps its loan; moves have their limits; a connection ends only for a
 * documented reason; in the end all that was posted has arrived, also from programs that are
 * silent.
 */
#ifndef TESTS_SIM_LOAN_RUN_H
#define TESTS_SIM_LOAN_RUN_H

#include <stdint.h>
#include <stdio.h>

struct loan_run_args {
    uint64_t seed;
    FILE *trace; /* gets every line of the transcript, or NULL */
};

struct loan_run_result {
    uint64_t hash; /* of the transcript */
    uint64_t virtual_ns, messages, loans, again, backs, stays, restarts, deaths, ends, scribbles;
};

/* Run one seed. Aborts with a message if a check fails. */
struct loan_run_result loan_run(const struct loan_run_args *args);

#endif
