/*
 * The completions of one work queue, for vipd, which writes them, and for libvipl, which reads
 * them. The first ones go to a short ring, later ones to a long one (struct vip_comp_at in shm.h).
 *
 * Owns: the choice of the ring for each completion. Does not own: one entry of a ring (ring.h),
 * prod, waking. The structs are in private memory.
 */
#ifndef VIP_PROTO_COMPS_H
#define VIP_PROTO_COMPS_H

#include "proto/ring.h"

/* ---- vipd's end -------------------------------------------------------------------------- */

struct vip_comps_out {
    struct vip_comp *ring; /* ring of the next completion */
    struct vip_comp_at
        *at; /* word in the segment; NULL: the session has ABI 3, with long rings only */
    struct vip_comp *longer; /* the long ring, used after the short ring */
    uint64_t longer_off;     /* offset of the long ring in the segment */
    uint32_t since, slots;   /* first position in `ring`; number of its slots */
};

/* Begin a queue of a new VI. The next completion has this position. base: a segment of ABI 4. */
static inline void vip_comps_begin(struct vip_comps_out *out, void *base, uint16_t vi,
                                   unsigned queue, uint32_t position)
{
    uint64_t short_off = vip_comp_short_off(vi, queue), long_off = vip_comp_long_off(vi, queue);

    *out = (struct vip_comps_out){.ring = vip_comp_ring(base, short_off),
                                  .at = &vip_vipd_vi(base, vi)->at[queue],
                                  .longer = vip_comp_ring(base, long_off),
                                  .longer_off = long_off,
                                  .since = position,
                                  .slots = VIP_COMP_SHORT};
    /* An earlier VI may have left stamps. Store a stamp that matches none of the next positions. */
    for (unsigned i = 0; i < VIP_COMP_SHORT; i++)
        vip_store32_release(&out->ring[i].stamp, position);
    vip_comp_at_write(out->at, vip_comp_at(position, short_off, VIP_COMP_SHORT));
}

/*
 * Go on with a queue of an earlier life of vipd; its next completion has this position or a later
 * one. The function checks the word in the segment. If the word is not valid, the queue begins like
 * a new one.
 */
void vip_comps_resume(struct vip_comps_out *out, void *base, uint16_t vi, unsigned queue,
                      uint32_t position);
/* Stamp the last completion, which has this position, if it is in the present ring. */
void vip_comps_show(struct vip_comps_out *out, uint32_t position);
/* Find the first position, at or after `position`, whose completion has no stamp. */
uint32_t vip_comps_shown(const struct vip_comps_out *out, uint32_t position);

static inline void vip_comps_lengthen(struct vip_comps_out *out, uint32_t position)
{
    out->ring = out->longer;
    out->since = position;
    out->slots = VIP_DESC_PER_QUEUE_MAX;
    vip_comp_at_write(out->at, vip_comp_at(position, out->longer_off, out->slots));
}

/* The slot for the next completion, at this position. */
static inline struct vip_comp *vip_comps_slot(struct vip_comps_out *out, uint32_t position)
{
    if (out->slots == VIP_COMP_SHORT && position - out->since >= VIP_COMP_SHORT)
        vip_comps_lengthen(out, position);
    return &out->ring[position & (out->slots - 1)];
}

/* ---- libvipl's end ----------------------------------------------------------------------- */

struct vip_comps_in {
    const struct vip_comp *ring;
    uint32_t mask;                /* slots of `ring` - 1 */
    uint32_t where;               /* value of vip_comp_at.where that names `ring` */
    const struct vip_comp_at *at; /* word in the segment, written by vipd */
    const void *base;             /* the segment */
};

/* Begin a queue of a new VI. */
static inline void vip_comps_open(struct vip_comps_in *in, const void *base, uint16_t vi,
                                  unsigned queue)
{
    void *foreign = (void *)(uintptr_t)base;

    *in = (struct vip_comps_in){
        .ring = vip_comp_ring(foreign, vip_comp_short_off(vi, queue)),
        .mask = VIP_COMP_SHORT - 1,
        .where = vip_comp_at(0, vip_comp_short_off(vi, queue), VIP_COMP_SHORT).where,
        .at = &vip_vipd_vi(foreign, vi)->at[queue],
        .base = base};
}

/* Like vip_comps_read, if vipd now uses another ring than `ring`. */
bool vip_comps_read_long(struct vip_comps_in *in, uint32_t oldest, uint32_t position,
                         struct vip_comp *ret);

/*
 * Read the completion at `position`. false: vipd has not written it yet. oldest: position of the
 * oldest completion that will still be read; `position` is at most VIP_DESC_PER_QUEUE_MAX higher.
 * One thread at a time.
 */
static inline bool vip_comps_read(struct vip_comps_in *in, uint32_t oldest, uint32_t position,
                                  struct vip_comp *ret)
{
    if (vip_comp_read(in->ring, in->mask, position, ret))
        return true;
    return __builtin_expect(vip_load32(&in->at->where) != in->where, 0) &&
           vip_comps_read_long(in, oldest, position, ret);
}

#endif
