/*
 * Inside libvipam: measures the processor time of each part of the library, for bench/am/parts.
 * Only the library vipam_parts (built with VIPAM_PARTS) measures; otherwise am_part does nothing.
 *
 * At every moment a thread is in one part. am_part(p) ends the current part, begins p, and returns
 * the ended part. The caller passes the ended part to am_part later, to resume it.
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
/* Counts of this thread since amvia_parts_reset: the ticks of the processor's time-stamp counter
 * that each part took, and how many times each part ended. */
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
