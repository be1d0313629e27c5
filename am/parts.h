/*
 * Inside libvipam: the accounting of processor time, for bench/am/parts. Only the build for this
 * measurement (VIPAM_PARTS, library vipam_parts) measures; in other builds the function does
 * nothing.
 *
 * At every moment a thread is in one part. am_part(p) ends the present part, begins p, and returns
 * the previous one, which the caller resumes later.
 */
#ifndef AM_PARTS_H
#define AM_PARTS_H

#include <stdint.h>

enum am_part {
    AM_PART_OUTSIDE,   /* the program, its handlers included */
    AM_PART_SEMANTICS, /* the rules of AM: checks, tags, tables, calling handlers, order, copies */
    AM_PART_FLOW,      /* taking and returning credits, waiting for free buffers */
    AM_PART_EVENTS,    /* looking for arrivals in the receive completion queue */
    AM_PART_VI,        /* posting descriptors, and taking back completed ones */
    AM_PARTS
};

#ifdef VIPAM_PARTS
/* Time-stamp counter ticks of each part, and how many times the part ended; in this thread, since
 * the reset. */
struct am_parts {
    uint64_t ticks[AM_PARTS], ends[AM_PARTS];
};

enum am_part am_part(enum am_part part);
void amvia_parts_reset(void);
void amvia_parts_get(struct am_parts *parts);
#else
static inline enum am_part am_part(enum am_part part)
{
    return part;
}
#endif

#endif
