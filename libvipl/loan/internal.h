/* Declarations that the files of libvipl/loan share. No other file includes this. */
#ifndef LIBVIPL_LOAN_INTERNAL_H
#define LIBVIPL_LOAN_INTERNAL_H

#include "libvipl/loan/held.h"
#include "libvipl/loan/loan.h"
#include "libvipl/loan/sock.h"
#include "vipd/engine/loan_stay.h"
#include "vipd/path/post.h"

struct vipl__loan {
    uint32_t lock; /* not 0: a thread is in a stay, or holds vipl__loan_lock */
    struct vipl__loan_host host;
    struct vipl__loan_terms terms; /* terms.number is 0 if there is no loan */
    struct loan_owner owner;
    struct vipl__loan_counts counts;
    struct vip_loan_counts before; /* the part's counts when the loan began */
    unsigned untold;               /* stays since the part's counts were written */

    struct eng *eng;
    void *eng_memory, *vi_memory; /* zeroed before each loan */
    uint32_t sends;               /* number of the next send to take from the table */
    uint32_t receives;            /* number of the next receive to take from the table */
    uint32_t may_wait;            /* sends below this number may wait for others; atomic */
    uint32_t received;            /* completions of the receive queue, as in the checkpoint */
    uint32_t completions;         /* of both queues */
    uint64_t now_ns;              /* time of the present stay */

    const uint8_t *cur; /* the packet that the engine processes; NULL: none */
    struct vip_packet packet;
    struct vipl__helds helds;
    struct vipl__inbox inbox;
    struct vipl__burst burst; /* empty between two stays */
    struct path_tx tx;
    struct path_parts parts;

    struct eng_event event[VIPL__LOAN_EVENTS]; /* a ring */
    unsigned event_first, event_count;
};

/* turn.c: end a stay: publish the checkpoint and the next timer. */
void vipl__loan_leave(struct vipl__loan *loan);
/* turn.c: write what this loan has counted to the part. */
void vipl__loan_tell_counts(struct vipl__loan *loan);
/* ops.c: what the engine calls; ctx is the struct vipl__loan. */
extern const struct eng_ops vipl__loan_ops;
/* Address of the range, if the access is allowed; else NULL. vipd's registry judges the same. */
void *vipl__loan_address(void *ctx, const struct eng_access *access);
/* Give the engine all sends that are posted. Returns whether there were any. */
bool vipl__loan_take_posts(struct vipl__loan *loan, uint64_t now_ns);

#endif
