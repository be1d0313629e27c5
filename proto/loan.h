/*
 * Shared memory of loans. A loan is the data path of one connection that a program runs instead of
 * vipd (vipd/engine/loan.h). The owner is the thread of the program that runs the engine.
 *
 * vipd's words are in the head of the VI (proto/shm.h). The owner's words, and the sends of the VI,
 * are in a part of one memfd, which libvipl writes and vipd maps read-only. A session has
 * VIP_LOANS_MAX parts, so at most this number of its VIs can be on loan.
 *
 * Table of sends: while a loan is out, a send does not pass the submission ring. Entry k of the
 * table is the send with operation number k, in slot k modulo 1024. It has the form of a submission
 * slot, with the stamp k + 1 and the VI's generation. So vipd can take the loan back at any time
 * and go on with all sends that have not completed.
 *
 * Owns: the layout, the order of stores, one load per word. Does not own: when a loan begins and
 * ends (vipd/engine/loan.c), the handshake of the words (vipd/engine/loan_stay.c).
 */
#ifndef VIP_PROTO_LOAN_H
#define VIP_PROTO_LOAN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/ring.h"

#define VIP_LOANS_MAX 4u /* most loans of a session */

/* The words that the program writes. vipd does not trust them. */
struct vip_loan_owner {
    uint32_t inside;   /* number of the loan of the present stay; 0: the owner is outside */
    uint32_t beat;     /* grows by 1 with each stay; shows that the owner is alive */
    uint64_t timer_ns; /* time of the owner's next timer; 0: nothing is under way or owed */
    uint32_t number;   /* number of the loan to which timer and checkpoint belong */
    struct vip_loan_checkpoint checkpoint; /* as the last stay left it */
    /* Not 0: the owner sleeps until a packet or its timer comes; it sets this before its last stay,
     * and clears it after its next one. Before a loan: a thread sleeps that wants it. */
    uint32_t asleep;
    uint32_t reserved;
};
_Static_assert(offsetof(struct vip_loan_owner, timer_ns) == 8, "ABI");
_Static_assert(offsetof(struct vip_loan_owner, checkpoint) == 20, "ABI");
_Static_assert(offsetof(struct vip_loan_owner, asleep) == 32, "ABI");
_Static_assert(sizeof(struct vip_loan_owner) == 40, "ABI");

/*
 * What the engines of the owner have counted for this VI since libvipl took the part. Numbers only
 * grow. libvipl writes them at least with each 64th stay, when a stay finds no work, and when a loan
 * ends. vipd shows the numbers as the program gives them.
 */
struct vip_loan_counts {
    uint64_t tx_messages, tx_bytes; /* own operations completed, and their payload */
    uint64_t rx_messages, rx_bytes; /* the peer's operations processed, and their payload */
    uint64_t tx_packets, rx_packets;
    uint64_t retransmits, lost, timeouts; /* as the counters of a VI (stats.def) */
};

/* The program's memory for the loan of one VI. */
struct vip_loan_part {
    struct vip_loan_owner owner;
    uint8_t pad0[24];
    uint32_t posted; /* number of the operation after the last send in the table */
    uint8_t pad1[128 - 68];
    struct vip_loan_counts counts;
    uint8_t pad2[4096 - 128 - sizeof(struct vip_loan_counts)];
    /* For a send with more than two segments, or with a message (VIP_SQF_MSG): position of its
     * first continuation slot in `conts`. Its further slots follow. */
    uint32_t conts_at[VIP_DESC_PER_QUEUE_MAX];
    struct vip_sq_slot slot[VIP_DESC_PER_QUEUE_MAX];
    struct vip_sq_slot conts[VIP_SQ_SLOTS]; /* a ring, as the submission ring */
};
_Static_assert(offsetof(struct vip_loan_part, posted) == 64, "ABI");
_Static_assert(offsetof(struct vip_loan_part, counts) == 128, "ABI");
_Static_assert(sizeof(struct vip_loan_counts) == 72, "ABI");
_Static_assert(offsetof(struct vip_loan_part, conts_at) == 4096, "ABI");
_Static_assert(sizeof(struct vip_loan_part) % 4096 == 0, "whole pages");

#define VIP_LOANS_BYTES ((uint64_t)VIP_LOANS_MAX * sizeof(struct vip_loan_part))

/* libvipl: write entry k. Entry k - 1024, in the same slot, must have completed. */
static inline void vip_loan_send_write(struct vip_loan_part *part, uint32_t k,
                                       const struct vip_sq_slot *slot)
{
    vip_slot_write(&part->slot[k & (VIP_DESC_PER_QUEUE_MAX - 1)], k + 1, slot);
    vip_store32_release(&part->posted, k + 1);
}

/* vipd, owner: copy entry k of VI generation `gen` to *ret. False: it is not posted. */
static inline bool vip_loan_send_read(const struct vip_loan_part *part, uint32_t gen, uint32_t k,
                                      struct vip_sq_slot *ret)
{
    return vip_slot_read(&part->slot[k & (VIP_DESC_PER_QUEUE_MAX - 1)], k + 1, ret) &&
           ret->vi_gen == gen;
}

#endif
