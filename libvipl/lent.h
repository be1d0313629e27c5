/*
 * Loans as the VIPL calls see them. While a connection is on loan, this library runs its engine
 * (libvipl/loan/loan.h) in the thread that polls (doc/architecture.md, "Who runs the engine").
 *
 * A send on loan goes into the VI's table of sends (proto/loan.h), which vipd can read, too. A
 * completion on loan goes into memory of this file, not into vipd's completion rings. Each
 * descriptor completes on loan or by vipd; queue->how says which. When vipd has taken a loan back,
 * posts go into the submission ring again.
 *
 * Owns: which VIs ask for a loan, when their engines run, completions on loan and their CQ entries.
 * Does not own: the engine's turn (loan/turn.c), when a loan ends (vipd).
 */
#ifndef LIBVIPL_LENT_H
#define LIBVIPL_LENT_H

#include "libvipl/loan/loan.h"
#include "libvipl/session.h"
#include "proto/control.pb-c.h"

/* Completions on loan of one queue. */
struct vipl__lent_queue {
    uint32_t next;     /* number (as `posted` counts) of the next descriptor; under loan's lock */
    uint32_t done;     /* atomic; number of completions ever made; written under loan's lock */
    uint32_t taken;    /* of these, returned by Done calls; under the queue's done_lock */
    uint32_t reported; /* of these, reported by the CQ; under the CQ's done_lock */
    struct vip_comp comp[VIP_DESC_PER_QUEUE_MAX]; /* by number; valid with VIPL__HOW_LOAN */
};

/* A program that polls looks at the clock every VIPL__LENT_POLLS-th time that it finds nothing, and
 * every VIPL__LENT_TAKES-th time that it takes a descriptor. */
#define VIPL__LENT_POLLS 64u
#define VIPL__LENT_TAKES 4u

struct vipl__extra;

enum vipl__lent_state {
    VIPL__LENT_NONE = 0, /* vipd runs the engine */
    VIPL__LENT_OFFERED,  /* vipd has sent terms, and no thread has begun the loan yet */
    VIPL__LENT_BEGINS,   /* one thread begins or ends the loan */
    VIPL__LENT_LIVE,     /* polls run the engine */
    VIPL__LENT_BACK,     /* given back; vipd does not know it yet */
};

/* What this library knows of a VI's loans. A later VI with the same VI object uses it again. */
struct vipl__lent {
    struct vipl__vi *vi;
    uint32_t state;      /* atomic; enum vipl__lent_state */
    uint32_t offered;    /* number of the last loan that vipd has offered; 0: none; atomic */
    bool tells;          /* vipd says when it has taken this loan back; atomic */
    uint32_t out;        /* sends go into the table; under post_lock */
    uint32_t ask;        /* see vipl__lent_ask_first; under post_lock */
    uint32_t op_base;    /* of a send: operation number minus number as `posted` counts */
    uint32_t prod;       /* vipd's word `prod` of the send queue when the last loan began; atomic */
    uint32_t done;       /* queue[VIP_Q_SEND].done at that time; atomic */
    uint32_t conts;      /* next continuation slot of the part; under post_lock */
    uint32_t conts_used; /* continuation slots in use; atomic */
    unsigned number;     /* of the part; VIP_LOANS_MAX: none */
    struct vip_loan_part *part;    /* NULL: none */
    struct vipl__loan *loan;       /* NULL: none */
    struct vipl__loan_terms terms; /* written before `state` becomes OFFERED */
    int sock;                      /* -1: none */
    uint64_t pending_ns;           /* until then vipd may still lend, by the last request; atomic */
    /* vipd's probe; the thread that polls sends it. If none polls, the session's thread does. */
    uint16_t probe_len; /* bytes; 0: none; atomic */
    unsigned probes;    /* how often it may still be sent */
    uint64_t probe_next_ns;
    uint8_t probe[VIP_WIRE_CM_BYTES_MAX];
    uint64_t random;                  /* state of VIPL_LOAN=random; atomic */
    uint32_t conns;                   /* number of connections that are over; atomic */
    uint32_t breaks;                  /* atomic; the engine has broken connection breaks - 1 */
    struct eng_event broken;          /* how */
    struct vipl__lent_queue queue[2]; /* indexed by enum vip_queue */
};

static inline struct vipl__lent *vipl__lent_of(const struct vipl__vi *vi)
{
    return __atomic_load_n(&vi->lent, __ATOMIC_ACQUIRE);
}

/* Has the engine of this program broken the VI's connection? */
static inline bool vipl__lent_broken(const struct vipl__vi *vi)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);

    return lent != NULL && __atomic_load_n(&lent->breaks, __ATOMIC_ACQUIRE) ==
                               __atomic_load_n(&lent->conns, __ATOMIC_RELAXED) + 1;
}

/* Slow path of vipl__lent_poll. */
void vipl__lent_turn(struct vipl__lent *lent);

