/*
 * Bounds of the work of one turn of a NIC, and of what may wait; only for vipd/nic. The limits that
 * programs see: proto/limits.h.
 */
#ifndef VIPD_NIC_BOUNDS_H
#define VIPD_NIC_BOUNDS_H

#define NIC_RX_BATCH           64   /* packets taken from the link in one turn */
#define NIC_CM_TURN            48   /* of these, CM messages at most; the others are data */
#define NIC_TX_BATCH           64   /* packets given to the link in one call */
#define NIC_TX_COPY_BYTES      1024 /* packets up to this size always leave from a copy (tx.c) */
#define NIC_TX_COPY_STRIDE     (65536 + 192) /* bytes from copy to copy; cache sets differ */
#define NIC_TX_TURN            256           /* packets pulled from all engines in one turn */
#define NIC_TX_SESSION         64   /* packets of one session before the next session sends */
#define NIC_POSTS_TURN         1024 /* submission slots taken from all sessions in one turn */
#define NIC_POSTS_SESSION      256  /* of these, slots of one session before the next session */
#define NIC_CM_LOOP_MAX        512  /* CM packets to this NIC itself that wait for the next turn */
#define NIC_CM_LOOP_SMALL      16   /* of these, packets of a small user (struct nic_pool) */
#define NIC_CM_LOOP_RESERVE    64   /* last free places, only for small users */
#define NIC_WAKES_MAX          256  /* queues and CQs whose sleepers wait for one wake-up call */
#define NIC_HELD_MAX           8192 /* packets kept for later, all sessions together */
#define NIC_HELD_SESSION       4096 /* of these, packets of one session; the rest is for others */
#define NIC_HELD_RESERVE       (2 * NIC_RX_BATCH) /* of these, only for packets in their turn */
#define NIC_HELD_BYTES         (96u << 20)        /* the same three limits in bytes, */
#define NIC_HELD_BYTES_SESSION (32u << 20)        /* because packets differ in length */
#define NIC_HELD_BYTES_RESERVE (NIC_RX_BATCH << 16)
#define NIC_HELD_SMALL         256        /* packets of a small user (struct nic_pool) */
#define NIC_HELD_KEPT          1024       /* last free slots, only for small users */
#define NIC_HELD_BYTES_SMALL   (2u << 20) /* the same two limits in bytes */
#define NIC_HELD_BYTES_KEPT    (16u << 20)
#define NIC_REPLAY_SERVE       16   /* held packets of a session that one step replays */
#define NIC_PARKED_MAX         2048 /* parked packets of one VI: its peer has no more under way */
#define NIC_PLACE_BYTES        (256u << 10) /* bytes that one request asks a library to place */
#define NIC_PLACES_MAX         4096 /* ranges that a library must place and has not placed yet */
#define NIC_LATE_MAX           64   /* of these, late ranges whose VI is remembered (place.c) */
#define NIC_KEPT_BYTES         (32u << 20) /* of one session, for descriptors (kept_bytes.c) */
#define NIC_KEPT_BLOCK         4096        /* bytes of a block of entries of a CQ */
#define NIC_KEPT_SPARES        32          /* spare blocks that one step frees, in about 8 us */
#define NIC_WAITS_MAX          4096        /* waits and unanswered requests of one session */
#define NIC_CONN_BITS          20          /* low bits of a connection id: index into the table */
#define NIC_CONNS_MAX          (1u << NIC_CONN_BITS)
#define NIC_PEER_BUCKETS       1024  /* lists of connections by peer number */
#define NIC_SESSIONS_MAX       65536 /* a wait id has the slot of its session in its low 16 bits */
#define NIC_RINGS_MAX          4096  /* direct rings of the NIC; each is a mapping of vipd */
#define NIC_RINGS_SESSION      256   /* direct rings of one session */
#define NIC_RINGS_SMALL        16    /* rings of a small user (struct nic_pool) */
#define NIC_RINGS_RESERVE      256   /* last free rings, only for small users */
#define NIC_LOOP_WINDOW        (1u << 20) /* bytes under way on a loopback connection */
#define NIC_TX_RETRY_NS        50000      /* the link was full: time until the next attempt */
#define NIC_VI_BLOCK           32         /* VIs that share one mapping of memory */
/* If a CQ's ring stays full, the NIC looks at it again: in a turn after LOOK_NS; without a turn by a
 * timer, first after POLL_MIN_NS, then each time after twice as long, POLL_MAX_NS at most. It needs
 * the timer because a program that reads its CQ does not ring the bell. */
#define NIC_BACKLOG_LOOK_NS     1000000
#define NIC_BACKLOG_POLL_MIN_NS 200000
#define NIC_BACKLOG_POLL_MAX_NS 10000000

/* Time. A turn ends after NIC_TURN_NS; if users compete for the NIC, after NIC_TURN_SHARED_NS. */
#define NIC_TURN_NS        1000000u
#define NIC_TURN_SHARED_NS 200000u
#define NIC_SHARED_FOR_NS  10000000u /* users compete for this time after several had work */
#define NIC_UNITS                                                                                  \
    64u /* packets, frames, slots, and pages of payload between two looks at the clock */
#define NIC_TICK_UNITS 4u     /* units for a step of eng_tick */
#define NIC_CM_UNITS   8u     /* units for a message of the connection manager */
#define NIC_SLICE_NS   20000u /* allowed lead over the user (session) that had the least time */
#define NIC_SUSPECT_NS 20000u /* during a longer step the thread may have lost the processor */
#define NIC_USERS_KEPT 64u /* if there are this many users, those without sessions are forgotten */

#endif
