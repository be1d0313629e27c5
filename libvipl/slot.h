/*
 * From a descriptor to the slots of a submission ring, a table of receives (proto/direct.h) or a
 * table of sends (proto/loan.h). All functions need post_lock.
 *
 * Owns: the contents of slots. Does not own: positions and room (post.c, lent.c).
 */
#ifndef LIBVIPL_SLOT_H
#define LIBVIPL_SLOT_H

#include <string.h>

#include "libvipl/session.h"

/* Data of one post that its descriptor does not contain. */
struct vipl__extra {
    int bad_seg;            /* segment with inaccessible memory; -1 = none, or not checked */
    uint8_t flags;          /* VIP_SQF_* */
    uint64_t imm;           /* with VIP_SQF_IMM64: used instead of ImmediateData */
    const void *message;    /* VIP_SQF_MSG */
    uint32_t message_bytes; /* 1..VIP_MESSAGE_BYTES_MAX; 0 = no message */
};

extern const struct vipl__extra vipl__no_extra; /* a post without such data */

/* Number of segments to copy. 0 if SegCount is impossible: vipd then reports FORMAT_ERROR. */
static inline unsigned vipl__slot_segments(const VIP_DESCRIPTOR *desc)
{
    unsigned count = desc->CS.SegCount;

    /* Also copy one segment more than a descriptor may have, so that vipd reports the error. */
    return count <= VIP_SEGS_PER_DESC_MAX + 1 ? count : 0;
}

/*
 * Does the descriptor lie in the region of this handle, and has the region the VI's protection tag
 * (spec 3.4)? A NULL tag of the region or of the VI matches every tag (3.5). Callers read the
 * descriptor only if the result is true.
 */
static inline bool vipl__slot_in_region(const struct vipl__session *session,
                                        const struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                                        VIP_MEM_HANDLE handle)
{
    const struct vipl__region *region = vipl__region_find(&session->regions, handle);

    return region != NULL && (region->ptag == vi->ptag || region->ptag == 0 || vi->ptag == 0) &&
           vipl__region_holds(region, (uintptr_t)desc, sizeof(VIP_CONTROL_SEGMENT)) &&
           vipl__region_holds(region, (uintptr_t)desc,
                              sizeof(VIP_CONTROL_SEGMENT) +
                                  vipl__slot_segments(desc) * sizeof(VIP_DATA_SEGMENT));
}

/*
 * Write the segments beyond those of the first slot into a ring of submission slots, from
 * `position` on. The caller writes the first slot last, so that vipd finds all slots or none.
 */
void vipl__slot_segs(struct vip_sq_slot *ring, uint32_t position, const struct vipl__vi *vi,
                     const VIP_DESCRIPTOR *desc, unsigned seg_count,
                     const struct vipl__extra *extra);

/* Write the message into the slots of `ring` from `position` on. The caller writes the descriptor's
 * first slot afterwards. */
void vipl__slot_message(struct vip_sq_slot *ring, const struct vipl__vi *vi,
                        const struct vipl__extra *extra, uint32_t position);

/*
 * Make the first slot of a descriptor; vipl__slot_segs and vipl__slot_message write further slots.
 * After this call, callers do not read the descriptor: once vipd sees the slot, another thread may
 * get the descriptor back and use it again.
 */
static inline struct vip_sq_slot vipl__slot_first(const struct vipl__vi *vi,
                                                  const VIP_DESCRIPTOR *desc, enum vip_queue which,
                                                  unsigned seg_count,
                                                  const struct vipl__extra *extra)
{
    bool imm64 = (extra->flags & VIP_SQF_IMM64) != 0;
    unsigned n = seg_count < VIP_SQ_INLINE_SEGS ? seg_count : VIP_SQ_INLINE_SEGS;
    struct vip_sq_slot slot = {
        .vi = vi->index,
        .kind = which == VIP_Q_SEND ? VIP_SQ_SEND : VIP_SQ_RECV,
        .flags = extra->flags,
        .control = (uint16_t)(desc->CS.Control | (imm64 ? VIP_CONTROL_IMMEDIATE : 0)),
        .seg_count = desc->CS.SegCount,
        .length = desc->CS.Length,
        .imm = imm64 ? extra->imm : desc->CS.ImmediateData,
        .vi_gen = vi->generation,
        .reserved1 = desc->CS.Reserved,
    };

    if (n == VIP_SQ_INLINE_SEGS)
        memcpy(slot.seg, desc->DS, sizeof(slot.seg));
    else if (n == 1)
        memcpy(slot.seg, desc->DS, sizeof(slot.seg[0]));
    /* No region has handle 0, so the descriptor will complete with a protection error. */
    if (__builtin_expect((unsigned)extra->bad_seg < n, 0))
        slot.seg[extra->bad_seg].handle = 0;
    return slot;
}

/*
 * A descriptor that vipd, or the table of sends, must get again. Returns whether it is still there:
 * *ret_extra has the data that it does not contain. False: its region is gone, or its segments were
 * not accessible. Then *ret_slot replaces it; the reserved bits of this slot cause a format error.
 */
bool vipl__slot_again(const struct vipl__vi *vi, enum vip_queue which, uint32_t count,
                      struct vipl__extra *ret_extra, struct vip_sq_slot *ret_slot);

#endif
