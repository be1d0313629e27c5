/*
 * The time between two turns of a loop (a gap): its length, and the reason as far as the kernel
 * knows it.
 *
 * A gap lasts from the start of one turn to the start of the next. After a sleep, the gap begins
 * when the timer was due, if that time has passed. A gap of GAP_LONG_NS or more is logged. vipd
 * reads the kernel's account of the thread from time to time. So the account that explains a gap
 * begins at most GAP_SAMPLE_NS before the gap.
 *
 * Owns: the reading of the account, the log line. Does not own: the histogram (vipd/nic/nic.h,
 * nic_gap). Used by vipd/host.c; each loop has one struct gap, for its thread.
 */
#ifndef VIPD_TURN_GAP_H
#define VIPD_TURN_GAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipd/log.h"

#define GAP_LONG_NS   100000000ull /* shortest gap that is logged: 1/100 of the default peer_dead */
#define GAP_SAMPLE_NS 20000000ull  /* least time between two readings of the account */

/* The kernel's account of a thread. */
struct gap_sample {
    uint64_t at_ns;
    uint64_t cpu_ns, wait_ns;        /* processor time; time of waiting for a processor */
    uint64_t voluntary, involuntary; /* how often the thread gave up, or lost, its processor */
    bool known;
};

struct gap {
    uint64_t from_ns;     /* start of the last turn, or the time at which the next turn was due */
    uint64_t requests_ns; /* time spent on ready descriptors (requests) since from_ns */
    int account;          /* descriptor of /proc/thread-self/schedstat; -1: none */
    struct gap_sample last;
    struct vipd_log_limit limit;
};

/* Begin to measure. Call it in the thread that takes the turns. A later call begins anew. */
void gap_begin(struct gap *gap, uint64_t now_ns);
/* A zeroed struct is allowed. */
void gap_deinit(struct gap *gap);

/* Read the kernel's account if the last reading is GAP_SAMPLE_NS old. Call it where a few
 * microseconds more do not matter. */
void gap_look(struct gap *gap, uint64_t now_ns);

/* A sentence about a gap that ended just now, cut to buf_bytes. */
void gap_reason(uint64_t gap_ns, uint64_t requests_ns, const struct gap_sample *before,
                const struct gap_sample *after, char *buf, size_t buf_bytes);

/* Log a long gap. */
void gap_tell(struct gap *gap, uint64_t gap_ns, uint64_t now_ns);

/*
 * The loop slept, and its timer was set for due_ns (UINT64_MAX: it was not set). The gap begins
 * when the timer was due. If the thread then already waited for a processor, by the kernel's
 * account, the gap begins with that wait. A wait shorter than GAP_SAMPLE_NS is not seen.
 */
void gap_slept(struct gap *gap, uint64_t due_ns, uint64_t now_ns);

/* A turn begins. Returns the length of the gap before it, in ns. */
static inline uint64_t gap_end(struct gap *gap, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns > gap->from_ns ? now_ns - gap->from_ns : 0;

    if (gap_ns >= GAP_LONG_NS)
        gap_tell(gap, gap_ns, now_ns);
    gap->from_ns = now_ns;
    gap->requests_ns = 0;
    return gap_ns;
}

#endif
