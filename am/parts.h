/*
 * Inside libvipam: where the processor's time goes, for bench/am/parts. Only the build that
 * measures it (VIPAM_PARTS, library vipam_parts) has more than empty functions here.
 *
 * At every moment a thread is in one part. am_part(p) ends the present part, begins p, and returns
 * the previous one, which the caller resumes later.
 */
#ifndef AM_PARTS_H
#define AM_PARTS_H

#include <stdint.h>

enum am_part {
    AM_PART_OUTSIDE,   /* the program, its handlers included */
    AM_PART_SEMANTICS, /* what AM promises: checks, tags, tables, handlers called, order, copies */
    AM_PART_FLOW,      /* credits taken and given back, buffers that must be free */
    AM_PART_EVENTS,    /* finding out that something has arrived: the receive completion queue */
    AM_PART_VI,        /* posting descriptors, and taking those that are done */
    AM_PARTS
};

#ifdef VIPAM_PARTS
/* Time-stamp counter ticks of each part, and the count of its ends; of this thread, since reset. */
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