/* The program polls this VI: run its engine, if it is on loan. Holds no lock. */
static inline void vipl__lent_poll(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vipl__lent_of(vi);

    if (__builtin_expect(lent != NULL, 0) &&
        __atomic_load_n(&lent->state, __ATOMIC_RELAXED) != VIPL__LENT_NONE)
        vipl__lent_turn(lent);
}

/*
 * Number of sends that did not go by a ring and have completed, plus the position at which the VI's
 * completions began. While a loan is out, vipd's word stands still; when vipd has taken the loan
 * back, the word also counts the completions on loan.
 */
static inline uint32_t vipl__sends_completed(const struct vipl__vi *vi)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);
    uint32_t prod = vip_load32_acquire(vi->queue[VIP_Q_SEND].prod);

    if (__builtin_expect(lent == NULL, 1) || __atomic_load_n(&lent->prod, __ATOMIC_ACQUIRE) != prod)
        return prod;
    return prod + __atomic_load_n(&lent->queue[VIP_Q_SEND].done, __ATOMIC_ACQUIRE) -
           __atomic_load_n(&lent->done, __ATOMIC_RELAXED);
}

/* Has vipd taken back the VI's last loan, with all sends that it found in the table? */
static inline bool vipl__lent_taken(const struct vipl__lent *lent)
{
    const struct vip_loan_vipd *words =
        &vip_vipd_vi((void *)lent->vi->session->vipd, lent->vi->index)->loan;
    uint32_t number = __atomic_load_n(&lent->offered, __ATOMIC_RELAXED);

    return vip_load32_acquire(&words->taken) == number || vip_load32(&words->lent) != number;
}

/* Sends of this VI do not go into its table any more. Under post_lock. */
static inline void vipl__lent_out_ends(struct vipl__lent *lent)
{
    lent->ask |= lent->out;
    lent->out = 0;
}

/* Do sends of this VI go into its table of sends? Under post_lock. */
static inline bool vipl__lent_out(struct vipl__lent *lent)
{
    if (lent->out != 0 && vipl__lent_taken(lent))
        vipl__lent_out_ends(lent);
    return lent->out != 0;
}

/*
 * vipd may have looked at the table of sends for the last time before a thread wrote the last send.
 * So before the first send by the submission ring, ask vipd to look once more (VIP_ASK_SENDS). Else
 * vipd would take that send for the one in the table. Under post_lock. False: the ring is full.
 */
bool vipl__lent_ask_first(struct vipl__lent *lent);

/* Has the table room for this send? Under post_lock. */
bool vipl__lent_room(const struct vipl__lent *lent, const VIP_DESCRIPTOR *desc,
                     const struct vipl__extra *extra);
/* Write a send, number `number` as `posted` counts, into the table. Under post_lock. */
void vipl__lent_write(struct vipl__lent *lent, uint32_t number, const VIP_DESCRIPTOR *desc,
                      const struct vipl__extra *extra);

/* A send was written into the table. Call this after a full barrier, without locks. */
void vipl__lent_posted(struct vipl__lent *lent);

/* Has descriptor `number` (as `posted` counts), the head of its queue, completed on loan? Then *ret
 * is the completion. Under the queue's done_lock. */
static inline bool vipl__lent_take(struct vipl__vi *vi, enum vip_queue which, uint32_t number,
                                   struct vip_comp *ret)
{
    struct vipl__lent *lent = vipl__lent_of(vi);
    uint32_t slot = number & (VIP_DESC_PER_QUEUE_MAX - 1);

    if (__builtin_expect(lent == NULL, 1) ||
        (__atomic_load_n(&vi->queue[which].how[slot], __ATOMIC_ACQUIRE) & VIPL__HOW_LOAN) == 0)
        return false;
    *ret = lent->queue[which].comp[slot];
    lent->queue[which].taken++;
    return true;
}

/* Does the queue's CQ have an entry of a completion on loan? Under the CQ's done_lock. */
static inline bool vipl__lent_has_entry(const struct vipl__vi *vi, enum vip_queue which)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);

    return lent != NULL && __atomic_load_n(&lent->queue[which].done, __ATOMIC_ACQUIRE) !=
                               lent->queue[which].reported;
}

/* Report this entry. Under the CQ's done_lock. */
static inline void vipl__lent_report(const struct vipl__vi *vi, enum vip_queue which)
{
    vipl__lent_of(vi)->queue[which].reported++;
}

/* Can a connection of the session be on loan? */
static inline bool vipl__lends(const struct vipl__session *session)
{
    return __builtin_expect(__atomic_load_n(&session->loans, __ATOMIC_RELAXED) != NULL, 0);
}

/* Slow path of vipl__lent_idle. */
void vipl__lent_ask(struct vipl__vi *vi);

/* A Done call for this VI has found nothing: ask vipd for a loan if the program polls without a
 * pause. Holds no lock. */
static inline void vipl__lent_idle(struct vipl__vi *vi)
{
    uint32_t polls;

    if (__builtin_expect(__atomic_load_n(&vi->asks.host_len, __ATOMIC_RELAXED) == 0, 1))
        return;
    polls = __atomic_load_n(&vi->asks.polls, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&vi->asks.polls, polls, __ATOMIC_RELAXED);
    if ((polls & (VIPL__LENT_POLLS - 1)) == 0)
        vipl__lent_ask(vi);
}

