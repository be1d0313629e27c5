/*
 * The handshake of a loan's shared words, and the half of the loan's protocol that the owner runs.
 * A loan is the data path of one connection that a program runs instead of vipd (loan.h). The owner
 * is the thread of the program that runs the engine.
 *
 * A stay is the time in which the owner uses the loan: from its first look at a packet to its last
 * store to registered memory, to a queue or to the checkpoint. The owner publishes its stay
 * (`inside`), makes a full barrier and then loads `revoked`. vipd stores `revoked`, makes a full
 * barrier and then loads `inside`. So at least one of the two sees the store of the other. vipd
 * takes the loan back only while the owner is outside, so an owner that is late never writes over
 * newer bytes.
 *
 * Owns: every load and store of the words. Does not own: their layout (proto/shm.h, proto/loan.h),
 * when a loan begins and ends (loan.c), the engine of the owner. The program calls
 * loan_owner_init, loan_offered, loan_enter, loan_packet, loan_leave and loan_words_asleep, with
 * one thread at a time. vipd calls the other functions from loan.c. No function makes a system
 * call.
 */
#ifndef VIPD_ENGINE_LOAN_STAY_H
#define VIPD_ENGINE_LOAN_STAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/loan.h"

/* Largest number of packets of one stay. So a stay is short, and vipd can take the loan back soon
 * from an owner that has much to do. */
#define LOAN_STAY_PACKETS 64u
/* The owner may be late by this time, in ns, for its own timer. */
#define LOAN_TIMER_NS 1000000u

/* In a test build, a test lets the other side take steps at each access to the shared words. */
#ifdef VIP_LOAN_STEPS
void loan_step(void);
#else
#define loan_step() ((void)0)
#endif

/* Is number a older than b? Numbers wrap; 0 is no number. */
static inline bool loan_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* The number after `number`. */
static inline uint32_t loan_number_next(uint32_t number)
{
    return number + 1 ? number + 1 : 1;
}

/* ---- the owner ------------------------------------------------------------------------- */

/* The owner's private memory of its loan. The program makes it, the functions below change it. */
struct loan_owner {
    struct vip_loan_owner *words;
    const struct vip_loan_vipd *vipd;
    uint32_t number;  /* of the loan of the present stay; 0: outside */
    unsigned packets; /* that the present stay may still handle */
    uint64_t look_ns; /* when vipd looks again, as the owner found it when it entered */
};

void loan_owner_init(struct loan_owner *owner, struct vip_loan_owner *words,
                     const struct vip_loan_vipd *vipd);

/* Number of the newest loan; 0: none. Inside this loan, its terms are visible. Outside, vipd may be
 * writing the next ones. */
uint32_t loan_offered(const struct loan_owner *owner);

/*
 * Begin a stay with loan `number`. True: the owner is inside; it must call loan_leave. False: this
 * loan is over, and the owner is outside. Then the program must touch nothing of this loan: no
 * packet, no queue, no registered memory on behalf of the engine.
 */
bool loan_enter(struct loan_owner *owner, uint32_t number);

/* May the present stay handle one more packet, in or out? False: leave first. */
bool loan_packet(struct loan_owner *owner);

/*
 * End the stay. `timer_ns`: the deadline of the engine; 0: nothing is under way or owed.
 * `checkpoint`: how far the engine has come. True: the caller must now ring vipd's bell, because
 * vipd would look too late for this timer. vipd sleeps while the owner is away and owes nothing.
 */
bool loan_leave(struct loan_owner *owner, uint64_t timer_ns,
                const struct vip_loan_checkpoint *checkpoint);

/*
 * Outside: say that the owner sleeps until a packet or its timer comes, or that it is awake again.
 * To sleep, call this before the last stay; after waking, call this after the first stay. Then vipd
 * never finds an owner that is awake and has not yet come.
 */
void loan_words_asleep(struct vip_loan_owner *words, bool asleep);

/* ---- vipd ------------------------------------------------------------------------------ */

/* One look of vipd at the words of the owner. Each word is loaded once. */
struct loan_look {
    bool inside;
    bool asleep; /* the owner sleeps until a packet or its timer comes */
    uint32_t app_beat;
    uint32_t app_number; /* number of the loan to which the timer belongs */
    uint64_t app_timer_ns;
};
void loan_words_look(const struct vip_loan_owner *words, struct loan_look *ret);

/* Is the owner outside? If so, all its stores of earlier stays are visible. */
bool loan_words_outside(const struct vip_loan_owner *words);

/* The checkpoint that the owner has left for loan `number`, not checked. False: the owner has left
 * none for this loan. Call it after loan_words_outside has returned true. */
bool loan_words_checkpoint(const struct vip_loan_owner *words, uint32_t number,
                           struct vip_loan_checkpoint *ret_app);

/* Is a loan out: lent, and its last checkpoint is not taken? It may be revoked already. */
bool loan_words_out(const struct vip_loan_vipd *words);

/* Store the checkpoint at which loan `number` begins, then open the loan. vipd looks at look_ns. */
void loan_words_lend(struct vip_loan_vipd *words, uint32_t number,
                     const struct vip_loan_checkpoint *checkpoint, uint64_t look_ns);

/*
 * Store when vipd looks again. loan_words_sleep is for a late time: after it vipd must look once
 * more. An owner that has entered since then will ring the bell; one that has entered before is
 * inside, or its beat has changed.
 */
void loan_words_awake(struct vip_loan_vipd *words, uint64_t look_ns);
void loan_words_sleep(struct vip_loan_vipd *words, uint64_t look_ns);

/* End the newest loan. After this function, each stay that begins fails. */
void loan_words_revoke(struct vip_loan_vipd *words);

/* vipd has the last checkpoint of the newest loan. */
void loan_words_taken(struct vip_loan_vipd *words);

/* Store the newest numbers of this end and of the peer's end, for the next life of vipd. */
void loan_words_number(struct vip_loan_vipd *words, uint32_t number, uint32_t peer);

#endif
