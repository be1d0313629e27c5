/*
 * When the loops of vipd (host.c) look at their descriptors, and how long they spin before they
 * sleep. A look is a system call, and the requests that it finds may take long.
 */
#ifndef VIPD_POLL_GAP_H
#define VIPD_POLL_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/config.h"

/* Limits of the time between two looks at the descriptors. The time is at least POLL_EVERY_NS:
 * short for a control message, and long compared with the system call. The time is at least as long
 * as the last look. If a NIC had work in the last POLL_BUSY_FOR_NS, the time is at least POLL_GAP
 * times as long. With POLL_MANY or more ready descriptors POLL_GAP_MANY replaces POLL_GAP: such
 * programs send requests without pause. The time is at most POLL_GAP_NS_MAX, because a very long
 * look was probably interrupted. */
#define POLL_EVERY_NS    50000ull
#define POLL_GAP         4u
#define POLL_GAP_MANY    10u
#define POLL_MANY        4u
#define POLL_GAP_NS_MAX  50000000ull
#define POLL_BUSY_FOR_NS 20000000ull /* time after a turn that did something */

/* If there was no work for POLL_QUIET_AFTER_NS, POLL_QUIET_NS replaces POLL_EVERY_NS: vipd then
 * waits for requests of programs, too. */
#define POLL_QUIET_AFTER_NS 20000ull
#define POLL_QUIET_NS       2000ull

/* Length of a nap, in ns. If there is nothing to do before the next look is due, the loop naps: a
 * sleep on the descriptors would end at once if requests wait there. */
#define NAP_NS 100000ull

/* Time from a look at the descriptors to the next look. took_ns: length of the look. calls: number
 * of descriptors that were ready. since_work_ns: time since a NIC had something to do. */
static inline uint64_t poll_gap_ns(uint64_t took_ns, unsigned calls, uint64_t since_work_ns)
{
    uint64_t least_ns = since_work_ns < POLL_QUIET_AFTER_NS ? POLL_EVERY_NS : POLL_QUIET_NS;
    uint64_t gap_ns = took_ns;

    if (since_work_ns < POLL_BUSY_FOR_NS)
        gap_ns *= calls < POLL_MANY ? POLL_GAP : POLL_GAP_MANY;
    if (gap_ns < least_ns)
        gap_ns = least_ns;
    return gap_ns < POLL_GAP_NS_MAX ? gap_ns : POLL_GAP_NS_MAX;
}

/* How long a loop goes on without work before it sleeps. */
static inline uint64_t spin_budget_ns(enum vipd_wait wait, uint64_t spin_ns)
{
    switch (wait) {
    case VIPD_WAIT_BLOCK:
        return 0;
    case VIPD_WAIT_SPIN:
        return UINT64_MAX;
    case VIPD_WAIT_ADAPTIVE:
        break;
    }
    return spin_ns;
}

#endif
