/*
 * From the slots of a posted descriptor to the arguments of eng_post. The slots are in memory that
 * a program writes: a submission ring, a table of receives (proto/direct.h) or a table of sends
 * (proto/loan.h). So each slot is copied once, and the copy is checked.
 *
 * Owns: the order of further slots behind the first slot of a descriptor. Does not own: first slots,
 * positions, budgets (the caller), the meaning of a descriptor (engine).
 */
#ifndef VIPD_PATH_POST_H
#define VIPD_PATH_POST_H

#include <string.h>

#include "proto/direct.h"
#include "proto/loan.h"
#include "vipd/engine/engine.h"
#include "vipd/engine/mutant.h"

/* Most segments of a descriptor: data segments and one address segment. */
#define PATH_SEGS_MAX (VIP_SEGS_PER_DESC_MAX + 1)

/* Segments and message of one descriptor. */
struct path_parts {
    struct vip_shm_seg segs[PATH_SEGS_MAX];
    uint16_t seg_count;
    uint32_t message_bytes; /* 0: no message */
    uint8_t message[VIP_MESSAGE_BYTES_MAX];
};

/* Slow path of path_segs, for a descriptor with continuations. */
int path_segs_further(const struct vip_sq_slot *ring, uint32_t *at, const struct vip_sq_slot *slot,
                      struct path_parts *ret);

/*
 * Copy the segments of the descriptor whose first slot is `slot`, a private copy with at most
 * PATH_SEGS_MAX segments. ring: a ring of VIP_SQ_SLOTS slots with its continuations; *at: position
 * of the first one. *at becomes the position of the first slot that was not copied. Outcomes: 1:
 * *ret has the segments and no message; 0: the slot at *at is not written yet; -1: a slot before
 * *at is no continuation of this VI. With 0 and -1, *ret is in an unspecified state.
 */
static inline int path_segs(const struct vip_sq_slot *ring, uint32_t *at,
                            const struct vip_sq_slot *slot, struct path_parts *ret)
{
    ret->seg_count = slot->seg_count;
    ret->message_bytes = 0;
    if (__builtin_expect(slot->seg_count > VIP_SQ_INLINE_SEGS, 0))
        return path_segs_further(ring, at, slot, ret);
    memcpy(ret->segs, slot->seg, slot->seg_count * sizeof(ret->segs[0]));
    return 1;
}

/* Copy the message of a descriptor whose first slot has VIP_SQF_MSG; *at: position of the slot
 * behind its segments. The arguments and outcomes are those of path_segs. */
int path_message(const struct vip_sq_slot *ring, uint32_t *at, const struct vip_sq_slot *slot,
                 struct path_parts *ret);

/* The arguments of eng_post, valid as long as *parts. */
static inline struct eng_post path_post(const struct vip_sq_slot *slot,
                                        const struct path_parts *parts)
{
    return (struct eng_post){
        .vi = slot->vi,
        .queue = slot->kind == VIP_SQ_SEND ? VIP_Q_SEND : VIP_Q_RECV,
        .control = slot->control,
        .seg_count = parts->seg_count,
        .flags = slot->flags,
        .length = slot->length,
        .reserved = slot->reserved1,
        .imm = (slot->flags & VIP_SQF_IMM64) || VIP_MUTANT(IMM64_HALF) ? slot->imm
                                                                       : slot->imm & 0xffffffffu,
        .message_bytes = parts->message_bytes,
        .app_message = parts->message,
        .app_segs = parts->segs,
    };
}

/* As path_post, for a descriptor whose further slots no libvipl can have written: the descriptor
 * fails as malformed in its turn. *parts gets no segments and no message. */
static inline struct eng_post path_post_malformed(const struct vip_sq_slot *slot,
                                                  struct path_parts *parts)
{
    struct eng_post post;

    parts->seg_count = 0;
    parts->message_bytes = 0;
    post = path_post(slot, parts);
    post.control |= VIP_CTL_RESERVED;
    return post;
}

/*
 * Read receive descriptor k of a VI from the table of receives at `base`. gen: the VI's generation;
 * *left: most continuations that the descriptor may have; it decreases by those read. The caller
 * knows that descriptor k is posted. Outcomes: true: *ret has the arguments of eng_post, valid as
 * long as *parts (a descriptor that no libvipl can have written will fail in its turn); false: the
 * slot has another stamp or generation.
 */
bool path_receive(void *base, uint16_t vi, uint32_t gen, uint32_t k, uint32_t *left,
                  struct path_parts *parts, struct eng_post *ret);

/* Read the send with operation number k of a VI from its table of sends. Arguments and outcomes are
 * those of path_receive. */
bool path_send(const struct vip_loan_part *part, uint16_t vi, uint32_t gen, uint32_t k,
               struct path_parts *parts, struct eng_post *ret);

#endif
