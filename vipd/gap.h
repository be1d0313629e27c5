/*
 * The time between two turns of a loop (a gap): its length, and what the kernel says of the reason.
 *
 * A gap lasts from the begin of a turn to the begin of the next one; after a sleep from the time
 * for which the timer was set, if that has passed. A gap of GAP_LONG_NS or more is logged. The
 * kernel's account of the thread is read from time to time. So what is known of a gap begins at
 * most GAP_SAMPLE_NS before it.
 *
 * Owns: these looks, the log line. Does not own: the histogram (vipd/nic/nic.h, nic_gap). Used by
 * vipd/host.c; each loop has one, for its thread.
 */
#ifndef VIPD_GAP_H
#define VIPD_GAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipd/log.h"

#define GAP_LONG_NS   100000000ull /* shortest gap that is logged: 1/100 of the default peer_dead */
#define GAP_SAMPLE_NS 20000000ull  /* least time between two looks at the account */

/* The kernel's account of a thread. */
struct gap_sample {
    uint64_t at_ns;
    uint64_t cpu_ns, wait_ns;        /* processor time; time in which it waited for a processor */
    uint64_t voluntary, involuntary; /* times it gave its processor away; times it lost it */
    bool known;
};

struct gap {
    uint64_t from_ns;     /* begin of the last turn, or when the next one was to come */
    uint64_t requests_ns; /* time spent on descriptors, that is on requests, since then */
    int account;          /* /proc/thread-self/schedstat; -1: there is none */
    struct gap_sample last;
    struct vipd_log_limit limit;
};

/* Call it in the thread that takes the turns. Another call begins again. */
void gap_begin(struct gap *gap, uint64_t now_ns);
/* Harmless on a zeroed one. */
void gap_deinit(struct gap *gap);

/* Read the kernel's account if the last look is GAP_SAMPLE_NS ago. Call it where a few microseconds
 * more do not matter. */
void gap_look(struct gap *gap, uint64_t now_ns);

/* A sentence about a gap that ended just now, cut to buf_bytes. */
void gap_reason(uint64_t gap_ns, uint64_t requests_ns, const struct gap_sample *before,
                const struct gap_sample *after, char *buf, size_t buf_bytes);

/* Log a long gap. */
void gap_tell(struct gap *gap, uint64_t gap_ns, uint64_t now_ns);

/*
 * The loop slept, and its timer was set for due_ns (UINT64_MAX: it was not set). The gap begins when
 * the timer was due, or when the thread was to wake up and got no processor, by the kernel's
 * account; waits below GAP_SAMPLE_NS are not seen.
 */
void gap_slept(struct gap *gap, uint64_t due_ns, uint64_t now_ns);

/* A turn begins. Returns the gap before it in ns. */
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