/* Slow path of vipl__lent_took. */
void vipl__lent_ask_took(struct vipl__vi *vi);

/* A Done call for this VI has taken a descriptor: ask vipd for a loan if that happens often. A
 * program that computes, sleeps or yields between its polls makes few of them. Holds no lock. */
static inline void vipl__lent_took(struct vipl__vi *vi)
{
    uint32_t takes;

    if (__builtin_expect(__atomic_load_n(&vi->asks.host_len, __ATOMIC_RELAXED) == 0, 1))
        return;
    takes = __atomic_load_n(&vi->asks.takes, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&vi->asks.takes, takes, __ATOMIC_RELAXED);
    if ((takes & (VIPL__LENT_TAKES - 1)) == 0)
        vipl__lent_ask_took(vi);
}

/* A thread is about to sleep for completions of this VI: ask vipd for a loan if that happens
 * often. Holds no lock; vi->asks.host_len is not 0. */
void vipl__lent_ask_asleep(struct vipl__vi *vi);

/* Is the VI on loan, or offered, so that a thread can rest (lent_rest.c)? No other thread rests. */
bool vipl__lent_can_rest(const struct vipl__vi *vi);

/* Does a thread of the session sleep for vipd that could rest? */
bool vipl__lent_missed(struct vipl__session *session);

/* Make what a thread of the session needs to rest. False: no file descriptor is free. Under
 * session->lock. */
bool vipl__lent_rest_ready(struct vipl__session *session);

struct vipl__sleeper;

/* struct vipl__sleeper: rest, for a thread that waits for completions of this queue. */
VIP_RETURN vipl__lent_rest(struct vipl__vi *vi, enum vip_queue which, struct vipl__sleeper *wait,
                           uint64_t deadline_ns);

/* The VI has a new connection. host: address of the peer's NIC, host_len bytes; 0 bytes: the
 * connection cannot be on loan. Under session->lock. */
void vipl__lent_connected(struct vipl__vi *vi, const uint8_t *host, size_t host_len);

/* vipd lends this connection (an event of vipd). The provider thread calls this, under
 * session->lock. */
void vipl__lent_offer(struct vipl__vi *vi, const Vip__Lent *event);

/*
 * Give loans back: those of VIs for whose completions a thread waits in another way than by polls
 * or at rest (the caller has published that it sleeps), or `all`. An offer stays if a thread that
 * sleeps can rest. Does not wait for vipd. Returns whether there was one.
 */
bool vipl__lent_back(struct vipl__session *session, bool all);

/* A thread that waits for completions goes to sleep, or wakes up; the caller has published this.
 * `sleeps`: the counter of its VI or CQ. */
static inline void vipl__lent_sleep(struct vipl__session *session, uint32_t *sleeps)
{
    __atomic_add_fetch(sleeps, 1, __ATOMIC_RELAXED);
    (void)vipl__lent_back(session, false);
}

/* The program polls this CQ: run the engine of one of its VIs on loan. Holds no lock. */
void vipl__lent_poll_cq(struct vipl__cq *cq);

/* A loan that the last vipd had not taken back, for the next vipd (PastVi in proto/control.proto). */
struct vipl__lent_past {
    uint32_t number; /* 0: there was none */
    bool used;       /* then `at` is set */
    struct vip_loan_checkpoint at;
};

/* vipd has ended. End the VI's loan, if it has one; *ret is for the next vipd. The provider thread
 * calls this. */
void vipl__lent_away(struct vipl__vi *vi, struct vipl__lent_past *ret);
/* The next vipd knows this: the VI can get a loan again. */
void vipl__lent_told(struct vipl__vi *vi);
/* No vipd goes on with this VI: end its loan, before the library flushes its descriptors. Under
 * session->lock. */
void vipl__lent_dead(struct vipl__vi *vi);

/* Number of CQ entries of completions on loan that the program has not got. Under the CQ's
 * done_lock. */
static inline uint32_t vipl__lent_entries(const struct vipl__vi *vi, enum vip_queue which)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);

    return lent == NULL ? 0
                        : __atomic_load_n(&lent->queue[which].done, __ATOMIC_ACQUIRE) -
                              lent->queue[which].reported;
}

/* The connection of this VI ends by a call of the program: run its engine no more. */
void vipl__lent_stop(struct vipl__vi *vi);

/* Keep all stays of the session out while regions change. Takes locks that come before post_lock.
 * Returns the argument of vipl__lent_unlock. */
struct vipl__loans *vipl__lent_lock(struct vipl__session *session);
void vipl__lent_unlock(struct vipl__loans *loans);

/* The VI was destroyed, or a new VI begins with this object. Under session->lock. */
void vipl__lent_reset(struct vipl__vi *vi);
/* The session closes (`closing` is set): end its thread. */
void vipl__lent_join(struct vipl__session *session);
/* The session ends; no thread is in it. */
void vipl__lent_close(struct vipl__session *session);

#endif
