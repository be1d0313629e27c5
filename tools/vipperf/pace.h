/* Messages of lat that do not follow each other at once: one message per time. */
#ifndef TOOLS_VIPPERF_PACE_H
#define TOOLS_VIPPERF_PACE_H

#include <stdint.h>

/* Longest time from one message to the next, in ms: longer silence looks like a failure. */
#define PACE_MS_MAX 1000

/* At first due_ns is 0. */
struct pace {
    uint64_t every_ms; /* time from one message to the next; 0: no pause */
    uint64_t due_ns;   /* when the next message is due (CLOCK_MONOTONIC) */
};

/* Sleep until the next message is due. If it is late, the following ones do not hurry. */
void pace_wait(struct pace *pace);

#endif
