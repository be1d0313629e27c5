/*
 * How often the loops of vipd (host.c) look at their descriptors, which is a system call, and what it brings
 * may take long; and how long they look around before they sleep.
 */
#ifndef VIPD_POLL_GAP_H
#define VIPD_POLL_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/config.h"

/* Descriptors are looked at so often while there is work: short for a control message, rare enough
 * for the system call not to be felt. If what they bring takes longer, the NICs then get so many times
 * as long before the next look, if they have had something to do lately; still more if many had
 * something to say at once, as programs that ask without pause do. One look that took very long was
 * interrupted itself. */
#define POLL_EVERY_NS    50000ull
#define POLL_GAP         4u
#define POLL_GAP_MANY    10u
#define POLL_MANY        4u
#define POLL_GAP_NS_MAX  50000000ull
#define POLL_BUSY_FOR_NS 20000000ull /* after a turn that did something */

/* While vipd only looks around for work, with nothing to do for so long, a request of a program is what it waits
 * for as well: the next look comes this soon. */
#define POLL_QUIET_AFTER_NS 20000ull
#define POLL_QUIET_NS       2000ull

/* If there is nothing to do before the next look is due, it is not waited for with the descriptors, which
 * would end the sleep at once, but in naps. */
#define NAP_NS 100000ull

/* How long after a look at descriptors that took so long, and found so many, the next one comes, if a NIC had
 * something to do last so long ago. */
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

/* How long to go on without work before sleeping. */
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
