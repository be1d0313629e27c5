/*
 * Bounds of the work of one turn of a NIC, and of the objects that may wait; only for vipd/nic.
 * proto/limits.h has the limits that programs see.
 */
#ifndef VIPD_NIC_BOUNDS_H
#define VIPD_NIC_BOUNDS_H

#define NIC_RX_BATCH           64 /* packets taken from the link in one turn */
#define NIC_CM_TURN            48 /* CM messages processed in one turn; further ones are dropped */
#define NIC_TX_BATCH           64 /* packets given to the link in one call */
#define NIC_TX_COPY_STRIDE     (65536 + 192) /* bytes from copy to copy; cache sets differ */
#define NIC_TX_TURN            256           /* packets pulled from all engines in one turn */
#define NIC_TX_SESSION         64 /* packets that one session sends before the next session does */
#define NIC_POSTS_TURN         1024 /* submission slots taken from all sessions in one turn */
#define NIC_POSTS_SESSION      256  /* submission slots taken in one turn from the only session */
#define NIC_CM_LOOP_MAX        512  /* CM packets of this NIC to itself that wait for a turn */
#define NIC_CM_LOOP_SMALL      16   /* waiting CM packets of a small user (struct nic_pool) */
#define NIC_CM_LOOP_RESERVE    64   /* last places for waiting CM packets, only for small users */
#define NIC_WAKES_MAX          256  /* queues and CQs whose sleepers wait for one wake-up call */
#define NIC_HELD_MAX           8192 /* packets kept for later, all sessions together */
#define NIC_HELD_SESSION       4096 /* packets kept for one session */
#define NIC_HELD_RESERVE       (2 * NIC_RX_BATCH) /* last slots, only for packets in their turn */
#define NIC_HELD_BYTES         (96u << 20)        /* NIC_HELD_MAX in bytes: packet lengths differ */
#define NIC_HELD_BYTES_SESSION (32u << 20)        /* NIC_HELD_SESSION in bytes */
#define NIC_HELD_BYTES_RESERVE (NIC_RX_BATCH << 16) /* NIC_HELD_RESERVE in bytes */
#define NIC_HELD_SMALL         256  /* packets that a small user may keep (struct nic_pool) */
#define NIC_HELD_KEPT          1024 /* last free slots for kept packets, only for small users */
#define NIC_HELD_BYTES_SMALL   (2u << 20)  /* NIC_HELD_SMALL in bytes */
#define NIC_HELD_BYTES_KEPT    (16u << 20) /* NIC_HELD_KEPT in bytes */
#define NIC_REPLAY_SERVE       16          /* held packets of one session that one step replays */
#define NIC_PARKED_MAX         2048 /* parked packets of a VI; a peer has at most 2048 under way */
#define NIC_PLACE_BYTES        (256u << 10) /* bytes that one request asks a library to place */
#define NIC_PLACES_MAX         4096 /* ranges that a library must place and has not placed yet */
#define NIC_LATE_MAX           64   /* newest late ranges whose VIs are remembered (place.c) */
#define NIC_KEPT_BYTES         (32u << 20) /* memory for descriptors of a session (kept_bytes.c) */
#define NIC_KEPT_BLOCK         4096        /* bytes of a block of CQ entries */
#define NIC_KEPT_SPARES        32          /* spare blocks that one step frees, in about 8 us */
#define NIC_WAITS_MAX          4096        /* waits and unanswered requests of one session */
#define NIC_CONN_BITS          20          /* low bits of a connection id: its table index */
#define NIC_CONNS_MAX          (1u << NIC_CONN_BITS)
#define NIC_PEER_BUCKETS       1024  /* number of lists that sort connections by peer number */
#define NIC_SESSIONS_MAX       65536 /* the low 16 bits of a wait id are its session's slot */
#define NIC_RINGS_MAX          4096  /* direct rings of the NIC; each is a mapping of vipd */
#define NIC_RINGS_SESSION      256   /* direct rings of one session */
#define NIC_RINGS_SMALL        16    /* direct rings that a small user may have (struct nic_pool) */
#define NIC_RINGS_RESERVE      256   /* last free direct rings, only for small users */
#define NIC_LOOP_WINDOW        (1u << 20) /* bytes under way on a loopback connection */
#define NIC_TX_RETRY_NS        50000      /* time until the next attempt if the link is full */
#define NIC_VI_BLOCK           32         /* VIs that share one mapping of memory */
/* While a CQ's ring is full, a turn looks at the ring again after LOOK_NS. A timer also looks at
 * it, first after POLL_MIN_NS. Its waits double until a wait is at least POLL_MAX_NS. The timer is
 * needed because a program that reads its CQ does not ring the bell. */
#define NIC_BACKLOG_LOOK_NS     1000000
#define NIC_BACKLOG_POLL_MIN_NS 200000
#define NIC_BACKLOG_POLL_MAX_NS 10000000

/* Time. A turn ends after NIC_TURN_NS; if users compete for the NIC, after NIC_TURN_SHARED_NS. */
#define NIC_TURN_NS        1000000u
#define NIC_TURN_SHARED_NS 200000u
#define NIC_SHARED_FOR_NS  10000000u /* users compete for this time after several had work */
#define NIC_UNITS                                                                                  \
    64u /* units (packets, frames, slots, pages of payload) between two looks at the clock */
#define NIC_TICK_UNITS 4u     /* a step of eng_tick counts as so many units */
#define NIC_CM_UNITS   8u     /* a CM message counts as so many units */
#define NIC_SLICE_NS   20000u /* largest lead over the user (session) with the least time */
#define NIC_SUSPECT_NS 20000u /* in a step that is longer, the thread may have lost the processor */
#define NIC_USERS_KEPT 64u /* if there are this many users, those without sessions are forgotten */

#endif
