/*
 * A pair of applications for the simulator, and the oracle that checks them: every message arrives exactly once, in
 * order, byte for byte; completions come in the order of the posts; nothing is written outside of a receive buffer or
 * an RDMA target; and the run comes to an end.
 */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "tests/sim/sim.h"

/* One random run. All choices follow from the seed; the other fields override a choice, or are UINT32_MAX. */
struct app_args {
    uint64_t seed;
    uint32_t loss_ppm;
    uint32_t messages; /* per direction and connection */
    bool rebind;       /* bind connections anew at random times, with and without new engines */
    FILE *trace;
};

struct app_result {
    uint64_t hash;     /* of the transcript */
    uint64_t messages; /* received and verified */
    uint64_t lost;     /* packets lost on the way */
    uint64_t now_ns;   /* virtual time at the end */
    uint64_t retransmits;
    const char *kind; /* name of the kind of run that the seed chose */
};

/* Aborts with a message if the oracle finds a fault. */
struct app_result app_run(const struct app_args *args);

#endif
