/* The submission ring of a session: the check for room, and slots that are not new posts. */
#ifndef LIBVIPL_SQ_H
#define LIBVIPL_SQ_H

#include "libvipl/session.h"

/* How long, in ns, a post waits if the submission ring is full; vipd empties it in microseconds. */
#define VIPL__SQ_FULL_NS 1000000000ull

/* Is there room for `slots` slots? Loads vipd's position only if sq_taken leaves no room. */
static inline bool vipl__sq_has_room(struct vipl__session *session, uint32_t slots)
{
    if (session->sq_position + slots - session->sq_taken <= VIP_SQ_SLOTS)
        return true;
    session->sq_taken = vip_load32_acquire(&session->vipd->sq_cons);
    return session->sq_position + slots - session->sq_taken <= VIP_SQ_SLOTS;
}

/*
 * Post a request about a VI (enum vip_ask) to vipd, without waiting for its effect. Any
 * thread that holds no lock.
 */
void vipl__ask(struct vipl__vi *vi, uint8_t ask);
/* As vipl__ask, but under post_lock, and vipd's bell is not rung. False: the ring is full. */
bool vipl__ask_locked(struct vipl__vi *vi, uint8_t ask);

/*
 * Post descriptor number `count` of a queue (as `posted` counts) to the next vipd (post.c). The
 * descriptor completes with an error if its region is gone or its memory was not accessible. Under
 * post_lock. False: the ring is full.
 */
bool vipl__post_again(struct vipl__vi *vi, enum vip_queue which, uint32_t count);
#endif
