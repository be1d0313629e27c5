/*
 * A pair of applications for the simulator, and the checks of their traffic: every message arrives
 * exactly once, in order, byte for byte; descriptors complete in the order in which they were
 * posted; only receive buffers and RDMA targets are written; and the run ends.
 */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "tests/sim/sim.h"

/* One random run. The seed chooses everything; with UINT32_MAX also loss_ppm and messages. */
struct app_args {
    uint64_t seed;
    uint32_t loss_ppm;
    uint32_t messages; /* number of messages per direction of a connection */
    bool rebind;       /* bind connections anew at random times, with or without new VIs */
    FILE *trace;
};

struct app_result {
    uint64_t hash;     /* hash of the transcript */
    uint64_t messages; /* number of messages received and checked */
    uint64_t lost;     /* number of packets lost on the way */
    uint64_t now_ns;   /* virtual time at the end */
    uint64_t retransmits;
    const char *kind; /* name of the kind of run that the seed chose */
};

/* Aborts with a message if a check fails. */
struct app_result app_run(const struct app_args *args);

#endif
