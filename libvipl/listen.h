/*
 * Listeners (vipl_ext.h): requests that come in for them, in order. Used by events.c and session.c.
 */
#ifndef LIBVIPL_LISTEN_H
#define LIBVIPL_LISTEN_H

#include "libvipl/session.h"

/* Everything under session->lock. */
struct vipl__listener {
    uint64_t handle; /* 0 = closed or being closed */
    bool in_use;
    uint16_t uses;     /* how often this object was created: makes handles differ */
    uint64_t wait_id;  /* vipd's number */
    uint64_t received; /* requests that vipd sent for it */
    int fd;            /* readable while `first` is not NULL, and when vipd has died */
    struct vipl__incoming *first, **end;
};

/* A request for a listener; false: wait_id is not one of a listener. Under session->lock. */
bool vipl__listener_put(struct vipl__session *session, struct vipl__incoming *incoming);
/* vipd has died, or the session closes: who waits on a descriptor looks. Under session->lock. */
void vipl__listeners_raise(struct vipl__session *session);
/* Under session->lock: their handles become invalid. */
void vipl__listeners_invalidate(struct vipl__session *session);
/* Nobody is left in the session: give everything back. */
void vipl__listeners_release(struct vipl__session *session);

#endif
