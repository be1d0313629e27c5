/* Listeners (vipl_ext.h) and the queues of their requests. Used by events.c and session.c. */
#ifndef LIBVIPL_LISTEN_H
#define LIBVIPL_LISTEN_H

#include "libvipl/session.h"

/* A listener. All fields are under session->lock. */
struct vipl__listener {
    uint64_t handle; /* 0 = closed or being closed */
    bool in_use;
    uint16_t uses;     /* counts how often the object was used, so that handles differ */
    uint64_t wait_id;  /* vipd's number of the listener */
    uint64_t received; /* number of requests that came from vipd */
    uint32_t told;     /* the session's `tells` when vipd accepted the listener */
    struct vip_addr local;
    uint32_t backlog;
    int fd; /* eventfd: readable while `first` is not NULL, and when vipd has died */
    struct vipl__incoming *first, **end;
};

/* Give a request to its listener; false if no listener has its wait_id. Under session->lock. */
bool vipl__listener_put(struct vipl__session *session, struct vipl__incoming *incoming);
/* vipd has died: make the listeners' file descriptors readable. Under session->lock. */
void vipl__listeners_raise(struct vipl__session *session);
/* Tell the next vipd of the listener with this index, if there is one, and drop the last vipd's
 * requests. Outcomes: as vipl__call. */
VIP_RETURN vipl__listener_again(struct vipl__session *session, unsigned index);
/* Make the handles of all listeners invalid. Under session->lock. */
void vipl__listeners_invalidate(struct vipl__session *session);
/* Free the requests and file descriptors of all listeners; no thread is in the session. */
void vipl__listeners_release(struct vipl__session *session);

#endif
