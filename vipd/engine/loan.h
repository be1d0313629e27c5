/*
 * The data path of a connection on loan: where the engine of one end of a connection runs. It runs
 * in vipd (home), or in the thread of a program that polls (the owner of the loan). vipd lends and
 * takes back. What moves is the engine of the VI, by the same means as between two lives of vipd:
 * the engine pauses, both ends exchange their counts, and both bind the connection anew
 * (eng_vi_pause, eng_vi_counts, eng_vi_rebind, eng_vi_restore). Memory does not move.
 *
 * struct loan is vipd's half, a pure state machine: it has no descriptor, clock or allocator; time
 * is an argument. Its host (a vipd, or a test) tells it what happens and then does the actions that
 * it returns. loan_stay.h has the shared words and the owner's half.
 *
 *        program polls      probe answered       peer agrees
 *   HOME ------------> ASKED ------------> MOVING_OUT ------------> LENT
 *    ^                                                                |  data waits, timer is over,
 *    |  peer agrees              owner is outside                     v  peer asks, owner is gone
 *    +------------- MOVING_HOME <---------------------------- TAKING_BACK
 *
 * Each end counts its bindings: an end gets a new number whenever it asks the peer to bind the
 * connection anew, and whenever it answers the peer. A loan has the number of its binding. An end
 * ignores requests and answers with older numbers, so late copies have no effect.
 *
 * An end that the peer asks first takes back its own loan, then it answers. If its owner was
 * outside at once, the answer lends again: it names the same socket with the new number. So both
 * ends of a connection can be on loan. If both ends ask at once, the end that is not `first`
 * answers.
 *
 * Owns: state, numbers and deadlines of one end. Does not own: sockets, packets between the ends,
 * the engine. Callers: one thread per object.
 */
#ifndef VIPD_ENGINE_LOAN_H
#define VIPD_ENGINE_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipd/engine/loan_stay.h"

struct loan;

#define LOAN_NEVER UINT64_MAX

/* Shortest time, in ns, without a beat after which vipd takes the loan back if data waits. It is
 * longer than a program usually computes between two polls, and shorter than a retransmission. */
#define LOAN_PATIENCE_NS 500000u
/* Longest such time, in ns: a message waits at most about twice as long. An owner that sleeps until
 * a packet comes always has this time: the packet wakes it, too, so it is late only if it is stopped
 * or gets no processor. */
#define LOAN_PATIENCE_MAX_NS 10000000u
/* Patience doubles if the program polls again within this time, in ns, after a take-back: it did not
 * leave, but another process had its processor. */
#define LOAN_RETURN_NS 5000000u
/* A loan that lasted this time, in ns, halves the patience. */
#define LOAN_CALM_NS 1000000000u
/* A program that lost its loan to data must poll for this time, in ns, before it gets the next. */
#define LOAN_STEADY_NS 5000000u
/* A longer time between two polls, in ns, is a pause. */
#define LOAN_PAUSE_NS 500000u
/* Largest number of moves of one end in loan_config.moves_ns, which is usually LOAN_MOVES_NS. A move
 * costs both vipd about 50 us. */
#define LOAN_MOVES_MAX 10u
#define LOAN_MOVES_NS  1000000000u
/* A probe is repeated after this time, in ns, and sent this often at most. */
#define LOAN_PROBE_NS 20000000u
#define LOAN_PROBES   3u
/* After probes without an answer, or a refusal of the peer, vipd asks again after this time, in
 * ns. The reason is usually a firewall, which stays. */
#define LOAN_BLOCKED_NS 1000000000u
/* A request to the peer is repeated after this time, in ns, which doubles up to the second one. */
#define LOAN_ASK_NS     10000000u
#define LOAN_ASK_MAX_NS 200000000u
/* While the owner is inside a revoked loan, vipd looks again after this time, in ns, which doubles
 * up to the second one. */
#define LOAN_LOOK_NS     20000u
#define LOAN_LOOK_MAX_NS 2000000u

