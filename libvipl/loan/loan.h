/*
 * The owner's half of a loan: it runs the engine of one connection in the program's thread, with
 * packets of the program's own socket (vipd/engine/loan.h says what a loan is). It is pure towards
 * vipd: it makes no request and knows no call of VIPL. The caller gives it memory, terms and time.
 *
 * A stay (vipl__loan_turn) receives packets, takes posted sends, handles timers and sends packets.
 * All of this happens between loan_enter and loan_leave, and nothing blocks. One thread at a time
 * can be in a stay. Memory that a stay uses must not change meanwhile: a thread that adds, changes
 * or removes a region of the session holds vipl__loan_lock of each loan of the session.
 *
 * Owns: the engine, packets that it holds, checks of packets, events that the caller has not taken.
 * Does not own: the socket, the shared words (vipd/engine/loan_stay.h), where completions go, when
 * a loan begins and ends. No function of a loan may be called from its callbacks.
 */
#ifndef LIBVIPL_LOAN_LOAN_H
#define LIBVIPL_LOAN_LOAN_H

#include <stdbool.h>
#include <stdint.h>

#include "libvipl/region.h"
#include "proto/loan.h"
#include "proto/wire.h"
#include "vipd/engine/engine.h"

struct vipl__loan;

/* Packets that the engine of a loan may hold. Further ones are dropped, and the peer sends them
 * again. Each costs up to the size of the largest packet of the connection. */
#define VIPL__LOAN_HELD 512u

/* Events that are kept until the caller takes them. Further errors are counted and dropped. */
#define VIPL__LOAN_EVENTS 16u

/* What a loan uses of the program and of libvipl. All of it must stay there until
 * vipl__loan_free. */
struct vipl__loan_host {
    const struct vipl__regions *regions; /* of the session; none of them is staged */
    void *recv_base;                     /* the session's table of receives (proto/direct.h) */
    /* A descriptor has completed. status, length and imm are as in struct vip_comp. */
    void (*complete)(void *ctx, enum vip_queue queue, uint32_t status, uint32_t length,
                     uint64_t imm);
    /* Ring vipd's bell. */
    void (*bell)(void *ctx);
    void *ctx; /* first argument of both functions */
};

/* One loan: what the engine needs to go on where vipd's engine has paused. */
struct vipl__loan_terms {
    uint32_t number;                  /* of the loan; not 0 */
    struct vip_loan_part *part;       /* the owner's words and the table of sends of the VI */
    const struct vip_loan_vipd *vipd; /* vipd's words of the VI */
    int sock; /* UDP socket, connected to the peer's socket; the caller owns it */
    uint16_t vi;
    uint32_t generation; /* of the VI */
    uint32_t ptag;       /* vipd's number of the VI's tag; 0: none */
    struct eng_vi_attrs attrs;
    struct eng_config engine; /* times and sizes; without a place for latencies */
    struct eng_conn conn;
    struct vip_counts peer; /* the peer's counts of this binding */
    struct vip_loan_checkpoint
        checkpoint;   /* how far vipd's engine has come; see vipl__loan_enter */
    uint32_t receive; /* number in the table of the receive that completes next */
};

/* Make an object that has no loan yet. Outcomes: 0 with *ret; -ENOMEM. */
int vipl__loan_new(const struct vipl__loan_host *host, struct vipl__loan **ret);

/* Free the object. If it has a loan, vipl__loan_end comes first. NULL is harmless. */
void vipl__loan_free(struct vipl__loan *loan);

/*
 * vipl__loan_enter: enter the first stay of a loan; the object has none. True: vipd cannot take the
 * loan back now. The caller must now load the checkpoint from vipd's words, write all sends from
 * checkpoint.completed on to the table, and call vipl__loan_begin. False: vipd has ended the loan;
 * the caller must not touch the table, because vipd may be reading it.
 *
 * vipl__loan_begin: begin the loan with its complete terms, and end the stay. now_ns:
 * CLOCK_MONOTONIC. Sends that the peer has processed complete. Outcomes: 0; -EPROTO: the peer's
 * counts or the table contradict the checkpoint. Then the object has no loan, and the caller gives
 * the loan back.
 *
 * The caller holds vipl__loan_lock from before vipl__loan_enter until after vipl__loan_begin.
 */
bool vipl__loan_enter(struct vipl__loan *loan, const struct vipl__loan_terms *terms);
int vipl__loan_begin(struct vipl__loan *loan, const struct vipl__loan_terms *terms,
                     uint64_t now_ns);

