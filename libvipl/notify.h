/*
 * Registrations of VipSendNotify, VipRecvNotify and VipCQNotify, and the thread that serves them.
 */
#ifndef LIBVIPL_NOTIFY_H
#define LIBVIPL_NOTIFY_H

#include <stdint.h>

struct vipl__cq;
struct vipl__notify;
struct vipl__registration;
struct vipl__session;
struct vipl__vi;

/* Registrations of one NIC handle that have not led to a handler call: a bound on their memory. */
#define VIPL__NOTIFY_MAX 65536

/* Something one can register for: part of a work queue or a CQ, all under the lock of notify.c. */
struct vipl__target {
    struct vipl__target *next, *prev;        /* targets with registrations; a ring with a head */
    struct vipl__registration *first, *last; /* oldest first, NULL = none */
};

/* For a session that is being opened. NULL: no memory. The thread comes with the first use. */
struct vipl__notify *vipl__notify_new(struct vipl__session *session);

/*
 * The session ends: all registrations are gone. No handler starts any more after the return; one that
 * runs is waited for, but not for ever (it may wait for a lock that our caller holds), and not if our
 * caller is the handler itself.
 */
void vipl__notify_stop(struct vipl__notify *notify);

/*
 * Start the thread now: the session is watched, and it fills in what completes (done.c). Outcomes: 0;
 * an errno, ENOSYS before Linux 5.16.
 */
int vipl__notify_watch(struct vipl__session *session);

/* Something may have completed that vipd has not told: it is dead. The caller has entered. */
void vipl__notify_poke(struct vipl__session *session);

/*
 * The object with this handle is destroyed: its registrations are gone, and no handler of theirs, nor
 * one that would name this VI, starts any more; one that runs is waited for as above.
 */
void vipl__notify_cancel_vi(struct vipl__vi *vi, uint64_t handle);
void vipl__notify_cancel_cq(struct vipl__cq *cq, uint64_t handle);

#endif