enum loan_state {
    LOAN_HOME = 0,    /* the engine runs in vipd */
    LOAN_ASKED,       /* as HOME; a probe over the program's socket has no answer yet */
    LOAN_MOVING_OUT,  /* the engine is paused in vipd; the peer has not answered yet */
    LOAN_LENT,        /* the owner runs the engine */
    LOAN_TAKING_BACK, /* the loan is revoked; the owner may still be inside */
    LOAN_MOVING_HOME, /* the engine is paused in vipd; the peer has not answered yet */
    LOAN_ENDED,       /* the connection ends; no state follows */
};
#define LOAN_STATES (LOAN_ENDED + 1)

/* Name of a state, for views and logs. */
const char *loan_state_name(enum loan_state state);

/*
 * Actions of the host, as a set of bits. The host does the actions of a set in the order of this
 * list.
 */
enum loan_do {
    LOAN_DO_UNWATCH = 1 << 0, /* let the duplicate of the owner's socket wake vipd no more */
    LOAN_DO_WATCH = 1 << 1,   /* call loan_data_waits when data waits at the owner's socket */
    LOAN_DO_SHUT = 1 << 2,    /* give the program's socket up */
    LOAN_DO_TAKE = 1 << 3,    /* call loan_take, restore the engine in vipd (paused), loan_taken */
    LOAN_DO_PAUSE = 1 << 4,   /* pause the engine in vipd */
    LOAN_DO_ANSWER = 1 << 5,  /* answer the peer's request: loan_number, loan_is_out, the counts.
                                 Keep the answer for repetitions of the request */
    LOAN_DO_GO_ON = 1 << 6,   /* rebind the engine in vipd with the peer's counts */
    LOAN_DO_LEND = 1 << 7,    /* write the terms of the loan for the owner, then call loan_lend */
    LOAN_DO_OFFER = 1 << 8,   /* ask the peer to bind anew: loan_number, loan_is_out, the counts */
    LOAN_DO_PROBE = 1 << 9,   /* a probe is due over the program's socket */
    LOAN_DO_END = 1 << 10,    /* end the connection for the reason loan_why_ended */
};

/* Reasons for a take-back. */
enum loan_back {
    LOAN_BACK_NONE = 0,
    LOAN_BACK_DATA,    /* data waited, and the owner did not come */
    LOAN_BACK_TIMER,   /* the owner did not come for its own timer */
    LOAN_BACK_PEER,    /* the peer asked */
    LOAN_BACK_GONE,    /* the program gave the loan back */
    LOAN_BACK_RESTART, /* an earlier life of vipd had lent it */
    LOAN_BACK_OVER,    /* the connection ends */
};

/* Reasons for the end of a connection. */
enum loan_end {
    LOAN_END_NONE = 0,
    LOAN_END_DIED,   /* the program died */
    LOAN_END_INSIDE, /* the owner stayed inside a revoked loan for conn_timeout */
    LOAN_END_SILENT, /* the peer did not answer a request for conn_timeout */
    LOAN_END_OVER,   /* the host said so: loan_over */
};

struct loan_config {
    bool first; /* this end sent the REQUEST of the connection; the ends differ in this */
    uint64_t conn_timeout_ns;
    uint64_t moves_ns; /* time for LOAN_MOVES_MAX moves */
};

/* Size of a struct loan in bytes. The host provides this memory. */
size_t loan_bytes(void);

/*
 * Begin in HOME. `own` and `owner` are the shared words; they must stay there as long as the loan.
 * own->number and own->peer are the numbers of both ends, not 0; the rest of *own is 0.
 */
struct loan *loan_init(void *memory, const struct loan_config *config, struct vip_loan_vipd *own,
                       const struct vip_loan_owner *owner);

/* The next life of vipd: as loan_init, but the earlier life has written *own. If a loan is out, it
 * is taken back first. Then the connection is bound anew. */
struct loan *loan_restore(void *memory, const struct loan_config *config, struct vip_loan_vipd *own,
                          const struct vip_loan_owner *owner, uint64_t now_ns, uint32_t *ret_do);

/* ---- what happens ---------------------------------------------------------------------- */
/* Each of these functions returns a set of actions. */

/* The program polls, or sleeps in a call of the library, and has a socket for a loan. Call this
 * function for each poll that vipd notices. steady_ns: for this time, as the program says, it has
 * done so without a pause. */
uint32_t loan_polls(struct loan *loan, uint64_t steady_ns, uint64_t now_ns);

