/*
 * Small messages between two programs of one host, past vipd (proto/direct.h).
 *
 * vipd gives both ends of a connection a ring. A send goes by it under two conditions. First,
 * nothing of its VI is under way through vipd; so the order is kept. Second, the receive that it
 * will find is known to take it; so vipd still finds every error of the specification. All other
 * messages go through vipd, message by message. A receive completes by the ring or by vipd; a
 * completion of vipd says how many messages of the ring come before it. A receiver that sleeps says
 * so in the ring; messages for it go through vipd, which wakes it.
 *
 * Owns: both ends of a VI's ring, the choice of the way, entries of CQs for it, the session's table
 * of receives. Does not own: what a Done call does with a completion (done.c), the submission ring
 * (post.c).
 */
#ifndef LIBVIPL_DIRECT_H
#define LIBVIPL_DIRECT_H

#include "libvipl/session.h"
#include "proto/control.pb-c.h"
#include "proto/direct.h"

/* The ring of a VI; kept for as long as the VI object, used again. */
struct vipl__direct {
    uint32_t live;  /* atomic; there is a ring; changes under post_lock and both done_locks */
    uint32_t taken; /* atomic; messages taken; under the receive queue's done_lock */
    void *map;      /* reserved address: struct vip_direct, or empty pages */
    struct vip_direct_way *in; /* the direction to this end */
    uint32_t first;            /* receive (as `posted` counts) of message 0 */
    bool unreliable;           /* the VI's level */
    bool lends;                /* receives are offered to it */
    bool sends;                /* the CQ of the send queue, if any, looks at this VI */
    bool stopped;              /* no more sends by it; under post_lock */
    bool broken, over;         /* messages that still come are not taken; under done_lock */
    uint32_t reported;         /* atomic; reported by the CQ; written under its done_lock */
    uint32_t max_bytes;        /* of a message */
    uint32_t asleep_lock;      /* guards in->asleep */
    uint64_t bytes;            /* taken; under done_lock */
    uint32_t behind;   /* sends in a row through vipd only to keep the order; under post_lock */
    uint32_t run;      /* sends in a row by the ring */
    uint32_t patience; /* value of `behind` at which a send waits until vipd has done the others */
    uint64_t random;   /* VIPL_DIRECT=random */
    struct vip_direct_out out; /* under post_lock */
    /* For each receive: its room in bytes as offered, or VIPL__NOT_LENT; under post_lock. */
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
 * Make the table of receives. Without it all messages go through vipd: with VIPL_DIRECT=0, in a
 * watched session, without memory. Outcomes: VIP_SUCCESS; VIP_ERROR_RESOURCE with the reason: vipd
 * refuses it or is gone.
 */
VIP_RETURN vipl__direct_open(struct vipl__session *session);
/* The session ends; no thread is in it. */
void vipl__direct_close(struct vipl__session *session);
/* A VI was created, before its handle is valid; or has ended. Under session->lock. */
void vipl__direct_create(struct vipl__vi *vi);
void vipl__direct_destroy(struct vipl__vi *vi);
/* vipd has made a ring for a VI; fd stays the caller's. Under session->lock. */
void vipl__direct_attach(struct vipl__vi *vi, const Vip__Direct *event, int fd);

/* ---- posting ----------------------------------------------------------------------------- */

/* A message; its bytes are in their place. */
struct vipl__direct_message {
    uint32_t len;
    uint8_t flags;
    uint64_t imm;
};

/*
 * Put the bytes of `desc` into the ring, if it may go there. Under post_lock. YES: the caller puts
 * the descriptor on its queue and calls commit, still under post_lock; then, behind a full barrier
 * and without the lock, it calls sent. NO: the send goes through vipd, nothing was done. LATER
 * (never with `waited`): the caller releases the lock, calls wait, and tries again with `waited`.
 */
enum vipl__way { VIPL__WAY_NO, VIPL__WAY_YES, VIPL__WAY_LATER };
enum vipl__way vipl__direct_post(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                                 struct vipl__direct_message *message, bool waited);
/*
 * Wait some microseconds until vipd has done the VI's earlier sends. A stream of sends always has
 * some under way and would otherwise go through vipd for ever.
 */
void vipl__direct_wait(struct vipl__vi *vi);
void vipl__direct_commit(struct vipl__vi *vi, const struct vipl__direct_message *message);
void vipl__direct_sent(struct vipl__vi *vi);
/* A send of a VI with a ring has gone through vipd. Under post_lock. */
void vipl__direct_pause(struct vipl__vi *vi);
/* A send goes through vipd; op: VIP_CONTROL_OP_*. Under post_lock. */
static inline void vipl__direct_passed(struct vipl__vi *vi, unsigned op)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];

    __atomic_store_n(&queue->via, queue->via + 1, __ATOMIC_RELAXED);
    vi->rdma_posted |= op != VIP_CONTROL_OP_SENDRECV;
    if (vipl__direct_of(vi) != NULL)
        vipl__direct_pause(vi);
}
/*
 * Is this receive (a slot of the table) well formed, and can the library reach its regions?
 * *ret_room: bytes before the first one that is outside its segment's region; longer messages go
 * through vipd, which judges them. Under post_lock.
 */
bool vipl__direct_receive_good(const struct vipl__vi *vi, const struct vip_sq_slot *slot,
                               uint32_t *ret_room);
/* Receive k (as `posted` counts) is in the table: offer it to the ring. Under post_lock. */
void vipl__direct_lend(struct vipl__vi *vi, uint32_t k);

/* ---- taking ------------------------------------------------------------------------------ */

/* What completes the receive at the head of a queue. */
enum vipl__next {
    VIPL__NEXT_NONE, /* nothing yet */
    VIPL__NEXT_VIPD, /* the completion of vipd at queue->position, which is *ret */
    VIPL__NEXT_RING, /* a message of the ring, taken: *ret */
    VIPL__NEXT_LOCK, /* call again with post_lock held, taken before done_lock */
};

/* Has a message come, or has the CQ reported one? A hint for which locks to take; needs no lock. */
bool vipl__direct_hint(const struct vipl__direct *direct, const struct vipl__vi *vi);
/*
 * The next completion of the receive queue; receive `k` is its head. Under done_lock, and post_lock
 * if `locked`. *ret_break: afterwards, without locks, ask vipd to break the connection.
 */
enum vipl__next vipl__direct_next(struct vipl__vi *vi, struct vipl__direct *direct, uint32_t k,
                                  bool locked, struct vip_comp *ret, bool *ret_break);
/* vipd is dead and a receive was flushed: nothing of the ring comes after it. Under done_lock. */
void vipl__direct_flushed(struct vipl__vi *vi);

/* The next entry of a CQ that comes from a ring: its VI, or NULL. Under the CQ's done_lock. */
struct vipl__vi *vipl__direct_entry(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle);
/* Is there such an entry? */
bool vipl__direct_waiting(const struct vipl__cq *cq);

/* ---- sleeping ---------------------------------------------------------------------------- */

/*
 * The waiter word of a receive queue or a CQ has changed, or the CQ got a file descriptor: say in
 * the rings whether the receiver sleeps. It has a full barrier: look at the ring afterwards.
 */
void vipl__direct_asleep_vi(struct vipl__vi *vi);
void vipl__direct_asleep_cq(struct vipl__cq *cq);

#endif
