/*
 * Small messages between two programs of one host, by a ring instead of through vipd
 * (proto/direct.h).
 *
 * vipd gives both ends of a connection a ring. A send goes by the ring under two conditions. First,
 * no earlier send of its VI is under way through vipd; so the order is kept. Second, the ring says
 * that the receive descriptor for this message has room. All other messages go through vipd; so
 * vipd finds every error that the specification names. A receive descriptor completes by the ring
 * or by vipd; a completion of vipd says how many messages of the ring come before it. If a thread
 * of the receiver sleeps, the ring says so; messages then go through vipd, which wakes the thread.
 *
 * Owns: both ends of a VI's ring, the choice between ring and vipd, the CQ entries of ring
 * messages, the session's table of receive descriptors. Does not own: completions in Done calls
 * (done.c), the submission ring (post.c).
 */
#ifndef LIBVIPL_DIRECT_H
#define LIBVIPL_DIRECT_H

#include "libvipl/session.h"
#include "proto/control.pb-c.h"
#include "proto/direct.h"

/* The ring of a VI. A later VI with the same VI object uses this struct again. */
struct vipl__direct {
    uint32_t live;  /* atomic; 1 = the VI has a ring; changes under post_lock and both done_locks */
    uint32_t taken; /* atomic; number of messages taken; under the receive queue's done_lock */
    void *map;      /* reserved address of struct vip_direct; without a ring, empty pages */
    int fd;         /* file of the ring, for the next vipd; -1: none; under session->lock */
    uint32_t half;  /* this end sends on way[half] */
    struct vip_direct_way *in; /* the direction in which this end receives */
    uint32_t first;            /* number (as `posted` counts) of message 0's receive descriptor */
    bool unreliable;           /* the VI's level is Unreliable Delivery */
    bool lends;                /* this end offers receive descriptors in the ring */
    bool sends;                /* sends may use the ring: the send CQ, if any, looks at the ring */
    bool stopped;              /* no more sends by the ring; under post_lock */
    bool broken, over;         /* take no messages after an error or the end; under done_lock */
    uint32_t reported;         /* atomic; messages that the CQ reported; under the CQ's done_lock */
    uint32_t max_bytes;        /* largest message in the ring, in bytes */
    uint32_t asleep_lock;      /* guards in->asleep */
    uint64_t bytes;            /* payload bytes of all messages taken; under done_lock */
    uint32_t behind;           /* sends in a row via vipd only to keep the order; under post_lock */
    uint32_t run;              /* sends in a row by the ring */
    uint32_t patience;         /* value of `behind` at which a send waits for the earlier sends */
    uint64_t random;           /* state of the random numbers for VIPL_DIRECT=random */
    struct vip_direct_out out; /* under post_lock */
    /* For each receive descriptor: the room in bytes that the ring offers, or VIPL__NOT_LENT. Under
     * post_lock. */
    uint32_t lent[VIP_DESC_PER_QUEUE_MAX];
};
#define VIPL__NOT_LENT UINT32_MAX

static inline struct vipl__direct *vipl__direct_of(const struct vipl__vi *vi)
{
    struct vipl__direct *direct = __atomic_load_n(&vi->direct, __ATOMIC_ACQUIRE);

    return direct != NULL && __atomic_load_n(&direct->live, __ATOMIC_ACQUIRE) != 0 ? direct : NULL;
}

/* ---- the session ------------------------------------------------------------------------- */

/*
 * Make the table of receive descriptors. With VIPL_DIRECT=0, VIPL_STATUS_IN_MEMORY=1 or no memory,
 * no table is made, and all messages go through vipd. Outcomes: VIP_SUCCESS, also without a table;
 * VIP_ERROR_RESOURCE with the reason: vipd refuses the table or is gone.
 */
VIP_RETURN vipl__direct_open(struct vipl__session *session);
/* The session ends: give up its rings and its table. No thread is in the session. */
void vipl__direct_close(struct vipl__session *session);
/* The next vipd does not continue the VI's ring: send and take no more messages by the ring. */
void vipl__direct_over(struct vipl__vi *vi);
/* Can the next vipd continue the VI's ring? */
bool vipl__direct_goes_on(struct vipl__vi *vi);
/* The next vipd has the session: repeat the requests that may be lost with the last vipd. */
void vipl__direct_resume(struct vipl__vi *vi);
/* Offer the table of receive descriptors to the next vipd. Outcomes: as vipl__call. */
VIP_RETURN vipl__direct_again(struct vipl__session *session);
/* _create: a VI was created (handle not valid yet); _destroy: it has ended. Under session->lock. */
void vipl__direct_create(struct vipl__vi *vi);
void vipl__direct_destroy(struct vipl__vi *vi);
/*
 * vipd has made a ring for a VI; fd is its file. If a next vipd may need the file, this module
 * keeps it and sets *fd to -1. False: the VI does not use the ring. Under session->lock.
 */