/* The answer to a probe came over the program's socket. */
uint32_t loan_probed(struct loan *loan, uint64_t now_ns);

/* What the host does with a request of the peer. */
enum loan_verdict {
    LOAN_TAKEN = 0, /* keep the request; LOAN_DO_ANSWER comes, now or later */
    LOAN_AGAIN,     /* repeat the kept answer, if there is one */
    LOAN_LATER,     /* ignore it: it is being answered, or the peer will answer this end's one */
    LOAN_STALE,     /* ignore it: an old copy */
};

/* The peer asks to bind anew; its new number is `peer_number`, not trusted. */
enum loan_verdict loan_peer_asks(struct loan *loan, uint32_t peer_number, uint64_t now_ns,
                                 uint32_t *ret_do);

/*
 * The peer has answered the request with this end's number `number`; its own new number is
 * `peer_number`, and it sends to the loan's address (`to_loan`) or to vipd's. Neither is trusted.
 * No action: the answer is old.
 */
uint32_t loan_peer_agreed(struct loan *loan, uint32_t number, uint32_t peer_number, bool to_loan,
                          uint64_t now_ns);

/* Data waits at the owner's socket. The host may call it in any state. */
uint32_t loan_data_waits(struct loan *loan, uint64_t now_ns);

/* vipd has a send that the program posted before it knew of its loan: the owner must come by. Also
 * allowed in any state. */
uint32_t loan_owes(struct loan *loan, uint64_t now_ns);

/* The owner has rung the bell: its timer is due before vipd would look. Also allowed in any state. */
uint32_t loan_rung(struct loan *loan, uint64_t now_ns);

/* The program waits in a way that needs vipd, or gives the loan back. */
uint32_t loan_owner_gone(struct loan *loan, uint64_t now_ns);

/* All threads of the program are dead, so the owner stores nothing any more. */
uint32_t loan_owner_died(struct loan *loan);

/* The connection ends: the peer closed it, the program disconnects, or counts contradict each
 * other. LOAN_DO_END comes when the owner is outside. */
uint32_t loan_over(struct loan *loan, uint64_t now_ns);

/* Time is now loan_deadline or later. */
uint32_t loan_tick(struct loan *loan, uint64_t now_ns);
/* When the host must call loan_tick next; LOAN_NEVER: no timer runs. */
uint64_t loan_deadline(const struct loan *loan);

/* ---- parts of actions ------------------------------------------------------------------ */

/* What the program has posted, by number: of the operation after its last posted send, and of the
 * receive after its last posted one. */
struct loan_posted {
    uint32_t sends, receives;
};

/*
 * LOAN_DO_TAKE: get the checkpoint with which the engine goes on. Outcomes: 0; 1: no loan was out,
 * so the engine goes on with vipd's own checkpoint; -EPROTO: the owner's checkpoint contradicts
 * what vipd knows, and the host must end the connection (loan_over). *ret is set only for 0. A
 * program that writes a wrong checkpoint within these bounds harms its own connection only.
 */
int loan_take(const struct loan *loan, const struct loan_posted *posted,
              struct vip_loan_checkpoint *ret);
/* LOAN_DO_TAKE: the host has stored the checkpoint where the next life of vipd finds it. */
void loan_taken(struct loan *loan);

/* LOAN_DO_LEND: open the loan. `checkpoint`: of the paused engine. `timer_ns`: the owner's timer
 * until its first stay ends: now, if the engine has something to send, or 0. */
void loan_lend(struct loan *loan, const struct vip_loan_checkpoint *checkpoint, uint64_t timer_ns);

enum loan_state loan_state(const struct loan *loan);
uint32_t loan_number(const struct loan *loan); /* newest number of this end */
uint32_t loan_peer(const struct loan *loan);   /* newest known number of the peer's end */
bool loan_is_out(const struct loan *loan);     /* the newest binding names the loan's address */
enum loan_back loan_why_back(const struct loan *loan); /* reason of the last take-back */
enum loan_end loan_why_ended(const struct loan *loan);
/* Did no answer to the last probes come, or did the peer refuse? So vipd makes no probe now. */
bool loan_is_blocked(const struct loan *loan, uint64_t now_ns);
uint64_t loan_patience_ns(const struct loan *loan); /* time without a beat, at present */

#endif