/* Outcomes of vipl__loan_turn. */
enum vipl__loan_stay {
    VIPL__LOAN_IDLE = 0, /* nothing came, and nothing was sent */
    VIPL__LOAN_DID,      /* a packet came or left, or a send was taken */
    VIPL__LOAN_BUSY,     /* another thread is in a stay; it also takes all sends posted by now */
    VIPL__LOAN_OVER,     /* vipd has ended the loan, or there is none: nothing was touched */
    VIPL__LOAN_EVENT,    /* as VIPL__LOAN_DID, and vipl__loan_event has events */
};

/* One stay at time now_ns (CLOCK_MONOTONIC). It receives up to the first packet that completes a
 * descriptor, because a program that polls waits for that. If a stay of another thread had a later
 * time, this stay has that one. Any thread. After VIPL__LOAN_OVER, call vipl__loan_end. */
enum vipl__loan_stay vipl__loan_turn(struct vipl__loan *loan, uint64_t now_ns);

/* The program has posted a send: as vipl__loan_turn, but the stay looks at the socket only if the
 * engine cannot send now, or if a timer is due. The program polls later, and one look costs about
 * as much as a packet. */
enum vipl__loan_stay vipl__loan_post(struct vipl__loan *loan, uint64_t now_ns);

/*
 * May the last send, operation number posted - 1, wait for further ones? A call of vipl__loan_post
 * is then not needed. While VIPL__LOAN_STREAM packets are under way, a stream flows: sends wait
 * until there are VIPL__LOAN_TOGETHER of them, or until the next poll, and leave in fewer packets.
 * If the program stays away instead, vipd takes the loan back, because its packets under way have a
 * timer, and sends what waits. Any thread; the object has, or had, a loan.
 */
bool vipl__loan_may_wait(const struct vipl__loan *loan, uint32_t posted);
#define VIPL__LOAN_STREAM   8u
#define VIPL__LOAN_TOGETHER 8u

/*
 * End the loan: drop the engine with all that it holds, without completions. The checkpoint of the
 * last stay says from where vipd goes on. Waits for a thread that is in a stay. The caller must
 * give the loan back to vipd, if vipd has not ended it. Harmless without a loan.
 */
void vipl__loan_end(struct vipl__loan *loan);

/* Tell vipd that a thread sleeps until a packet or the timer of this part's loan comes, or that the
 * thread is awake again. Call it before the last poll, and after the first poll. Any thread. */
void vipl__loan_asleep(struct vip_loan_part *part, bool asleep);

/*
 * vipl__loan_lock: keep stays out, and wait for the present one. vipl__loan_turn then returns
 * VIPL__LOAN_BUSY. vipl__loan_unlock: if a thread has posted meanwhile, one stay follows at the
 * time of the last one; vipl__loan_turn reports later if vipd has ended the loan. Any thread. The
 * functions below hold the lock for a short time.
 */
void vipl__loan_lock(struct vipl__loan *loan);
void vipl__loan_unlock(struct vipl__loan *loan);

/* Take the oldest event of the engine (eng_ops.event). False: there is none. */
bool vipl__loan_event(struct vipl__loan *loan, struct eng_event *ret);

/* Counters; packets, if nothing else is said. They grow over all loans of the object. */
struct vipl__loan_counts {
    uint64_t stays;
    uint64_t sends;                   /* descriptors taken from the table of sends */
    uint64_t rx, tx;                  /* processed by the engine; sent */
    uint64_t tx_lost;                 /* the socket did not take them; the engine repeats them */
    uint64_t tx_unresolved;           /* their memory is not registered any more */
    uint64_t drop[VIP_WIRE_VERDICTS]; /* dropped for this reason */
    uint64_t drop_long;               /* longer than the largest packet of the connection */
    uint64_t drop_kind;               /* no data packets */
    uint64_t drop_conn;               /* of another binding or connection */
    uint64_t drop_dst_epoch;          /* for another life of vipd */
    uint64_t drop_src_epoch;          /* of another life of the peer's vipd */
    uint64_t drop_held_full;          /* ahead of their turn, without room to hold them */
    uint64_t held, replayed;          /* held by the engine; processed later */
    uint64_t duplicate, stale, full;  /* verdicts of the engine: ENG_RX_... */
    uint64_t events_lost;             /* errors for which there was no room */
};
void vipl__loan_counts(struct vipl__loan *loan, struct vipl__loan_counts *ret);

#endif
