/* Registrations of VipSendNotify, VipRecvNotify and VipCQNotify; the thread that calls handlers. */
#ifndef LIBVIPL_NOTIFY_H
#define LIBVIPL_NOTIFY_H

#include <stdint.h>

struct vipl__cq;
struct vipl__notify;
struct vipl__registration;
struct vipl__session;
struct vipl__vi;

/* Largest number of registrations of one NIC handle; one ends when its handler has returned. */
#define VIPL__NOTIFY_MAX 65536

/* The target of registrations: part of a work queue or a CQ. All under the lock of notify.c. */
struct vipl__target {
    struct vipl__target *next, *prev;        /* targets with registrations; a ring with a head */
    struct vipl__registration *first, *last; /* oldest first, NULL = none */
};

/* Make the object of a new session. NULL: no memory. The first registration starts the thread. */
struct vipl__notify *vipl__notify_new(struct vipl__session *session);

/*
 * The session ends: all registrations are gone, and no handler starts after the return. The call
 * waits for a running handler, but only for a limited time, because that handler may wait for a
 * lock that our caller holds. The call does not wait if our caller is that handler.
 */
void vipl__notify_stop(struct vipl__notify *notify);

/*
 * Start the thread now: the session is watched, and the thread fills in completed descriptors
 * (done.c). Outcomes: 0; an errno, ENOSYS before Linux 5.16.
 */
int vipl__notify_watch(struct vipl__session *session);

/* vipd is dead, so there may be completions without a signal: wake the thread. The caller has
 * entered the session. */
void vipl__notify_poke(struct vipl__session *session);

/*
 * The VI or CQ with this handle is destroyed: remove its registrations. Their handlers do not start
 * any more, nor does a handler for a CQ entry that names this VI. The call waits for a running
 * handler as vipl__notify_stop does.
 */
void vipl__notify_cancel_vi(struct vipl__vi *vi, uint64_t handle);
void vipl__notify_cancel_cq(struct vipl__cq *cq, uint64_t handle);

#endif
