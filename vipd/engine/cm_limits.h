/*
 * The limits of the connection manager. Only cm_objects.h includes it. The part of each pool that one
 * user or host may have is in cm_share.c.
 */
#ifndef VIPD_ENGINE_CM_LIMITS_H
#define VIPD_ENGINE_CM_LIMITS_H

#include "proto/limits.h"

/* Lives of peer hosts known at once; also the index part of a peer number. */
#define CM_PEERS_MAX 4096

/* Lives of one host at once: a host may restart faster than we notice, or invent epochs. */
#define CM_LIVES_MAX 16

/* Requests at any stage of the server side; beyond this a REQUEST gets PENDING or NO_MATCH. */
#define CM_PENDING_MAX 4096
/* The part of these that one other host may have, for all its users together. */
#define CM_PENDING_HOST 256
/* Requests that found no waiter; cm_config.backlog_max limits the kept ones of one
 * discriminator. */
#define CM_KEPT_MAX 1024
/* Places of one discriminator beyond backlog_max, for sources without a kept request there. Every
 * source may use the first ones; all but strangers (cm_slow.c) may use as many more; users of this
 * host may use as many again. */
#define CM_KEPT_SPARE 16
/* Waiters and listeners at once; beyond this an application gets -ENOMEM. */
#define CM_WAITERS_MAX 65536
/* Own requests under way at once: every VI of sixteen full sessions. */
#define CM_ATTEMPTS_MAX (16 * VIP_VI_MAX)
/* Of these, requests of one user that are sent to servers of one other host; further ones wait
 * here. The other host has room for four users of this host (CM_PENDING_HOST), and one
 * discriminator there has room for two (backlog_max). */
#define CM_ASKED_EACH 64

/* Answered requests that are remembered, and for how long: a REQUEST that was repeated before its
 * answer came must not count as a new one. The time is longer than the slowest repetition takes. */
#define CM_ANSWERED_MAX 8192
#define CM_ANSWERED_NS  3000000000ull

/* CLOSE messages repeated in the background; beyond this a CLOSE is sent once, and RESET answers
 * the peer's data packets. */
#define CM_CLOSINGS_MAX 32768

/* Time for which a discriminator stays served and owned after its last waiter or peer-to-peer
 * request, and the number of discriminators that are remembered for this. */
#define CM_DISC_LINGER_NS  1000000000ull
#define CM_DISC_LINGER_MAX 4096

/* Open sessions that are remembered as servers of one discriminator. */
#define CM_DISC_SERVERS 8

/* A request without time limit ends as NOT_REACHABLE after this time without any answer, and not
 * before it was sent so many times. */
#define CM_UNREACHABLE_SENT 8
#define CM_UNREACHABLE_NS   10000000000ull

/* RESET answers per second, and in one burst. */
#define CM_RESETS_PER_S 200
#define CM_RESETS_BURST 64
/* Repeated CLOSE messages per second to one host, so that each of the host's 16,384 messages (half
 * of CM_CLOSINGS_MAX) is repeated within close_timeout_ns. */
#define CM_CLOSES_PER_S 1000

#endif
