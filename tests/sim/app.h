/*
 * A pair of applications for the simulator, and the oracle that judges what they see: every message
 * exactly once, in order, byte for byte; completions in the order posted; nothing written outside
 * of a receive buffer or of an RDMA target; and an end.
 */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "tests/sim/sim.h"

/* One random run: everything follows from the seed; the other fields override if not UINT32_MAX. */
struct app_args {
    uint64_t seed;
    uint32_t loss_ppm;
    uint32_t messages; /* per direction and connection */
    FILE *trace;
};

struct app_result {
    uint64_t hash;     /* of the transcript */
    uint64_t messages; /* received and verified */
    uint64_t lost;     /* packets lost on the way */
    uint64_t now_ns;   /* virtual time at the end */
    uint64_t retransmits;
    const char *kind; /* which sort of run the seed chose */
};

/* Aborts with a message if the oracle is not content. */
struct app_result app_run(const struct app_args *args);

#endif
