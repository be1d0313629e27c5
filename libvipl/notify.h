/* Registrations of VipSendNotify, VipRecvNotify and VipCQNotify; the thread that calls handlers. */
#ifndef LIBVIPL_NOTIFY_H
#define LIBVIPL_NOTIFY_H

#include <stdint.h>

struct vipl__cq;
struct vipl__notify;
struct vipl__registration;
struct vipl__session;
struct vipl__vi;

/* Largest number of registrations of one NIC handle; each lasts until its handler has returned. */
#define VIPL__NOTIFY_MAX 65536

/* A member of each work queue and CQ: its registrations. The lock of notify.c guards all of it. */
struct vipl__target {
    struct vipl__target *next, *prev;        /* ring of targets with registrations; has a head */
    struct vipl__registration *first, *last; /* oldest and newest registration; NULL = none */
};

/* Make a new session's notify object. NULL: no memory. The first registration starts the thread. */
struct vipl__notify *vipl__notify_new(struct vipl__session *session);

/*
 * The session ends: all registrations are gone, and no handler starts after the return. The call
 * waits for a running handler, but only for a limited time, because that handler may wait for a
 * lock that our caller holds. The call does not wait if the running handler itself makes the call.
 */
void vipl__notify_stop(struct vipl__notify *notify);

/*
 * Start the thread now, because in a watched session it fills in completed descriptors (done.c).
 * Outcomes: 0; an errno, ENOSYS before Linux 5.16.
 */
int vipl__notify_watch(struct vipl__session *session);

/* Wake the thread: vipd is dead or has refused a VI, so vipd does not signal all completions. The
 * caller has entered the session. */
void vipl__notify_poke(struct vipl__session *session);

/*
 * The VI or CQ with this handle is destroyed: remove its registrations. Their handlers do not start
 * any more, nor does a handler for a CQ entry that names this VI. The call waits for a running
 * handler as vipl__notify_stop does.
 */
void vipl__notify_cancel_vi(struct vipl__vi *vi, uint64_t handle);
void vipl__notify_cancel_cq(struct vipl__cq *cq, uint64_t handle);

#endif
