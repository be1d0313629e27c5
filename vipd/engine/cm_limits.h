/*
 * The limits of the connection manager. Only cm_objects.h includes this file. cm_share.c has the
 * share of each pool that one user or host may have.
 */
#ifndef VIPD_ENGINE_CM_LIMITS_H
#define VIPD_ENGINE_CM_LIMITS_H

#include "proto/limits.h"

/* Lives of peer hosts that vipd knows at once. A peer number has an index below this. */
#define CM_PEERS_MAX 4096

/* Lives of one host that vipd knows at once. A host may restart often, or invent epochs. */
#define CM_LIVES_MAX 16

/* The largest number of pending requests of a NIC; requests in every state (enum
 * cm_pending_state) count. vipd answers further REQUESTs with PENDING or NO_MATCH. */
#define CM_PENDING_MAX 4096
/* The part of CM_PENDING_MAX that one other host may have, for all its users together. */
#define CM_PENDING_HOST 256
/* Kept requests of all discriminators; cm_config.backlog_max limits one discriminator. */
#define CM_KEPT_MAX 1024
/* Kept requests of one discriminator beyond backlog_max, for sources without a kept request there:
 * this many for strangers (cm_slow.c), twice as many for other hosts, three times as many for users
 * of this host. */
#define CM_KEPT_SPARE 16
/* Waiters and listeners at once. If there are more, the application gets -ENOMEM. */
#define CM_WAITERS_MAX 65536
/* Attempts of this host at once: one for every VI of sixteen full sessions. */
#define CM_ATTEMPTS_MAX (16 * VIP_VI_MAX)
/* Attempts of one user that may send requests to one other host at once; further attempts wait. So
 * the other host has room for four users of this host (CM_PENDING_HOST), and one discriminator of
 * that host has room for two users (backlog_max). */
#define CM_ASKED_EACH 64

/* Number of answered requests that vipd remembers, and for how long. If a REQUEST was repeated
 * before its answer came, the repetition must not count as a new request. So CM_ANSWERED_NS is
 * longer than the interval of repetitions. */
#define CM_ANSWERED_MAX 8192
#define CM_ANSWERED_NS  3000000000ull

/* CLOSE messages under repetition at once. A further CLOSE is sent only once; if it is lost, RESET
 * answers the peer's data packets. */
#define CM_CLOSINGS_MAX 32768

/* Time for which a discriminator keeps its owner after its last waiter or peer-to-peer request, and
 * the number of lingering discriminators. */
#define CM_DISC_LINGER_NS  1000000000ull
#define CM_DISC_LINGER_MAX 4096

/* Number of open sessions that vipd remembers as servers of one discriminator. */
#define CM_DISC_SERVERS 8

/* A request without time limit ends as NOT_REACHABLE if it was sent CM_UNREACHABLE_SENT times and
 * no answer came for CM_UNREACHABLE_NS. */
#define CM_UNREACHABLE_SENT 8
#define CM_UNREACHABLE_NS   10000000000ull

/* RESET messages per second, and in one burst. */
#define CM_RESETS_PER_S 200
#define CM_RESETS_BURST 64
/* Repeated CLOSE messages per second to one host, so that each of the host's 16,384 messages (half
 * of CM_CLOSINGS_MAX) is repeated within close_timeout_ns. */
#define CM_CLOSES_PER_S 1000

#endif