bool vipl__direct_attach(struct vipl__vi *vi, const Vip__Direct *event, int *fd);

/* ---- posting ----------------------------------------------------------------------------- */

/* A message; its bytes are in the ring already. */
struct vipl__direct_message {
    uint32_t len;
    uint8_t flags;
    uint64_t imm;
};

/*
 * Put the bytes of `desc` into the ring, if this send may go by the ring. Under post_lock. YES: the
 * caller puts the descriptor on its queue and calls _commit, still under post_lock; then, after a
 * full barrier and without the lock, it calls _sent. NO: nothing was done; the send goes through
 * vipd. LATER (never if `waited`): the caller releases the lock, calls _wait, and tries again with
 * `waited`.
 */
enum vipl__way { VIPL__WAY_NO, VIPL__WAY_YES, VIPL__WAY_LATER };
enum vipl__way vipl__direct_post(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                                 struct vipl__direct_message *message, bool waited);
/*
 * Wait some microseconds until vipd has completed the VI's earlier sends. In a stream of sends,
 * earlier sends are always under way; without this wait the whole stream would go through vipd.
 */
void vipl__direct_wait(struct vipl__vi *vi);
void vipl__direct_commit(struct vipl__vi *vi, const struct vipl__direct_message *message);
void vipl__direct_sent(struct vipl__vi *vi);
/* The present operation of a VI with a ring goes through vipd. Under post_lock. */
void vipl__direct_pause(struct vipl__vi *vi);
/* An operation of any VI was posted to vipd; op: VIP_CONTROL_OP_*. Under post_lock. */
static inline void vipl__direct_passed(struct vipl__vi *vi, unsigned op)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];

    __atomic_store_n(&queue->via, queue->via + 1, __ATOMIC_RELAXED);
    vi->rdma_posted |= op != VIP_CONTROL_OP_SENDRECV;
    if (vipl__direct_of(vi) != NULL)
        vipl__direct_pause(vi);
}
/*
 * Is this receive descriptor (a slot of the table) well formed, and can the library reach its
 * regions? *ret_room: number of bytes up to the first byte that is outside its segment's region.
 * Longer messages go through vipd, which finds the error. Under post_lock.
 */
bool vipl__direct_receive_good(const struct vipl__vi *vi, const struct vip_sq_slot *slot,
                               uint32_t *ret_room);
/* Receive descriptor k (as `posted` counts) is in the table: offer it. Under post_lock. */
void vipl__direct_lend(struct vipl__vi *vi, uint32_t k);

/* ---- taking ------------------------------------------------------------------------------ */

/* The source of the completion for the receive descriptor at the head of a queue. */
enum vipl__next {
    VIPL__NEXT_NONE, /* nothing yet */
    VIPL__NEXT_VIPD, /* *ret: the completion of vipd at queue->position */
    VIPL__NEXT_RING, /* *ret: the completion by a message of the ring */
    VIPL__NEXT_LOCK, /* call again: lock post_lock first, then done_lock */
};

/*
 * Does the ring have a message to take, or has the CQ reported one? Needs no lock; the caller
 * chooses its locks by the answer, which may be old.
 */
bool vipl__direct_hint(const struct vipl__direct *direct, const struct vipl__vi *vi);
/*
 * The next completion of the receive queue; descriptor `k` is its head. Under done_lock, and
 * post_lock if `locked`. If *ret_break is set, the caller afterwards, without locks, asks vipd to
 * break the connection.
 */
enum vipl__next vipl__direct_next(struct vipl__vi *vi, struct vipl__direct *direct, uint32_t k,
                                  bool locked, struct vip_comp *ret, bool *ret_break);
/* vipd is dead, a receive descriptor was flushed: take no more ring messages. Under done_lock. */
void vipl__direct_flushed(struct vipl__vi *vi);

/* The VI of a CQ's next entry that comes from a ring; NULL: none. Under the CQ's done_lock. */
struct vipl__vi *vipl__direct_entry(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle);
/* Does the CQ have an entry that comes from a ring? */
bool vipl__direct_waiting(const struct vipl__cq *cq);

/* ---- sleeping ---------------------------------------------------------------------------- */

/*
 * The waiter word of a receive queue or a CQ has changed, or the CQ got a file descriptor: publish
 * in the rings whether a thread of the receiver sleeps. The call ends with a full barrier. After
 * the call, look at the rings once more, because a message may have come before.
 */
void vipl__direct_asleep_vi(struct vipl__vi *vi);
void vipl__direct_asleep_cq(struct vipl__cq *cq);

#endif
