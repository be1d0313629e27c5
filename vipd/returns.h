/*
 * What became of the connections of an earlier life of vipd: how many came back, how many did not,
 * and why. After the grace time vipd reports this in one line of the log and in one event.
 *
 * Owns: struct returns of struct vipd. Does not own: the connections (vipd/nic/rebind.c). The
 * functions take the mutex vipd->shared; all but return_ended belong to the control loop.
 */
#ifndef VIPD_RETURNS_H
#define VIPD_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

struct vipd;
struct vipd_timer;

#define RETURN_REASONS    12 /* reasons with a counter of their own */
#define RETURN_TEXT_BYTES 160
#define RETURN_LATERS     8 /* reasons to wait that vipd logs */

struct return_reason {
    uint64_t count;
    bool handle; /* true: a NIC handle was refused; false: a connection is lost */
    char text[RETURN_TEXT_BYTES];
};

struct returns {
    struct vipd_timer *timer; /* NULL: no program of an earlier life has come (or no memory) */
    uint64_t back, waiting;   /* connections: bound anew; still waiting to be bound anew */
    struct return_reason reason[RETURN_REASONS];
    uint64_t other; /* lost connections and refused NIC handles with further reasons */
    bool told;      /* the report has been made */
    char later[RETURN_LATERS][RETURN_TEXT_BYTES]; /* reasons to wait, each logged once */
};

/* A program of an earlier life of vipd has come. */
void return_begin(struct vipd *vipd);
/* The NIC handle of a program of an earlier life is refused. */
void return_refused(struct vipd *vipd, const char *why);
/* A program of an earlier life must ask again later. vipd logs each reason once. */
void return_later(struct vipd *vipd, const char *why);
/* A connection of an earlier life waits to be bound anew; a call of return_ended follows. */
void return_waits(struct vipd *vipd);
/* A waiting connection was bound anew (why is NULL), or is lost for this reason. */
void return_ended(struct vipd *vipd, const char *why);
/* A connection of an earlier life is lost without a wait. */
void return_lost(struct vipd *vipd, const char *why);
/* vipd ends: free the timer. */
void returns_deinit(struct vipd *vipd);

#endif
